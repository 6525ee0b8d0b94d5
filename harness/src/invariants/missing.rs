//! Missing calls and writes, each with the last call or write that did come.
//!
//! A checker at the end of a run sees a symptom: a leftover mount, or a waiting pod. One missing call or write (an act)
//! causes many symptoms, so each symptom names the missing act. The first missing act of a chain (unpublish, unstage,
//! detach, removal) is the cause of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_mock::events::{CsiCall, CsiDone};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{VolumeChanged, VolumePhase};
use serde::Serialize;
use substrate::Event;
use substrate::json::Text;

use super::Symptom;
use crate::model::{ClaimKey, RunModel, claims_of, only_looks};

/// A missing call or write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// Its place in the chain of acts that end the use of a volume.
    #[serde(skip)]
    pub place: usize,
    /// The act, without names.
    pub act: String,
    /// A sentence with the names, and the last call or write.
    pub text: String,
}

/// Acts, each after the acts that it waits for, with their symptoms.
const ACTS: &[(&str, &[Symptom])] = &[
    ("NodeUnpublishVolume", &[Symptom::AwaitsUnpublish, Symptom::PodMountLeft]),
    ("NodeUnstageVolume", &[Symptom::AwaitsUnstage, Symptom::MountLeft]),
    (
        "ControllerUnpublishVolume",
        &[Symptom::AwaitsDetach, Symptom::AttachedInCloudOnly, Symptom::DeviceLeft, Symptom::CloudAttachmentLeft],
    ),
    ("deletion of the VolumeAttachment", &[Symptom::AttachmentUnwanted, Symptom::VolumeAttachmentLeft]),
    ("ControllerPublishVolume", &[Symptom::AwaitsAttach]),
    ("patch of the node's status.volumesAttached", &[Symptom::ListedAsAttachedOnly]),
    ("end of the pod", &[Symptom::PodTerminating, Symptom::ClaimKept]),
    ("start of the pod's containers", &[Symptom::PodNotStarted]),
    ("removal of the staging or target directory", &[Symptom::DirectoryLeft]),
    ("removal of the finalizer", &[Symptom::FinalizerLeft]),
    ("deletion of the PersistentVolume", &[Symptom::PersistentVolumeLeft]),
    ("DeleteVolume", &[Symptom::CloudVolumeLeft]),
];

/// Components that remove a finalizer, by a part of its name.
const REMOVERS: &[(&str, &str)] = &[
    ("pvc-protection", "kube-controller-manager"),
    ("pv-protection", "kube-controller-manager"),
    ("external-attacher", "csi-attacher"),
    ("external-provisioner", "csi-provisioner"),
    ("pvc-as-source-protection", "csi-snapshotter"),
];

/// Verb, user and time of a write, in milliseconds.
type Write = (Text, Text, u64);

/// Last calls and writes.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// The last call that changes a volume, and its result.
    calls: BTreeMap<String, String>,
    /// The last write of an object, by resource and key.
    writes: BTreeMap<Text, BTreeMap<Arc<str>, Write>>,
    /// The last deletion of a pod that used a claim, by the claim.
    pods: BTreeMap<ClaimKey, String>,
}

