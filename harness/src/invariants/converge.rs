//! I8: work that a cluster without faults still has to do.

use std::fmt;

use mock_ec2::events::AttachmentPhase;

use super::Symptom;
use crate::model::{RunModel, VolumeOnNode, described, keeps_away};

/// An object that is not in its final state yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// The object.
    pub what: String,
    /// The awaited change.
    pub waits_for: String,
    /// The awaited change as a type.
    pub symptom: Symptom,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.what, self.waits_for)
    }
}

impl RunModel {
    /// Returns the changes that must still happen before the cluster is quiet. A pod that fits on no node, one whose
    /// container cannot start, and a claim that no provisioner can serve, are in their final state.
    pub(super) fn pending(&self) -> Vec<Pending> {
        let mut pending = Vec::new();
        let mut add = |symptom: Symptom, what: String, waits_for: String| {
            pending.push(Pending { what, waits_for, symptom });
        };
        for (name, node) in &self.objects.nodes {
            if node.state.ready.as_deref() != Some("True") {
                add(Symptom::NodeNotReady, format!("node/{name}"), "Ready=True from its kubelet".to_owned());
            } else if let Some(taint) = keeps_away(&node.state).next().filter(|_| self.has_node_controller) {
                add(Symptom::NodeTainted, format!("node/{name}"), format!("the end of its taint {taint}: it is Ready"));
            }
        }
        for (name, pod) in self.objects.pods() {
            let Some(node) = pod.node() else {
                if pod.state.deleting {
                    add(Symptom::PodTerminating, format!("pod/{name}"), "its end: it is terminating".to_owned());
                }
                continue;
            };
            if pod.state.deleting {
                add(Symptom::PodTerminating, format!("pod/{name}"), format!("its end on {node}: it is terminating"));
            } else if pod.is("Pending") && pod.state.waiting.is_none() {
                add(Symptom::PodNotStarted, format!("pod/{name}"), format!("its volumes and containers on {node}"));
            }
        }
        for (name, va) in &self.objects.attachments {
            let (pv, node) = (va.pv(), va.node());
            let (symptom, waits_for) = if va.state.deleting {
                (Symptom::AwaitsDetach, format!("the detach of {pv} from {node}"))
            } else if !va.state.attached {
                (Symptom::AwaitsAttach, format!("the attach of {pv} to {node}"))
            } else if !self.is_wanted(pv, node) {
                (Symptom::AttachmentUnwanted, format!("its deletion: nothing on {node} wants {pv}"))
            } else {
                continue;
            };
            add(symptom, format!("volumeattachment/{name}"), waits_for);
        }
        for (VolumeOnNode { volume, node }, hold) in &self.holds {
            let pv = self.objects.volumes().find(|(_, pv)| *volume == *pv.handle());
            let Some(state) = hold.state() else { continue };
            if pv.is_some_and(|(pv, _)| !self.is_wanted(pv, node)) {
                let (symptom, call) = match state {
                    "staged" => (Symptom::AwaitsUnstage, "NodeUnstageVolume"),
                    _ => (Symptom::AwaitsUnpublish, "NodeUnpublishVolume"),
                };
                add(symptom, format!("{volume} on {node}"), format!("{call}: nothing there wants it"));
            }
        }
        for (VolumeOnNode { volume, node }, state) in &self.cloud {
            if *state != AttachmentPhase::Attached {
                let waits_for = format!("the cloud: its attachment is {}", state.as_str());
                add(Symptom::AwaitsCloud, format!("{volume} on {node}"), waits_for);
            }
        }
        for (_, call) in self.calls.open() {
            add(Symptom::AwaitsAnswer, described(call), "its answer".to_owned());
        }
        pending
    }

    /// Returns true if `what` is a volume that is staged on a node whose kubelet has forgotten it.
    pub(super) fn is_forgotten(&self, what: &str) -> bool {
        let is = |VolumeOnNode { volume, node }: &VolumeOnNode| what == format!("{volume} on {node}");
        self.holds.iter().any(|(place, hold)| hold.forgotten && hold.published.is_empty() && is(place))
    }

    /// Returns true if a pod on the node uses the volume.
    fn is_wanted(&self, pv: &str, node: &str) -> bool {
        let Some(claim) = self.objects.volume(pv).and_then(|pv| pv.state.claim.as_deref()) else { return false };
        self.objects.users(claim).any(|(_, pod)| pod.node() == Some(node))
    }

    /// Returns the time and the description of the last change that is not a heartbeat. If a fault delays a change, the
    /// time is the end of the fault.
    pub(super) fn unrest(&self) -> (u64, String) {
        let (last, held) = (&self.last_unrest, &self.held_back);
        if held.0 > last.0 { held.clone() } else { last.clone() }
    }
}
