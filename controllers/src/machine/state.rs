//! State of a machine's pods, as a pure state machine: it does not wait, call or read a clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::api::{
    ContainerRecord, ContainerSpec, ContainerState, Exit, Messages, POD_ADDRESSES, PodRecord, PodSpec, State,
};

/// Result of requesting a pod's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// They must be started.
    Start(PodRecord),
    /// They run, or are about to: no second start.
    Alive(PodRecord),
    /// They have stopped; another start needs another attempt.
    Over(PodRecord),
    /// No address is left for the pod.
    Full,
}

/// Result of requesting another start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// It must be started.
    Start(PodRecord),
    /// It runs, or this attempt has ended: nothing to do.
    Done(PodRecord),
    /// The pod is not running, or has no such container.
    Impossible,
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
        let Some(sandbox) = self.free_sandbox() else { return Asked::Full };
        let before = self.pods.get(&spec.uid);
        let containers = spec.containers.iter().map(|container| {
            let before = before.and_then(|before| before.container(&container.name));
            let last = before.map(|before| before.messages.exit.clone()).unwrap_or_default();
            let (name, image) = (&container.name, &container.image);
            ContainerRecord {
                last: before.and_then(ContainerRecord::exit),
                messages: Messages { exit: String::new(), last },
                ..ContainerRecord::new(name, image, container.attempt, ContainerState::Created)
            }
        });
        // The containers that were added to the pod do not start again.
        let is_added = |one: &&ContainerRecord| spec.containers.iter().all(|listed| listed.name != one.name);
        let added = before.into_iter().flat_map(|before| &before.containers).filter(is_added).cloned();
        let record = PodRecord {
            pod: spec.pod.clone(),
            uid: spec.uid.clone(),
            attempt: spec.attempt,
            sandbox,
            state: State::Starting,
            containers: containers.chain(added).collect(),
        };
        self.sandboxes = sandbox + 1;
        self.pods.insert(spec.uid.clone(), record.clone());
        Asked::Start(record)
    }

    /// Returns the next number of a sandbox whose address no pod has that runs or starts.
    fn free_sandbox(&self) -> Option<u64> {
        let alive = || self.pods.values().filter(|pod| pod.is_alive());
        let is_taken = |number: &u64| alive().any(|pod| pod.sandbox % POD_ADDRESSES == number % POD_ADDRESSES);
        (self.sandboxes..self.sandboxes + POD_ADDRESSES).find(|number| !is_taken(number))
    }

    /// Marks a pod and its containers as running, and its init containers without a program as done.
    pub fn started(&mut self, spec: &PodSpec, now: Timestamp) -> Option<PodRecord> {
        let record = self.pods.get_mut(&spec.uid)?;
        record.state = State::Running { since: now };
        for (container, of) in record.containers.iter_mut().zip(&spec.containers) {
            let done = ContainerState::Exited(Exit { since: now, at: now, code: 0 });
            container.state = match of.init {
                _ if !spec.starts_at_once(of) => ContainerState::Created,
                true => done,
                false => ContainerState::Running { since: now },
            };
        }
        Some(record.clone())
    }

    /// Records the termination message of a container that is about to be marked as exited.
    pub fn left_message(&mut self, uid: &str, container: &str, message: String) {
        let containers = self.pods.get_mut(uid).map(|record| &mut record.containers);
        if let Some(container) = containers.into_iter().flatten().find(|one| one.name == container) {
            container.messages.exit = message;
        }
    }

    /// Marks a container of a running pod as exited.
    pub fn exited(&mut self, uid: &str, container: &str, now: Timestamp, code: i32) -> Option<PodRecord> {
        let record = self.pods.get_mut(uid)?;
        let container = record.containers.iter_mut().find(|one| one.name == container)?;
        let ContainerState::Running { since } = container.state else { return None };
        container.state = ContainerState::Exited(Exit { since, at: now, code });
        Some(record.clone())
    }

    /// Handles a kubelet's request to start a container, for the first time if it waits for init containers.
    pub fn restart(&mut self, uid: &str, container: &str, attempt: u32, now: Timestamp) -> Again {
        let Some(record) = self.pods.get_mut(uid) else { return Again::Impossible };
        let running = matches!(record.state, State::Running { .. });
        let found = record.containers.iter_mut().find(|one| one.name == container);
        let Some(found) = found.filter(|_| running) else { return Again::Impossible };
        match found.state {
            ContainerState::Created => {}
            ContainerState::Exited(exit) if attempt > found.attempt => {
                found.last = Some(exit);
                found.messages.last = std::mem::take(&mut found.messages.exit);
            }
            ContainerState::Running { .. } | ContainerState::Exited(_) => return Again::Done(record.clone()),
        }
        found.attempt = attempt;
        found.state = ContainerState::Running { since: now };
        Again::Start(record.clone())
    }

    /// Records the image with which a container was started again.
    pub fn renewed(&mut self, uid: &str, container: &ContainerSpec) -> Option<PodRecord> {
        let record = self.pods.get_mut(uid)?;
        record.containers.iter_mut().find(|one| one.name == container.name)?.image.clone_from(&container.image);
        Some(record.clone())
    }

    /// Adds a container to a running pod, as running.
    pub fn add(&mut self, uid: &str, added: &ContainerSpec, now: Timestamp) -> Again {
        let Some(record) = self.pods.get_mut(uid) else { return Again::Impossible };
        if record.container(&added.name).is_some() {
            return Again::Done(record.clone());
        }
        if !matches!(record.state, State::Running { .. }) {
            return Again::Impossible;
        }
        let state = ContainerState::Running { since: now };
        record.containers.push(ContainerRecord::new(&added.name, &added.image, added.attempt, state));
        Again::Start(record.clone())
    }

    /// Marks a pod as stopped. All its containers have exited.
    pub fn stopped(&mut self, uid: &str, now: Timestamp) -> Option<PodRecord> {
        let record = self.pods.get_mut(uid)?;
        debug_assert!(
            record.containers.iter().all(|container| !matches!(container.state, ContainerState::Running { .. })),
            "a container outlived its pod: {record:?}"
        );
        record.state = State::Stopped { since: record.since(), at: now };
        Some(record.clone())
    }

    /// Removes a pod whose containers have stopped. Returns true if it existed.
    ///
    /// # Errors
    /// `<namespace>/<name>` of a pod whose containers run.
    pub fn remove(&mut self, uid: &str) -> Result<bool, String> {
        match self.pods.get(uid) {
            Some(alive) if alive.is_alive() => Err(alive.pod.clone()),
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

    fn container(name: &str, attempt: u32) -> ContainerSpec {
        ContainerSpec {
            name: name.to_owned(),
            image: "busybox".to_owned(),
            attempt,
            init: false,
            exit: None,
            gates: false,
            held: false,
            program: None,
        }
    }

    fn spec(uid: &str, attempt: u32) -> PodSpec {
        PodSpec {
            pod: format!("default/{uid}"),
            uid: uid.to_owned(),
            attempt,
            containers: ["app", "side"].map(|name| container(name, attempt)).into(),
            volumes: Vec::new(),
            pace: Pace { write_every_ms: 1, records: 1, idle_every_ms: 1 },
        }
    }

    fn stop(pods: &mut Pods, now: Timestamp) {
        for container in ["app", "side"] {
            pods.exited("u", container, now, 0);
        }
        pods.stopped("u", now);
    }

    #[test]
    fn a_container_that_has_exited_starts_again_once_for_each_attempt() {
        let mut pods = Pods::default();
        assert_eq!(pods.restart("u", "app", 1, at(1)), Again::Impossible);
        pods.ask(&spec("u", 0));
        assert_eq!(pods.restart("u", "app", 1, at(1)), Again::Impossible, "the pod is not running yet");
        pods.started(&spec("u", 0), at(1));
        assert_eq!(pods.restart("u", "other", 1, at(1)), Again::Impossible);
        assert!(matches!(pods.restart("u", "app", 1, at(1)), Again::Done(_)), "it runs");
        let record = pods.exited("u", "app", at(3), 1).expect("a record");
        let exit = Exit { since: at(1), at: at(3), code: 1 };
        assert_eq!(record.containers[0].exit(), Some(exit));
        assert_eq!((record.containers[1].exit(), record.is_alive()), (None, true));
        assert_eq!(pods.exited("u", "app", at(4), 2), None, "it has exited");
        assert!(matches!(pods.restart("u", "app", 0, at(5)), Again::Done(_)), "this attempt has ended");
        let Again::Start(record) = pods.restart("u", "app", 1, at(5)) else { panic!("not started") };
        let app = record.container("app").expect("a container");
        assert_eq!((app.attempt, app.state, app.last), (1, ContainerState::Running { since: at(5) }, Some(exit)));
        assert!(matches!(pods.restart("u", "app", 1, at(6)), Again::Done(_)));
        let other = ContainerSpec { image: "busybox:2".to_owned(), ..container("app", 1) };
        let record = pods.renewed("u", &other).expect("a record");
        let images: Vec<&str> = record.containers.iter().map(|one| one.image.as_str()).collect();
        assert_eq!(images, ["busybox:2", "busybox"]);
        stop(&mut pods, at(7));
        assert_eq!(pods.restart("u", "app", 2, at(8)), Again::Impossible, "the pod has stopped");
        pods.ask(&spec("u", 2));
        let last = pods.get("u").and_then(|record| record.container("app")).and_then(|app| app.last);
        assert_eq!(last, Some(Exit { since: at(5), at: at(7), code: 0 }));
    }

    #[test]
    fn a_termination_message_becomes_that_of_the_exit_before() {
        let mut pods = Pods::default();
        pods.ask(&spec("u", 0));
        pods.started(&spec("u", 0), at(1));
        let messages = |exit: &str, last: &str| Messages { exit: exit.to_owned(), last: last.to_owned() };
        let of =
            |pods: &Pods| pods.get("u").and_then(|pod| pod.container("app")).expect("a container").messages.clone();
        pods.left_message("u", "app", "first".to_owned());
        pods.exited("u", "app", at(2), 1);
        assert_eq!(of(&pods), messages("first", ""));
        pods.restart("u", "app", 1, at(3));
        assert_eq!(of(&pods), messages("", "first"));
        pods.left_message("u", "app", "second".to_owned());
        stop(&mut pods, at(4));
        pods.ask(&spec("u", 2));
        assert_eq!(of(&pods), messages("", "second"));
    }

    #[test]
    fn a_container_that_is_added_runs_once_and_its_end_stays() {
        let (mut pods, debug) = (Pods::default(), container("debug", 0));
        assert_eq!(pods.add("u", &debug, at(1)), Again::Impossible);
        pods.ask(&spec("u", 0));
        assert_eq!(pods.add("u", &debug, at(1)), Again::Impossible, "the pod is not running yet");
        pods.started(&spec("u", 0), at(1));
        let Again::Start(record) = pods.add("u", &debug, at(2)) else { panic!("not started") };
        assert_eq!(record.container("debug").map(|one| one.state), Some(ContainerState::Running { since: at(2) }));
        pods.exited("u", "debug", at(3), 0);
        assert!(matches!(pods.add("u", &debug, at(4)), Again::Done(_)), "it has run");
        stop(&mut pods, at(5));
        let Asked::Start(record) = pods.ask(&spec("u", 1)) else { panic!("not started") };
        let exit = record.container("debug").and_then(ContainerRecord::exit);
        assert_eq!(exit, Some(Exit { since: at(2), at: at(3), code: 0 }));
        pods.started(&spec("u", 1), at(6));
        assert!(matches!(pods.add("u", &debug, at(7)), Again::Done(_)));
    }

    #[test]
    fn the_address_of_a_pod_that_runs_is_not_given_again() {
        let mut pods = Pods::default();
        pods.ask(&spec("long", 0));
        let sandboxes = |pods: &mut Pods, count: u64| -> Vec<u64> {
            let started = (0..count).map(|index| {
                let uid = format!("u{index}");
                let Asked::Start(record) = pods.ask(&spec(&uid, 0)) else { panic!("not started") };
                pods.stopped(&uid, at(1));
                assert_eq!(pods.remove(&uid), Ok(true));
                record.sandbox % POD_ADDRESSES
            });
            started.collect()
        };
        let numbers = sandboxes(&mut pods, 2 * POD_ADDRESSES);
        assert!(!numbers.contains(&0), "the first pod has that address");
        assert_eq!(numbers[..3], [1, 2, 3]);
        for index in 1..POD_ADDRESSES {
            assert!(matches!(pods.ask(&spec(&format!("v{index}"), 0)), Asked::Start(_)), "{index}");
        }
        assert_eq!(pods.ask(&spec("one-more", 0)), Asked::Full);
    }

    #[test]
    fn containers_are_started_once_for_each_attempt() {
        let mut pods = Pods::default();
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Start(_)));
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Alive(record) if record.state == State::Starting));
        pods.started(&spec("u", 0), at(1));
        assert!(matches!(pods.ask(&spec("u", 1)), Asked::Alive(record) if record.since() == Some(at(1))));
        stop(&mut pods, at(2));
        assert!(matches!(pods.ask(&spec("u", 0)), Asked::Over(record) if record.since() == Some(at(1))));
        let again = pods.ask(&spec("u", 1));
        assert!(matches!(&again, Asked::Start(record) if (record.attempt, record.sandbox) == (1, 1)), "{again:?}");
    }

    #[test]
    fn only_what_has_stopped_is_forgotten() {
        let mut pods = Pods::default();
        pods.ask(&spec("u", 0));
        assert!(pods.remove("u").is_err());
        pods.started(&spec("u", 0), at(1));
        assert!(pods.remove("u").is_err());
        stop(&mut pods, at(2));
        assert_eq!((pods.remove("u"), pods.remove("u")), (Ok(true), Ok(false)));
        assert_eq!(pods.list(), []);
    }
}
