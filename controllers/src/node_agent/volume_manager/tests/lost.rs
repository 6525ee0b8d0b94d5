//! Volumes whose directory a restarted kubelet finds without metadata.

use super::*;

fn lost(uid: &str, pv: &str) -> FailedMount {
    FailedMount { uid: uid.to_owned(), pv: pv.to_owned() }
}

#[test]
fn an_unreconstructed_volume_is_cleaned_up_once_no_pod_wants_it() {
    let mut vm = VolumeManager::new(INITIAL, MAX);
    vm.reconstruct(&[], vec![lost("gone", "pv-v"), lost("p", "pv-w")]);
    let mut rig = Rig::of(vm);
    rig.want("w", "p");
    rig.ticks(3);
    assert_eq!(rig.log(), Vec::<String>::new(), "not before the desired state is complete");
    rig.vm.set_populated();
    rig.script.insert(Step::CleanUp, vec![Answer::Final]);
    rig.ticks(30);
    assert_eq!(rig.log(), ["clean up pv-v gone"], "once, and not what a pod wants");
}

#[test]
fn cleanup_of_an_unreconstructed_volume_waits_for_orphaned_containers() {
    let mut vm = VolumeManager::new(INITIAL, MAX);
    vm.reconstruct(&[], vec![lost("gone", "pv-v")]);
    vm.set_populated();
    vm.set_orphans(BTreeSet::from(["gone".to_owned()]));
    let mut rig = Rig::of(vm);
    rig.ticks(3);
    assert_eq!(rig.log(), Vec::<String>::new());
    rig.vm.set_orphans(BTreeSet::new());
    rig.ticks(3);
    assert_eq!(rig.log(), ["clean up pv-v gone"]);
}
