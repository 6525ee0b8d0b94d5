//! X.509: subjects of certificates and signing requests, and certificates from signing requests.

use jiff::Timestamp;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Name};
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{DERWriter, DERWriterSeq, Tag, construct_der};

/// rsaEncryption (RFC 8017).
pub const RSA: &str = "1.2.840.113549.1.1.1";
/// id-ecPublicKey (RFC 5480).
pub const EC: &str = "1.2.840.10045.2.1";
/// secp256r1.
pub const P256: &str = "1.2.840.10045.3.1.7";
/// secp384r1.
pub const P384: &str = "1.3.132.0.34";
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const SERVER: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
const CLIENT: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];
/// ecdsa-with-SHA256, the signature algorithm of this server's CA.
const SIGNATURE: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];

/// Subject of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Common name: the user.
    pub common_name: String,
    /// Organizations: the user's groups.
    pub organizations: Vec<String>,
}

impl Subject {
    fn of(name: &X509Name<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            // Go takes the last one.
            common_name: name.iter_common_name().last().map(|value| text(value.as_slice())).unwrap_or_default(),
            organizations: name.iter_organization().map(|value| text(value.as_slice())).collect(),
        }
    }
}

/// Parses a value that must fill all of `bytes`.
fn whole<'a, T: FromDer<'a, X509Error>>(bytes: &'a [u8]) -> Option<T> {
    let (rest, found) = T::from_der(bytes).ok()?;
    rest.is_empty().then_some(found)
}

fn certificate(bytes: &[u8]) -> Option<x509_parser::certificate::X509Certificate<'_>> {
    whole(bytes)
}

/// Returns the subject of a certificate; `None` if it does not parse.
pub fn certificate_subject(bytes: &[u8]) -> Option<Subject> {
    Some(Subject::of(certificate(bytes)?.subject()))
}

/// Returns the DNS names of a certificate.
pub fn certificate_names(bytes: &[u8]) -> Vec<String> {
    let Some(certificate) = certificate(bytes) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(dns).collect()
}

/// Returns the SubjectPublicKeyInfo of a certificate; `None` if it does not parse.
pub fn certificate_key(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(certificate(bytes)?.public_key().raw.to_vec())
}

/// A public key with its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKeyInfo {
    /// Object identifier of the algorithm.
    pub algorithm: String,
    /// Object identifier in its parameters: a curve.
    pub curve: Option<String>,
    /// The key in the format of its algorithm.
    pub key: Vec<u8>,
}

/// Parses a SubjectPublicKeyInfo (RFC 5280, section 4.1); `None` if it does not parse.
pub fn public_key(info: &[u8]) -> Option<PublicKeyInfo> {
    let info: SubjectPublicKeyInfo<'_> = whole(info)?;
    let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    Some(PublicKeyInfo {
        algorithm: info.algorithm.algorithm.to_id_string(),
        curve: curve.map(|curve| curve.to_id_string()),
        key: info.subject_public_key.data.to_vec(),
    })
}

/// A certificate signing request (RFC 2986).
pub struct SigningRequest {
    /// Subject of the requested certificate.
    pub subject: Subject,
    /// Number of requested names and addresses besides the subject.
    pub alternative_names: usize,
    /// True if the signature does not match the key in the request.
    pub forged: bool,
    name: Vec<u8>,
    key: Vec<u8>,
    alternatives: Option<Vec<u8>>,
}

