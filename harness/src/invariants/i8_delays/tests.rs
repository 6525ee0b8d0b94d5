//! Tests of the pauses between the steps of volumes and pods.

use fake_apiserver::events::{Attachment, Claim, Node, Volume};
use substrate::clock::TimeScale;
use substrate::world::{Options, World, simulate};

use super::*;
use crate::invariants::Invariants;

const VOLUME: &str = "vol-1";

fn commit(world: &World, resource: &str, object: &str, set: impl Fn(&mut Commit)) {
    let mut commit = Commit::new(resource, object, 1, EventType::Added);
    set(&mut commit);
    world.trace().info(&"fake-apiserver".into(), commit);
}

fn attachment(world: &World, attached: bool, deleting: bool, r#type: EventType) {
    commit(world, "volumeattachments", "csi-1", |commit| {
        let (node, pv) = (Some("node-a".into()), Some("pv-1".into()));
        commit.volumeattachment = Some(Box::new(Attachment { attached, deleting, node, pv, device: None }));
        commit.r#type = r#type;
    });
}

fn call(world: &World, rpc: &'static str, code: &'static str) {
    let (volume, node) = (Some(Text::from(VOLUME)), Some(Text::from("node-a")));
    let process = "csi-controller".into();
    let call = CsiCall { volume: volume.clone(), node: node.clone(), ..CsiCall::new(rpc, 1) };
    world.trace().info(&process, call);
    let done = CsiDone { rpc: rpc.into(), volume, node, ordinal: 1, code: code.into(), took_ms: 1, message: None };
    world.trace().info(&process, done);
}

/// Returns the violations of a run: the steps that are given, in which a volume has a PersistentVolume.
fn found(is_live: bool, steps: impl AsyncFn(&World)) -> Vec<String> {
    let events = simulate(Options::default(), async |world| {
        commit(&world, "persistentvolumes", "pv-1", |commit| {
            let (handle, claim) = (Some(VOLUME.into()), Some("default/data".into()));
            commit.pv = Some(Box::new(Volume { handle, claim, phase: Some("Bound".into()), ..Volume::default() }));
        });
        steps(&world).await;
        world.trace().events()
    });
    let invariants = Invariants::new(TimeScale::default());
    if is_live {
        invariants.are_live();
    }
    events.iter().for_each(|event| invariants.observe(event));
    let all = invariants.violations().into_iter().filter(|violation| violation.message.contains("without a failure"));
    all.map(|violation| violation.message).collect()
}

async fn after(world: &World, seconds: u64) {
    world.clock().sleep_until(world.clock().mono() + Duration::from_secs(seconds)).await;
}

/// Lets csi-attacher call the driver `seconds` after a VolumeAttachment was created, with `meanwhile` before it.
fn publish(is_live: bool, seconds: u64, meanwhile: impl Fn(&World)) -> Vec<String> {
    found(is_live, async |world| {
        attachment(world, false, false, EventType::Added);
        after(world, 2).await;
        meanwhile(world);
        after(world, seconds).await;
        call(world, "ControllerPublishVolume", "OK");
    })
}

#[test]
fn a_step_that_comes_late_is_found_without_a_failure() {
    let message = "vol-1: ControllerPublishVolume was called 14 s after its VolumeAttachment was created, without a \
                   failure";
    assert_eq!(publish(false, 12, |_| ()), [message]);
    assert!(publish(false, 5, |_| ()).is_empty());
    assert!(publish(true, 12, |_| ()).is_empty(), "a slow machine");
    let crashes = |world: &World| world.trace().info(&"csi-attacher".into(), ProcessCrashed {});
    assert!(publish(false, 12, crashes).is_empty());
    let fires = |world: &World| {
        let effect = Effect::Delay(substrate::fault::Span(Duration::from_secs(1)));
        world.trace().info(&"fake-apiserver".into(), FaultFired::new("f", "watch", effect));
    };
    assert!(publish(false, 12, fires).is_empty());
    let fails = |world: &World| call(world, "ControllerPublishVolume", "UNAVAILABLE");
    assert!(publish(false, 12, fails).is_empty(), "the caller waits before it tries again");
    let warns = |object: &'static str| {
        move |world: &World| {
            let (source, reason, message) = ("attachdetach-controller".into(), "FailedAttachVolume".into(), "".into());
            let recorded = EventRecorded { source, reason, r#type: "Warning".into(), object: object.into(), message };
            world.trace().info(&"kube-controller-manager".into(), recorded);
        }
    };
    assert!(publish(false, 12, warns("persistentvolumeclaim/default/data")).is_empty());
    assert_eq!(publish(false, 12, warns("persistentvolumeclaim/default/other")), [message]);
    let goes = |world: &World| attachment(world, false, false, EventType::Deleted);
    assert!(publish(false, 12, goes).is_empty(), "another attachment of the volume");
}

