//! `mooring run --live --keep`: keeps the cluster up after the steps.

use serde_json::Value;

use crate::cli::announce::{self, Access};
use crate::cluster::{Cluster, live};
use crate::scenario::model::{Action, Expectation, Scenario};
use crate::spec::Id;

/// Number of events that are kept after the steps.
const EVENTS: usize = 50_000;

/// Disables the teardown. Remaining objects are not leftovers then, so the requirement that I5 was checked is dropped.
pub(super) fn prepare(scenario: &mut Scenario) {
    scenario.teardown = false;
    for step in &mut scenario.steps {
        if let Action::Expect(Expectation::Checked(counts)) = &mut step.action {
            counts.remove(&Id::I5);
        }
    }
}

/// Access to a cluster that stays up.
pub(super) struct Kept {
    /// Access as JSON.
    pub ready: Value,
    /// Access as text for people.
    pub text: String,
}

/// Writes the kubeconfig and variables of the cluster into the directory of the run, which is removed with the cluster.
///
/// # Errors
/// If the files cannot be written.
pub(super) fn stand(cluster: &Cluster, site: &live::Site) -> Result<Kept, String> {
    let endpoints = cluster.endpoints().ok_or("--keep: this cluster cannot be reached from outside")?;
    let kubeconfig = site.path().join("kubeconfig");
    // It may stay up for days, like one of `mooring up`.
    cluster.world().trace().keep(EVENTS);
    let access = Access { endpoints, kubeconfig: &kubeconfig, region: &cluster.spec().region };
    access.write().map_err(|(path, e)| format!("--keep: {}: {e}", path.display()))?;
    Ok(Kept { ready: access.ready(), text: announce::text(&access, "kept") })
}
