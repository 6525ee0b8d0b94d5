//! Stored objects as a client may have them in its cache.
//!
//! Upstream's loops read informers. A loop may act on a revision that is no longer stored, as long as the next one can
//! be in transit. The API server reports when it wrote an event to the stream. An event counts as received a second
//! later, or when the faults that delayed it have ended. A list contains all objects, at the revision from which the
//! following stream starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::{Commit, ListWasStale, WatchEventType, WatchOpened, WatchSent};
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::fault::{Effect, Span, wild};
use substrate::json::Text;

use crate::invariants::stale_reads::MAKE_LATE;
use crate::spec::names::CONTROLLERS;

/// Time in milliseconds after which an event has been received, if no fault delays it. Latencies are far below.
const TRAVEL: u64 = 1_000;
/// The process of the API server.
const APISERVER: &str = "fake-apiserver";
/// Time in milliseconds for which earlier deliveries are kept: a loop may act on the state that it read one round
/// before.
const KEPT: u64 = 60_000;
/// Maximum silence of a stream in milliseconds before its reader opens another one.
const SILENCE: u64 = 20 * 60 * 1_000;

/// A revision that was sent to the watcher.
#[derive(Clone, Copy, Debug)]
struct News {
    /// Time at which it has been received, in milliseconds.
    arrives: u64,
    revision: u64,
}

/// An object: its stored states, and the revisions that were sent to its watcher.
#[derive(Debug)]
struct Object<S> {
    /// Revisions at which the state changed.
    changes: Vec<(u64, S)>,
    deliveries: Vec<News>,
}

/// The objects of one resource, and the stream of the client that watches them.
#[derive(Debug)]
pub(super) struct Cache<S> {
    scale: TimeScale,
    /// The client's name, with which its User-Agent starts.
    watcher: &'static str,
    process: String,
    resource: &'static str,
    /// The one object that the client watches, if it does not watch all.
    object: Option<Text>,
    objects: BTreeMap<Arc<str>, Object<S>>,
    /// Revisions of lists, which contain all objects.
    base: Vec<News>,
    stream: Option<(Arc<str>, u64)>,
    /// Time until which faults delay sent events.
    held_until: u64,
    /// True if the last list was stale, and its stream is not open yet.
    is_from_the_past: bool,
}

impl<S: PartialEq> Cache<S> {
    /// Creates a cache without objects; faults divide their delays by `scale`.
    pub fn new(scale: TimeScale, watcher: &'static str, resource: &'static str) -> Self {
        Self {
            scale,
            watcher,
            process: watcher.to_owned(),
            resource,
            object: None,
            objects: BTreeMap::new(),
            base: Vec::new(),
            stream: None,
            held_until: 0,
            is_from_the_past: false,
        }
    }

    /// Creates the cache of a process that watches one object.
    pub fn of_object(
        scale: TimeScale,
        watcher: &'static str,
        process: String,
        resource: &'static str,
        object: Text,
    ) -> Self {
        Self { process, object: Some(object), ..Self::new(scale, watcher, resource) }
    }

    /// Records an event; `state` gives the state of the object in a commit of the resource.
    pub fn observe(&mut self, event: &Event, state: impl Fn(&Commit) -> S) {
        if let Some(opened) = event.get::<WatchOpened>() {
            self.on_opened(event, opened);
        } else if let Some(sent) = event.get::<WatchSent>() {
            self.on_sent(event, sent);
        } else if let Some(commit) = event.get::<Commit>() {
            if commit.resource == self.resource {
                self.stored(&commit.object, commit.rv, state(commit));
            }
        } else if let Some(ListWasStale { caller, resource }) = event.get() {
            self.is_from_the_past |= resource == self.resource && client(caller) == self.watcher;
        } else if let Some(fired) = event.get::<FaultFired>().filter(|fired| self.is_hit(event, fired)) {
            match &fired.effect {
                Effect::Delay(Span(delay)) if MAKE_LATE.contains(&fired.op.as_str()) => {
                    let delay = millis(self.scale.apply(*delay));
                    self.hold(event.ms, event.ms + delay + TRAVEL);
                }
                Effect::Partition(_)
                | Effect::PartitionOneWay(_)
                | Effect::StallStream(_)
                | Effect::Hang(_)
                | Effect::Watch(_) => self.hold(event.ms, event.ms + SILENCE),
                _ => {}
            }
        } else if event.is::<ProcessStarted>() && *event.process == *self.process {
            // A cache starts empty.
            self.base.clear();
            self.is_from_the_past = false;
            self.stream = None;
            self.objects.values_mut().for_each(|object| object.deliveries.clear());
        }
    }

