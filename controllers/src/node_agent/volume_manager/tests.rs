//! Tests of the volume manager against a model of a driver, without a clock or a task.

mod growth;
mod inline;
mod lost;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use substrate::json::json;

use super::actual::MountState;
use super::desired::Sizes;
use super::operation::NodeFacts;
use super::*;

const INITIAL: Duration = Duration::from_millis(500);
const MAX: Duration = Duration::from_secs(122);
const TICK: Duration = Duration::from_millis(100);

/// Answer of the model driver to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Ok,
    Final,
    Uncertain,
}

/// A node: the volume manager, the driver's mounts, and a log of the driver's calls.
struct Rig {
    sizes: Sizes,
    vm: VolumeManager,
    now: Duration,
    staged: BTreeSet<VolumeName>,
    published: BTreeSet<(VolumeName, String)>,
    mapped: BTreeSet<(VolumeName, String)>,
    attached: BTreeSet<String>,
    log: Vec<String>,
    events: Vec<String>,
    /// Scripted answers per step; `Ok` once they are used up.
    script: BTreeMap<Step, Vec<Answer>>,
}

fn pod(uid: &str) -> Arc<Pod> {
    let pod = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid } });
    Arc::new(substrate::json::from_value(pod).expect("a pod"))
}

fn spec(handle: &str, mode: &str) -> Arc<VolumeSpec> {
    let mut spec = VolumeSpec::reconstructed("d", handle, &format!("pv-{handle}"), handle.starts_with("raw"));
    spec.access_modes = vec![mode.to_owned()];
    Arc::new(spec)
}

impl Rig {
    fn new() -> Self {
        let mut vm = VolumeManager::new(INITIAL, MAX);
        vm.reconstruct(&[], Vec::new());
        vm.set_populated();
        Self::of(vm)
    }

    fn of(vm: VolumeManager) -> Self {
        Self {
            vm,
            sizes: Sizes::default(),
            now: Duration::ZERO,
            staged: BTreeSet::new(),
            published: BTreeSet::new(),
            mapped: BTreeSet::new(),
            attached: BTreeSet::new(),
            log: Vec::new(),
            events: Vec::new(),
            script: BTreeMap::new(),
        }
    }

    fn want(&mut self, handle: &str, uid: &str) {
        self.want_mode(handle, uid, "ReadWriteOnce");
    }

    fn want_mode(&mut self, handle: &str, uid: &str, mode: &str) {
        let sizes = self.sizes;
        let mount = DesiredMount { pod: pod(uid), volumes_in_pod: [handle.to_owned()].into(), readonly: false, sizes };
        self.vm.want(spec(handle, mode), true, uid, mount);
    }

    /// Makes the attach-detach controller and the status tick list the volume.
    fn attach(&mut self, handle: &str) {
        self.attached.insert(VolumeName::new("d", handle).to_string());
        self.vm.set_attached_in_status(self.attached.clone());
        self.report();
    }

    fn report(&mut self) {
        let in_use = self.vm.volumes_in_use().unwrap_or_default();
        self.vm.mark_reported_in_use(&in_use.iter().map(String::as_str).collect());
    }

    fn only(&mut self, uids: &[&str]) {
        self.vm.retain_pods(&uids.iter().map(|u| (*u).to_owned()).collect());
    }

    fn answer(&mut self, step: Step) -> Answer {
        match self.script.get_mut(&step) {
            Some(answers) if !answers.is_empty() => answers.remove(0),
            _ => Answer::Ok,
        }
    }

    /// Runs one pass of the reconciler and all operations that it starts.
    fn tick(&mut self) {
        self.now += TICK;
        for operation in self.vm.reconcile(self.now).started {
            let mut next = self.vm.begin(self.now, &operation, NodeFacts::default());
            while let Next::Do(step) = next {
                let result = self.call(&operation, step);
                next = self.vm.advance(self.now, &operation, step, result);
            }
            if let Next::Failed(failure) = next
                && failure.pod.is_some()
            {
                self.events.push(failure.message);
            }
        }
    }

    fn ticks(&mut self, count: usize) {
        for _ in 0..count {
            self.tick();
        }
    }

