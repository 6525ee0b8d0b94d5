//! I2: a volume is not detached while it is staged or published on the node, unless the detach is legitimately forced.
//! An occasion is a detach of a volume that had been staged or published there.

use std::collections::BTreeSet;

use csi_mock::events::CsiCall;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;

use super::{Checked, Found, Id};
use crate::model::{RunModel, VolumeOnNode};

/// Counted detaches and reported violations.
#[derive(Debug, Default)]
pub(super) struct DetachAfterUnstage {
    /// Attachments whose detach was counted, so that retries count once.
    counted: BTreeSet<VolumeOnNode>,
    /// Reported holds, so that retries after one bug are one violation.
    reported: BTreeSet<(VolumeOnNode, u64)>,
}

impl DetachAfterUnstage {
    /// Checks an event. `former` returns true if the attacher's cache may have a VolumeAttachment of a PersistentVolume
    /// and a node although it was removed. `unreported` returns true if a volume was staged on a node while the kubelet took
    /// it for reported because of its cache.
    pub fn check(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        event: &Event,
        former: impl Fn(&str, &str) -> bool,
        unreported: impl Fn(&str, &str) -> bool,
    ) -> Option<Found> {
        let (what, operation, volume, node) = if let Some(call) = event.get::<CsiCall>() {
            if call.rpc != "ControllerUnpublishVolume" {
                return None;
            }
            let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return None };
            ("ControllerUnpublishVolume was called", "ControllerUnpublishVolume", volume.as_str(), node.as_str())
        } else {
            let changed = event.get::<AttachmentChanged>()?;
            let (volume, node) = (changed.volume.as_str(), changed.instance.as_str());
            match changed.state {
                AttachmentPhase::Detaching => ("the cloud began to detach", "DetachVolume", volume, node),
                AttachmentPhase::Attaching => {
                    self.counted.remove(&model.place(volume, node));
                    return None;
                }
                _ => return None,
            }
        };
        let node = model.name(node);
        let place = VolumeOnNode::new(volume, node);
        if model.held_since_attached.contains(&place) && self.counted.insert(place.clone()) {
            checked.add(Id::I2, 1);
        }
        let hold = model.hold(volume, node)?;
        let state = hold.state().filter(|_| !hold.forced)?;
        if !self.reported.insert((place, hold.generation)) {
            return None;
        }
        let message = format!(
            "{what} for {volume} on {node} while it is {state} there, and no legitimate forced detach is on record"
        );
        Some(Found {
            message,
            operation: operation.to_owned(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
            details: [
                ("published", hold.published.len().into()),
                ("kubeletRestartedSinceUnpublish", hold.forgotten.into()),
                ("attachmentStays", model.wants_attached(volume, node).into()),
                ("formerAttachmentListed", model.objects.pv_of(volume).is_some_and(|pv| former(pv, node)).into()),
                ("podsUnheard", model.are_unseen(volume, node, event.ms).into()),
                ("newNodeLacksVolume", hold.node_lacks.into()),
                ("unattachedAtKubeletStart", hold.unattached_at_start.into()),
                ("inUseAtDetach", hold.in_use_at_detach.into()),
                ("unreportedByOldNode", unreported(volume, node).into()),
                ("taintInCache", hold.taint_in_cache.into()),
                ("unreadyInCache", hold.unready_in_cache.into()),
                ("wronglyForced", substrate::encode::tree(&hold.wrongly_forced)),
            ]
            .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use csi_mock::events::{CsiCall, CsiDone, DiskStaged};
    use fake_apiserver::events::{Commit, Node};
    use fake_apiserver::state::EventType;
    use substrate::clock::TimeScale;
    use substrate::events::ProcessStarted;
    use substrate::json::Text;
    use substrate::{Clock, Level, Trace};

    use crate::invariants::{Invariants, declared};

    const VOLUME: &str = "vol-0123456789abcdef0";
    const STARTS: &str = "kubelet starts";
    const STAGED: &str = "the volume is staged";
    const ASKED: &str = "NodeStageVolume";
    const DETACHED: &str = "ControllerUnpublishVolume";
    const NODE_IS_NEW: &str = "the Node is created";
    const NODE_LISTS: &str = "the Node lists the volume in volumesInUse";
    const NODE_ATTACHED: &str = "the Node lists the volume in volumesAttached";
    const NODE_LISTS_NOT: &str = "the Node lists nothing in volumesInUse";

    /// Returns the declared deviation of a detach at the end of these steps; the outer `None` if it is not a violation.
    fn declared_after(steps: &[&str]) -> Option<Option<String>> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let (kubelet, driver): (Arc<str>, Arc<str>) = ("node-a/kubelet".into(), "node-a/csi-node".into());
        let of = || (Some(Text::from(VOLUME)), Some(Text::from("node-a")));
        for (at, step) in steps.iter().chain([&DETACHED]).enumerate() {
            let ordinal = at as u64 + 1;
            let (volume, node) = of();
            match *step {
                STARTS => {
                    let before = steps[..at].iter().filter(|step| **step == STARTS).count();
                    trace.info(&kubelet, ProcessStarted { incarnation: before as u32 + 1 });
                }
                STAGED => {
                    let staged = DiskStaged { formatted: true, ..DiskStaged::new(VOLUME, "node-a", "/staging") };
                    trace.info(&driver, staged);
                }
                NODE_IS_NEW | NODE_LISTS | NODE_LISTS_NOT | NODE_ATTACHED => {
                    let r#type = if *step == NODE_IS_NEW { EventType::Added } else { EventType::Modified };
                    let listed = |when: &str| {
                        (*step == when).then(|| format!("kubernetes.io/csi/ebs.csi.aws.com^{VOLUME}").into())
                    };
                    let node = Node {
                        volumes_in_use: listed(NODE_LISTS).into_iter().collect(),
                        volumes_attached: listed(NODE_ATTACHED).into_iter().collect(),
                        ..Node::default()
                    };
                    let commit = Commit::new("nodes", "node-a", ordinal, r#type);
                    trace.info(&"fake-apiserver".into(), Commit { node: Some(Box::new(node)), ..commit });
                }
                DETACHED => {
                    let call = CsiCall { volume, node, ..CsiCall::new(DETACHED, ordinal) };
                    trace.info(&"csi-controller".into(), call);
                }
                rpc => {
                    let call = CsiCall { volume, node, target: Some("/t".into()), ..CsiCall::new(rpc, ordinal) };
                    trace.info(&driver, call);
                    if rpc != ASKED {
                        let ((volume, node), code) = (of(), "OK".into());
                        let done = CsiDone { rpc: rpc.into(), volume, node, ordinal, code, took_ms: 1, message: None };
                        trace.info(&driver, done);
                    }
                }
            }
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let found = invariants.violations().into_iter().find(|violation| violation.id == "I2")?;
        let known = declared::all().unwrap();
        Some(known.iter().find(|deviation| deviation.is(&found).unwrap()).map(|deviation| deviation.id.clone()))
    }

    #[test]
    fn a_new_node_that_does_not_list_a_volume_yet_excuses_its_detach() {
        let lists_nothing = Some(Some("new-node-lists-no-volume-in-use".to_owned()));
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_LISTS, NODE_IS_NEW]), lists_nothing);
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_LISTS, NODE_IS_NEW, NODE_LISTS_NOT]), lists_nothing);
        // It was listed since, the Node is the one on which the volume was staged, or the volume was staged again.
        let undeclared = Some(None);
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_IS_NEW, NODE_LISTS]), undeclared);
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_IS_NEW, NODE_LISTS, NODE_LISTS_NOT]), undeclared);
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_LISTS, NODE_LISTS_NOT]), undeclared);
        assert_eq!(declared_after(&[NODE_IS_NEW, STAGED, NODE_IS_NEW, STAGED]), undeclared);
    }

    #[test]
    fn a_volume_that_a_new_node_did_not_list_as_attached_when_kubelet_started_is_not_in_use_later() {
        let reconstructed = Some(Some("reconstructed-volume-is-not-attachable".to_owned()));
        let (published, undeclared) = ("NodePublishVolume", Some(None));
        assert_eq!(declared_after(&[STARTS, STAGED, published, NODE_IS_NEW, STARTS, NODE_LISTS]), reconstructed);
        // The Node lists it as attached, kubelet did not start again, the Node is the old one, or the volume was staged
        // again.
        let listed = [STARTS, STAGED, published, NODE_IS_NEW, NODE_ATTACHED, STARTS, NODE_LISTS];
        assert_eq!(declared_after(&listed), undeclared);
        assert_eq!(declared_after(&[STARTS, STAGED, published, NODE_IS_NEW, NODE_LISTS]), undeclared);
        assert_eq!(declared_after(&[STARTS, NODE_IS_NEW, STAGED, published, STARTS, NODE_LISTS]), undeclared);
        assert_eq!(declared_after(&[STARTS, STAGED, published, NODE_IS_NEW, STARTS, NODE_LISTS, STAGED]), undeclared);
    }

    #[test]
    fn a_kubelet_forgets_what_was_published_nowhere_until_it_asks_for_it() {
        let forgets = Some(Some("kubelet-forgets-staged-volume".to_owned()));
        assert_eq!(declared_after(&[STARTS, ASKED, STAGED, STARTS]), forgets);
        // The kubelet ends while the volume is staged.
        assert_eq!(declared_after(&[STARTS, ASKED, STARTS, STAGED]), forgets);
        assert_eq!(declared_after(&[STARTS, ASKED, STARTS, STAGED, STARTS]), forgets);
        // The kubelet did not restart, or knows the volume again.
        let undeclared = Some(None);
        assert_eq!(declared_after(&[STARTS, ASKED, STAGED]), undeclared);
        assert_eq!(declared_after(&[STARTS, STARTS, ASKED, STAGED]), undeclared);
        assert_eq!(declared_after(&[STARTS, ASKED, STARTS, ASKED, STAGED]), undeclared);
        assert_eq!(declared_after(&[STARTS, ASKED, STARTS, STAGED, ASKED]), undeclared);
        // It has found the volume on its disk, and unmounts it.
        assert_eq!(declared_after(&[STARTS, ASKED, STAGED, STARTS, "NodeUnpublishVolume"]), undeclared);
        assert_eq!(declared_after(&[STARTS, ASKED, STAGED, "NodePublishVolume", STARTS]), Some(None));
        assert_eq!(declared_after(&[]), None);
    }
}
