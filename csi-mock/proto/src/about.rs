//! Volume and node of a call, read from the bytes of its request.

use prost::Message;

use crate::csi;

/// The volume and the node of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Id of the volume, or the name of the object to create; empty if the request names none.
    pub volume: String,
    /// The node; empty if the request names none.
    pub node: String,
}

/// Prefix of a gRPC message: compression flag and length.
const PREFIX: usize = 5;

fn read<T: Message + Default>(body: &[u8], about: impl FnOnce(T) -> About) -> About {
    let message = body.get(PREFIX..).and_then(|message| T::decode(message).ok());
    message.map(about).unwrap_or_default()
}

macro_rules! of_volume {
    ($body:expr, $request:ident) => {
        read($body, |request: csi::$request| About { volume: request.volume_id, ..About::default() })
    };
    ($body:expr, $request:ident, node) => {
        read($body, |request: csi::$request| About { volume: request.volume_id, node: request.node_id })
    };
}

/// Reads volume and node from the `body` of a request of the method `rpc`. They are empty for an unreadable body, or a
/// method without a volume.
pub fn about(rpc: &str, body: &[u8]) -> About {
    match rpc {
        "CreateVolume" => {
            read(body, |request: csi::CreateVolumeRequest| About { volume: request.name, ..About::default() })
        }
        "DeleteVolume" => of_volume!(body, DeleteVolumeRequest),
        "ControllerPublishVolume" => of_volume!(body, ControllerPublishVolumeRequest, node),
        "ControllerUnpublishVolume" => of_volume!(body, ControllerUnpublishVolumeRequest, node),
        "ControllerExpandVolume" => of_volume!(body, ControllerExpandVolumeRequest),
        "ControllerModifyVolume" => of_volume!(body, ControllerModifyVolumeRequest),
        "ControllerGetVolume" => of_volume!(body, ControllerGetVolumeRequest),
        "ValidateVolumeCapabilities" => of_volume!(body, ValidateVolumeCapabilitiesRequest),
        "NodeStageVolume" => of_volume!(body, NodeStageVolumeRequest),
        "NodeUnstageVolume" => of_volume!(body, NodeUnstageVolumeRequest),
        "NodePublishVolume" => of_volume!(body, NodePublishVolumeRequest),
        "NodeUnpublishVolume" => of_volume!(body, NodeUnpublishVolumeRequest),
        "NodeGetVolumeStats" => of_volume!(body, NodeGetVolumeStatsRequest),
        "NodeExpandVolume" => of_volume!(body, NodeExpandVolumeRequest),
        _ => About::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_and_the_node_are_read_from_the_request() {
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: "vol-1".to_owned(),
            node_id: "i-1".to_owned(),
            ..csi::ControllerPublishVolumeRequest::default()
        };
        let body = [&[0; PREFIX][..], &request.encode_to_vec()].concat();
        let known = About { volume: "vol-1".to_owned(), node: "i-1".to_owned() };
        assert_eq!(about("ControllerPublishVolume", &body), known);
        assert_eq!(about("NodeUnstageVolume", &body).node, "");
        for (rpc, body) in [("Probe", &body[..]), ("DeleteVolume", &[]), ("DeleteVolume", &[0, 0, 0, 0, 2, 255, 255])] {
            assert_eq!(about(rpc, body), About::default());
        }
    }
}
