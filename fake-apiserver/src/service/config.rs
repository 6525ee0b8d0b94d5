//! Configuration of an API server. This module reads no file and no flag; the program does.

use std::sync::Arc;
use std::time::Duration;

use super::audit::Audit;
use super::dials::{Dial, LogDial, NodeDial};
use super::origin_state::Origin;
use super::rbac::Rbac;
use crate::keys::PublicKey;
use crate::state::{Event, Limits, NamespaceUpkeep, ServiceAccounts, ServiceRange, Store, TokenIssuer};
use crate::tls::Authority;

/// Configuration of a server.
#[derive(Clone, Default)]
pub struct Config {
    /// Limits of the store.
    pub limits: Limits,
    /// Connects to admission webhooks; if `None`, every webhook call fails.
    pub dial: Option<Dial>,
    /// Connects to the servers of nodes, for logs.
    pub nodes: Option<NodeDial>,
    /// Source of the logs of pods that no node runs. It is consulted before the pods' nodes.
    pub logs: Option<LogDial>,
    /// Kinds without a controller in this cluster: a client that creates such an object gets a warning.
    pub unserved: Option<Unserved>,
    /// Role-based access control; if `None`, everything is allowed.
    pub rbac: Option<Rbac>,
    /// If set, the default roles and bindings exist also if roles decide nothing, as on a real server.
    pub default_roles: bool,
    /// If set, objects are kept as on a real server: with managedFields from their creation on, and with Go's zero
    /// values for unset fields. Otherwise only applied objects have managedFields, and unset fields are absent.
    pub track_managers: bool,
    /// Admission of new pods by their service accounts.
    pub service_accounts: ServiceAccounts,
    /// If set, the server publishes its CA certificate in the ConfigMap `kube-root-ca.crt` of every namespace, as
    /// kube-controller-manager does.
    pub publish_root_ca: bool,
    /// The published certificate, PEM, if it is not that of the server's CA.
    pub root_ca: Option<String>,
    /// Time for which a watch gathers events after a write, for each watcher that received the same event. Then it
    /// writes them together, which helps with many watchers of busy objects. At most [`MOST_GATHERED`]; zero, as in a
    /// simulation, writes each event at once.
    pub gather: Duration,
    /// CA that signs approved certificate signing requests; `None` if a controller signs them, or if they are not
    /// signed.
    pub authority: Option<Arc<Authority>>,
    /// The audit log.
    pub audit: Option<Audit>,
    /// Keys that verify service account tokens of other issuers, in addition to the server's own.
    pub token_keys: Vec<PublicKey>,
    /// Version that the server reports; `v1.36.2` if `None`.
    pub version: Option<String>,
    /// Work of kube-controller-manager on namespaces that the server does itself.
    pub namespaces: NamespaceUpkeep,
    /// Range of service addresses.
    pub service_range: ServiceRange,
    /// Address of the endpoint of the API server's own service; if `None`, the service has no endpoint.
    pub advertised: Option<std::net::SocketAddr>,
    /// Issuer of service account tokens.
    pub issuer: TokenIssuer,
    /// If set, privileged containers are refused (`--allow-privileged=false`).
    pub forbids_privileged: bool,
    /// Another API server, which answers the requests: this one applies faults, and keeps the trace.
    /// Initial objects, saved states and roles of this server have no effect then.
    pub origin: Option<Origin>,
}

/// Persists commits, so that they outlive the process.
pub trait Keep: Send {
    /// Persists commits in order, before watchers receive them.
    fn append(&mut self, events: &[Arc<Event>]);

    /// Replaces everything that was persisted by the objects of a store.
    fn replace(&mut self, store: &Store);
}

/// Returns the reason why a kind (its group, its name) has no controller here, if so.
pub type Unserved = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// Longest time for which a watch gathers events.
pub const MOST_GATHERED: Duration = Duration::from_millis(20);

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("limits", &self.limits)
            .field("dial", &self.dial.is_some())
            .field("nodes", &self.nodes.is_some())
            .field("logs", &self.logs.is_some())
            .field("unserved", &self.unserved.is_some())
            .field("rbac", &self.rbac)
            .field("default_roles", &self.default_roles)
            .field("track_managers", &self.track_managers)
            .field("service_accounts", &self.service_accounts)
            .field("publish_root_ca", &self.publish_root_ca)
            .field("root_ca", &self.root_ca.is_some())
            .field("gather", &self.gather)
            .field("authority", &self.authority)
            .field("audit", &self.audit)
            .field("token_keys", &self.token_keys.len())
            .field("version", &self.version)
            .field("namespaces", &self.namespaces)
            .field("service_range", &self.service_range)
            .field("advertised", &self.advertised)
            .field("issuer", &self.issuer)
            .field("forbids_privileged", &self.forbids_privileged)
            .field("origin", &self.origin)
            .finish()
    }
}
