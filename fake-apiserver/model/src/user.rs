//! Users of the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::json::{Value, json};

/// Authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub username: String,
    /// The uid; empty if there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Returns the server itself, which may do everything.
    pub fn of_server() -> Self {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        Self { username: "system:apiserver".to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// Returns a service account, by its name alone.
    pub fn of_account(namespace: &str, name: &str) -> Self {
        account(namespace, &format!("system:serviceaccount:{namespace}:{name}"), "")
    }

    /// Returns the user as `authentication.k8s.io/v1` UserInfo.
    pub fn user_info(&self) -> Value {
        let mut info = json!({"username": self.username, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = self.extra.iter().map(|(key, values)| (key.as_str(), json!(values))).collect();
        }
        info
    }
}

/// Returns the user of a service account's token.
pub fn account(namespace: &str, username: &str, uid: &str) -> Identity {
    let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let groups = groups.map(str::to_owned).to_vec();
    Identity { username: username.to_owned(), uid: uid.to_owned(), groups, extra: BTreeMap::new() }
}

/// The user and options of the present command, as policies see them.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The user.
    pub user: Arc<Identity>,
    /// If set, the request is validated but not stored (dry run).
    pub dry_run: bool,
    /// Options of the request (`CreateOptions`, `UpdateOptions` …, by its verb).
    pub options: Value,
}
