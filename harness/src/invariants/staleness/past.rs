//! Mistakes with VolumeAttachments by clients whose first list was stale.
//!
//! An attacher whose first list contains a deleted VolumeAttachment attaches the volume, and no loop detaches it. An
//! attach-detach that does not find the volume of a VolumeAttachment in its first list leaves the attachment out of its
//! actual state of the world, and never deletes it. An attach-detach whose list has a claim that is gone attaches
//! the volume of that claim.

use std::collections::{BTreeMap, BTreeSet};

use fake_apiserver::events::{Commit, WatchOpened};
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;
use substrate::events::ProcessStarted;

use crate::model::{AttachmentName, NodeName, PvName, VolumeId, VolumeOnNode};

/// Missing knowledge of clients. It has its own attachments and handles, because an event reaches it before the model.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The volume and the node of each VolumeAttachment.
    attachments: BTreeMap<AttachmentName, (PvName, NodeName)>,
    /// PersistentVolumes by handle.
    handles: BTreeMap<VolumeId, PvName>,
    /// Volumes that the driver was asked to attach for a VolumeAttachment that the attacher had listed and that is
    /// gone.
    without_attachment: BTreeSet<VolumeOnNode>,
    /// True if kube-controller-manager has started and does not watch volumes yet.
    begins: bool,
    /// VolumeAttachments whose volume was unknown to it at its start.
    left_out: BTreeSet<AttachmentName>,
    /// PersistentVolumes of claims that were outdated in a list of kube-controller-manager.
    of_former_claims: BTreeSet<PvName>,
    /// VolumeAttachments that were created for these volumes.
    for_former_claims: BTreeSet<AttachmentName>,
    /// VolumeAttachments that were created since its start, until it watches claims: its list is known only then.
    created_before_watch: BTreeSet<AttachmentName>,
    /// True from its start until it watches claims.
    lists_claims: bool,
}

