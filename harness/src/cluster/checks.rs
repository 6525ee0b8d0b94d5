//! Results of the invariants in a live cluster: `GET` and `POST /admin/v1/checks`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use substrate::World;
use substrate::fault::Span;

use super::{Cluster, settle, teardown};
use crate::invariants::{AppliedObjects, Invariants, declared};

/// Default time limit for the cluster to converge.
const TIMEOUT: Span = Span(Duration::from_secs(5 * 60));

/// The invariants of a live cluster, which observe it from its first event.
#[derive(Clone, Debug)]
pub struct Checks(Arc<Invariants>);

/// Body of `POST /admin/v1/checks`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Asked {
    /// Wait until the cluster has converged, and compare the cloud, Kubernetes and the nodes (invariants I4 and I8).
    rest: bool,
    /// Check that no object and no volume is left after everything was deleted (invariant I5).
    empty: bool,
    /// Time limit of each of the two.
    within: Option<Span>,
}

impl Checks {
    /// Starts to observe `world`, which must have emitted no event yet.
    pub fn begin(world: &World) -> Self {
        let invariants = Arc::new(Invariants::new(world.scale()));
        let seen = invariants.clone();
        world.trace().observe(move |event| seen.observe(event));
        Self(invariants)
    }

    /// The invariants themselves.
    pub(crate) fn invariants(&self) -> &Invariants {
        &self.0
    }

    /// Resets all counts.
    pub(super) fn restart(&self) {
        self.0.restart();
    }

    /// Waits as `asked` says and reports the results.
    ///
    /// # Errors
    /// If a crashed node or a fault keeps the cluster from converging.
    pub(super) async fn look(&self, cluster: &Cluster, asked: Asked) -> Result<Value, String> {
        if asked.rest || asked.empty {
            ready(cluster)?;
        }
        let within = asked.within.unwrap_or(TIMEOUT).0;
        if asked.rest {
            let spec = cluster.spec();
            let applied_objects = AppliedObjects::new(&spec.driver_name, &spec.without);
            settle::converge_within(cluster, &self.0, &applied_objects, within).await;
        }
        let mut left = None;
        if asked.empty {
            let found = teardown::until_empty(cluster, &self.0, within).await;
            self.0.at_end(&found);
            left = Some(found);
        }
        let mut report = self.report()?;
        if let Some(left) = left {
            report["leftovers"] = substrate::encode::tree(&left);
        }
        Ok(report)
    }

    /// Report of the results so far.
    fn report(&self) -> Result<Value, String> {
        let mut violations = self.0.violations();
        declared::mark_known(&mut violations)?;
        let (total, checked) = (self.0.total(), self.0.checked());
        let undeclared = violations.iter().filter(|violation| violation.declared.is_none()).count();
        Ok(json!({
            "checked": checked,
            "counts": checked.to_string(),
            "violations": violations,
            "total": total,
            // Violations that are not kept count as undeclared.
            "undeclared": undeclared + (total - violations.len()),
            "pending": self.0.pending().iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))
    }
}

/// Fails if a node is down or a fault is active, because the cluster cannot converge then.
fn ready(cluster: &Cluster) -> Result<(), String> {
    let down = cluster.down_nodes();
    if !down.is_empty() {
        return Err(format!("{} was crashed: start it again first", down.join(", ")));
    }
    let faults: Vec<String> = cluster.world().faults().list().into_iter().map(|report| report.fault.name).collect();
    match faults.as_slice() {
        [] => Ok(()),
        faults => Err(format!("these faults are in force: {}; end them first", faults.join(", "))),
    }
}
