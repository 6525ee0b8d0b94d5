//! Issuers of service account tokens.

use std::sync::Arc;

use crate::keys::SigningKey;

/// Issuer and default audience, as kubeadm sets them.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Issuer of service account tokens.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    /// Names of the issuer (`--service-account-issuer`): the first is used in new tokens, all are accepted.
    pub names: Vec<String>,
    /// Audiences of the API server itself (`--api-audiences`).
    pub audiences: Vec<String>,
    /// Signing key (`--service-account-signing-key-file`); a key from the server's seed if absent.
    pub key: Option<Arc<SigningKey>>,
}

impl Default for TokenIssuer {
    /// Name and audience as kubeadm sets them.
    fn default() -> Self {
        Self { names: vec![ISSUER.to_owned()], audiences: vec![ISSUER.to_owned()], key: None }
    }
}
