//! `mooring run --live --keep`: the cluster of a story stays up after it.

use serde_json::Value;

use crate::cli::announce::{self, Access};
use crate::cluster::{Cluster, live};
use crate::invariants::Id;
use crate::scenario::model::{Action, Expectation, Scenario};

/// As many events as are kept of what happens after the story.
const EVENTS: usize = 50_000;

/// Leaves what the story made in place. What then remains is no leftover, so that it was looked at is not demanded.
pub(super) fn prepare(scenario: &mut Scenario) {
    scenario.teardown = false;
    for step in &mut scenario.steps {
        if let Action::Expect(Expectation::Checked(counts)) = &mut step.action {
            counts.remove(&Id::I5);
        }
    }
}

/// How a cluster that stays up is reached.
pub(super) struct Kept {
    /// As data.
    pub ready: Value,
    /// As people read it.
    pub text: String,
}

/// Writes how to reach the cluster into the directory of the run, with which it goes when it is taken down.
///
/// # Errors
/// When its files cannot be written.
pub(super) fn stand(cluster: &Cluster, site: &live::Site) -> Result<Kept, String> {
    let endpoints = cluster.endpoints().ok_or("--keep: this cluster cannot be reached from outside")?;
    let kubeconfig = site.path().join("kubeconfig");
    // It may stay for days, as one of `mooring up`.
    cluster.world().trace().keep(EVENTS);
    let access = Access { endpoints, kubeconfig: &kubeconfig, region: &cluster.spec().region };
    access.write().map_err(|(path, e)| format!("--keep: {}: {e}", path.display()))?;
    Ok(Kept { ready: access.ready(), text: announce::text(&access, "kept") })
}
