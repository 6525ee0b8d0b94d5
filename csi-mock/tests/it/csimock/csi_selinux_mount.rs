//! Mount options with an SELinux context: a volume is staged with one at a time.

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessType, MountVolume};
use csi_proto::csi::*;
use tonic::Code;

use super::base::driver;
use crate::bench::*;

fn labelled(b: &Bench, label: &str) -> Option<VolumeCapability> {
    let mount_flags = vec![format!("context=\"system_u:object_r:container_file_t:s0:{label}\"")];
    // A label of two categories contains a comma, but stays one option.
    let mount = MountVolume { mount_flags, ..Default::default() };
    Some(VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..b.capability(Mode::SingleNodeWriter) })
}

#[test]
fn another_context_needs_the_volume_to_be_unstaged_first() {
    driver(async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        let stage =
            |label: &str| NodeStageVolumeRequest { volume_capability: labelled(&b, label), ..b.stage_request(&volume) };
        b.node().node_stage_volume(stage("c0,c1")).await.unwrap();
        b.node().node_stage_volume(stage("c0,c1")).await.unwrap();
        assert_eq!(code(b.node().node_stage_volume(stage("c98,c99")).await), Code::AlreadyExists);
        b.unstage(&volume).await;
        b.node().node_stage_volume(stage("c98,c99")).await.unwrap();
    });
}
