//! Knowledge of control loops about objects, and work that they never do because of missing knowledge.
//!
//! A loop misses an object if its stream is late, or if the stream breaks and restarts after the object has been
//! created and deleted. Most loops check again later. The files of this module cover the loops of upstream that never
//! do.

mod cache;
mod early;
mod kubelets;
mod past;
mod unseen;

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_mock::events::CsiCall;
use fake_apiserver::events::{Commit, WatchClosed, WatchEventType, WatchOpened, WatchSent};
use fake_apiserver::state::EventType;
use serde_json::Value;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{ProcessCrashed, ProcessStarted};
use substrate::json::Text;

use super::attribution::namespaced;
use super::violation::OBJECT;
use crate::model::is_out_of_service;

pub(super) use kubelets::ROUND as STATUS_ROUND;

/// The process of attach-detach and the binder, and the User-Agent of the client that watches for them.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// The process of the attacher, and the User-Agent of its client.
const ATTACHER: &str = "csi-attacher";

/// A node, as kube-controller-manager reads it.
#[derive(Debug, Default, PartialEq)]
struct Node {
    exists: bool,
    ready: bool,
    /// True if a taint evicts pods.
    evicts: bool,
    out_of_service: bool,
    attached: Vec<Text>,
    in_use: Vec<Text>,
}

impl Node {
    fn of(commit: &Commit) -> Self {
        let Some(node) = commit.node.as_ref().filter(|_| commit.r#type != EventType::Deleted) else {
            return Self::default();
        };
        Self {
            exists: true,
            ready: node.ready.as_deref() == Some("True"),
            evicts: node.taints.iter().any(|taint| taint.ends_with(":NoExecute")),
            out_of_service: is_out_of_service(node),
            attached: node.volumes_attached.clone(),
            in_use: node.volumes_in_use.clone(),
        }
    }
}

/// Returns the handle in the name of an attached volume.
pub(super) fn handle(name: &str) -> Option<&str> {
    name.split_once('^').map(|(_, handle)| handle)
}

/// Observed resources with their watchers: the User-Agent up to its first `/`.
const OF: [(&str, &str); 3] = [
    ("csinodes", "kube-scheduler"),
    ("persistentvolumes", "kube-controller-manager"),
    ("pods", "kube-controller-manager"),
];

/// Revisions of an object.
#[derive(Debug)]
struct Revisions {
    first: u64,
    /// The newest revision that its watcher knows; 0 before the first.
    known: u64,
}

/// Knowledge of each watcher.
#[derive(Debug)]
pub(super) struct Staleness {
    /// Resources of the open streams of watchers in [`OF`].
    streams: BTreeMap<(Arc<str>, u64), &'static str>,
    /// By resource and key.
    objects: BTreeMap<&'static str, BTreeMap<Arc<str>, Revisions>>,
    early: early::Early,
    past: past::Past,
    unseen: unseen::Unseen,
    nodes: cache::Cache<Node>,
    kubelets: kubelets::Kubelets,
    /// The volume of each existing claim, as kube-controller-manager reads it; empty before the claim is bound.
    claims: cache::Cache<Option<Text>>,
    /// The volume of each existing claim, as the scheduler reads it.
    scheduled_by: cache::Cache<Option<Text>>,
    /// True for each claim that is protected as the source of a snapshot, as snapshot-controller reads it.
    sources: cache::Cache<bool>,
    /// Existing VolumeAttachments, as the attacher reads them.
    attachments: cache::Cache<Option<Attachment>>,
}

/// A VolumeAttachment.
#[derive(Debug, PartialEq)]
struct Attachment {
    pv: Text,
    node: Text,
    deleting: bool,
}

