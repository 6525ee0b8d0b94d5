//! Replicas of one process, of which only the leader works.

use controllers::events::{EventRecorded, LeaderElected, LeaderLost};
use controllers::kube::Api;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use substrate::fault::Fault;
use substrate::json::json;
use substrate::trace::EventType;

use crate::common::{Rig, S, in_simulation};

const MANAGER: &str = "kube-controller-manager";

fn leases(rig: &Rig) -> Api<Lease> {
    rig.client.namespaced("kube-system")
}

async fn lease(rig: &Rig, name: &str) -> LeaseSpec {
    leases(rig).get(name).await.expect("a lease").spec.clone().expect("a spec")
}

/// Returns processes and times of the events of one type.
fn moments<T: EventType>(rig: &Rig) -> Vec<(String, f64)> {
    let events = rig.world.trace().events();
    let of = events.iter().filter(|event| event.is::<T>());
    of.map(|event| (event.process.to_string(), event.ms as f64 / 1000.0)).collect()
}

fn cut(rig: &Rig, who: &str) {
    let fault: Fault = substrate::json::from_value(json!({
        "name": "cut", "match": { "plane": "link" }, "effect": { "partition": [who, "apiserver"] },
    }))
    .expect("a fault");
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("in force");
}

/// Starts a cluster with two managers, and no other part of the control plane.
async fn two_managers(world: &substrate::World) -> (Rig, [substrate::Process; 2]) {
    let rig = Rig::new(world, &["node-a"], controllers::LOOPS).await;
    let managers = ["manager-0", "manager-1"].map(|name| rig.replica(MANAGER, name));
    rig.sleep(S(20)).await;
    (rig, managers)
}

fn by_name<'a>(managers: &'a [substrate::Process; 2], name: &str) -> &'a substrate::Process {
    managers.iter().find(|process| &**process.name() == name).expect("one of the two")
}

#[test]
fn of_two_replicas_one_works() {
    in_simulation(1, |world| async move {
        let (rig, _managers) = two_managers(&world).await;
        let elected = moments::<LeaderElected>(&rig);
        assert_eq!(elected.len(), 1, "{elected:?}");
        let spec = lease(&rig, MANAGER).await;
        let holder = spec.holder_identity.expect("a holder");
        assert!(holder.starts_with(&format!("{}_", elected[0].0)) && holder.len() > 40, "{holder}");
        assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
        assert!(spec.renew_time > spec.acquire_time);

        let events = rig.world.trace().events();
        let recorded: Vec<_> = events.iter().filter_map(|e| Some((e, e.get::<EventRecorded>()?))).collect();
        let (event, text) = recorded.iter().find(|(_, e)| e.reason == "LeaderElection").expect("an event");
        assert_eq!(*event.process, *elected[0].0);
        assert_eq!((&*text.source, &*text.object), (MANAGER, "lease/kube-system/kube-controller-manager"));
        assert_eq!(text.message, format!("{holder} became leader"));
        // The other replica does no work.
        assert!(recorded.iter().all(|(e, _)| *e.process == *elected[0].0));
        assert_eq!(rig.messages("RegisteredNode").len(), 1);
    });
}

#[test]
fn when_the_leader_crashes_the_other_takes_over_after_the_lease() {
    for seed in 1..9 {
        in_simulation(seed, |world| async move {
            let (rig, managers) = two_managers(&world).await;
            let (leader, _) = moments::<LeaderElected>(&rig).remove(0);
            let crashed = rig.seconds();
            by_name(&managers, &leader).crash();
            rig.sleep(S(40)).await;
            let elected = moments::<LeaderElected>(&rig);
            assert_eq!(elected.len(), 2, "{elected:?}");
            assert_ne!(elected[1].0, leader);
            // Fifteen seconds after the last seen renewal, which was up to 2 s old at the crash; a waiting replica
            // reads every 2 to 4.4 s.
            let after = elected[1].1 - crashed;
            assert!((13.0..=15.0 + 2.0 * 4.4).contains(&after), "after {after} s");
            assert_eq!(lease(&rig, MANAGER).await.lease_transitions, Some(1));
            assert_eq!(rig.messages("RegisteredNode").len(), 2);
        });
    }
}

