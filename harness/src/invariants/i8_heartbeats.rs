//! I8: node-lifecycle sets a node to Unknown only after its grace period without a heartbeat. A heartbeat is a write of
//! the kubelet to its Node or its Lease.
//!
//! A cache may be stale after a fault at reads of the API server, so no node is checked for twenty minutes.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use super::Found;
use super::stale_reads::{StaleReads, TEN_MINUTES};
use crate::model::{NodeName, RunModel};

/// Tolerance of the grace period: latencies, and the period of the monitor.
const TOLERANCE: Duration = Duration::from_secs(6);
/// Client of node-lifecycle.
const LIFECYCLE: &str = "/node-controller";
/// Beginning of the keys of the nodes' Leases.
const LEASES: &str = "kube-node-lease/";

/// Heartbeats of nodes.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    /// Upstream's node-monitor-grace-period, unscaled; `None` for its default.
    pub grace: Option<Duration>,
    /// Time in milliseconds of the last heartbeat of each node.
    last: BTreeMap<NodeName, u64>,
    stale_reads: StaleReads,
}

impl Heartbeats {
    /// Forgets everything except the grace period.
    pub fn forget(&mut self) {
        *self = Self { grace: self.grace, ..Self::default() };
    }

    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &[]);
        let commit = event.get::<Commit>()?;
        let by_kubelet = commit.user.starts_with("kubelet");
        if let Some(node) = commit.object.strip_prefix(LEASES).filter(|_| commit.resource == "leases") {
            if by_kubelet {
                self.last.insert(node.into(), event.ms);
            }
            return None;
        }
        if commit.resource != "nodes" {
            return None;
        }
        let name = &*commit.object;
        if by_kubelet {
            self.last.insert(name.into(), event.ms);
        }
        let now = commit.node.as_ref()?.ready.as_deref();
        let before = model.objects.before.node.as_ref().filter(|_| commit.r#type == EventType::Modified)?;
        let was = before.state.ready.as_deref()?;
        let is_lost = commit.user.ends_with(LIFECYCLE) && now == Some("Unknown") && was != "Unknown";
        if !is_lost || self.stale_reads.within(2 * TEN_MINUTES, event.ms) {
            return None;
        }
        let silence = event.ms - *self.last.get(name)?;
        let grace = self.grace.unwrap_or_else(|| controllers::timers::Timers::default().node_monitor_grace);
        let least = model.scale.apply(grace.saturating_sub(TOLERANCE)).as_millis();
        (u128::from(silence) < least).then(|| Found {
            message: format!(
                "node/{name} was set to Unknown {silence} ms after its last heartbeat, and the grace period is {} s",
                grace.as_secs()
            ),
            operation: commit.verb.to_string(),
            node: Some(name.to_owned()),
            ..Found::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Node;
    use substrate::events::FaultFired;
    use substrate::fault::Effect;
    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns the findings of a run in which a node is set to Unknown this long after its last heartbeat.
    fn found(after: u64, user: &'static str, is_late: bool) -> Vec<String> {
        let events = simulate(Options::default(), async move |world| {
            let commit = |resource: &str, object: &str, user: &str, ready: Option<&str>| {
                let mut commit = Commit::new(resource, object, 1, EventType::Modified);
                commit.user = user.into();
                commit.node = ready.map(|ready| Box::new(Node { ready: Some(ready.into()), ..Node::default() }));
                world.trace().info(&"fake-apiserver".into(), commit);
            };
            commit("nodes", "node-a", "kubelet/v1", Some("True"));
            world.clock().sleep_until(Duration::from_secs(100)).await;
            commit("leases", "kube-node-lease/node-a", "kubelet/v1", None);
            if is_late {
                let mut fired = FaultFired::new("f", "node-a", Effect::DropReply(true));
                fired.op = "watch".into();
                world.trace().info(&"fake-apiserver".into(), fired);
            }
            world.clock().sleep_until(Duration::from_secs(100 + after)).await;
            commit("nodes", "node-a", user, Some("Unknown"));
            world.trace().events()
        });
        let (mut model, mut rule) = (RunModel::default(), Heartbeats::default());
        let found = events.iter().filter_map(|event| {
            model.observe(event);
            rule.check(&model, event)
        });
        found.map(|found| found.message).collect()
    }

    #[test]
    fn a_node_is_not_given_up_before_its_grace_period() {
        let lifecycle = "kube-controller-manager/v1 kubernetes/mooring/node-controller";
        let message = "node/node-a was set to Unknown 20000 ms after its last heartbeat, and the grace period is 50 s";
        assert_eq!(found(20, lifecycle, false), [message]);
        assert!(found(50, lifecycle, false).is_empty());
        assert!(found(20, "kubectl", false).is_empty(), "a user wrote it");
        assert!(found(20, lifecycle, true).is_empty(), "its cache may be stale");
    }
}