impl Last {
    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(call) = event.get::<CsiCall>() {
            self.on_call(event, call);
        } else if let Some(CsiDone { rpc, volume: Some(volume), code, .. }) = event.get() {
            if let Some(last) = self.calls.get_mut(volume.as_str()).filter(|last| last.starts_with(rpc.as_str())) {
                *last = format!("{}, answered with {code}", last.split(", answered").next().unwrap_or_default());
            }
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(event, commit);
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) = event.get() {
            self.calls.remove(volume.as_str());
        }
    }

    fn on_call(&mut self, event: &Event, call: &CsiCall) {
        let Some(volume) = call.volume.as_ref().filter(|_| !only_looks(&call.rpc)) else { return };
        let node = call.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        self.calls.insert(volume.to_string(), format!("{}{node} at {}", call.rpc, moment(event.ms)));
    }

    fn on_commit(&mut self, event: &Event, commit: &Commit) {
        if matches!(commit.resource.as_str(), "leases" | "events") {
            return;
        }
        let writes = self.writes.entry(commit.resource.clone()).or_default();
        if commit.r#type != EventType::Deleted {
            writes.insert(commit.object.clone(), (commit.verb.clone(), commit.user.clone(), event.ms));
            return;
        }
        writes.remove(&*commit.object);
        if let Some(pod) = &commit.pod {
            for claim in claims_of(&commit.object, pod) {
                self.pods.insert(claim, format!("pod/{} was deleted at {}", commit.object, moment(event.ms)));
            }
        } else if commit.pvc.is_some() {
            self.pods.remove(&*commit.object);
        }
    }

    /// Returns the missing act behind a symptom at the end of a run, if it is known. `first` is the object, volume or
    /// leftover that shows it.
    pub fn missing(
        &self,
        model: &RunModel,
        symptom: Symptom,
        first: &str,
        (volume, node): (Option<&str>, Option<&str>),
    ) -> Option<Missing> {
        let (place, (act, _)) = ACTS.iter().enumerate().find(|(_, (_, symptoms))| symptoms.contains(&symptom))?;
        let remover = REMOVERS.iter().find(|(part, _)| *act == "removal of the finalizer" && first.contains(part));
        let act = match remover {
            Some((part, by)) => format!("{act} {part} by {by}"),
            None => (*act).to_owned(),
        };
        let of = match volume {
            Some(volume) if !first.contains(volume) => format!("{volume} ({first})"),
            _ => first.to_owned(),
        };
        let on = node.filter(|node| !of.contains(*node)).map(|node| format!(" on {node}")).unwrap_or_default();
        let claim = volume.and_then(|volume| model.objects.volume_of(volume)?.state.claim.as_deref());
        let after =
            claim.and_then(|claim| self.pods.get(claim)).map(|pod| format!(", after {pod}")).unwrap_or_default();
        let mut text = format!("expected: {act} for {of}{on}{after}");
        if let Some(call) = volume.and_then(|volume| self.calls.get(volume)) {
            text += &format!("; the last call was {call}");
        }
        if let Some(write) = self.write(model, first, volume) {
            text += &format!("; the last write was {write}");
        }
        Some(Missing { place, act, text })
    }

    /// Returns the last write of the object that a symptom names, or of the volume's PersistentVolume.
    fn write(&self, model: &RunModel, first: &str, volume: Option<&str>) -> Option<String> {
        let of = |resource: &str, key: &str| {
            let (verb, user, ms) = self.writes.get(resource)?.get(key)?;
            let user = user.split('/').next().unwrap_or_default();
            Some(format!("that of {resource}/{key}: {verb} by {user} at {}", moment(*ms)))
        };
        let named = first.trim_end_matches(':').split_once('/').and_then(|(kind, name)| {
            let name = name.split([':', ' ']).next()?;
            match kind {
                "volumeattachment" => of("volumeattachments", name),
                "pv" | "persistentvolume" => of("persistentvolumes", name),
                "pvc" => of("persistentvolumeclaims", &super::attribution::namespaced(name)),
                "pod" => of("pods", &super::attribution::namespaced(name)),
                _ => None,
            }
        });
        let bare = || of("volumeattachments", first).or_else(|| of("persistentvolumes", first));
        named.or_else(bare).or_else(|| of("persistentvolumes", model.objects.pv_of(volume?)?))
    }
}

