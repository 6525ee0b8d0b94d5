//! Random histories: a pass over the differences plans the same as a pass over everything.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use proptest::collection::vec;
use proptest::prelude::*;

use super::reconcile::{Action, NodeView, Reconciler};
use super::volume::VolumeSpec;
use crate::pending::PendingOperations;

const NODES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Pod {
        volume: u8,
        node: usize,
        gone: bool,
    },
    /// Ends the pending operation that started last.
    End {
        well: bool,
    },
    InUse {
        node: usize,
        volumes: Vec<u8>,
    },
    Node {
        node: usize,
        ready: bool,
        out_of_service: bool,
    },
    /// Finds a dangling attachment, confirmed or uncertain.
    Found {
        volume: u8,
        node: usize,
        confirmed: bool,
    },
    Lost {
        volume: u8,
        node: usize,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (volume, node) = (0..3u8, 0..NODES.len());
    prop_oneof![
        4 => (volume.clone(), node.clone(), any::<bool>()).prop_map(|(volume, node, gone)| Step::Pod { volume, node, gone }),
        4 => any::<bool>().prop_map(|well| Step::End { well }),
        2 => (node.clone(), vec(volume.clone(), 0..3)).prop_map(|(node, volumes)| Step::InUse { node, volumes }),
        1 => (node.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(node, ready, out_of_service)| Step::Node { node, ready, out_of_service }),
        1 => (volume.clone(), node.clone(), any::<bool>())
            .prop_map(|(volume, node, confirmed)| Step::Found { volume, node, confirmed }),
        1 => (volume, node).prop_map(|(volume, node)| Step::Lost { volume, node }),
        2 => (0..400u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

fn spec(volume: u8) -> Arc<VolumeSpec> {
    let (pv, handle) = (format!("pv-{volume}"), format!("vol-{volume}"));
    Arc::new(VolumeSpec { pv, driver: "ebs.csi.aws.com".to_owned(), handle, multi_attach: volume == 2 })
}

fn reconciler() -> Reconciler {
    let pending = PendingOperations::new(Duration::from_millis(500), Duration::from_secs(122));
    let mut reconciler = Reconciler::new(pending, Duration::from_secs(360), false);
    for node in NODES {
        reconciler.desired.add_node(node);
        reconciler.set_node(node, NodeView { ready: true, out_of_service: false });
    }
    reconciler
}

fn take(reconciler: &mut Reconciler, now: &mut Duration, under_way: &mut Vec<Action>, step: Step) {
    match step {
        Step::Pod { volume, node, gone } => {
            let (spec, uid) = (spec(volume), format!("uid-{volume}-{node}"));
            if gone {
                reconciler.desired.delete_pod(&uid, &spec.unique_name(), NODES[node]);
            } else {
                let (namespace, name) = (Some("default".to_owned()), Some(uid.clone()));
                let pod = Arc::new(ObjectReference { namespace, name, ..ObjectReference::default() });
                reconciler.desired.add_pod(&uid, &pod, &spec, NODES[node]);
            }
        }
        Step::End { well } => {
            let result = if well { Ok(()) } else { Err("no".to_owned()) };
            match under_way.pop() {
                Some(Action::Attach { key, spec, node, .. }) => reconciler.attached(*now, &key, &spec, &node, result),
                Some(Action::Detach { key, volume, node, .. }) => {
                    reconciler.detached(*now, &key, &volume, &node, result)
                }
                _ => {}
            }
        }
        Step::InUse { node, volumes } => {
            let names: Vec<String> = volumes.into_iter().map(|volume| spec(volume).unique_name()).collect();
            reconciler.actual.set_mounted(NODES[node], &names);
        }
        Step::Node { node, ready, out_of_service } => {
            reconciler.set_node(NODES[node], NodeView { ready, out_of_service });
        }
        Step::Found { volume, node, confirmed } => {
            reconciler.actual.add(&spec(volume).unique_name(), Some(&spec(volume)), NODES[node], confirmed);
        }
        Step::Lost { volume, node } => reconciler.actual.remove(&spec(volume).unique_name(), NODES[node]),
        Step::Wait { seconds } => *now += Duration::from_secs(seconds),
    }
}

proptest! {
    #[test]
    fn to_look_only_where_something_was_touched_misses_nothing(steps in vec(step(), 1..60)) {
        let (mut reconciler, mut now, mut under_way) = (reconciler(), Duration::from_secs(1), Vec::new());
        for step in steps {
            take(&mut reconciler, &mut now, &mut under_way, step);
            let mut thorough = reconciler.clone();
            thorough.doubt_everything();
            let plan = reconciler.reconcile(now);
            prop_assert_eq!(format!("{plan:?}"), format!("{:?}", thorough.reconcile(now)));
            let begun = plan.actions.into_iter();
            under_way.extend(begun.filter(|a| matches!(a, Action::Attach { .. } | Action::Detach { .. })));
        }
    }
}