impl Attachment {
    fn of(commit: &Commit) -> Option<Self> {
        let is = commit.volumeattachment.as_ref().filter(|_| commit.r#type != EventType::Deleted)?;
        Some(Self { pv: is.pv.clone()?, node: is.node.clone()?, deleting: is.deleting })
    }
}

impl Default for Staleness {
    fn default() -> Self {
        Self::new(TimeScale::default())
    }
}

impl Staleness {
    /// Creates the state before the first event; faults divide their delays by `scale`.
    pub fn new(scale: TimeScale) -> Self {
        Self {
            streams: BTreeMap::new(),
            objects: BTreeMap::new(),
            early: early::Early::default(),
            past: past::Past::default(),
            unseen: unseen::Unseen::default(),
            nodes: cache::Cache::new(scale, CONTROLLER_MANAGER, "nodes"),
            kubelets: kubelets::Kubelets::new(scale),
            claims: cache::Cache::new(scale, CONTROLLER_MANAGER, "persistentvolumeclaims"),
            scheduled_by: cache::Cache::new(scale, "kube-scheduler", "persistentvolumeclaims"),
            sources: cache::Cache::new(scale, "snapshot-controller", "persistentvolumeclaims"),
            attachments: cache::Cache::new(scale, ATTACHER, "volumeattachments"),
        }
    }

    /// Returns true if snapshot-controller may have a claim without the finalizer of a source in its cache at `ms`.
    pub fn may_lack_finalizer(&self, claim: &str, ms: u64) -> bool {
        self.sources.may_have(claim, ms, |_, is_source| !is_source)
    }

    /// Returns true if attach-detach may have the out-of-service taint of a node in its cache at `ms`.
    pub fn may_cache_taint(&self, node: &str, ms: u64) -> bool {
        self.nodes.may_have(node, ms, |_, node| node.out_of_service)
    }

    /// Returns true if attach-detach may have a node in its cache at `ms` that is not Ready.
    pub fn may_cache_unready(&self, node: &str, ms: u64) -> bool {
        self.nodes.may_have(node, ms, |_, node| !node.ready)
    }

    /// Returns true if taint eviction may have a taint in its cache at `ms` that evicts pods of a node. Evictions on a
    /// deleted node are not cancelled.
    pub fn may_evict(&self, node: &str, ms: u64) -> bool {
        self.nodes.may_have(node, ms, |_, node| node.evicts || !node.exists)
    }

    /// Returns true if attach-detach may have a node in its cache at `ms` whose `status.volumesAttached` lacks the
    /// volume.
    pub fn may_lack_volume(&self, node: &str, volume: &str, ms: u64) -> bool {
        self.nodes.may_have(node, ms, |_, node| !node.attached.iter().any(|name| handle(name) == Some(volume)))
    }

    /// Returns true if attach-detach may have a node in its cache at `ms` whose `status.volumesInUse` lacks the volume.
    pub fn may_lack_use(&self, node: &str, volume: &str, ms: u64) -> bool {
        self.nodes.may_have(node, ms, |_, node| !node.in_use.iter().any(|name| handle(name) == Some(volume)))
    }

    /// Returns true if, shortly before `ms`, the kubelet of a node may have assumed that a volume is reported in use,
    /// because its cached node lists the volume.
    pub fn kubelet_may_list(&self, node: &str, volume: &str, ms: u64) -> bool {
        self.kubelets.may_list(node, volume, ms)
    }

    /// Returns true if kube-controller-manager may have a claim in its cache at `ms` that is gone.
    pub fn may_have_former_claim(&self, claim: &str, ms: u64) -> bool {
        let gone = self.claims.last(claim, Option::is_none);
        gone.is_some_and(|gone| self.claims.may_have(claim, ms, |revision, is| is.is_some() && revision < gone))
    }

    /// Returns true if the scheduler may have a claim in its cache at `ms` that was bound and is gone.
    pub fn may_schedule_by_former_claim(&self, claim: &str, ms: u64) -> bool {
        let is_bound = |is: &Option<Text>| is.as_ref().is_some_and(|volume| !volume.is_empty());
        let gone = self.scheduled_by.last(claim, Option::is_none);
        gone.is_some_and(|gone| self.scheduled_by.may_have(claim, ms, |revision, is| is_bound(is) && revision < gone))
    }