    /// Returns true if a fault may delay events of the API server for the watcher.
    fn is_hit(&self, event: &Event, fired: &FaultFired) -> bool {
        if let Effect::Partition([a, b]) | Effect::PartitionOneWay([a, b]) = &fired.effect {
            // A partition is reported only once, at the first call that it drops, which can be a call of any process
            // behind its ends.
            let is_cut = |one: &str, other: &str| stands_for(one, &self.process) && is_apiserver(other);
            return is_cut(a, b) || is_cut(b, a);
        }
        let of_resource = fired.attribute("resource").is_none_or(|resource| resource == self.resource);
        let caller = fired.attribute("userAgent").or(fired.attribute("caller")).unwrap_or(&event.process);
        let is_ours = client(caller).starts_with(self.watcher) || caller == self.process || caller == APISERVER;
        of_resource && is_ours
    }

    /// Delays events that are in transit at `ms`, and those that are sent before `until`.
    fn hold(&mut self, ms: u64, until: u64) {
        self.held_until = self.held_until.max(until);
        let deliveries = self.objects.values_mut().flat_map(|object| &mut object.deliveries).chain(&mut self.base);
        for news in deliveries.filter(|news| news.arrives > ms) {
            news.arrives = news.arrives.max(until);
        }
    }

    fn on_opened(&mut self, event: &Event, opened: &WatchOpened) {
        let is_ours = (opened.resource.as_str(), client(&opened.caller)) == (self.resource, self.watcher);
        if !is_ours || opened.filtered || opened.object != self.object {
            return;
        }
        self.stream = Some((event.process.clone(), opened.stream));
        // The delayed events belonged to the previous stream.
        (self.held_until, self.is_from_the_past) = (0, false);
        if !opened.initial {
            // The reader has the list already.
            forget(&mut self.base, event.ms);
            // A stale list sets the cache back to an older state.
            self.base.retain(|news| news.revision <= opened.from_rv);
            self.base.push(News { arrives: event.ms, revision: opened.from_rv });
        }
    }

    fn on_sent(&mut self, event: &Event, sent: &WatchSent) {
        let of =
            self.stream.as_ref().is_some_and(|(server, stream)| (server, *stream) == (&event.process, sent.stream));
        if let Some(object) = sent.object.as_ref().filter(|_| of && sent.r#type != WatchEventType::Error) {
            self.delivered(object, sent.rv, event.ms);
        }
    }

    /// Records that the stream sends a revision of an object at `ms`.
    fn delivered(&mut self, object: &Arc<str>, revision: u64, ms: u64) {
        let Some(object) = self.objects.get_mut(object) else { return };
        forget(&mut object.deliveries, ms);
        object.deliveries.push(News { arrives: (ms + TRAVEL).max(self.held_until), revision });
    }

    /// Records that an object is stored in a state at a revision.
    fn stored(&mut self, object: &Arc<str>, revision: u64, state: S) {
        let new = || Object { changes: Vec::new(), deliveries: Vec::new() };
        let object = self.objects.entry(object.clone()).or_insert_with(new);
        if object.changes.last().is_none_or(|(_, was)| *was != state) {
            object.changes.push((revision, state));
        }
    }

    /// Returns the last revision at which an object changed to a state that `is` accepts.
    pub fn last(&self, object: &str, is: impl Fn(&S) -> bool) -> Option<u64> {
        let changes = &self.objects.get(object)?.changes;
        changes.iter().rev().find(|(_, state)| is(state)).map(|(revision, _)| *revision)
    }

    /// Returns true if the client may have the object in its cache at `ms` in a state that `is` accepts. `is` also gets
    /// the revision of the state.
    pub fn may_have(&self, object: &str, ms: u64, is: impl Fn(u64, &S) -> bool) -> bool {
        let Some(object) = self.objects.get(object) else { return false };
        let received = object.deliveries.iter().chain(&self.base).filter(|news| news.arrives <= ms);
        let known = received.map(|news| news.revision).max().unwrap_or(0);
        let at_known = object.changes.iter().rposition(|(revision, _)| *revision <= known).unwrap_or(0);
        object.changes[at_known..].iter().any(|(revision, state)| is(*revision, state))
    }

