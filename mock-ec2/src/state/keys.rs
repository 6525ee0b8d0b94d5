//! Key pairs: created here, imported, or only named by an instance.

mod der;
mod rsa;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use rand_core::Rng;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use substrate::ids as make_id;

use super::code::Code;
use super::command::Reply;
use super::error::Ec2Error;
use super::listing::{Entry, Field, Named, list, text};
use super::resource_errors::ResourceErrors;
use super::tags::check_tags;
use super::{Call, State};

pub use super::own_key::{KeyRequest, OwnKey};

/// Longest name.
const LONGEST: usize = 255;
/// Object identifier of RSA keys (1.2.840.113549.1.1.1), with its empty parameters.
const RSA_ALGORITHM: [u8; 15] = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];
const ED25519: &str = "ssh-ed25519";
const RSA: &str = "ssh-rsa";

/// Key just created: in PEM, with its fingerprint and public half.
struct Made {
    material: String,
    fingerprint: String,
    public: Vec<u8>,
}

impl State {
    pub(super) fn key_request(&mut self, call: Call<'_>, request: &KeyRequest) -> Result<Reply, Ec2Error> {
        match request {
            KeyRequest::Create(name, kind, tags) => {
                self.check_key(name, tags)?;
                call.check_dry_run()?;
                let (id, made) = self.make_key(kind);
                let public = ssh_line(if *kind == "rsa" { RSA } else { ED25519 }, &made.public, name);
                let key = OwnKey {
                    id,
                    kind: (*kind).to_owned(),
                    fingerprint: made.fingerprint,
                    public,
                    created: call.now.wall,
                };
                Ok(Reply::Fields(self.add_key(name, key, tags, Some(made.material))))
            }
            KeyRequest::Import(name, material, tags) => {
                self.check_key(name, tags)?;
                let (kind, blob) = read_public(material)?;
                let fingerprint = if kind == RSA { md5_of(&blob)? } else { sha256_of(&blob) };
                call.check_dry_run()?;
                self.account.made_keys += 1;
                let key = OwnKey {
                    id: make_id::ec2(&mut self.key_seed().rng(), "key"),
                    kind: kind.trim_start_matches("ssh-").to_owned(),
                    fingerprint,
                    public: ssh_line(kind, &blob, name),
                    created: call.now.wall,
                };
                Ok(Reply::Fields(self.add_key(name, key, tags, None)))
            }
            KeyRequest::Delete(which) => {
                let name = match which {
                    Ok(name) => Some(name.clone()),
                    Err(id) => {
                        if let Some(resource_errors) = ResourceErrors::of("key") {
                            resource_errors.check(id)?;
                        }
                        self.account.keys.iter().find(|(_, key)| key.id == *id).map(|(name, _)| name.clone())
                    }
                };
                call.check_dry_run()?;
                let mut fields = vec![text("return", true)];
                // AWS treats the deletion of an unknown pair as a success.
                if let Some(key) = name.and_then(|name| self.account.keys.remove(&name)) {
                    self.account.tags.remove(&key.id);
                    fields.push(text("keyPairId", key.id));
                }
                Ok(Reply::Fields(fields))
            }
        }
    }