    /// Returns true if the attacher's cache may have, at `ms`, a terminating VolumeAttachment of its list that no
    /// longer exists.
    pub fn may_have_former_attachment(&self, pv: &str, node: &str, ms: u64) -> bool {
        let waits =
            |is: &Option<Attachment>| is.as_ref().is_some_and(|is| is.deleting && is.pv == pv && is.node == node);
        self.attachments.may_have_former(ms, Option::is_some, waits)
    }

    /// Records an event; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        self.nodes.observe(event, Node::of);
        self.kubelets.observe(event);
        let volume = |commit: &Commit| commit.pvc.as_ref().and_then(|claim| claim.volume.clone()).unwrap_or_default();
        let claim = |commit: &Commit| (commit.r#type != EventType::Deleted).then(|| volume(commit));
        self.claims.observe(event, claim);
        self.scheduled_by.observe(event, claim);
        self.sources.observe(event, |commit| commit.pvc.as_ref().is_some_and(|claim| claim.is_source));
        self.attachments.observe(event, Attachment::of);
        if let Some(opened) = event.get::<WatchOpened>() {
            self.on_opened(event, opened);
        } else if let Some(WatchClosed { stream }) = event.get() {
            self.streams.remove(&(event.process.clone(), *stream));
        } else if let Some(sent) = event.get::<WatchSent>() {
            self.on_sent(event, sent);
        } else if event.is::<ProcessCrashed>() || event.is::<ProcessStarted>() {
            self.streams.retain(|(server, _), _| *server != event.process);
            self.past.observe(event, node_of);
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else {
            self.early.observe(event, &node_of);
            if let Some(CsiCall { rpc, volume: Some(volume), node: Some(node), .. }) = event.get()
                && &**rpc == "ControllerPublishVolume"
            {
                let (past, attachments) = (&mut self.past, &self.attachments);
                past.on_publish(volume, &node_of(node), |pv, node| {
                    let is = |is: &Option<Attachment>| is.as_ref().is_some_and(|is| is.pv == pv && is.node == node);
                    attachments.may_have_former(event.ms, Option::is_some, is)
                });
            } else {
                self.past.observe(event, node_of);
            }
        }
    }

    fn on_opened(&mut self, event: &Event, opened: &WatchOpened) {
        let caller = cache::client(&opened.caller);
        if opened.filtered || opened.namespace.is_some() || opened.node.is_some() || opened.object.is_some() {
            return;
        }
        if (opened.resource.as_str(), caller) == ("persistentvolumeclaims", CONTROLLER_MANAGER) {
            let former = self.claims.outdated(opened.from_rv).flatten().filter(|volume| !volume.is_empty());
            self.past.on_claims_listed(former.map(ToString::to_string));
        }
        let Some((resource, _)) = OF.iter().find(|of| **of == (opened.resource.as_str(), caller)) else { return };
        self.streams.insert((event.process.clone(), opened.stream), resource);
        if *resource == "persistentvolumes" {
            let volumes = self.objects.get(resource);
            self.past.on_opened(opened, |pv| Some(volumes?.get(pv)?.first));
        }
        // A stream follows a list, which contained all objects of that time.
        for revisions in self.objects.get_mut(resource).into_iter().flat_map(BTreeMap::values_mut) {
            if !opened.initial && revisions.first <= opened.from_rv {
                revisions.known = revisions.known.max(opened.from_rv);
            }
        }
    }

    fn on_sent(&mut self, event: &Event, sent: &WatchSent) {
        let Some(object) = sent.object.as_ref().filter(|_| sent.r#type != WatchEventType::Error) else { return };
        let Some(resource) = self.streams.get(&(event.process.clone(), sent.stream)) else { return };
        let objects = self.objects.get_mut(resource);
        if let Some(revisions) = objects.and_then(|objects| objects.get_mut(object)) {
            revisions.known = revisions.known.max(sent.rv);
        }
    }

    fn on_commit(&mut self, commit: &Commit) {
        let known = |objects: &BTreeMap<&str, BTreeMap<Arc<str>, Revisions>>, resource: &str, object: &str| {
            objects.get(resource).and_then(|objects| objects.get(object)).map_or(0, |revisions| revisions.known)
        };
        if let Some((resource, _)) = OF.iter().find(|(resource, _)| *resource == commit.resource.as_str()) {
            let objects = self.objects.entry(resource).or_default();
            objects.entry(commit.object.clone()).or_insert(Revisions { first: commit.rv, known: 0 });
        }
        self.unseen.on_commit(commit, known(&self.objects, "pods", &commit.object) > 0);
        self.past.on_commit(commit);
        self.early.on_commit(commit, |node| known(&self.objects, "csinodes", node));
        if commit.r#type == EventType::Deleted
            && let Some(objects) = self.objects.get_mut(commit.resource.as_str())
        {
            objects.remove(&commit.object);
        }
    }

    /// Returns the claims that are kept for a pod that was never seen, by namespace and name.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.unseen.kept()
    }

    /// Returns the nodes to which a volume was attached for a VolumeAttachment that the attacher had listed and that is
    /// gone.
    pub fn without_attachment<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = String> + 'a {
        self.past.without_attachment(volume)
    }