    /// Plays the driver. `Ok` and `Uncertain` mean that the call took effect. A final error means no mount, or, for a
    /// tear-down, no change.
    fn call(&mut self, operation: &Operation, step: Step) -> Result<(), StepError> {
        let volume = operation.volume().clone();
        let uid = operation.uid().unwrap_or_default().to_owned();
        let answer = self.answer(step);
        let done = answer != Answer::Final;
        match step {
            Step::VerifyControllerAttached | Step::WaitForAttach => {}
            Step::CleanUp => self.log.push(format!("clean up {volume} {uid}")),
            Step::Stage => {
                self.log.push(format!("stage {volume}"));
                if done {
                    self.staged.insert(volume);
                } else {
                    self.staged.remove(&volume);
                }
            }
            Step::Expand => self.log.push(format!("expand {volume}")),
            Step::Publish => {
                self.log.push(format!("publish {volume} {uid}"));
                if done {
                    let inline = volume == VolumeName::of_pod(&uid, "scratch");
                    assert!(inline || self.staged.contains(&volume), "published before it was staged");
                    self.published.insert((volume, uid));
                } else {
                    self.published.remove(&(volume, uid));
                }
            }
            Step::Map => {
                self.log.push(format!("map {volume} {uid}"));
                assert!(self.published.contains(&(volume.clone(), uid.clone())), "mapped before it was published");
                if done {
                    self.mapped.insert((volume, uid));
                }
            }
            Step::Unmap => {
                self.log.push(format!("unmap {volume} {uid}"));
                if done {
                    self.mapped.remove(&(volume, uid));
                }
            }
            Step::Unpublish => {
                assert!(!self.mapped.contains(&(volume.clone(), uid.clone())), "unpublished while it is mapped");
                self.log.push(format!("unpublish {volume} {uid}"));
                if done {
                    self.published.remove(&(volume, uid));
                }
            }
            Step::Unstage => {
                self.log.push(format!("unstage {volume}"));
                let used = self.published.iter().any(|(v, _)| *v == volume);
                assert!(!used, "unstaged while it is published");
                if done {
                    self.staged.remove(&volume);
                }
            }
        }
        match answer {
            Answer::Ok => Ok(()),
            Answer::Final => Err(StepError::Final("no".to_owned())),
            Answer::Uncertain => Err(StepError::Uncertain("maybe".to_owned())),
        }
    }

    fn log(&self) -> Vec<String> {
        self.log.iter().map(|line| line.replace("kubernetes.io/csi/d^", "")).collect()
    }
}

#[test]
fn a_volume_is_staged_then_published_and_taken_down_in_reverse() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(3);
    assert_eq!(rig.vm.unmounted("p", &["v".to_owned()]), Vec::<&str>::new());
    rig.only(&[]);
    rig.ticks(3);
    assert_eq!(rig.log(), ["stage v", "publish v p", "unpublish v p", "unstage v"]);
    assert_eq!(rig.vm.volumes_in_use(), Some(vec![]));
}

#[test]
fn a_mount_waits_until_node_status_lists_the_volume_attached_and_in_use() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.ticks(5);
    assert_eq!(rig.vm.volumes_in_use(), Some(vec!["kubernetes.io/csi/d^v".to_owned()]));
    // Attached, but not yet reported in use by a status tick.
    rig.attached.insert("kubernetes.io/csi/d^v".to_owned());
    rig.vm.set_attached_in_status(rig.attached.clone());
    rig.ticks(5);
    assert!(rig.log.is_empty() && rig.vm.actual().volumes().next().is_none());
    assert_eq!(rig.vm.retry_at(), None, "a precondition builds up no backoff");
    rig.report();
    rig.ticks(2);
    assert_eq!(rig.log(), ["stage v", "publish v p"]);
}

#[test]
fn a_volume_stays_in_use_until_its_device_is_unmounted() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(3);
    rig.only(&[]);
    rig.script.insert(Step::Unstage, vec![Answer::Final]);
    rig.ticks(2);
    assert_eq!(rig.log().last().map(String::as_str), Some("unstage v"));
    assert_eq!(rig.vm.volumes_in_use(), Some(vec!["kubernetes.io/csi/d^v".to_owned()]));
    rig.ticks(10);
    assert_eq!(rig.vm.volumes_in_use(), Some(vec![]));
    assert!(rig.staged.is_empty());
}

#[test]
fn an_uncertain_stage_is_unstaged_when_the_pod_goes() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.script.insert(Step::Stage, vec![Answer::Uncertain]);
    rig.ticks(2);
    assert_eq!(rig.vm.actual().get(&VolumeName::new("d", "v")).map(|v| v.device), Some(MountState::Uncertain));
    rig.only(&[]);
    rig.ticks(10);
    assert_eq!(rig.log(), ["stage v", "unstage v"]);
}

#[test]
fn a_final_stage_error_is_not_unstaged() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.script.insert(Step::Stage, vec![Answer::Final]);
    rig.ticks(2);
    assert_eq!(rig.events, ["MountVolume.MountDevice failed for volume \"pv-v\" : no"]);
    rig.only(&[]);
    rig.ticks(10);
    assert_eq!(rig.log(), ["stage v"]);
}

