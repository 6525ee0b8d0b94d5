//! external-snapshotter: the snapshot-controller, which binds snapshots to contents (`pkg/common-controller`), and the
//! sidecar csi-snapshotter, which calls the driver (`pkg/sidecar-controller`).
//!
//! A snapshot of a claim goes through both: the controller creates the content, the sidecar takes the snapshot and
//! writes the content's status, the controller copies it to the snapshot. A deletion goes the same way: the controller
//! marks and deletes the content, the sidecar deletes the driver's snapshot and removes the content's finalizer.
//!
//! [`objects`] are the kinds, [`definitions`] their CustomResourceDefinitions. [`group`] has the kinds of groups of
//! snapshots; both loops handle them if their feature gate is on, as it is by default, and the kinds exist.

pub mod controller;
mod definitions;
pub mod group;
mod names;
pub mod objects;
mod secret;
pub mod sidecar;
mod store;

pub use definitions::definitions;
pub use objects::{GROUP, VolumeSnapshot, VolumeSnapshotContent, refusal};

use std::time::Duration;

use group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use objects::VolumeSnapshotClass;
use substrate::process::Ctx;

use crate::events::SnapshotError;
use crate::kube::{Client, Kind};

/// Longest wait for the kinds (`--retry-crd-interval-max`).
const KINDS_WITHIN: Duration = Duration::from_secs(30);
/// First pause between two checks for the kinds; each pause is 1.5 times the previous one.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// Waits until the API server has the kinds (`ensureCustomResourceDefinitionsExist`). Upstream exits after 30 s and is
/// restarted; this starts again with the first pause.
async fn defined(ctx: &Ctx, client: &Client) {
    let paths = [VolumeSnapshot::path(None), VolumeSnapshotClass::path(None), VolumeSnapshotContent::path(None)];
    while !found_in_time(ctx, client, &paths).await {}
}

/// Returns true if the API server has the kinds of groups (`ensureVolumeGroupSnapshotCRDsExist`). Without them upstream
/// warns after 30 s, and handles no groups.
async fn groups_defined(ctx: &Ctx, client: &Client) -> bool {
    let paths =
        [VolumeGroupSnapshot::path(None), VolumeGroupSnapshotClass::path(None), VolumeGroupSnapshotContent::path(None)];
    let found = found_in_time(ctx, client, &paths).await;
    if !found {
        trace_error(ctx, "kinds", group::GROUP, "the kinds of groups are missing: groups are not handled".to_owned());
    }
    found
}

/// Looks for kinds by the paths of their lists, for 30 s; returns true once all exist.
async fn found_in_time(ctx: &Ctx, client: &Client, paths: &[String]) -> bool {
    let (mut pause, mut waited) = (FIRST_LOOK, Duration::ZERO);
    loop {
        let mut all = true;
        for path in paths {
            all = all && client.get(&format!("{path}?limit=1")).await.is_ok();
        }
        if all {
            return true;
        }
        ctx.sleep(pause).await;
        waited += pause;
        pause = pause.mul_f64(1.5);
        if waited > KINDS_WITHIN {
            return false;
        }
    }
}

/// Returns the error of a lister without a class of this name.
fn class_missing(name: &str) -> String {
    format!("volumesnapshotclass.{GROUP} {name:?} not found")
}

/// Traces an error after which an object is retried.
fn trace_error(ctx: &Ctx, what: &str, object: &str, error: String) {
    ctx.trace().emit_lazily(ctx.name(), || SnapshotError { what: what.into(), object: object.into(), error });
}

/// Returns the error of a write (`controllerUpdateError`).
fn update_error(name: &str, message: &impl std::fmt::Display) -> String {
    format!("snapshot controller failed to update {name} on API server: {message}")
}
