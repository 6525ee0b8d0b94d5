//! Results that the workloads of a cluster report through the trace.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};

use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadSynced};
use csi_disk::events::DiskCrashed;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

/// Maximum number of deleted pods whose results are kept, because a cluster that runs for days has many.
const MOST_GONE: usize = 1_000;

/// Results of each pod's workload.
#[derive(Debug, Default)]
pub(super) struct WorkloadResults(Mutex<Pods>);

#[derive(Debug, Default)]
struct Pods {
    /// Results by `namespace/name`.
    results: BTreeMap<String, PodResults>,
    /// Deleted pods, oldest first.
    gone: VecDeque<String>,
}

impl Pods {
    fn of(&mut self, pod: &str) -> &mut PodResults {
        self.results.entry(pod.to_owned()).or_default()
    }

    /// Drops the results of the pods on a machine that lost power, because their writers start again.
    fn crash(&mut self, node: &str) {
        self.results.retain(|_, results| results.node != node);
    }

    /// Records that a pod was deleted, and drops the results of the oldest one beyond the limit.
    fn bury(&mut self, pod: &str) {
        // A pod of the same name may have been deleted before.
        self.gone.retain(|gone| gone != pod);
        if self.results.contains_key(pod) {
            self.gone.push_back(pod.to_owned());
        }
        if self.gone.len() > MOST_GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.results.remove(&oldest);
        }
    }
}

#[derive(Debug, Default)]
struct PodResults {
    /// Node of the writers.
    node: String,
    found: Option<(u64, bool)>,
    synced: u64,
}

impl WorkloadResults {
    pub(super) fn observe(&self, event: &Event) {
        if let Some(WorkloadStarted { pod, node, records_found: found, verified, .. }) = event.get() {
            // A pod with several claims starts one writer for each; the worst result counts.
            let mut pods = self.pods();
            pods.gone.retain(|gone| *gone != **pod);
            let results = pods.of(pod);
            results.node = node.to_string();
            results.found = Some(match results.found {
                Some((before, intact)) if results.synced == 0 => (before.min(*found), intact && *verified),
                _ => (*found, *verified),
            });
            results.synced = 0;
        } else if let Some(WorkloadCorrupt { pod, .. }) = event.get() {
            let mut pods = self.pods();
            let results = pods.of(pod);
            results.found = Some((results.found.map_or(0, |f| f.0), false));
        } else if let Some(WorkloadSynced { pod, record, .. }) = event.get() {
            let mut pods = self.pods();
            let results = pods.of(pod);
            results.synced = results.synced.max(*record);
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.pods().crash(node);
        } else if let Some(commit) = event.get::<Commit>()
            && &*commit.resource == "pods"
        {
            match commit.r#type {
                // A pod of the same name has written nothing yet.
                EventType::Added => drop(self.pods().results.remove(&*commit.object)),
                EventType::Deleted => self.pods().bury(&commit.object),
                _ => {}
            }
        }
    }

    pub(super) fn found(&self, pod: &str) -> Option<(u64, bool)> {
        self.pods().results.get(pod).and_then(|results| results.found)
    }

    pub(super) fn synced(&self, pod: &str) -> u64 {
        self.pods().results.get(pod).map_or(0, |results| results.synced)
    }

    fn pods(&self) -> MutexGuard<'_, Pods> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::{Clock, Level, Trace};

    use super::*;

    #[test]
    fn of_pods_that_were_deleted_long_ago_nothing_is_kept() {
        let results = Arc::new(WorkloadResults::default());
        let trace = Trace::new(Clock::live(), Level::Info);
        let into = results.clone();
        trace.observe(move |event| into.observe(event));
        let wrote = |pod: &str| {
            let (node, volume) = ("node-a".into(), "vol-1".into());
            let started = WorkloadStarted { pod: pod.into(), node, volume, records_found: 3, verified: true };
            trace.info(&"node-a".into(), started);
        };
        let deleted = |pod: &str| {
            let commit = Commit::new("pods", pod, 1, EventType::Deleted);
            trace.info(&"fake-apiserver".into(), commit);
        };
        wrote("default/stays");
        wrote("default/again");
        deleted("default/again");
        wrote("default/again");
        for round in 0..MOST_GONE + 50 {
            wrote(&format!("default/job-{round}"));
            deleted(&format!("default/job-{round}"));
        }
        for (pod, found) in [
            ("default/stays", Some((3, true))),
            ("default/again", Some((3, true))),
            ("default/job-49", None),
            ("default/job-50", Some((3, true))),
        ] {
            assert_eq!(results.found(pod), found, "{pod}");
        }
        let pods = results.pods();
        assert_eq!((pods.results.len(), pods.gone.len()), (MOST_GONE + 2, MOST_GONE));
    }
    #[test]
    fn a_writer_that_begins_again_has_written_nothing() {
        let results = Arc::new(WorkloadResults::default());
        let trace = Trace::new(Clock::live(), Level::Info);
        let into = results.clone();
        trace.observe(move |event| into.observe(event));
        let wrote = |pod: &str, node: &str| {
            let (node, volume): (Arc<str>, Arc<str>) = (node.into(), "vol-1".into());
            let (found, on) = (node.clone(), volume.clone());
            let started =
                WorkloadStarted { pod: pod.into(), node: found, volume: on, records_found: 0, verified: true };
            trace.info(&"node-a".into(), started);
            trace.info(&"node-a".into(), WorkloadSynced { pod: pod.into(), node, volume, record: 2 });
        };
        wrote("default/falls", "node-a");
        wrote("default/stays", "node-b");
        wrote("default/again", "node-b");
        trace.info(&"cluster".into(), DiskCrashed { node: "node-a".into() });
        trace.info(&"fake-apiserver".into(), Commit::new("pods", "default/again", 1, EventType::Deleted));
        assert_eq!(results.synced("default/again"), 2, "the results of a deleted pod stay");
        trace.info(&"fake-apiserver".into(), Commit::new("pods", "default/again", 2, EventType::Added));
        let of = |pod: &str| (results.found(pod), results.synced(pod));
        assert_eq!(of("default/falls"), (None, 0));
        assert_eq!(of("default/stays"), (Some((0, true)), 2));
        assert_eq!(of("default/again"), (None, 0));
    }
}