    /// Returns the reason why the wait for the object at the start of a sentence timed out, if known: the object and
    /// the detail.
    pub fn waits(&self, sentence: &str) -> Option<BTreeMap<&'static str, Value>> {
        let object = sentence.split(' ').next()?;
        if self.past.is_without_attachment(sentence) {
            return Some([("attachedForNobody", true.into())].into());
        }
        let (kind, name) = object.split_once('/')?;
        let key = namespaced(name);
        let detail = match kind {
            "volumeattachment" if self.past.leaves_out(name) => "volumeUnknownAtStart",
            "volumeattachment" if self.past.is_for_former_claim(name) => "formerClaimListed",
            "pod" if self.early.is_one_too_many(&key) => "limitUnknownWhenPlaced",
            "pvc" if self.unseen.kept().any(|claim| claim == key) => "lastPodUnheard",
            _ => return None,
        };
        Some([(OBJECT, object.into()), (detail, true.into())].into())
    }
}

#[cfg(test)]
mod tests {
    use csi_mock::events::CsiDone;
    use fake_apiserver::events::{Claim, CsiNode, Driver, Pod};
    use substrate::{Clock, Level, Trace};

    use super::*;

    /// Events of a cluster, revision by revision.
    struct History {
        trace: Trace,
        rv: u64,
    }

    impl History {
        fn new() -> Self {
            Self { trace: Trace::new(Clock::live(), Level::Info), rv: 0 }
        }