/// Formats a time of the run: `12.345s`.
fn moment(ms: u64) -> String {
    format!("{}.{:03}s", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_apiserver::events;
    use substrate::world::{Options, simulate};

    use super::*;

    fn act(symptom: Symptom, first: &str) -> Option<String> {
        Last::default().missing(&RunModel::default(), symptom, first, (None, None)).map(|missing| missing.act)
    }

    #[test]
    fn the_symptoms_of_one_omission_name_the_same_act() {
        use Symptom::*;

        for (wanted, symptoms) in [
            ("NodeUnpublishVolume", &[AwaitsUnpublish, PodMountLeft][..]),
            ("NodeUnstageVolume", &[AwaitsUnstage, MountLeft]),
            ("ControllerUnpublishVolume", &[AwaitsDetach, DeviceLeft, CloudAttachmentLeft, AttachedInCloudOnly]),
            ("deletion of the VolumeAttachment", &[AttachmentUnwanted, VolumeAttachmentLeft]),
            ("removal of the staging or target directory", &[DirectoryLeft]),
            ("DeleteVolume", &[CloudVolumeLeft]),
        ] {
            for symptom in symptoms {
                assert_eq!(act(*symptom, "vol-1").as_deref(), Some(wanted), "{symptom:?}");
            }
        }
        assert_eq!(
            act(FinalizerLeft, "pvc/data: [\"kubernetes.io/pvc-protection\"]").as_deref(),
            Some("removal of the finalizer pvc-protection by kube-controller-manager"),
        );
        assert_eq!(act(NodeNotReady, "node/node-a"), None);
    }

    #[test]
    fn a_mount_of_a_pod_is_another_symptom_than_a_staging_mount() {
        let symptoms = |mounts: &[&str]| {
            let mounts = mounts.iter().map(|&mount| mount.to_owned()).collect();
            let left = crate::invariants::Leftovers { mounts, ..Default::default() };
            left.sentences().into_iter().map(|(symptom, ..)| symptom).collect::<Vec<_>>()
        };
        assert_eq!(symptoms(&["node-a: /var/lib/kubelet/plugins/x/globalmount", "node-b: /y"]), [Symptom::MountLeft]);
        assert_eq!(symptoms(&["node-a: /var/lib/kubelet/pods/u/volumes/v/mount"]), [Symptom::PodMountLeft]);
    }

    #[test]
    fn a_sentence_has_the_last_call_and_the_deletion_of_the_pod() {
        let events = simulate(Options::default(), async |world| {
            let tell = world.trace();
            let apiserver = "fake-apiserver".into();
            let (claim, handle) = (Some("default/data".into()), Some("vol-1".into()));
            let pv = Some(Box::new(events::Volume { claim, handle, ..Default::default() }));
            let commit = Commit::new("persistentvolumes", "pvc-1", 1, EventType::Added);
            tell.info(&apiserver, Commit { pv, user: "csi-provisioner/v6".into(), verb: "create".into(), ..commit });
            let (rpc, volume, node) = ("NodeUnpublishVolume", Some("vol-1".into()), Some("node-a".into()));
            let call = CsiCall { volume, node, ..CsiCall::new(rpc, 1) };
            tell.info(&"node-a/csi-node".into(), call);
            let (rpc, volume, node) = ("NodeUnpublishVolume".into(), Some("vol-1".into()), Some("node-a".into()));
            let done = CsiDone { rpc, volume, node, ordinal: 1, code: "OK".into(), took_ms: 1, message: None };
            tell.info(&"node-a/csi-node".into(), done);
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            let pod = Some(Box::new(events::Pod { claims: vec!["data".into()], ..Default::default() }));
            tell.info(&apiserver, Commit { pod, ..Commit::new("pods", "default/web", 2, EventType::Deleted) });
            tell.events()
        });
        let (mut model, mut last) = (RunModel::default(), Last::default());
        for event in &events {
            model.observe(event);
            last.observe(event);
        }
        let of = (Some("vol-1"), Some("node-a"));
        let missing = last.missing(&model, Symptom::AwaitsUnstage, "vol-1", of).unwrap();
        assert_eq!(
            missing.text,
            "expected: NodeUnstageVolume for vol-1 on node-a, after pod/default/web was deleted at 1.500s; the last call \
             was NodeUnpublishVolume on node-a at 0.000s, answered with OK; the last write was that of \
             persistentvolumes/pvc-1: create by csi-provisioner at 0.000s"
        );
    }
}
