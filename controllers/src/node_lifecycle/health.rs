//! Health of one node (`tryUpdateNodeHealth` upstream).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use substrate::clock::Now;

use crate::kube::time;

/// Conditions that become Unknown with the node. Other controllers manage NetworkUnavailable.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Status of the Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The node is healthy.
    True,
    /// The kubelet reports that it is not healthy.
    False,
    /// No heartbeat.
    Unknown,
}

impl Ready {
    fn parse(status: &str) -> Self {
        match status {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// Returns the status of a node's Ready condition, if it has one.
    pub fn of(node: &Node) -> Option<Self> {
        conditions(node).iter().find(|c| c.type_ == "Ready").map(|c| Self::parse(&c.status))
    }
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

/// Posts of a node: any change of them is a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// `lastHeartbeatTime` of the Ready condition; None without the condition.
    pub ready: Option<Timestamp>,
    /// `spec.renewTime` of the node's Lease.
    pub renewed: Option<Timestamp>,
}

/// Remembered state of one node.
#[derive(Clone, Copy, Debug)]
pub struct NodeHealth {
    seen: Heartbeat,
    has_ready: bool,
    /// Monotonic time of the pass that saw the last heartbeat.
    pub probed: Duration,
}

/// Result of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Posted Ready status; Unknown for a node that never posted.
    pub observed: Ready,
    /// Ready status after this pass; None for a node that never posted, within its startup grace.
    pub current: Option<Ready>,
    /// Conditions to write, if they must change.
    pub write: Option<Vec<NodeCondition>>,
}

/// Grace periods, already divided by `time-scale`.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// For nodes that have posted a status.
    pub monitor: Duration,
    /// For nodes that have not posted a status yet.
    pub startup: Duration,
}

impl NodeHealth {
    /// Observes a node once, and updates its remembered `health`.
    pub fn observe(
        health: &mut Option<Self>,
        now: Now,
        node: &Node,
        renewed: Option<Timestamp>,
        grace: Grace,
    ) -> Observation {
        let posted = conditions(node).iter().find(|c| c.type_ == "Ready");
        let ready = posted.map(|c| c.last_heartbeat_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0));
        let created = node.metadata.creation_timestamp.as_ref().map_or(now.wall, |t| t.0);
        let age = Duration::try_from(now.wall.duration_since(created)).unwrap_or_default();
        let known = health.get_or_insert_with(|| Self {
            seen: Heartbeat { ready, renewed: None },
            has_ready: posted.is_some(),
            probed: if posted.is_some() { now.mono } else { now.mono.saturating_sub(age) },
        });
        if known.has_ready != posted.is_some() && posted.is_some() || (posted.is_some() && known.seen.ready != ready) {
            known.probed = now.mono;
        }
        known.has_ready = posted.is_some();
        known.seen.ready = ready;
        if renewed.is_some() && renewed > known.seen.renewed {
            known.seen.renewed = renewed;
            known.probed = now.mono;
        }
        let observed = posted.map_or(Ready::Unknown, |c| Ready::parse(&c.status));
        let limit = if posted.is_some() { grace.monitor } else { grace.startup };
        if now.mono <= known.probed + limit {
            return Observation { observed, current: posted.map(|_| observed), write: None };
        }
        let changes = posted.is_none() || observed != Ready::Unknown;
        Observation { observed, current: Some(Ready::Unknown), write: changes.then(|| unknown(node, now.wall)) }
    }
}

/// Returns the node's conditions with the kubelet's set to Unknown.
fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let mut all = conditions(node).to_vec();
    for kind in CONDITIONS {
        match all.iter_mut().find(|c| c.type_ == kind) {
            None => all.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(time(now)),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(time(now));
            }
            Some(_) => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const GRACE: Grace = Grace { monitor: Duration::from_secs(50), startup: Duration::from_secs(60) };

    fn node(ready: Option<&str>) -> Node {
        let conditions: Vec<_> = ready
            .map(|status| json!({ "type": "Ready", "status": status, "lastHeartbeatTime": "2026-01-01T00:00:00Z" }))
            .into_iter()
            .collect();
        let metadata = json!({ "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z" });
        substrate::json::from_value(json!({ "metadata": metadata, "status": { "conditions": conditions } }))
            .expect("a node")
    }

    fn renewed(seconds: i64) -> Option<Timestamp> {
        Timestamp::from_second(1_767_225_600 + seconds).ok()
    }

    #[test]
    fn a_node_is_unknown_when_more_than_the_grace_period_is_over() {
        let mut health = None;
        let mut look = |at| NodeHealth::observe(&mut health, Now::at(S(at)), &node(Some("True")), renewed(0), GRACE);
        assert_eq!(look(10).write, None);
        assert_eq!(look(60), Observation { observed: Ready::True, current: Some(Ready::True), write: None });
        let late = look(61);
        assert_eq!((late.observed, late.current), (Ready::True, Some(Ready::Unknown)));
        let written = late.write.expect("conditions to write");
        assert_eq!(written.len(), 4);
        assert_eq!(written[0].reason.as_deref(), Some("NodeStatusUnknown"));
        assert_eq!(written[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
    }

    #[test]
    fn a_renewed_lease_keeps_the_node_alive() {
        let mut health = None;
        for at in [10, 60, 110] {
            let seen = NodeHealth::observe(&mut health, Now::at(S(at)), &node(Some("True")), renewed(at as i64), GRACE);
            assert_eq!(seen.write, None, "at {at}");
        }
    }

    #[test]
    fn a_node_that_is_unknown_already_is_not_written_again() {
        let mut health = None;
        let mut look = |at| NodeHealth::observe(&mut health, Now::at(S(at)), &node(Some("Unknown")), None, GRACE);
        look(10);
        assert_eq!(look(100).write, None);
    }

    #[test]
    fn a_node_that_never_posted_has_its_startup_grace_from_creation() {
        let mut health = None;
        let mut look = |at| NodeHealth::observe(&mut health, Now::at(S(at)), &node(None), None, GRACE);
        assert_eq!(look(60).current, None);
        assert_eq!(look(61).write.expect("conditions").len(), 4);
    }
}
