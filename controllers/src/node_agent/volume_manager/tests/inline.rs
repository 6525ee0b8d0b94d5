//! Inline volumes.

use k8s_openapi::api::core::v1::CSIVolumeSource;

use super::*;

const UNIQUE: &str = "kubernetes.io/csi/p-scratch";

fn inline() -> VolumeSpec {
    let source = json!({
        "driver": "d", "readOnly": true, "fsType": "ext4", "volumeAttributes": { "size": "1Gi" },
        "nodePublishSecretRef": { "name": "s" },
    });
    let source: CSIVolumeSource = substrate::json::from_value(source).expect("a source");
    VolumeSpec::inline(&pod("p"), "scratch", &source)
}

#[test]
fn a_volume_in_a_pods_spec_has_a_name_and_a_handle_of_that_pod() {
    let spec = VolumeSpec::inline(&pod("u"), "scratch", &CSIVolumeSource::default());
    // sha256("uscratch"), computed with coreutils.
    assert_eq!(spec.handle, "csi-f27d4170fdbd13fc517ece799c54bf6943399188fad1cfe1dc852df8aa4d1148");
    assert_eq!((spec.name.as_str(), &*spec.pv), ("kubernetes.io/csi/u-scratch", "scratch"));
    let spec = inline();
    let secret = spec.publish_secret().expect("a secret");
    assert_eq!((secret.name.as_deref(), secret.namespace.as_deref()), (Some("s"), Some("default")));
    assert_eq!((spec.readonly, &*spec.fs_type, spec.life_cycle.word()), (true, "ext4", "Ephemeral"));
}

#[test]
fn a_volume_in_a_pods_spec_is_published_without_attaching_or_staging() {
    let mut rig = Rig::new();
    let mount = DesiredMount {
        pod: pod("p"),
        volumes_in_pod: ["scratch".to_owned()].into(),
        readonly: true,
        sizes: Sizes::default(),
    };
    rig.vm.want(Arc::new(inline()), false, "p", mount);
    rig.ticks(3);
    assert_eq!(rig.log(), [format!("publish {UNIQUE} p")]);
    assert_eq!(rig.vm.unmounted("p", &["scratch".to_owned()]), Vec::<&str>::new());
    assert_eq!(rig.vm.volumes_in_use(), Some(Vec::new()), "no controller attaches it");
    rig.only(&[]);
    rig.ticks(3);
    assert_eq!(rig.log()[1..], [format!("unpublish {UNIQUE} p")]);
    assert!(rig.vm.actual().volumes().next().is_none());
}

#[test]
fn a_volume_of_a_spec_whose_pod_is_gone_is_unpublished_after_a_restart() {
    let mut vm = VolumeManager::new(INITIAL, MAX);
    let found = FoundMount { inline: true, pv: "scratch".to_owned(), ..found("p", "csi-1") };
    vm.reconstruct(&[found], Vec::new());
    vm.reconstructed_from_node_status(&BTreeSet::new());
    vm.set_populated();
    let mut rig = Rig::of(vm);
    rig.ticks(3);
    assert_eq!(rig.log(), [format!("unpublish {UNIQUE} p")]);
}
