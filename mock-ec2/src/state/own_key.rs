//! Key pairs of the account, and requests about them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Key pair of the account. The private key is returned once and not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnKey {
    /// Its id.
    pub id: String,
    /// `rsa` or `ed25519`.
    pub kind: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Public key in OpenSSH's format.
    pub public: String,
    /// Time of creation, wall time.
    pub created: Timestamp,
}

/// Request about a key pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRequest {
    /// CreateKeyPair: the name, `rsa` or `ed25519`, and tags.
    Create(String, &'static str, BTreeMap<String, String>),
    /// ImportKeyPair: the name, the public key, and tags.
    Import(String, Vec<u8>, BTreeMap<String, String>),
    /// DeleteKeyPair, by name or by id.
    Delete(Result<String, String>),
}

impl KeyRequest {
    /// Returns the action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Create(..) => "CreateKeyPair",
            Self::Import(..) => "ImportKeyPair",
            Self::Delete(_) => "DeleteKeyPair",
        }
    }
}