    /// Returns true if the client's cache may have, at `ms`, an object of its list that no longer exists, in a state
    /// that `is` accepts. `exists` returns true for the states of existing objects.
    pub fn may_have_former(&self, ms: u64, exists: impl Fn(&S) -> bool, is: impl Fn(&S) -> bool) -> bool {
        let listed = self.base.last().map(|news| news.revision);
        self.objects.iter().any(|(name, object)| {
            let Some(gone) = self.last(name, |state| !exists(state)) else { return false };
            // The stream after a stale list reports the deletion only after all earlier changes.
            let had = |listed: u64| {
                let at = object.changes.iter().rev().find(|(revision, _)| *revision <= listed);
                listed < gone && at.is_some_and(|(_, state)| exists(state))
            };
            listed.map_or(self.is_from_the_past, had)
                && self.may_have(name, ms, |revision, state| revision < gone && is(state))
        })
    }

    /// Returns the states, at a revision, of the objects that have changed since.
    pub fn outdated(&self, revision: u64) -> impl Iterator<Item = &S> {
        self.objects.values().filter_map(move |object| {
            let at = object.changes.iter().rposition(|(changed, _)| *changed <= revision)?;
            object.changes.get(at).filter(|_| at + 1 < object.changes.len()).map(|(_, state)| state)
        })
    }
}

/// Returns the client's name in a User-Agent.
pub(super) fn client(caller: &str) -> &str {
    caller.split('/').next().unwrap_or_default()
}

/// Returns true if an end of a partition may be a process, or a replica of it: by name, pattern, node or group.
fn stands_for(end: &str, process: &str) -> bool {
    let has_node = process.strip_prefix(end).is_some_and(|rest| rest.starts_with('/'));
    let in_group = end == CONTROLLERS && !process.contains('/');
    has_node || in_group || wild(end, process) || end.starts_with(process)
}

/// Returns true if an end of a partition may be the API server, which is also a server with a shorter name.
fn is_apiserver(end: &str) -> bool {
    wild(end, APISERVER) || wild(end, "apiserver")
}

