//! PersistentVolumes that are paths of the machine: no driver handles them (upstream `pkg/volume/hostpath/host_path.go`,
//! `pkg/volume/local/local.go`). The containers mount the path itself.

use super::host_path;
use crate::node_agent::volume_manager::{StepError, VolumeSpec};

/// Checks or makes the path of a volume. None if the volume is not a path of the machine.
pub(super) fn set_up(spec: &VolumeSpec) -> Option<Result<(), StepError>> {
    let source = spec.object.as_ref()?.spec.as_ref()?;
    let done = match (&source.host_path, &source.local) {
        (Some(host), _) => host_path::set_up(host),
        (None, Some(local)) => check_local(&local.path),
        (None, None) => return None,
    };
    Some(done.map_err(StepError::Transient))
}

fn check_local(path: &str) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(format!("{path} is not a directory; local volumes on devices are not served")),
        Err(_) => Err(format!("path {path:?} does not exist")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::PersistentVolume;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pv(spec: Value) -> Arc<PersistentVolume> {
        Arc::new(from_value(json!({ "metadata": { "name": "pv" }, "spec": spec })).expect("a volume"))
    }

    #[test]
    fn a_path_of_the_machine_is_checked_or_made() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        let set_up = |spec: Value| set_up(&VolumeSpec::of_machine(&pv(spec)).expect("a path of the machine"));
        assert_eq!(set_up(json!({ "hostPath": { "path": at("made") } })), Some(Ok(())));
        assert!(root.path().join("made").is_dir());
        assert_eq!(set_up(json!({ "local": { "path": at("made") } })), Some(Ok(())));
        let missing = StepError::Transient(format!("path {:?} does not exist", at("none")));
        assert_eq!(set_up(json!({ "local": { "path": at("none") } })), Some(Err(missing)));
    }

    #[test]
    fn other_volumes_belong_to_their_drivers() {
        let csi = json!({ "driver": "d", "volumeHandle": "v" });
        for spec in [json!({ "csi": csi }), json!({ "local": { "path": "/dev/sdb" }, "volumeMode": "Block" })] {
            assert_eq!(VolumeSpec::of_machine(&pv(spec)), None);
        }
        let csi = VolumeSpec::from_pv(pv(json!({ "csi": csi }))).expect("a volume of a driver");
        assert_eq!((csi.path_of_machine(), set_up(&csi)), (None, None));
    }
}
