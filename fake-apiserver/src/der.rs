//! The little of DER (X.690) that certificates need: who one is for, what a signing request asks for, and a certificate
//! made of such a request.

use jiff::Timestamp;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The context-specific constructed tag 0: the version of a certificate, the attributes of a request.
const CONTEXT_0: u8 = 0xa0;
/// The extensions of a certificate.
const CONTEXT_3: u8 = 0xa3;

/// rsaEncryption (RFC 8017).
pub const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// id-ecPublicKey (RFC 5480).
pub const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// secp256r1, and secp384r1 below.
pub const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// secp384r1.
pub const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
/// id-kp-serverAuth is 1, id-kp-clientAuth is 2 below this.
const PURPOSE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3];
/// PKCS #9 extensionRequest.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
/// ecdsa-with-SHA256, which the keys of our authority sign with.
const SIGNATURE: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// One element and its own bytes.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// The first element, and what follows it.
fn read(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (tag, first) = (*bytes.first()?, usize::from(*bytes.get(1)?));
    let (length, start) = if first < 0x80 {
        (first, 2)
    } else {
        let digits = first - 0x80;
        if digits == 0 || digits > 4 {
            return None;
        }
        let length = bytes.get(2..2 + digits)?.iter().fold(0usize, |n, b| (n << 8) | usize::from(*b));
        (length, 2 + digits)
    };
    let end = start.checked_add(length)?;
    let content = bytes.get(start..end)?;
    Some((Element { tag, content, whole: &bytes[..end] }, &bytes[end..]))
}

/// All elements of some content; nothing when they do not fill it.
fn elements(mut bytes: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (element, rest) = read(bytes)?;
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

/// An element that holds `parts`.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend(digits);
        }
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Whom a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The common name: a user.
    pub common_name: String,
    /// The organizations: the user's groups.
    pub organizations: Vec<String>,
}

fn subject(name: Element<'_>) -> Option<Subject> {
    let mut subject = Subject::default();
    for set in elements(name.content)? {
        for pair in elements(set.content)? {
            let [kind, value] = elements(pair.content)?[..] else { return None };
            let text = String::from_utf8_lossy(value.content).into_owned();
            match kind.content {
                COMMON_NAME => subject.common_name = text,
                ORGANIZATION => subject.organizations.push(text),
                _ => {}
            }
        }
    }
    Some(subject)
}

/// The subject of a certificate, and its bytes.
fn subject_of(certificate: &[u8]) -> Option<Element<'_>> {
    let to_be_signed = *elements(read(certificate)?.0.content)?.first()?;
    let parts = elements(to_be_signed.content)?;
    // The version is left out of those of version 1.
    parts.into_iter().filter(|part| part.tag != CONTEXT_0).nth(4)
}

/// Whom a certificate is for; nothing when it is none.
pub fn certificate_subject(certificate: &[u8]) -> Option<Subject> {
    subject(subject_of(certificate)?)
}

/// The SubjectPublicKeyInfo of a certificate; nothing when it is none.
pub fn certificate_key(certificate: &[u8]) -> Option<&[u8]> {
    let to_be_signed = *elements(read(certificate)?.0.content)?.first()?;
    let parts = elements(to_be_signed.content)?;
    // After the subject.
    Some(parts.into_iter().filter(|part| part.tag != CONTEXT_0).nth(5)?.whole)
}

/// A public key, and for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKeyInfo<'a> {
    /// The object identifier of the algorithm.
    pub algorithm: &'a [u8],
    /// The object identifier among its parameters: a curve.
    pub curve: Option<&'a [u8]>,
    /// The key as the algorithm has it.
    pub key: &'a [u8],
}

/// Reads a SubjectPublicKeyInfo (RFC 5280 §4.1); nothing when it is none.
pub fn public_key(info: &[u8]) -> Option<PublicKeyInfo<'_>> {
    let [algorithm, key] = elements(read(info)?.0.content)?[..] else { return None };
    let parts = elements(algorithm.content)?;
    let kind = parts.first().filter(|part| part.tag == OID)?;
    let curve = parts.get(1).filter(|part| part.tag == OID).map(|part| part.content);
    // The first byte of a bit string says how many bits of the last are not used: none.
    let (0, key) = key.content.split_first().filter(|_| key.tag == BIT_STRING)? else { return None };
    Some(PublicKeyInfo { algorithm: kind.content, curve, key })
}

/// A certificate signing request (RFC 2986). That it is signed by the key that it names is not checked.
pub struct SigningRequest<'a> {
    /// Whom the certificate is to be for.
    pub subject: Subject,
    /// How many names and addresses beside the subject it asks for.
    pub alternative_names: usize,
    name: &'a [u8],
    key: &'a [u8],
    alternatives: Option<&'a [u8]>,
}