/// Drops what was received more than [`KEPT`] before `ms`, except the newest revision of that time.
fn forget(received: &mut Vec<News>, ms: u64) {
    let is_old = |news: &News| news.arrives + KEPT <= ms;
    let newest = received.iter().filter(|news| is_old(news)).map(|news| news.revision).max();
    received.retain(|news| !is_old(news) || Some(news.revision) == newest);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Cache<bool> {
        Cache::new(TimeScale::default(), "kube-controller-manager", "nodes")
    }

    fn may(taints: &Cache<bool>, node: &str, ms: u64) -> bool {
        taints.may_have(node, ms, |_, is| *is)
    }

    /// Returns a node that was tainted in revision 2 and is no longer tainted in revision 3. Its watcher received both
    /// at these milliseconds.
    fn delivered(tainted: u64, removed: Option<u64>) -> (Arc<str>, Cache<bool>) {
        let (node, mut taints) = (Arc::from("node-a"), nodes());
        for (revision, is) in [(1, false), (2, true), (3, false)] {
            taints.stored(&node, revision, is);
        }
        taints.delivered(&node, 2, tainted);
        removed.into_iter().for_each(|ms| taints.delivered(&node, 3, ms));
        (node, taints)
    }

    #[test]
    fn a_taint_is_cached_until_its_removal_has_been_received() {
        let (node, taints) = delivered(10_000, Some(20_000));
        assert!(may(&taints, &node, 20_500), "the removal can be on its way");
        assert!(!may(&taints, &node, 21_000));
        assert!(!may(&taints, &node, 600_000));
        let (node, taints) = delivered(10_000, None);
        assert!(may(&taints, &node, 600_000), "the stream has not delivered the removal");
    }

    #[test]
    fn revisions_older_than_the_known_one_are_not_cached() {
        let (node, taints) = delivered(10_000, Some(20_000));
        let former = |ms| taints.may_have(&node, ms, |revision, is| !*is && revision < 2);
        assert!(former(10_500), "revision 2 can be on its way");
        assert!(!former(11_000));
        assert_eq!((taints.last(&node, |is| *is), taints.last("node-c", |is| *is)), (Some(2), None));
    }

    #[test]
    fn only_a_fault_on_the_way_to_the_watcher_makes_its_news_late() {
        use substrate::{Clock, Level, Trace};
        let late = |process: &str, attributes: &[(&str, &str)]| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let hang = FaultFired::new("slow", "watch-event", Effect::Hang(true));
            trace.info(&process.into(), FaultFired { attributes, ..hang });
            let (node, mut taints) = delivered(0, None);
            trace.events().iter().for_each(|event| taints.observe(event, |_| false));
            taints.delivered(&node, 3, 10_000);
            may(&taints, &node, 60_000)
        };
        let manager = "kube-controller-manager/v1.36.2 (linux/amd64)";
        assert!(late("fake-apiserver", &[("resource", "nodes"), ("userAgent", manager)]));
        assert!(late("kube-controller-manager", &[("caller", "kube-controller-manager"), ("to", "fake-apiserver")]));
        assert!(late("fake-apiserver", &[]), "the server itself hangs");
        assert!(!late("fake-apiserver", &[("resource", "pods"), ("userAgent", manager)]));
        assert!(!late("fake-apiserver", &[("resource", "nodes"), ("userAgent", "kubelet/v1.36.2")]));
        assert!(!late("csi-controller", &[("caller", "csi-attacher")]));
        assert!(!late("mock-ec2", &[]));
    }

    #[test]
    fn only_a_partition_between_the_watcher_and_the_api_server_makes_its_news_late() {
        use substrate::{Clock, Level, Trace};
        let late = |one: &str, other: &str| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let cut = Effect::Partition([one.to_owned(), other.to_owned()]);
            trace.info(&one.into(), FaultFired::new("cut", "request", cut));
            let (node, mut taints) = delivered(0, None);
            trace.events().iter().for_each(|event| taints.observe(event, |_| false));
            taints.delivered(&node, 3, 10_000);
            may(&taints, &node, 60_000)
        };
        for watcher in ["kube-controller-manager", "kube-controller-manager-2", "controllers", "kube-*", "*"] {
            assert!(late(watcher, "apiserver"), "{watcher}");
            assert!(late("fake-apiserver", watcher), "{watcher}");
        }
        assert!(!late("node-b/kubelet", "apiserver"), "it watches on");
        assert!(!late("kube-scheduler", "apiserver"));
        assert!(!late("kube-controller-manager", "csi-controller"));
    }

    #[test]
    fn a_former_object_is_in_a_cache_whose_list_had_it() {
        let has_former = |listed: u64, deliveries: bool, ms: u64| {
            let (node, mut taints) = (Arc::from("node-a"), nodes());
            // The object exists while the state is true.
            for (revision, is) in [(1, true), (2, false), (3, true)] {
                taints.stored(&node, revision, is);
            }
            taints.base = vec![News { arrives: 0, revision: listed }];
            if deliveries {
                taints.delivered(&node, 3, 0);
            }
            taints.may_have_former(ms, |is| *is, |is| *is)
        };
        assert!(has_former(1, false, 60_000));
        assert!(has_former(1, true, 900), "the news is on its way");
        assert!(!has_former(1, true, 1_000), "it has been delivered since");
        assert!(!has_former(2, false, 60_000), "the list did not have it");
        assert!(!has_former(3, false, 60_000), "the list had the present one");
    }

    #[test]
    fn a_fault_holds_what_is_on_its_way_and_no_longer() {
        let (node, mut taints) = delivered(10_000, Some(20_000));
        taints.hold(20_100, 90_000);
        assert!(may(&taints, &node, 89_999));
        assert!(!may(&taints, &node, 90_000));
        // A fault after the receipt of the removal does not delay it.
        let (node, mut taints) = delivered(10_000, Some(20_000));
        taints.hold(30_000, 90_000);
        assert!(!may(&taints, &node, 31_000));
        // An event that is sent while a fault delays the stream arrives when the fault ends.
        let (node, mut taints) = delivered(10_000, None);
        taints.hold(15_000, 90_000);
        taints.delivered(&node, 3, 20_000);
        assert!(may(&taints, &node, 60_000));
        assert!(!may(&taints, &node, 90_000));
    }

    #[test]
    fn a_node_without_the_taint_never_has_it_in_a_cache() {
        let (node, mut taints): (Arc<str>, _) = (Arc::from("node-b"), nodes());
        taints.stored(&node, 1, false);
        taints.hold(0, 90_000);
        assert!(!may(&taints, &node, 5));
        assert!(!may(&taints, "node-c", 5));
        // The same holds for a node that was tainted in a revision that the watcher has passed.
        let (node, taints) = delivered(10_000, Some(11_000));
        assert!(!may(&taints, &node, 12_000));
    }
}
