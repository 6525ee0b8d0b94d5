//! State of a machine's pods, as a pure state machine: it does not wait, call or read a clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::api::{PodRecord, PodSpec, State};

/// Result of requesting a pod's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// They must be started.
    Start(PodRecord),
    /// They run, or are about to: no second start.
    Alive(PodRecord),
    /// They have stopped; another start needs another attempt.
    Over(PodRecord),
}

/// The pods of a machine, by uid.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pods: BTreeMap<String, PodRecord>,
    sandboxes: u64,
}

impl Pods {
    /// Returns a pod's record.
    pub fn get(&self, uid: &str) -> Option<&PodRecord> {
        self.pods.get(uid)
    }

    /// Returns all pods, ordered by uid.
    pub fn list(&self) -> Vec<PodRecord> {
        self.pods.values().cloned().collect()
    }

    /// Handles a kubelet's request to run a pod's containers.
    pub fn ask(&mut self, spec: &PodSpec) -> Asked {
        if let Some(known) = self.pods.get(&spec.uid) {
            if known.is_alive() {
                return Asked::Alive(known.clone());
            }
            if spec.attempt <= known.attempt {
                return Asked::Over(known.clone());
            }
        }
        let record = PodRecord {
            pod: spec.pod.clone(),
            uid: spec.uid.clone(),
            attempt: spec.attempt,
            sandbox: self.sandboxes,
            state: State::Starting,
        };
        self.sandboxes += 1;
        self.pods.insert(spec.uid.clone(), record.clone());
        Asked::Start(record)
    }

    /// Marks a pod's containers as running.
    pub fn started(&mut self, uid: &str, now: Timestamp) -> Option<PodRecord> {
        let record = self.pods.get_mut(uid)?;
        record.state = State::Running { since: now };
        Some(record.clone())
    }

    /// Marks a pod's containers as stopped.
    pub fn stopped(&mut self, uid: &str, now: Timestamp, killed: bool) -> Option<PodRecord> {
        let record = self.pods.get_mut(uid)?;
        record.state = State::Stopped { since: record.since(), at: now, killed };
        Some(record.clone())
    }

    /// Removes a pod whose containers have stopped. Returns true if it existed.
    ///
    /// # Errors
    /// The record of a pod whose containers run.
    pub fn remove(&mut self, uid: &str) -> Result<bool, PodRecord> {
        match self.pods.get(uid) {
            Some(alive) if alive.is_alive() => Err(alive.clone()),
            _ => Ok(self.pods.remove(uid).is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::Now;

    use super::super::api::Pace;
    use super::*;

    fn at(second: u64) -> Timestamp {
        Now::at(std::time::Duration::from_secs(second)).wall
    }

    fn spec(uid: &str, attempt: u32) -> PodSpec {
        PodSpec {
            pod: format!("default/{uid}"),
            uid: uid.to_owned(),
            attempt,
            containers: Vec::new(),
            volumes: Vec::new(),
            pace: Pace { write_every_ms: 1, records: 1, idle_every_ms: 1 },
        }
    }

    #[test]
    fn containers_are_started_once_for_each_attempt() {
        let mut pods = Pods::default();
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Start(_)));
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Alive(record) if record.state == State::Starting));
        pods.started("u", at(1));
        assert!(matches!(pods.ask(&spec("u", 1)), Asked::Alive(record) if record.since() == Some(at(1))));
        pods.stopped("u", at(2), false);
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Over(record) if record.since() == Some(at(1))));
        let again = pods.ask(&spec("u", 1));
        assert!(matches!(&again, Asked::Start(record) if (record.attempt, record.sandbox) == (1, 1)), "{again:?}");
    }

    #[test]
    fn only_what_has_stopped_is_forgotten() {
        let mut pods = Pods::default();
        pods.ask(&spec("u", 0));
        assert!(pods.remove("u").is_err());
        pods.started("u", at(1));
        assert!(pods.remove("u").is_err());
        pods.stopped("u", at(2), true);
        assert_eq!((pods.remove("u"), pods.remove("u")), (Ok(true), Ok(false)));
        assert_eq!(pods.list(), []);
    }
}