#[test]
fn a_final_error_after_an_uncertain_one_clears_the_doubt() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.script.insert(Step::Stage, vec![Answer::Uncertain, Answer::Final]);
    // The second try comes after 500 ms of backoff.
    rig.ticks(9);
    rig.staged.clear();
    rig.only(&[]);
    rig.ticks(10);
    assert_eq!(rig.log(), ["stage v", "stage v"]);
}

#[test]
fn an_uncertain_publish_is_unpublished_and_unstaged_when_the_pod_goes() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.script.insert(Step::Publish, vec![Answer::Uncertain]);
    rig.ticks(2);
    assert!(!rig.vm.is_unmounted("p"));
    rig.only(&[]);
    rig.ticks(10);
    assert_eq!(rig.log(), ["stage v", "publish v p", "unpublish v p", "unstage v"]);
}

#[test]
fn a_failed_unstage_makes_the_next_use_stage_again() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(3);
    rig.only(&[]);
    rig.script.insert(Step::Unstage, vec![Answer::Uncertain]);
    rig.ticks(2);
    rig.want("v", "q");
    rig.ticks(3);
    assert_eq!(rig.log(), ["stage v", "publish v p", "unpublish v p", "unstage v", "stage v", "publish v q"]);
}

#[test]
fn a_second_pod_shares_the_staged_volume() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(3);
    rig.want("v", "q");
    rig.ticks(2);
    rig.only(&["q"]);
    rig.ticks(3);
    assert_eq!(rig.log(), ["stage v", "publish v p", "publish v q", "unpublish v p"]);
}

#[test]
fn a_second_pod_is_refused_a_read_write_once_pod_volume() {
    let mut rig = Rig::new();
    rig.want_mode("v", "p", "ReadWriteOncePod");
    rig.attach("v");
    rig.ticks(3);
    rig.want_mode("v", "q", "ReadWriteOncePod");
    rig.ticks(2);
    assert_eq!(
        rig.events,
        ["MountVolume.SetUp failed for volume \"pv-v\" : volume uses the ReadWriteOncePod access mode and is already \
          in use by another pod"]
    );
}

#[test]
fn a_failing_mount_backs_off_and_says_when_to_look_again() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    rig.attach("v");
    rig.script.insert(Step::Stage, vec![Answer::Final; 3]);
    rig.ticks(3);
    let retry = rig.vm.retry_at().expect("in backoff");
    assert_eq!(retry, Duration::from_millis(200) + INITIAL + Duration::from_millis(1));
    rig.ticks(40);
    assert_eq!(rig.log(), ["stage v", "stage v", "stage v", "stage v", "publish v p"]);
}

fn found(uid: &str, handle: &str) -> FoundMount {
    let (driver, pv) = ("d".to_owned(), format!("pv-{handle}"));
    let uid = Some(uid.to_owned());
    FoundMount { uid, driver, handle: handle.to_owned(), pv, block: handle.starts_with("raw"), inline: false }
}

#[test]
fn a_restarted_kubelet_unmounts_orphaned_volumes_and_remounts_the_rest() {
    let mut vm = VolumeManager::new(INITIAL, MAX);
    vm.reconstruct(&[found("gone", "v"), found("p", "w")], Vec::new());
    let mut rig = Rig::of(vm);
    for (handle, uid) in [("v", "gone"), ("w", "p")] {
        rig.staged.insert(VolumeName::new("d", handle));
        rig.published.insert((VolumeName::new("d", handle), uid.to_owned()));
    }
    // While the pods or node status are unknown, the manager unmounts nothing and keeps volumesInUse.
    rig.ticks(3);
    assert!(rig.log.is_empty());
    assert_eq!(rig.vm.volumes_in_use(), None);
    rig.want("w", "p");
    rig.vm.set_populated();
    rig.ticks(3);
    assert_eq!(rig.log(), ["stage w", "publish w p"]);
    let both: BTreeSet<String> = ["kubernetes.io/csi/d^v", "kubernetes.io/csi/d^w"].map(str::to_owned).into();
    rig.vm.reconstructed_from_node_status(&both);
    assert_eq!(rig.vm.volumes_in_use(), Some(both.into_iter().collect()));
    rig.ticks(3);
    assert_eq!(rig.log()[2..], ["unpublish v gone", "unstage v"]);
}

#[test]
fn missing_volumes_are_worded_as_in_kubelet() {
    let mut rig = Rig::new();
    rig.want("v", "p");
    let expected = ["v".to_owned(), "w".to_owned()];
    assert_eq!(
        rig.vm.explain("p", &expected, "why"),
        "unmounted volumes=[v w], unattached volumes=[v], failed to process volumes=[w]: why"
    );
}

