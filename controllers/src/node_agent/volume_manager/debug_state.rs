//! Desired and actual state of world, for observers.

use super::VolumeManager;
use super::actual::MountState;
use crate::events::LoopState;
use crate::kube::Kind;

impl VolumeManager {
    /// Returns the volumes that the node's pods want, and the mounts that kubelet knows.
    pub(crate) fn state(&self) -> LoopState {
        let desired = self.desired.volumes().map(|(_, volume)| {
            let name = |pod: &k8s_openapi::api::core::v1::Pod| format!("{}/{}", pod.namespace(), pod.name());
            let mut pods: Vec<String> = volume.pods.values().map(|wanted| name(&wanted.pod)).collect();
            pods.sort();
            let in_use = if volume.reported_in_use { ", reported in use" } else { "" };
            format!("{} for {}{in_use}", volume.spec.handle, pods.join(", "))
        });
        let actual = self.actual.volumes().map(|(_, volume)| {
            let mut pods: Vec<String> = volume
                .pods
                .iter()
                .map(|(uid, on)| {
                    let pod = if on.pod.is_empty() { uid } else { &on.pod };
                    let again = if on.remount { ", to be published again" } else { "" };
                    format!("{pod} {}{again}", word(on.state))
                })
                .collect();
            pods.sort();
            let pods = if pods.is_empty() { String::new() } else { format!("; {}", pods.join("; ")) };
            format!("{}: {}{pods}", volume.spec.handle, word(volume.device).replace("mounted", "staged"))
        });
        let (mut desired, mut actual): (Vec<String>, Vec<String>) = (desired.collect(), actual.collect());
        desired.sort();
        actual.sort();
        LoopState { of: "volume-manager".into(), desired, actual }
    }
}

fn word(state: MountState) -> &'static str {
    match state {
        MountState::NotMounted => "not mounted",
        MountState::Uncertain => "uncertain",
        MountState::Mounted => "mounted",
    }
}