#[test]
fn an_attachment_has_its_marks_in_time() {
    let found = |late: usize| {
        let pauses: Vec<u64> = (0..5).map(|step| if step == late { 50 } else { 1 }).collect();
        found(false, async |world| {
            attachment(world, false, false, EventType::Added);
            call(world, "ControllerPublishVolume", "OK");
            after(world, pauses[0]).await;
            attachment(world, true, false, EventType::Modified);
            after(world, pauses[1]).await;
            commit(world, "nodes", "node-a", |commit| {
                let volumes_attached = vec!["kubernetes.io/csi/ebs.csi.aws.com^vol-1".into()];
                commit.node = Some(Box::new(Node { volumes_attached, ..Node::default() }));
            });
            call(world, "NodeUnstageVolume", "OK");
            after(world, pauses[2]).await;
            attachment(world, true, true, EventType::Modified);
            after(world, pauses[3]).await;
            call(world, "ControllerUnpublishVolume", "OK");
            after(world, pauses[4]).await;
            attachment(world, true, true, EventType::Deleted);
        })
    };
    let late = |what: &str, after: &str| [format!("vol-1: {what} 50 s after {after}, without a failure")];
    assert!(found(9).is_empty());
    assert_eq!(found(0), late("its VolumeAttachment was attached", "ControllerPublishVolume answered OK"));
    assert_eq!(found(1), late("the Node listed it in volumesAttached", "its VolumeAttachment was attached"));
    assert_eq!(found(2), late("its VolumeAttachment was deleted", "NodeUnstageVolume answered OK"));
    assert_eq!(found(3), late("ControllerUnpublishVolume was called", "its VolumeAttachment was deleted"));
    assert_eq!(found(4), late("its VolumeAttachment went", "ControllerUnpublishVolume answered OK"));
}

#[test]
fn a_volume_grows_in_time() {
    let found = |late: usize| {
        let pauses: Vec<u64> = (0..3).map(|step| if step == late { 50 } else { 1 }).collect();
        found(false, async |world| {
            let claim = |request: u64, capacity: u64| {
                commit(world, "persistentvolumeclaims", "default/data", |commit| {
                    let (phase, volume) = (Some("Bound".into()), Some("pv-1".into()));
                    commit.pvc = Some(Box::new(Claim { phase, volume, ..Claim::default() }));
                    let (request, capacity) = (Some(request), Some(capacity));
                    commit.spec = Some(Box::new(Spec { request, capacity, ..Spec::default() }));
                });
            };
            let volume = |capacity: u64| {
                commit(world, "persistentvolumes", "pv-1", |commit| {
                    let (handle, claim) = (Some(VOLUME.into()), Some("default/data".into()));
                    commit.pv = Some(Box::new(Volume { handle, claim, ..Volume::default() }));
                    commit.spec = Some(Box::new(Spec { capacity: Some(capacity), ..Spec::default() }));
                    commit.r#type = EventType::Modified;
                });
            };
            volume(1);
            claim(1, 1);
            claim(2, 1);
            after(world, pauses[0]).await;
            call(world, "ControllerExpandVolume", "OK");
            after(world, pauses[1]).await;
            volume(2);
            call(world, "NodeExpandVolume", "OK");
            after(world, pauses[2]).await;
            claim(2, 2);
        })
    };
    let late = |what: &str, after: &str| [format!("vol-1: {what} 50 s after {after}, without a failure")];
    assert!(found(9).is_empty());
    assert_eq!(found(0), late("ControllerExpandVolume was called", "its claim requested more"));
    assert_eq!(found(1), late("its PersistentVolume grew", "ControllerExpandVolume answered OK"));
    assert_eq!(found(2), late("its claim had the new size", "NodeExpandVolume answered OK"));
}

fn pod(world: &World, r#type: EventType, user: &str, change: impl Fn(&mut Pod)) {
    commit(world, "pods", "default/web", |commit| {
        let mut pod = Pod { claims: vec!["data".into()], phase: Some("Pending".into()), ..Pod::default() };
        change(&mut pod);
        (commit.pod, commit.r#type, commit.user) = (Some(Box::new(pod)), r#type, user.into());
    });
}

fn claim_of_pod(world: &World, phase: &'static str) {
    commit(world, "persistentvolumeclaims", "default/data", |commit| {
        let claim = Claim { phase: Some(phase.into()), volume: Some("pv-1".into()), ..Claim::default() };
        commit.pvc = Some(Box::new(claim));
    });
}

#[test]
fn the_scheduler_has_a_verdict_in_time() {
    let found = |phase: &'static str, meanwhile: fn(&World)| {
        found(false, async |world| {
            claim_of_pod(world, phase);
            pod(world, EventType::Added, "user", |_| ());
            after(world, 20).await;
            meanwhile(world);
            pod(world, EventType::Modified, "kube-scheduler", |pod| pod.node = Some("node-a".into()));
        })
    };
    let message =
        "default/web: kube-scheduler wrote its first verdict 20 s after the pod was created, without a failure";
    assert_eq!(found("Bound", |_| ()), [message]);
    assert!(found("Pending", |_| ()).is_empty(), "it waits for the volume");
    let opens_gate = |world: &World| pod(world, EventType::Modified, "user", |_| ());
    assert!(found("Bound", opens_gate).is_empty());
}

