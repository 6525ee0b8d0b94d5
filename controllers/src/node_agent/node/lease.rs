//! The node's lease in `kube-node-lease` (upstream `component-helpers/apimachinery/lease`).

use std::sync::Arc;

use k8s_openapi::Resource;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use rand_core::Rng;
use substrate::json::{Value, json};
use substrate::seed::unit;

use super::context::NodeContext;
use crate::kube::{Api, ApiError};

/// The namespace of all node leases.
pub const NAMESPACE: &str = "kube-node-lease";
/// Attempts at one update before the next renewal (`maxUpdateRetries`).
const TRIES: u32 = 5;
/// Largest jitter of a renewal, as a fraction of the interval (`leaseControllerJitterFactor`).
const JITTER: f64 = 0.04;

/// Renews the lease forever.
pub(crate) async fn run(room: Arc<NodeContext>) {
    let api = room.heartbeat.namespaced::<Lease>(NAMESPACE);
    let mut rng = room.ctx.rng("lease");
    let mut held = None;
    loop {
        held = renew(&room, &api, held).await;
        wait(&room, &mut rng).await;
    }
}

async fn wait(room: &NodeContext, rng: &mut impl Rng) {
    let interval = room.config.timers.lease_renew;
    room.ctx.sleep(interval + interval.mul_f64(JITTER * unit(rng))).await;
}

async fn renew(room: &NodeContext, api: &Api<Lease>, held: Option<Arc<Lease>>) -> Option<Arc<Lease>> {
    let mut held = held;
    for _ in 0..TRIES {
        let lease = match held.take() {
            Some(lease) => lease,
            None => match api.get(&room.config.node_name).await {
                Ok(lease) => lease,
                Err(e) if e.is_not_found() => match api.create(&fresh(room)).await {
                    Ok(lease) => return Some(lease),
                    Err(_) => continue,
                },
                Err(_) => continue,
            },
        };
        match api.replace_written(&room.config.node_name, renewed(room, &lease)).await {
            Ok(lease) => return Some(lease),
            // Another client wrote the lease, or it is gone: read it again.
            Err(ApiError::Status(_)) if !substrate::mutant!(room.ctx, "stale-lease-renewed") => {}
            Err(_) => held = Some(lease),
        }
    }
    held
}

fn fresh(room: &NodeContext) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(room.config.node_name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: room.node.get("", &room.config.node_name).map(|node| vec![owner(&node)]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(room.config.node_name.clone()),
            lease_duration_seconds: i32::try_from(room.config.timers.lease_duration.as_secs()).ok(),
            renew_time: Some(MicroTime(room.ctx.now().wall)),
            ..LeaseSpec::default()
        }),
    }
}

/// Builds the renewed lease by hand: it is the most frequent write, and little of it changes.
fn renewed(room: &NodeContext, lease: &Lease) -> Value {
    let spec = lease.spec.clone().unwrap_or_default();
    let mut metadata = json!(lease.metadata);
    if lease.metadata.owner_references.as_ref().is_none_or(Vec::is_empty)
        && let Some(node) = room.node.get("", &room.config.node_name)
    {
        metadata["ownerReferences"] = json!([owner(&node)]);
    }
    json!({
        "apiVersion": Lease::API_VERSION,
        "kind": Lease::KIND,
        "metadata": metadata,
        "spec": LeaseSpec { renew_time: Some(MicroTime(room.ctx.now().wall)), ..spec },
    })
}

/// Returns an owner reference to a Node.
pub(crate) fn owner(node: &Node) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}