impl SigningRequest {
    /// Parses a request; `None` if it does not parse.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let request: X509CertificationRequest<'_> = whole(bytes)?;
        let info = &request.certification_request_info;
        let extensions = info.iter_attributes().find_map(|attribute| match attribute.parsed_attribute() {
            ParsedCriAttribute::ExtensionRequest(asked) => Some(&asked.extensions),
            _ => None,
        });
        let alternatives = extensions.into_iter().flatten().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some((names.general_names.len(), extension.value)),
            _ => None,
        });
        Some(Self {
            subject: Subject::of(&info.subject),
            alternative_names: alternatives.map_or(0, |(names, _)| names),
            // A signature of an unsupported algorithm does not count as forged.
            forged: request.verify_signature() == Err(X509Error::SignatureVerificationError),
            name: info.subject.as_raw().to_vec(),
            key: info.subject_pki.raw.to_vec(),
            alternatives: alternatives.map(|(_, value)| value.to_vec()),
        })
    }

    /// Creates the requested certificate, signed by the key of `authority` (a certificate, DER) with ECDSA and SHA-256.
    ///
    /// # Errors
    /// The error of `sign`.
    pub fn certificate<E>(
        &self,
        authority: &[u8],
        serial: [u8; 16],
        life: (Timestamp, Timestamp),
        purposes: Purposes,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let issuer = certificate(authority).map(|of| of.subject().as_raw().to_vec()).unwrap_or_default();
        let algorithm = |to: DERWriter<'_>| to.write_sequence(|to| to.next().write_oid(&oid(SIGNATURE)));
        let to_be_signed = construct_der(|to| {
            to.write_sequence(|to| {
                // Version 3.
                to.next().write_tagged(Tag::context(0), |to| to.write_u8(2));
                // A positive number of this length.
                let mut serial = serial;
                serial[0] = serial[0] & 0x3f | 0x40;
                to.next().write_bigint_bytes(&serial, true);
                algorithm(to.next());
                to.next().write_der(&issuer);
                to.next().write_sequence(|to| [life.0, life.1].into_iter().for_each(|at| time(to.next(), at)));
                to.next().write_der(&self.name);
                to.next().write_der(&self.key);
                to.next().write_tagged(Tag::context(3), |to| to.write_sequence(|to| self.extensions(to, purposes)));
            });
        });
        let signature = sign(&to_be_signed)?;
        Ok(construct_der(|to| {
            to.write_sequence(|to| {
                to.next().write_der(&to_be_signed);
                algorithm(to.next());
                to.next().write_bitvec_bytes(&signature, 8 * signature.len());
            });
        }))
    }

    fn extensions(&self, to: &mut DERWriterSeq<'_>, purposes: Purposes) {
        // Digital signature and key encipherment: the bits 0 and 2.
        extension(to, KEY_USAGE, true, &construct_der(|to| to.write_bitvec_bytes(&[0xa0], 3)));
        extension(to, EXTENDED_KEY_USAGE, false, &purposes.encode());
        extension(to, BASIC_CONSTRAINTS, true, &construct_der(|to| to.write_sequence(|_| ())));
        if let Some(names) = &self.alternatives {
            extension(to, ALTERNATIVE_NAMES, false, names);
        }
    }
}

/// Allowed uses of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purposes {
    /// Use as a client.
    pub client: bool,
    /// Use as a server.
    pub server: bool,
}

impl Purposes {
    fn encode(self) -> Vec<u8> {
        construct_der(|to| {
            to.write_sequence(|to| {
                let all = [(self.server, SERVER), (self.client, CLIENT)];
                all.into_iter().filter(|(is, _)| *is).for_each(|(_, of)| to.next().write_oid(&oid(of)));
            });
        })
    }
}

fn oid(of: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(of)
}

fn extension(to: &mut DERWriterSeq<'_>, kind: &[u64], critical: bool, value: &[u8]) {
    to.next().write_sequence(|to| {
        to.next().write_oid(&oid(kind));
        // False is the default, which DER omits.
        if critical {
            to.next().write_bool(true);
        }
        to.next().write_bytes(value);
    });
}

/// Writes a time: UTCTime up to 2049, GeneralizedTime from then on (RFC 5280, section 4.1.2.5).
fn time(to: DERWriter<'_>, at: Timestamp) {
    let short = at.strftime("%Y").to_string().as_str() < "2050";
    let (tag, form) = if short { (TAG_UTCTIME, "%y%m%d%H%M%SZ") } else { (TAG_GENERALIZEDTIME, "%Y%m%d%H%M%SZ") };
    to.write_tagged_implicit(tag, |to| to.write_bytes(at.strftime(form).to_string().as_bytes()));
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
    fn a_request_that_another_key_signed_is_forged() {
        let bytes = request(&["a"]);
        assert!(!SigningRequest::parse(&bytes).unwrap().forged);
        // Another name with the signature of the old one.
        let text = String::from_utf8_lossy(b"system:node:n");
        let at = bytes.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
        let mut other = bytes.clone();
        other[at + text.len() - 1] = b'm';
        let other = SigningRequest::parse(&other).unwrap();
        assert_eq!((other.forged, other.subject.common_name.as_str()), (true, "system:node:m"));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = request(&["a"]);
        bytes.push(0);
        assert!(SigningRequest::parse(&bytes).is_none());
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
