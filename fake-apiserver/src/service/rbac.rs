//! Settings of authentication and authorization.

use std::collections::BTreeMap;

use crate::state::Identity;

/// Authentication and authorization, as they are configured.
#[derive(Clone)]
pub struct Rbac {
    /// Bearer token of the kubeconfig, with which everything is allowed.
    pub admin_token: String,
    /// True if requests without credentials are those of `system:anonymous` (`--anonymous-auth`); otherwise 401.
    pub anonymous: bool,
    /// True if roles decide (`--authorization-mode=RBAC`); otherwise every authenticated user may do everything.
    pub roles: bool,
    /// True if requests without credentials that are not marked as [`Outside`](super::Outside) come from components of the
    /// same process, which may do everything.
    pub trusts_components: bool,
    /// Users by their bearer tokens (`--token-auth-file`).
    pub tokens: BTreeMap<String, Identity>,
}

impl Rbac {
    /// Returns RBAC with `admin_token` for the kubeconfig, and anonymous requests.
    pub fn new(admin_token: impl Into<String>) -> Self {
        Self {
            admin_token: admin_token.into(),
            anonymous: true,
            roles: true,
            trusts_components: false,
            tokens: BTreeMap::new(),
        }
    }
}

impl std::fmt::Debug for Rbac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rbac").field("admin_token", &"<redacted>").finish()
    }
}