#[test]
fn a_pod_starts_soon_after_its_last_volume_is_mounted() {
    let found = |seconds: u64, again: bool| {
        found(false, async |world| {
            claim_of_pod(world, "Bound");
            pod(world, EventType::Added, "user", |pod| pod.node = Some("node-a".into()));
            call(world, "NodePublishVolume", "OK");
            after(world, 40).await;
            if again {
                call(world, "NodePublishVolume", "OK");
            }
            after(world, seconds).await;
            let (node, pod, volume) = ("node-a".into(), "default/web".into(), VOLUME.into());
            let started = WorkloadStarted { node, pod, records_found: 0, verified: true, volume };
            world.trace().info(&"node-a/machine".into(), started);
        })
    };
    let message = "vol-1: a container of its pod started 60 s after the last volume of the pod was mounted, without a \
                   failure";
    assert_eq!(found(20, false), [message]);
    assert!(found(20, true).is_empty(), "the last publish counts");
    assert!(found(2, false).is_empty());
}

#[test]
fn a_volume_is_created_as_soon_as_its_node_is_selected() {
    let found = |is_bound: bool| {
        found(false, async |world| {
            let claim = |volume: Option<Text>| {
                commit(world, "persistentvolumeclaims", "default/new", |commit| {
                    commit.pvc = Some(Box::new(Claim { uid: "u".into(), volume: volume.clone(), ..Claim::default() }));
                    commit.spec = Some(Box::new(Spec { selected_node: Some("node-a".into()), ..Spec::default() }));
                });
            };
            claim(None);
            after(world, 5).await;
            if is_bound {
                claim(Some("pv-2".into()));
            }
            after(world, 10).await;
            let call = CsiCall { target: Some("pvc-u".into()), ..CsiCall::new("CreateVolume", 1) };
            world.trace().info(&"csi-controller".into(), call);
        })
    };
    let message = "u: CreateVolume was called 15 s after the scheduler selected a node for its claim, without a \
                   failure";
    assert_eq!(found(false), [message]);
    assert!(found(true).is_empty(), "it has got another volume");
}

#[test]
fn a_volume_of_a_former_claim_binds_no_claim_of_its_name() {
    let found = |uid: &'static str| {
        found(false, async |world| {
            let claim = |phase: &'static str, r#type| {
                commit(world, "persistentvolumeclaims", "default/new", |commit| {
                    let (phase, uid) = (Some(phase.into()), "new".into());
                    commit.pvc = Some(Box::new(Claim { phase, uid, ..Claim::default() }));
                    commit.r#type = r#type;
                });
            };
            claim("Pending", EventType::Added);
            after(world, 2).await;
            commit(world, "persistentvolumes", "pv-2", |commit| {
                let (handle, claim) = (Some("vol-2".into()), Some("default/new".into()));
                commit.pv = Some(Box::new(Volume { handle, claim, claim_uid: Some(uid.into()), ..Volume::default() }));
                commit.user = "csi-provisioner".into();
            });
            after(world, 12).await;
            claim("Bound", EventType::Modified);
        })
    };
    assert_eq!(found("new").len(), 1);
    assert!(found("former").is_empty());
}

#[test]
fn a_queue_that_moves_is_not_a_pause() {
    // Seconds after the beginning at which the step comes for this volume, after one in each second for others.
    let is_late = |step: Step, others: u64, seconds: u64| {
        let (mut delays, mut checked) = (Delays::default(), Checked::default());
        delays.begin(step, VOLUME, "node-a", 0);
        for other in 1..=others {
            let volume = format!("vol-0{other}");
            delays.begin(step, &volume, "node-a", 0);
            delays.end(&mut checked, (step, &volume, "node-a"), other * 1000);
        }
        delays.end(&mut checked, (step, VOLUME, "node-a"), seconds * 1000).is_some()
    };
    assert!(!is_late(Step::Publish, 20, 21));
    assert!(is_late(Step::Publish, 20, 31), "the queue stood for 11 s");
    assert!(is_late(Step::Publish, 2, 11), "two other volumes are no queue");
    assert!(is_late(Step::Mount, 20, 21), "a kubelet has no queue");
}
