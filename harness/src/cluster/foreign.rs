//! Detects whether the driver of the user answers.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

use controllers::node_agent::events::{Registered, RegistrationFailed};
use csi_proto::Channel;
use csi_proto::csi::GetPluginInfoRequest;
use csi_proto::csi::identity_client::IdentityClient;
use substrate::dial;

use super::{Cluster, Machine};

/// Control loops that call a driver's controller service.
const SIDECARS: [&str; 4] = ["csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter"];
/// Interval between two attempts, and the time limit of each.
const LOOK: Duration = Duration::from_secs(1);

impl Cluster {
    /// Reports on a live cluster's driver that is not Mooring's: the processes that wait while it does not answer, its
    /// first answer, and each registration on a node. Ends when the controller service answers.
    pub async fn watch_driver(&self, say: impl Fn(&str) + Clone + Send + Sync + 'static) {
        let Some(endpoints) = self.endpoints().filter(|_| self.spec.without.contains("csi-mock")) else { return };
        self.report_registrations(say.clone());
        say(&no_driver(&endpoints.machines));
        let waiting: Vec<&str> = SIDECARS.into_iter().filter(|name| !self.spec.without.contains(*name)).collect();
        // A given endpoint was validated before, and Mooring's own is valid.
        let (Ok(service), false) = (dial::grpc(&endpoints.csi), waiting.is_empty()) else { return };
        let mut reported = false;
        loop {
            let mut identity = IdentityClient::new(Channel(service.clone()));
            let error = match tokio::time::timeout(LOOK, identity.get_plugin_info(GetPluginInfoRequest {})).await {
                Ok(Ok(info)) => {
                    return say(&format!("driver {} answers at {}", info.into_inner().name, endpoints.csi));
                }
                Ok(Err(status)) => status.message().to_owned(),
                Err(_) => format!("no answer within {LOOK:?}"),
            };
            if !std::mem::replace(&mut reported, true) {
                say(&format!(
                    "no CSI driver answers at {} ({error}); {} wait for it. Start its controller service there, say \
                     where it is with --csi, or leave them out too: --without csi-mock,{}",
                    endpoints.csi,
                    waiting.join(", "),
                    waiting.join(",")
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reports the results of registrations on nodes, each line once.
    fn report_registrations(&self, say: impl Fn(&str) + Send + Sync + 'static) {
        let reported = Mutex::new(BTreeSet::new());
        self.world.trace().observe(move |event| {
            let line = if let Some(Registered { driver, node }) = event.get() {
                format!("{node}: driver {driver} is registered")
            } else if let Some(RegistrationFailed { error, node }) = event.get() {
                format!("{node}: a driver cannot be registered: {error}")
            } else {
                return;
            };
            if reported.lock().insert(line.clone()) {
                say(&line);
            }
        });
    }
}

/// Maximum number of nodes that are named; the others are counted.
const NAMED: usize = 3;

/// Message that no node has a driver yet, with the directory in which a kubelet looks for one.
fn no_driver(machines: &[Machine]) -> String {
    let names: Vec<&str> = machines.iter().take(NAMED).map(|machine| machine.node.as_str()).collect();
    let more = match machines.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let place = machines.first().map(|machine| machine.plugins_registry.display().to_string()).unwrap_or_default();
    format!(
        "no CSI driver is registered on {}{more}: pods with volumes wait for one. A kubelet looks for its registration \
         socket in a directory such as {place} (docs/test-your-driver.md)",
        names.join(", ")
    )
}
