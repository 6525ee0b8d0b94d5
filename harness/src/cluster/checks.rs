//! What the invariants have seen of a live cluster so far: `GET` and `POST /admin/v1/checks`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use substrate::World;
use substrate::fault::Span;

use super::Cluster;
use crate::invariants::{Invariants, declared};
use crate::runner::{settle, teardown};

/// How long the cluster may take to come to rest when nobody says.
const PATIENCE: Span = Span(Duration::from_secs(5 * 60));

/// The invariants of a live cluster, from its first event on.
#[derive(Clone, Debug)]
pub struct Checks(Arc<Invariants>);

/// What is asked of them beside what they have seen.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Asked {
    /// Wait until nothing has to be done any more, and compare the cloud, Kubernetes and the nodes (I4, I8).
    rest: bool,
    /// Everything was deleted: nothing may be left (I5).
    empty: bool,
    /// How long each may take.
    within: Option<Span>,
}

impl Checks {
    /// Begins to look at `world`, in which nothing may have happened yet.
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

    /// Counts from nothing again.
    pub(super) fn begin_anew(&self) {
        self.0.begin_anew();
    }

    /// Does what is asked, and says what was seen.
    ///
    /// # Errors
    /// When the cluster cannot come to rest yet.
    pub(super) async fn look(&self, cluster: &Cluster, asked: Asked) -> Result<Value, String> {
        if asked.rest || asked.empty {
            ready(cluster)?;
        }
        let within = asked.within.unwrap_or(PATIENCE).0;
        if asked.rest {
            settle::converge_within(cluster, &self.0, within).await;
        }
        let mut left = None;
        if asked.empty {
            let found = teardown::until_empty(cluster, &self.0, within).await;
            self.0.at_end(&found);
            left = Some(found);
        }
        let mut report = self.report()?;
        if let Some(left) = left {
            report["leftovers"] = serde_json::to_value(&left).unwrap_or_default();
        }
        Ok(report)
    }

    /// What they have seen so far.
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
            // What is not kept is not known to be declared.
            "undeclared": undeclared + (total - violations.len()),
            "pending": self.0.pending().iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))
    }
}

/// What is broken on purpose keeps a cluster from its rest.
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