#[test]
fn a_leader_that_is_cut_off_gives_up_before_another_one_leads() {
    for seed in 1..9 {
        in_simulation(seed, |world| async move {
            let (rig, managers) = two_managers(&world).await;
            let (leader, _) = moments::<LeaderElected>(&rig).remove(0);
            let at = rig.seconds();
            cut(&rig, &leader);
            rig.sleep(S(40)).await;
            let (lost, elected) = (moments::<LeaderLost>(&rig), moments::<LeaderElected>(&rig));
            assert_eq!(lost.len(), 1, "{lost:?}");
            assert_eq!(lost[0].0, leader);
            // The failing renewal starts within two seconds of the cut, and has ten.
            let after = lost[0].1 - at;
            assert!((10.0..=12.1).contains(&after), "gave up after {after} s");
            assert_eq!(elected.len(), 2, "{elected:?}");
            assert!(elected[1].0 != leader && elected[1].1 > lost[0].1, "{lost:?} {elected:?}");
            // It ended, was restarted, and waits.
            let again = by_name(&managers, &leader).ctx().expect("runs");
            assert_eq!(again.incarnation(), 2);
            rig.world.faults().remove("cut");
            rig.sleep(S(120)).await;
            assert_eq!(moments::<LeaderElected>(&rig).len(), 2);
        });
    }
}

#[test]
fn sidecars_name_their_leases_after_the_driver_or_themselves_and_come_back_as_themselves() {
    in_simulation(3, |world| async move {
        let rig = Rig::new(&world, &["node-a"], controllers::LOOPS).await;
        let names = ["csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller"];
        let sidecars = names.map(|name| (name, format!("{name}.0")));
        let running = sidecars.map(|(process, identity)| rig.replica(process, &identity));
        rig.sleep(S(10)).await;
        let leases = [
            ("external-attacher-leader-ebs-csi-aws-com", "csi-attacher-0"),
            ("ebs-csi-aws-com", "csi-provisioner-0"),
            ("external-resizer-ebs-csi-aws-com", "csi-resizer-0"),
            ("external-snapshotter-leader-ebs-csi-aws-com", "csi-snapshotter-0"),
            ("snapshot-controller-leader", "snapshot-controller-0"),
        ];
        for (name, holder) in leases {
            let spec = lease(&rig, name).await;
            assert_eq!(spec.holder_identity.as_deref(), Some(holder));
            assert_eq!(spec.lease_transitions, Some(0));
        }
        let sources: Vec<String> =
            rig.events("k8s.event").iter().filter_map(|e| Some(e.str("source")?.to_owned())).collect();
        let source = "external-attacher-leader-ebs.csi.aws.com/csi-attacher.0".to_owned();
        assert!(sources.contains(&source), "{sources:?}");
        // The same name is the same candidate: it does not wait for its own lease to expire.
        let before = rig.seconds();
        running[0].restart();
        rig.sleep(S(5)).await;
        let (_, again) = moments::<LeaderElected>(&rig).pop().expect("elected");
        assert!(again > before && again < before + 1.0, "{before} {again}");
        assert_eq!(lease(&rig, leases[0].0).await.lease_transitions, Some(0));
    });
}

#[test]
fn a_cut_off_sidecar_gives_up_and_a_cut_off_scheduler_releases_nothing() {
    in_simulation(4, |world| async move {
        let rig = Rig::new(&world, &["node-a"], controllers::LOOPS).await;
        let _replicas = [rig.replica("kube-scheduler", "scheduler-0"), rig.replica("csi-attacher", "attacher-0")];
        rig.sleep(S(20)).await;
        let at = rig.seconds();
        cut(&rig, "attacher-0");
        rig.sleep(S(16)).await;
        let lost = moments::<LeaderLost>(&rig);
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!((10.0..=15.1).contains(&(lost[0].1 - at)), "{lost:?}");
        rig.world.faults().remove("cut");

        let at = rig.seconds();
        cut(&rig, "scheduler-0");
        rig.sleep(S(30)).await;
        let lost = moments::<LeaderLost>(&rig);
        assert_eq!(lost.len(), 2, "{lost:?}");
        // It requests the lease once more, to release it, and gets no answer for half of the deadline.
        assert!((15.0..=17.1).contains(&(lost[1].1 - at)), "{lost:?}");
        rig.world.faults().remove("cut");
        assert!(lease(&rig, "kube-scheduler").await.holder_identity.is_some_and(|holder| !holder.is_empty()));
    });
}

#[test]
fn replicas_replay() {
    let run = |seed| {
        in_simulation(seed, |world| async move {
            let (rig, managers) = two_managers(&world).await;
            let (leader, _) = moments::<LeaderElected>(&rig).remove(0);
            by_name(&managers, &leader).crash();
            rig.sleep(S(30)).await;
            rig.world.trace().lines().iter().map(substrate::Line::text).collect::<Vec<_>>()
        })
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
