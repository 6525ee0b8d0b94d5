//! Snapshots: secrets, deletion, and independent lifetimes of snapshot and volume.

use csi_proto::csi::*;
use tonic::Code;

use super::base::{count, driver};
use crate::bench::*;

#[test]
fn a_snapshot_outlives_its_volume_and_secrets_are_not_recorded() {
    driver(async |b| {
        let volume = b.volume("v", 1).await;
        let secrets = [("password".to_owned(), "hush".to_owned())];
        let request = CreateSnapshotRequest { secrets: secrets.clone().into(), ..snapshot_request("s", &volume) };
        let made = b.controller().create_snapshot(request).await.unwrap().into_inner().snapshot.unwrap();
        b.delete(&volume).await;
        let list = ListSnapshotsRequest { snapshot_id: made.snapshot_id.clone(), ..Default::default() };
        let list = ListSnapshotsRequest { secrets: secrets.clone().into(), ..list };
        assert_eq!(b.controller().list_snapshots(list).await.unwrap().into_inner().entries.len(), 1);
        for _ in 0..2 {
            let request =
                DeleteSnapshotRequest { snapshot_id: made.snapshot_id.clone(), secrets: secrets.clone().into() };
            assert_eq!(code(b.controller().delete_snapshot(request).await), Code::Ok);
        }
        assert_eq!(count(&b, "DeleteSnapshot").await, 2);
        assert!(!serde_json::to_string(&b.world.trace().lines()).unwrap().contains("hush"));
    });
}