        fn committed(&mut self, resource: &str, object: &str, r#type: EventType, say: impl FnOnce(&mut Commit)) {
            self.rv += 1;
            let mut commit = Commit::new(resource, object, self.rv, r#type);
            say(&mut commit);
            self.trace.info(&"fake-apiserver".into(), commit);
        }

        fn pod(&mut self, name: &str, r#type: EventType, node: Option<&str>) {
            let pod = Pod { claims: vec!["data".into()], node: node.map(Into::into), ..Pod::default() };
            self.committed("pods", &format!("default/{name}"), r#type, |commit| commit.pod = Some(Box::new(pod)));
        }

        /// A pod with a claim of its own.
        fn placed(&mut self, name: &str) {
            let pod = Pod { claims: vec![name.into()], node: Some("node-a".into()), ..Pod::default() };
            self.committed("pods", &format!("default/{name}"), EventType::Modified, |commit| {
                commit.pod = Some(Box::new(pod));
            });
        }

        fn claim(&mut self, verb: &str) {
            self.committed("persistentvolumeclaims", "default/data", EventType::Modified, |commit| {
                (commit.pvc, commit.verb) = (Some(Box::new(Claim::default())), verb.into());
            });
        }

        fn limit(&mut self) {
            let drivers = vec![Driver { limit: Some(1), name: "ebs.csi.aws.com".into() }];
            let csinode = Some(Box::new(CsiNode { drivers }));
            self.committed("csinodes", "node-a", EventType::Modified, |commit| commit.csinode = csinode);
        }

        /// Opens a stream that starts with the current state.
        fn watches(&self, caller: &str, resource: &str, stream: u64) {
            let opened = WatchOpened {
                bookmarks: true,
                caller: format!("{caller}/v1.36.2 (linux/amd64)").into(),
                filtered: false,
                from_rv: self.rv,
                group: "".into(),
                initial: false,
                namespace: None,
                node: None,
                object: None,
                resource: resource.into(),
                stream,
            };
            self.trace.info(&"fake-apiserver".into(), opened);
        }

        /// Sends the newest revision, which is of this object, on the stream.
        fn deliver(&self, object: &str, stream: u64) {
            let sent = WatchSent {
                initial: false,
                object: Some(object.into()),
                rv: self.rv,
                stream,
                r#type: WatchEventType::Modified,
            };
            self.trace.info(&"fake-apiserver".into(), sent);
        }

        fn refused(&self) {
            let done = CsiDone {
                rpc: "ControllerPublishVolume".into(),
                volume: Some("vol-1".into()),
                node: Some("i-1".into()),
                ordinal: 1,
                code: "RESOURCE_EXHAUSTED".into(),
                took_ms: 1,
                message: None,
            };
            self.trace.info(&"csi-controller".into(), done);
        }

        fn ends(self, sentence: &str) -> Option<String> {
            let mut staleness = Staleness::new(TimeScale::default());
            self.trace.events().iter().for_each(|event| staleness.observe(event, |_| "node-a".to_owned()));
            let details = staleness.waits(sentence)?;
            details.into_keys().find(|key| *key != OBJECT).map(str::to_owned)
        }
    }

    /// A claim whose watch by kube-controller-manager began at a revision, and that is created again at once.
    #[test]
    fn a_cache_without_the_deletion_event_still_has_the_former_claim() {
        let has_former = |from_rv: u64, is_delivered: bool| {
            let mut history = History::new();
            for r#type in [EventType::Added, EventType::Deleted, EventType::Added] {
                history.committed("persistentvolumeclaims", "default/data", r#type, |commit| {
                    commit.pvc = Some(Box::new(Claim::default()));
                });
            }
            history.rv = from_rv;
            history.watches(CONTROLLER_MANAGER, "persistentvolumeclaims", 5);
            history.rv = 3;
            if is_delivered {
                history.deliver("default/data", 5);
            }
            let mut staleness = Staleness::default();
            history.trace.events().iter().for_each(|event| staleness.observe(event, |_| "node-a".to_owned()));
            staleness.may_have_former_claim("default/data", u64::MAX)
        };
        assert!(has_former(1, false), "the list was from the past");
        assert!(!has_former(3, false), "the list was fresh");
        assert!(!has_former(2, false), "the claim was gone, and not there yet");
        assert!(!has_former(1, true), "the watch has delivered the new one");
    }