impl Past {
    /// Records an event that is not a commit; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        if event.is::<ProcessStarted>() {
            if event.process.starts_with("kube-controller-manager") {
                self.begins = true;
                self.of_former_claims.clear();
                self.for_former_claims.clear();
                self.created_before_watch.clear();
                self.lists_claims = true;
            }
        } else if let Some(AttachmentChanged { volume, instance, state: AttachmentPhase::Detached, .. }) = event.get() {
            self.without_attachment.remove(&VolumeOnNode::new(volume.as_str(), &*node_of(instance.as_str())));
        }
    }

    /// Records that the driver is asked to attach a volume. `listed` returns true if the attacher's cache may have a
    /// VolumeAttachment of a PersistentVolume and a node although it was removed.
    pub fn on_publish(&mut self, volume: &str, node: &str, listed: impl Fn(&str, &str) -> bool) {
        let pv = self.handles.get(volume).cloned().unwrap_or_default();
        let wanted = (pv, NodeName::from(node));
        let is_wanted = self.attachments.values().any(|key| *key == wanted);
        let is_former = !is_wanted && listed(&wanted.0, &wanted.1);
        let key = VolumeOnNode::new(volume, wanted.1);
        if is_former {
            self.without_attachment.insert(key);
        } else {
            self.without_attachment.remove(&key);
        }
    }

    /// Records the volumes of claims that were outdated in a list of kube-controller-manager.
    pub fn on_claims_listed(&mut self, volumes: impl Iterator<Item = String>) {
        self.of_former_claims.extend(volumes.map(|volume| PvName::from(&*volume)));
        self.lists_claims = false;
        for name in std::mem::take(&mut self.created_before_watch) {
            if self.attachments.get(&name).is_some_and(|(pv, _)| self.of_former_claims.contains(pv)) {
                self.for_former_claims.insert(name);
            }
        }
    }

    /// Records that kube-controller-manager starts to watch volumes; `first` gives the first revision of one.
    pub fn on_opened(&mut self, opened: &WatchOpened, first: impl Fn(&str) -> Option<u64>) {
        if std::mem::take(&mut self.begins) {
            let is_new = |pv: &str| first(pv).is_some_and(|first| first > opened.from_rv);
            let unknown = self.attachments.iter().filter(|(_, (pv, _))| is_new(pv));
            self.left_out = unknown.map(|(name, _)| name.clone()).collect();
        }
    }

    /// Records a commit.
    pub fn on_commit(&mut self, commit: &Commit) {
        let (object, deleted) = (&*commit.object, commit.r#type == EventType::Deleted);
        if let Some(attachment) = &commit.volumeattachment {
            if deleted {
                self.attachments.remove(object);
                self.left_out.remove(object);
                self.for_former_claims.remove(object);
            } else if let (Some(pv), Some(node)) = (&attachment.pv, &attachment.node) {
                let is_new = self.attachments.insert(object.into(), (pv.into(), node.into())).is_none();
                if is_new && self.of_former_claims.contains(pv.as_str()) {
                    self.for_former_claims.insert(object.into());
                } else if is_new && self.lists_claims {
                    self.created_before_watch.insert(object.into());
                }
            }
        } else if let Some(handle) = commit.pv.as_ref().and_then(|pv| pv.handle.as_ref()) {
            if deleted {
                self.handles.remove(handle.as_str());
            } else {
                self.handles.insert(handle.into(), object.into());
            }
        }
    }

    /// Returns true if attach-detach has left out the VolumeAttachment.
    pub fn leaves_out(&self, attachment: &str) -> bool {
        self.left_out.contains(attachment)
    }

    /// Returns true if attach-detach created the VolumeAttachment after a list with a claim that was gone.
    pub fn is_for_former_claim(&self, attachment: &str) -> bool {
        self.for_former_claims.contains(attachment)
    }

    /// Returns the nodes to which a volume was attached for a VolumeAttachment that is gone.
    pub fn without_attachment<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = String> + 'a {
        self.without_attachment.iter().filter(move |key| key.volume == *volume).map(|key| key.node.to_string())
    }

    /// Returns true if a sentence begins with a volume on a node where no VolumeAttachment wanted it.
    pub fn is_without_attachment(&self, sentence: &str) -> bool {
        self.without_attachment
            .iter()
            .any(|VolumeOnNode { volume, node }| sentence.starts_with(&format!("{volume} on {node} is attached")))
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Attachment, Volume};

    use super::*;

    fn with_attachment() -> Past {
        let mut past = Past::default();
        let pv = Volume { handle: Some("vol-1".into()), ..Volume::default() };
        past.on_commit(&Commit {
            pv: Some(Box::new(pv)),
            ..Commit::new("persistentvolumes", "pvc-1", 1, EventType::Added)
        });
        past.on_commit(&attachment(EventType::Added));
        past
    }

    fn attachment(r#type: EventType) -> Commit {
        let is = Attachment { node: Some("node-a".into()), pv: Some("pvc-1".into()), ..Attachment::default() };
        Commit { volumeattachment: Some(Box::new(is)), ..Commit::new("volumeattachments", "csi-1", 1, r#type) }
    }

    #[test]
    fn a_volume_is_attached_for_a_former_claim_only_if_the_list_had_that_claim() {
        let is_for_former = |listed: bool, restarts: bool| {
            let mut past = Past::default();
            past.on_claims_listed(listed.then(|| "pvc-1".to_owned()).into_iter());
            past.on_commit(&attachment(EventType::Added));
            if restarts {
                use substrate::{Clock, Level, Trace};
                let trace = Trace::new(Clock::live(), Level::Info);
                trace.info(&"kube-controller-manager".into(), ProcessStarted { incarnation: 2 });
                trace.events().iter().for_each(|event| past.observe(event, str::to_owned));
            }
            past.is_for_former_claim("csi-1")
        };
        assert!(is_for_former(true, false));
        assert!(!is_for_former(false, false), "it made the same attachment for another reason");
        assert!(!is_for_former(true, true), "the next one has a list of its own");
    }

    #[test]
    fn an_attachment_may_be_created_before_the_claims_are_watched() {
        use substrate::{Clock, Level, Trace};
        let trace = Trace::new(Clock::live(), Level::Info);
        trace.info(&"kube-controller-manager".into(), ProcessStarted { incarnation: 2 });
        let is_for_former = |lists: &[&str]| {
            let mut past = Past::default();
            trace.events().iter().for_each(|event| past.observe(event, str::to_owned));
            past.on_commit(&attachment(EventType::Added));
            lists.iter().for_each(|pv| past.on_claims_listed([(*pv).to_owned()].into_iter()));
            past.is_for_former_claim("csi-1")
        };
        assert!(is_for_former(&["pvc-1"]));
        assert!(!is_for_former(&["pvc-2"]), "the list had the former claim of another volume");
        assert!(!is_for_former(&["pvc-2", "pvc-1"]), "a later list is not why it was created");
    }

    #[test]
    fn a_volume_attached_without_an_attachment_has_no_user() {
        let sentence = "vol-1 on node-a is attached in the cloud, and not attached by its VolumeAttachment";
        let mut past = with_attachment();
        past.on_publish("vol-1", "node-a", |_, _| true);
        assert!(!past.is_without_attachment(sentence));
        past.on_publish("vol-1", "node-b", |_, _| true);
        assert!(!past.is_without_attachment(sentence), "that is another node");
        past.on_commit(&attachment(EventType::Deleted));
        past.on_publish("vol-1", "node-a", |_, _| false);
        assert!(!past.is_without_attachment(sentence), "the attacher did not have the former one");
        past.on_publish("vol-1", "node-a", |pv, node| (pv, node) == ("pvc-1", "node-a"));
        assert!(past.is_without_attachment(sentence));
        past.on_commit(&attachment(EventType::Added));
        past.on_publish("vol-1", "node-a", |_, _| true);
        assert!(!past.is_without_attachment(sentence), "it is wanted again");
    }

    #[test]
    fn volumes_unknown_to_attach_detach_are_left_out() {
        let left_out = |begins: bool, from_rv: u64| {
            let mut past = Past { begins, ..with_attachment() };
            let opened = WatchOpened {
                bookmarks: true,
                caller: "kube-controller-manager/v1.36.2".into(),
                filtered: false,
                from_rv,
                group: "".into(),
                initial: false,
                namespace: None,
                node: None,
                object: None,
                resource: "persistentvolumes".into(),
                stream: 1,
            };
            past.on_opened(&opened, |_| Some(10));
            past.leaves_out("csi-1")
        };
        assert!(left_out(true, 9));
        assert!(!left_out(true, 10), "the list had it");
        assert!(!left_out(false, 9), "it goes on with what it knew");
    }
}