/// Event in the life of a node.
#[derive(Clone, Debug)]
enum Event {
    Want(u8, u8),
    Drop(u8),
    Attach(u8),
    Answer(Step, Answer),
    Ticks(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let steps = [Step::Stage, Step::Publish, Step::Map, Step::Unmap, Step::Unpublish, Step::Unstage];
    let step = proptest::sample::select(steps.to_vec());
    let answer = prop_oneof![Just(Answer::Final), Just(Answer::Uncertain)];
    let event = prop_oneof![
        (0..2u8, 0..3u8).prop_map(|(v, p)| Event::Want(v, p)),
        (0..3u8).prop_map(Event::Drop),
        (0..2u8).prop_map(Event::Attach),
        (step, answer).prop_map(|(s, a)| Event::Answer(s, a)),
        (1..8u8).prop_map(Event::Ticks),
    ];
    proptest::collection::vec(event, 1..40)
}

proptest! {
    /// The model driver asserts: no publish before stage, no unstage while published, no map before publish, no
    /// unpublish while mapped. This test asserts: in use while staged, and no leftovers at the end. The first volume
    /// has a filesystem, the second is a raw device.
    #[test]
    fn every_history_is_safe_and_ends_clean(events in events()) {
        let mut rig = Rig::new();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for event in events {
            match event {
                Event::Want(v, p) => {
                    wanted.insert(format!("p{p}"));
                    rig.want(["v", "raw"][usize::from(v)], &format!("p{p}"));
                }
                Event::Drop(p) => {
                    wanted.remove(&format!("p{p}"));
                    rig.vm.retain_pods(&wanted);
                }
                Event::Attach(v) => rig.attach(["v", "raw"][usize::from(v)]),
                Event::Answer(step, answer) => rig.script.entry(step).or_default().push(answer),
                Event::Ticks(n) => {
                    for _ in 0..n {
                        rig.tick();
                        let in_use = rig.vm.volumes_in_use().unwrap_or_default();
                        for staged in &rig.staged {
                            prop_assert!(in_use.contains(&staged.to_string()), "staged but not in use");
                        }
                    }
                }
            }
        }
        rig.only(&[]);
        rig.script.clear();
        for _ in 0..20 {
            rig.now += MAX;
            rig.tick();
        }
        prop_assert!(rig.staged.is_empty() && rig.published.is_empty(), "left behind: {:?} {:?}", rig.staged, rig.published);
        prop_assert!(rig.mapped.is_empty(), "still mapped: {:?}", rig.mapped);
        prop_assert_eq!(rig.vm.volumes_in_use(), Some(vec![]));
    }
}

const GIB: i64 = 1 << 30;

/// Regression of kubernetes#89173 (`MarkVolumeAttachability`).
#[test]
fn a_volume_whose_driver_ceases_to_attach_is_not_in_use_and_never_becomes_attachable_again() {
    let mut rig = Rig::new();
    let want = |rig: &mut Rig, attachable| {
        let sizes = rig.sizes;
        let mount = DesiredMount { pod: pod("a"), volumes_in_pod: ["v".to_owned()].into(), readonly: false, sizes };
        rig.vm.want(spec("v", "ReadWriteOnce"), attachable, "a", mount);
        rig.vm.volumes_in_use().unwrap_or_default().len()
    };
    assert_eq!([want(&mut rig, true), want(&mut rig, false), want(&mut rig, true)], [1, 0, 0]);
}

/// Regression of kubernetes#99453 (fix: kubernetes#122140).
#[test]
fn two_names_of_one_volume_in_a_pod_share_its_mount() {
    let mut rig = Rig::new();
    for name in ["left", "right"] {
        let mount =
            DesiredMount { pod: pod("a"), volumes_in_pod: [name.to_owned()].into(), readonly: false, sizes: rig.sizes };
        rig.vm.want(spec("v", "ReadWriteOnce"), true, "a", mount);
    }
    let expected = ["left", "right", "other"].map(str::to_owned);
    assert_eq!(rig.vm.unmounted("a", &expected), ["left", "right", "other"]);
    let reported = rig.vm.explain("a", &expected, "cause");
    let text = "unmounted volumes=[left right other], unattached volumes=[left right], failed to process volumes=[other]: cause";
    assert_eq!(reported, text);
    rig.attach("v");
    rig.ticks(10);
    assert_eq!(rig.published.len(), 1, "{:?}", rig.log);
    assert_eq!(rig.vm.unmounted("a", &expected), ["other"]);
    let mounted: Vec<_> = rig.vm.mounted("a").into_iter().map(|(name, spec)| (name, spec.handle.clone())).collect();
    assert_eq!(mounted, [("left".to_owned(), "v".into()), ("right".to_owned(), "v".into())]);
    rig.only(&[]);
    rig.ticks(10);
    assert!(rig.vm.is_unmounted("a") && rig.published.is_empty());
}