    #[test]
    fn the_scheduler_may_have_a_former_claim_until_its_event() {
        let has_former = |was_bound: bool, reported: &[u64]| {
            let mut history = History::new();
            history.watches("kube-scheduler", "persistentvolumeclaims", 5);
            for (n, r#type) in (1..).zip([EventType::Added, EventType::Deleted, EventType::Added]) {
                let volume = (was_bound && n == 1).then(|| "pvc-1".into());
                history.committed("persistentvolumeclaims", "default/data", r#type, |commit| {
                    commit.pvc = Some(Box::new(Claim { volume, ..Claim::default() }));
                });
                if reported.contains(&n) {
                    history.deliver("default/data", 5);
                }
            }
            let mut staleness = Staleness::default();
            history.trace.events().iter().for_each(|event| staleness.observe(event, |_| "node-a".to_owned()));
            staleness.may_schedule_by_former_claim("default/data", u64::MAX)
        };
        assert!(has_former(true, &[1]), "its watch is late");
        assert!(!has_former(false, &[1]), "the former claim was not bound");
        assert!(!has_former(true, &[1, 2, 3]), "it placed the pod for another reason");
    }

    #[test]
    fn a_pod_is_one_too_many_where_too_many_came_before_the_scheduler_knew_the_limit() {
        #[derive(Clone, Copy, PartialEq)]
        enum Limit {
            Before,
            BeforeAndUndelivered,
            After,
        }
        let one_too_many = |limit: Limit, are_both_early: bool, is_refused: bool| {
            let mut history = History::new();
            history.watches("kube-scheduler", "csinodes", 7);
            history.committed("csinodes", "node-a", EventType::Added, |_| {});
            if limit != Limit::After {
                history.limit();
            }
            if limit == Limit::Before {
                history.deliver("node-a", 7);
            }
            history.placed("one");
            if are_both_early {
                history.placed("two");
            }
            history.limit();
            history.deliver("node-a", 7);
            if !are_both_early {
                history.placed("two");
            }
            if is_refused {
                history.refused();
            }
            history.ends("pod/two is Running within 40m").is_some_and(|detail| detail == "limitUnknownWhenPlaced")
        };
        assert!(one_too_many(Limit::After, true, true));
        assert!(one_too_many(Limit::BeforeAndUndelivered, true, true));
        assert!(!one_too_many(Limit::Before, true, true), "the scheduler could have counted");
        assert!(!one_too_many(Limit::After, false, true), "it could have counted the second one");
        assert!(!one_too_many(Limit::After, true, false), "it fits");
    }

    #[test]
    fn a_claim_is_kept_for_a_pod_that_was_gone_before_it_was_reported() {
        let kept = |delivers: bool, lists: bool, touches: bool| {
            let mut history = History::new();
            history.watches("kube-controller-manager", "pods", 3);
            history.trace.info(&"fake-apiserver".into(), WatchClosed { stream: 3 });
            history.pod("web", EventType::Added, None);
            if delivers {
                history.watches("kube-controller-manager", "pods", 4);
                history.pod("web", EventType::Modified, Some("node-a"));
                history.deliver("default/web", 4);
            }
            history.claim("delete");
            if lists {
                history.watches("kube-controller-manager", "pods", 5);
            }
            history.pod("web", EventType::Deleted, Some("node-a"));
            history.watches("kube-controller-manager", "pods", 6);
            if touches {
                history.claim("patch");
            }
            history.ends("pvc/data is gone within 40m").is_some_and(|detail| detail == "lastPodUnheard")
        };
        assert!(kept(false, false, false));
        assert!(!kept(true, false, false), "the stream has delivered the pod");
        assert!(!kept(false, true, false), "the list had the pod");
        assert!(!kept(false, false, true), "the claim was looked at again");
    }

    #[test]
    fn a_claim_is_looked_at_again_when_another_pod_ends_later() {
        let kept = |first: &str, last: &str| {
            let mut history = History::new();
            history.watches("kube-controller-manager", "pods", 3);
            history.pod("seen", EventType::Added, Some("node-a"));
            history.deliver("default/seen", 3);
            history.trace.info(&"fake-apiserver".into(), WatchClosed { stream: 3 });
            history.pod("unseen", EventType::Added, Some("node-a"));
            history.claim("delete");
            history.pod(first, EventType::Deleted, Some("node-a"));
            history.pod(last, EventType::Deleted, Some("node-a"));
            history.ends("pvc/data is gone within 40m").is_some_and(|detail| detail == "lastPodUnheard")
        };
        assert!(kept("seen", "unseen"));
        assert!(!kept("unseen", "seen"), "the end of a pod that it has seen makes it look again");
    }
}