    fn check_key(&self, name: &str, tags: &BTreeMap<String, String>) -> Result<(), Ec2Error> {
        check_tags(&BTreeMap::new(), tags)?;
        if name.chars().count() > LONGEST || !name.is_ascii() {
            let text =
                format!("Value ({name}) for parameter keyName is invalid. Use at most {LONGEST} ASCII characters.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        if self.account.keys.contains_key(name) {
            let text = format!("The keypair '{name}' already exists.");
            return Err(Ec2Error::Resource { code: Code::InvalidKeyPairDuplicate, text });
        }
        Ok(())
    }

    fn key_seed(&self) -> substrate::Seed {
        self.seed.child("own key").child(&self.account.made_keys.to_string())
    }

    fn make_key(&mut self, kind: &str) -> (String, Made) {
        self.account.made_keys += 1;
        let seed = self.key_seed();
        let mut rng = seed.child("material").rng();
        let made = if kind == "rsa" {
            made_rsa(&rsa::Private::generate(|bytes| rng.fill_bytes(bytes)))
        } else {
            let mut secret = [0; 32];
            rng.fill_bytes(&mut secret);
            made_ed25519(&secret)
        };
        (make_id::ec2(&mut seed.rng(), "key"), made)
    }

    fn add_key(
        &mut self,
        name: &str,
        key: OwnKey,
        tags: &BTreeMap<String, String>,
        material: Option<String>,
    ) -> Vec<Named> {
        let mut fields = vec![text("keyName", name), text("keyFingerprint", &key.fingerprint)];
        fields.extend(material.map(|material| text("keyMaterial", material)));
        fields.push(text("keyPairId", &key.id));
        if !tags.is_empty() {
            let pair = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
            fields.push(list("tagSet", tags.iter().map(pair)));
            self.account.tags.insert(key.id.clone(), tags.clone());
        }
        self.account.keys.insert(name.to_owned(), key);
        fields
    }

    /// Returns the key pairs `names` of the account, or all.
    pub(super) fn own_keys(&self, names: &[String], with_public: bool) -> Vec<Entry> {
        let wanted = self.account.keys.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
        wanted
            .map(|(name, key)| {
                let mut fields = vec![
                    text("keyPairId", &key.id),
                    text("keyName", name),
                    text("keyType", &key.kind),
                    text("keyFingerprint", &key.fingerprint),
                    text("createTime", super::time(key.created)),
                ];
                fields.extend(with_public.then(|| ("publicKey", Field::Text(key.public.clone()))));
                let filter_fields = vec![
                    ("fingerprint", key.fingerprint.clone()),
                    ("key-name", name.clone()),
                    ("key-pair-id", key.id.clone()),
                ];
                Entry { tags: self.tags_of_network(&key.id), id: key.id.clone(), filter_fields, fields }
            })
            .collect()
    }
}

fn made_rsa(key: &rsa::Private) -> Made {
    let pkcs1 = key.pkcs1();
    let private = der::sequence([der::integer(&[]), RSA_ALGORITHM.to_vec(), der::element(4, &pkcs1)].concat());
    let (modulus, exponent) = key.public();
    let signed = |bytes: Vec<u8>| if bytes[0] >= 0x80 { [vec![0], bytes].concat() } else { bytes };
    Made {
        material: pem("RSA PRIVATE KEY", &pkcs1),
        fingerprint: pairs(&Sha1::digest(&private)),
        public: [ssh(RSA.as_bytes()), ssh(&signed(exponent)), ssh(&signed(modulus))].concat(),
    }
}

/// Encodes an Ed25519 key in OpenSSH's format (its PROTOCOL.key), without a passphrase.
fn made_ed25519(secret: &[u8; 32]) -> Made {
    let public: Vec<u8> = match Ed25519KeyPair::from_seed_unchecked(secret) {
        Ok(pair) => pair.public_key().as_ref().to_vec(),
        // Any 32 bytes are a valid seed.
        Err(_) => Vec::new(),
    };
    let blob = [ssh(ED25519.as_bytes()), ssh(&public)].concat();
    let check = &Sha256::digest(secret)[..4];
    let secret = [secret.as_slice(), &public].concat();
    let mut private = [check, check, &ssh(ED25519.as_bytes()), &ssh(&public), &ssh(&secret), &ssh(b"")].concat();
    private.extend((1..=7).take((8 - private.len() % 8) % 8));
    let none = ssh(b"none");
    let file = [b"openssh-key-v1\0", &none[..], &none, &ssh(b""), &1_u32.to_be_bytes(), &ssh(&blob), &ssh(&private)];
    Made { material: pem("OPENSSH PRIVATE KEY", &file.concat()), fingerprint: sha256_of(&blob), public: blob }
}

/// Encodes an SSH string: length and bytes.
fn ssh(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), bytes].concat()
}

fn ssh_line(kind: &str, blob: &[u8], name: &str) -> String {
    format!("{kind} {} {name}", STANDARD.encode(blob))
}

fn pem(what: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----", lines.join("\n"))
}

fn pairs(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn sha256_of(blob: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(blob))
}

/// Returns the fingerprint of an imported RSA key: MD5 of its SubjectPublicKeyInfo.
fn md5_of(blob: &[u8]) -> Result<String, Ec2Error> {
    let [_, exponent, modulus] = fields::<3>(blob).ok_or_else(bad_key)?;
    let key = der::sequence([der::integer(modulus), der::integer(exponent)].concat());
    let bits = der::element(3, &[vec![0], key].concat());
    Ok(pairs(&Md5::digest(der::sequence([RSA_ALGORITHM.to_vec(), bits].concat()))))
}

/// Returns the first `N` strings of an SSH blob.
fn fields<const N: usize>(mut blob: &[u8]) -> Option<[&[u8]; N]> {
    let mut found = [&[][..]; N];
    for field in &mut found {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        (*field, blob) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    }
    blob.is_empty().then_some(found)
}

/// Parses a public key in OpenSSH's format into kind and blob.
fn read_public(material: &[u8]) -> Result<(&'static str, Vec<u8>), Ec2Error> {
    let text = std::str::from_utf8(material).map_err(|_| bad_key())?;
    let mut words = text.split_whitespace();
    let kind = words.next().and_then(|word| [RSA, ED25519].into_iter().find(|kind| *kind == word));
    let (Some(kind), Some(blob)) = (kind, words.next()) else { return Err(bad_key()) };
    let blob = STANDARD.decode(blob).map_err(|_| bad_key())?;
    let first = if kind == RSA { fields::<3>(&blob).map(|f| f[0]) } else { fields::<2>(&blob).map(|f| f[0]) };
    if first == Some(kind.as_bytes()) { Ok((kind, blob)) } else { Err(bad_key()) }
}

fn bad_key() -> Ec2Error {
    Ec2Error::Resource {
        code: Code::InvalidKeyFormat,
        text: "Key is not in valid OpenSSH public key format".to_owned(),
    }
}
