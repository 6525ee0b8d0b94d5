//! Public keys that verify service account tokens of another issuer: kube-controller-manager with its
//! `--service-account-private-key-file` (client-go `util/keyutil`, `pkg/serviceaccount`).

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey,
};
use sha2::{Digest, Sha256};
use yasna::models::ObjectIdentifier;

use crate::x509;

/// Reason why a file has no usable key.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum KeyError {
    /// there is no PEM block of a public key, a certificate or an RSA private key
    None,
    /// the PEM block {0:?} is damaged
    Damaged(String),
    /// the PEM block {0:?} holds a key that is neither RSA nor on P-256 or P-384
    Unknown(String),
    /// there is no PEM block of a private key
    NoPrivate,
    /// the key is in the form of SEC 1: convert it with openssl pkcs8 -topk8 -nodes
    NoPkcs8,
}

/// Signature algorithm of a key (RFC 7518, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

/// A key that verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads all keys of PEM files.
    ///
    /// # Errors
    /// The first file that cannot be read or has no usable key, with the reason.
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>, String> {
        let mut keys = Vec::new();
        for path in paths {
            let pem = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            keys.extend(Self::parse_all(&pem).map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Ok(keys)
    }

    /// Parses all keys of a PEM text. Of an RSA private key, the public half is taken.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn parse_all(pem: &str) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for (label, bytes) in blocks(pem) {
            let damaged = || KeyError::Damaged(label.to_owned());
            let bytes = bytes.ok_or_else(damaged)?;
            let rsa = |bytes| Self { algorithm: Algorithm::Rs256, bytes };
            let pair = |pair: KeyPair| rsa(pair.public_key().as_ref().to_vec());
            keys.push(match label {
                "PUBLIC KEY" => Self::of_info(&bytes, label)?,
                "CERTIFICATE" => Self::of_info(&x509::certificate_key(&bytes).ok_or_else(damaged)?, label)?,
                "RSA PUBLIC KEY" => rsa(bytes),
                "RSA PRIVATE KEY" => pair(KeyPair::from_der(&bytes).map_err(|_| damaged())?),
                "PRIVATE KEY" => pair(KeyPair::from_pkcs8(&bytes).map_err(|_| KeyError::Unknown(label.to_owned()))?),
                // Curve parameters and other blocks.
                _ => continue,
            });
        }
        if keys.is_empty() { Err(KeyError::None) } else { Ok(keys) }
    }

    /// Parses a SubjectPublicKeyInfo (RFC 5280, section 4.1).
    fn of_info(info: &[u8], label: &str) -> Result<Self, KeyError> {
        let info = x509::public_key(info).ok_or_else(|| KeyError::Damaged(label.to_owned()))?;
        let algorithm = match (info.algorithm.as_str(), info.curve.as_deref()) {
            (x509::RSA, _) => Algorithm::Rs256,
            (x509::EC, Some(x509::P256)) => Algorithm::Es256,
            (x509::EC, Some(x509::P384)) => Algorithm::Es384,
            _ => return Err(KeyError::Unknown(label.to_owned())),
        };
        Ok(Self { algorithm, bytes: info.key })
    }

    /// Encodes the key as a SubjectPublicKeyInfo.
    fn info(&self) -> Vec<u8> {
        let id = |text: &str| {
            ObjectIdentifier::from_slice(&text.split('.').filter_map(|n| n.parse().ok()).collect::<Vec<u64>>())
        };
        let curve = match self.algorithm {
            Algorithm::Rs256 => None,
            Algorithm::Es256 => Some(x509::P256),
            Algorithm::Es384 => Some(x509::P384),
        };
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_sequence(|writer| match curve {
                    Some(curve) => {
                        writer.next().write_oid(&id(x509::EC));
                        writer.next().write_oid(&id(curve));
                    }
                    None => {
                        writer.next().write_oid(&id(x509::RSA));
                        writer.next().write_null();
                    }
                });
                writer.next().write_bitvec_bytes(&self.bytes, self.bytes.len() * 8);
            });
        })
    }

    /// Returns true if `signature` is a valid signature of `signed` by this key, with the named algorithm (`RS256`).
    pub fn verifies(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match (self.algorithm, algorithm) {
            (Algorithm::Rs256, "RS256") => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.bytes).verify(signed, signature)
            }
            (Algorithm::Es256, "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes).verify(signed, signature)
            }
            (Algorithm::Es384, "ES384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, &self.bytes).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// A private key that signs service account tokens.
pub struct SigningKey {
    pair: Pair,
    random: SystemRandom,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<KeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Parses the first private key of a PEM text: RSA (PKCS #1 or #8), or on P-256 or P-384 (PKCS #8).
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn parse(pem: &str) -> Result<Self, KeyError> {
        for (label, bytes) in blocks(pem) {
            let damaged = || KeyError::Damaged(label.to_owned());
            let pair = match label {
                "RSA PRIVATE KEY" => {
                    Pair::Rsa(Box::new(KeyPair::from_der(&bytes.ok_or_else(damaged)?).map_err(|_| damaged())?))
                }
                "PRIVATE KEY" => {
                    Pair::of_pkcs8(&bytes.ok_or_else(damaged)?).ok_or_else(|| KeyError::Unknown(label.to_owned()))?
                }
                "EC PRIVATE KEY" => return Err(KeyError::NoPkcs8),
                _ => continue,
            };
            let public = pair.public();
            return Ok(Self { pair, random: SystemRandom::new(), public });
        }
        Err(KeyError::NoPrivate)
    }

    /// Returns the algorithm's name in JWTs.
    pub fn algorithm(&self) -> &'static str {
        match self.public.algorithm {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
        }
    }

    /// Returns the key's id in JWTs: the digest of its public half (`keyIDFromPublicKey`).
    pub fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.public.info()))
    }

    /// Returns the key that verifies its signatures.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs; `None` if the key or the system's random generator fails.
    pub fn sign(&self, signed: &[u8]) -> Option<Vec<u8>> {
        match &self.pair {
            Pair::Ecdsa(pair) => Some(pair.sign(&self.random, signed).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, signed, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl Pair {
    fn of_pkcs8(der: &[u8]) -> Option<Self> {
        if let Ok(pair) = KeyPair::from_pkcs8(der) {
            return Some(Self::Rsa(Box::new(pair)));
        }
        let random = SystemRandom::new();
        [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING]
            .into_iter()
            .find_map(|algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, &random).ok())
            .map(|pair| Self::Ecdsa(Box::new(pair)))
    }

    fn public(&self) -> PublicKey {
        let bytes = match self {
            Self::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Self::Ecdsa(pair) => pair.public_key().as_ref().to_vec(),
        };
        // A point of P-256 has 65 bytes, one of P-384 97.
        let algorithm = match self {
            Self::Rsa(_) => Algorithm::Rs256,
            Self::Ecdsa(_) if bytes.len() == 65 => Algorithm::Es256,
            Self::Ecdsa(_) => Algorithm::Es384,
        };
        PublicKey { algorithm, bytes }
    }
}

/// Returns the blocks of a PEM file: label, and bytes if they are valid base64.
fn blocks(pem: &str) -> Vec<(&str, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut rest = pem;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, after)) = after.split_once("-----") else { break };
        let Some((body, after)) = after.split_once("-----END ") else {
            found.push((label, None));
            break;
        };
        let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        found.push((label, STANDARD.decode(text).ok()));
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use rcgen::{PublicKeyData, SigningKey as _};

    use super::*;

    #[test]
    fn a_key_on_a_curve_is_read_from_its_public_half_and_from_a_certificate() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let keys = PublicKey::parse_all(&pair.public_key_pem()).unwrap();
        assert_eq!((keys.len(), keys[0].algorithm), (1, Algorithm::Es256));
        let certificate = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&pair).unwrap();
        assert_eq!(PublicKey::parse_all(&certificate.pem()).unwrap(), keys);
        assert!(pair.subject_public_key_info().ends_with(&keys[0].bytes));
        // The signature of a certificate has another format than that of a token.
        let signature = pair.sign(b"text").unwrap();
        assert!(!keys[0].verifies("ES256", b"text", &signature) && !keys[0].verifies("RS256", b"text", &signature));
    }

    #[test]
    fn a_signing_key_signs_what_its_public_half_verifies_and_has_gos_id() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = SigningKey::parse(&pair.serialize_pem()).unwrap();
        let signature = key.sign(b"text").unwrap();
        assert!(key.public().verifies("ES256", b"text", &signature) && key.algorithm() == "ES256");
        assert_eq!(key.public().info(), pair.subject_public_key_info());
        let error = |pem: &str| SigningKey::parse(pem).unwrap_err();
        assert_eq!(error(&pair.public_key_pem()), KeyError::NoPrivate);
        assert_eq!(error("-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----"), KeyError::NoPkcs8);
        assert_eq!(
            error("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----"),
            KeyError::Unknown("PRIVATE KEY".into())
        );
    }

    #[test]
    fn a_pem_without_a_key_fails() {
        let error = |pem: &str| PublicKey::parse_all(pem).unwrap_err();
        assert_eq!(error("nothing"), KeyError::None);
        assert_eq!(
            error("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----"),
            KeyError::Damaged("PUBLIC KEY".into())
        );
        assert_eq!(
            error("-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----"),
            KeyError::Damaged("PUBLIC KEY".into())
        );
        assert_eq!(error("-----BEGIN CERTIFICATE-----\n"), KeyError::Damaged("CERTIFICATE".into()));
    }
}
