//! Connects to the driver and runs the two loops.

use std::collections::BTreeMap;

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;
use csi_proto::csi::node_service_capability::rpc::Type as NodeRpc;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use substrate::body::HttpService;
use substrate::process::Ctx;

use super::{expand, modify};
use crate::csi::{Connection, Driver};
use crate::kube::{ApiError, Client, EventRecorder, Guard, Informer, Kind, ListParams, Patch};
use crate::timers::Timers;

/// Namespace and name of a claim.
pub(super) type Key = (String, String);

/// external-resizer after its driver answered.
pub struct Reached {
    connection: Connection,
    driver: Driver,
    /// True if nodes expand volumes; queried only if the controller does not.
    node_expands: bool,
}

impl Reached {
    /// Waits until the driver with the controller socket `csi` answers.
    pub async fn connect(ctx: &Ctx, csi: HttpService, timers: &Timers) -> Self {
        let connection = Connection::new(ctx, csi, timers.resizer_timeout);
        let driver = connection.driver().await;
        let node_expands = !driver.can(Rpc::ExpandVolume)
            // Upstream exits if the socket has no node service. Either way no volume is expanded.
            && connection.node_capabilities().await.is_ok_and(|node| node.can(NodeRpc::ExpandVolume));
        Self { connection, driver, node_expands }
    }

    /// Returns the driver's name.
    pub fn driver(&self) -> &str {
        &self.driver.name
    }
}

/// State shared by the loops.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) ctx: Ctx,
    pub(super) client: Client,
    pub(super) connection: Connection,
    pub(super) driver: Driver,
    pub(super) recorder: EventRecorder,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) timers: Timers,
}

/// Runs external-resizer forever.
pub async fn run(ctx: Ctx, client: Client, reached: Reached, timers: Timers) {
    let Reached { connection, driver, node_expands } = reached;
    let claims = Informer::<PersistentVolumeClaim>::start(&ctx, client.all(), ListParams::default());
    let volumes = Informer::<PersistentVolume>::start(&ctx, client.all(), ListParams::default());
    let recorder = EventRecorder::new(&client, &format!("external-resizer {}", driver.name));
    let (controller_expands, modifies) = (driver.can(Rpc::ExpandVolume), driver.can(Rpc::ModifyVolume));
    let common = Common { ctx: ctx.clone(), client, connection, driver, recorder, claims, volumes, timers };
    let expanding = async {
        if controller_expands || node_expands {
            expand::run(common.clone(), controller_expands).await;
        }
    };
    let modifying = async {
        if modifies {
            modify::run(common.clone()).await;
        }
    };
    tokio::join!(expanding, modifying);
    std::future::pending().await
}

impl Common {
    /// Patches the claim's status to `new`, even if the patch is empty, because the server checks its precondition.
    pub(super) async fn patch_claim(
        &self,
        old: &PersistentVolumeClaim,
        new: &PersistentVolumeClaim,
        guard: Guard,
    ) -> Result<std::sync::Arc<PersistentVolumeClaim>, String> {
        let refused = |e: ApiError| format!("can't patch status of  PVC {} with {e}", object_name(old));
        let patch = Patch::strategic(old, new).map_err(refused)?.guarded(old, guard);
        let claims = self.client.namespaced::<PersistentVolumeClaim>(old.namespace());
        claims.patch_status(old.name(), &patch).await.map_err(refused)
    }

    /// Patches the volume to `new`.
    pub(super) async fn patch_volume(
        &self,
        old: &PersistentVolume,
        new: &PersistentVolume,
    ) -> Result<std::sync::Arc<PersistentVolume>, String> {
        let refused = |e: ApiError| format!("update capacity of PV {} failed: {e}", new.name());
        let patch = Patch::strategic(old, new).map_err(refused)?;
        self.client.all::<PersistentVolume>().patch(old.name(), &patch).await.map_err(refused)
    }

    /// Reads a secret.
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Result<BTreeMap<String, String>, String> {
        let secret = self.client.namespaced::<Secret>(namespace).get(name).await;
        let secret = secret.map_err(|e| format!("error getting secret {name} in namespace {namespace}: {e}"))?;
        let text = |bytes: &k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
        Ok(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// Returns the key of a claim.
    pub(super) fn key(claim: &PersistentVolumeClaim) -> Key {
        (claim.namespace().to_owned(), claim.name().to_owned())
    }
}

/// Formats an object's name like klog.
pub(super) fn object_name<K: Kind>(object: &K) -> String {
    if object.namespace().is_empty() {
        return object.name().to_owned();
    }
    format!("{}/{}", object.namespace(), object.name())
}