impl<'a> SigningRequest<'a> {
    /// Reads a request; nothing when it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let info = *elements(read(bytes)?.0.content)?.first()?;
        let parts = elements(info.content)?;
        let [version, name, key, rest @ ..] = &parts[..] else { return None };
        if version.tag != INTEGER || name.tag != SEQUENCE || key.tag != SEQUENCE {
            return None;
        }
        let mut alternatives = None;
        for attribute in
            rest.iter().filter(|part| part.tag == CONTEXT_0).filter_map(|part| elements(part.content)).flatten()
        {
            let [kind, values] = elements(attribute.content)?[..] else { return None };
            if kind.content != EXTENSION_REQUEST {
                continue;
            }
            for extension in elements(read(values.content)?.0.content)? {
                let parts = elements(extension.content)?;
                if parts.first()?.content == ALTERNATIVE_NAMES {
                    alternatives = Some(parts.last()?.content);
                }
            }
        }
        let alternative_names =
            alternatives.and_then(read).and_then(|(names, _)| elements(names.content)).map_or(0, |names| names.len());
        Some(Self { subject: subject(*name)?, alternative_names, name: name.whole, key: key.whole, alternatives })
    }

    /// A certificate for it, signed by the key behind `authority` (a certificate, DER) with ECDSA and SHA-256.
    ///
    /// # Errors
    /// What `sign` says.
    pub fn certificate<E>(
        &self,
        authority: &[u8],
        serial: [u8; 16],
        life: (Timestamp, Timestamp),
        purposes: Purposes,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let algorithm = element(SEQUENCE, &[&element(OID, &[SIGNATURE])]);
        let issuer = subject_of(authority).map(|name| name.whole).unwrap_or_default();
        let version = element(CONTEXT_0, &[&element(INTEGER, &[&[2]])]);
        // A positive number.
        let serial = element(INTEGER, &[&[serial[0] & 0x3f | 0x40], &serial[1..]]);
        let validity = element(SEQUENCE, &[&time(life.0), &time(life.1)]);
        let mut extensions = vec![
            extension(KEY_USAGE, true, &element(BIT_STRING, &[&[5, 0xa0]])),
            extension(EXTENDED_KEY_USAGE, false, &purposes.encode()),
            extension(BASIC_CONSTRAINTS, true, &element(SEQUENCE, &[])),
        ];
        extensions.extend(self.alternatives.map(|names| extension(ALTERNATIVE_NAMES, false, names)));
        let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
        let extensions = element(CONTEXT_3, &[&element(SEQUENCE, &extensions)]);
        let to_be_signed =
            element(SEQUENCE, &[&version, &serial, &algorithm, issuer, &validity, self.name, self.key, &extensions]);
        let signature = sign(&to_be_signed)?;
        Ok(element(SEQUENCE, &[&to_be_signed, &algorithm, &element(BIT_STRING, &[&[0], &signature])]))
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purposes {
    /// As a client.
    pub client: bool,
    /// As a server.
    pub server: bool,
}

impl Purposes {
    fn encode(self) -> Vec<u8> {
        let of = |number: u8| element(OID, &[PURPOSE, &[number]]);
        let (server, client) = (of(1), of(2));
        let chosen: Vec<&[u8]> = [(self.server, &server), (self.client, &client)]
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, p)| &p[..])
            .collect();
        element(SEQUENCE, &chosen)
    }
}

fn extension(kind: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let marked: &[u8] = if critical { &[0x01, 1, 0xff] } else { &[] };
    element(SEQUENCE, &[&element(OID, &[kind]), marked, &element(OCTET_STRING, &[value])])
}

/// UTCTime up to 2049, GeneralizedTime from then on (RFC 5280 §4.1.2.5).
fn time(at: Timestamp) -> Vec<u8> {
    let short = at.strftime("%Y").to_string().as_str() < "2050";
    let (tag, form) = if short { (0x17, "%y%m%d%H%M%SZ") } else { (0x18, "%Y%m%d%H%M%SZ") };
    element(tag, &[at.strftime(form).to_string().as_bytes()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn request(names: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n");
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_request_says_whom_it_is_for() {
        let bytes = request(&["n.example.com", "10.0.0.1"]);
        let request = SigningRequest::parse(&bytes).unwrap();
        let wanted =
            Subject { common_name: "system:node:n".to_owned(), organizations: vec!["system:nodes".to_owned()] };
        assert_eq!((request.subject, request.alternative_names), (wanted, 2));
        let bytes = super::tests::request(&[]);
        assert_eq!(SigningRequest::parse(&bytes).unwrap().alternative_names, 0);
    }

    #[test]
    fn lengths_of_more_than_one_byte_are_written_as_they_are_read() {
        for length in [0, 127, 128, 255, 256, 70_000] {
            let bytes = element(SEQUENCE, &[&vec![7; length]]);
            let (read, rest) = read(&bytes).unwrap();
            assert_eq!((read.content.len(), rest.len(), read.whole.len()), (length, 0, bytes.len()));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reader(mut bytes in proptest::collection::vec(any::<u8>(), 0..60), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let _ = SigningRequest::parse(&bytes);
            let _ = certificate_subject(&bytes);
            bytes = request(&["a"]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = SigningRequest::parse(&bytes);
        }
    }
}
