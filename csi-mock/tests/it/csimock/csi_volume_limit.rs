//! The node's limit, and publishes beyond it.

use csi_proto::csi::NodeGetInfoRequest;
use tonic::Code;

use super::base::driver;
use crate::bench::*;

#[test]
fn the_limit_is_reported_and_the_cloud_has_its_own() {
    driver(async |b| {
        let reported = b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        assert_eq!(reported.max_volumes_per_node, 3);
        let mut last = Code::Ok;
        for n in 0..30 {
            let volume = b.volume(&format!("v{n}"), 1).await;
            last = code(b.controller().controller_publish_volume(b.publish_request(&volume)).await);
            if last != Code::Ok {
                break;
            }
        }
        assert_eq!(last, Code::ResourceExhausted);
    });
}
