//! What an API server is made with. It reads no file and no flag: the program does.

use std::sync::Arc;
use std::time::Duration;

use super::access::Rbac;
use super::audit::Audit;
use super::logs::{LogDial, NodeDial};
use super::webhook::Dial;
use crate::keys::PublicKey;
use crate::state::{Event, Limits, NamespaceUpkeep, ServiceAccounts, ServiceRange, Store, TokenIssuer};
use crate::tls::Authority;

/// What a server is made with.
#[derive(Clone, Default)]
pub struct Config {
    /// What it may hold.
    pub limits: Limits,
    /// How admission webhooks are reached; none where there are no sockets, and then every webhook fails.
    pub dial: Option<Dial>,
    /// How the servers of nodes are reached, for logs; none where there are no nodes that have one.
    pub nodes: Option<NodeDial>,
    /// Who has the logs of pods that no node runs: it is asked before their nodes are.
    pub logs: Option<LogDial>,
    /// Kinds that nothing in this cluster works on: whoever creates such an object is warned.
    pub unserved: Option<Unserved>,
    /// Role-based access control; without it everyone may do everything.
    pub rbac: Option<Rbac>,
    /// Whether every object is as a real server keeps it: it says from its creation on who manages its fields, and has
    /// fields that are not set where Go writes them. Otherwise only objects that were applied say the one, and none has
    /// the other.
    pub track_managers: bool,
    /// How new pods are admitted by their service accounts.
    pub service_accounts: ServiceAccounts,
    /// Whether every namespace has the certificate of the server in the ConfigMap `kube-root-ca.crt`, as
    /// kube-controller-manager puts it there.
    pub publish_root_ca: bool,
    /// That certificate, PEM, where it is not the one of the authority that signs for the server.
    pub root_ca: Option<String>,
    /// How long a watch waits after a write, for each watcher that was told the same, before it writes what came
    /// meanwhile: many watchers of busy objects are told several events at once. At most [`MOST_GATHERED`]; zero, as in
    /// a simulation, to write each event at its instant.
    pub gather: Duration,
    /// What signs approved certificate signing requests; none where a controller does, or nobody.
    pub authority: Option<Arc<Authority>>,
    /// Where requests are logged.
    pub audit: Option<Audit>,
    /// What verifies the tokens of service accounts that someone else signs, beside those that this server signs.
    pub token_keys: Vec<PublicKey>,
    /// The version that the server says it is, `v1.36.2` when it is not said.
    pub version: Option<String>,
    /// The work of kube-controller-manager on namespaces that the server does.
    pub namespaces: NamespaceUpkeep,
    /// The range of the addresses of services.
    pub service_range: ServiceRange,
    /// The address of the endpoint of the API server's own service; it has no endpoint without one.
    pub advertised: Option<std::net::SocketAddr>,
    /// The issuer of the tokens of service accounts.
    pub issuer: TokenIssuer,
    /// True if containers may not be privileged (`--allow-privileged=false`).
    pub forbids_privileged: bool,
}

/// Keeps what is committed, so that it outlives the process.
pub trait Keep: Send {
    /// Keeps commits in their order, before anybody is told of them.
    fn append(&mut self, events: &[Arc<Event>]);

    /// Keeps the objects of a store in the place of all that was kept.
    fn replace(&mut self, store: &Store);
}

/// Why nothing comes of an object of a kind (its group, its name), where that is so.
pub type Unserved = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// The longest that a watch gathers events.
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
            .finish()
    }
}
