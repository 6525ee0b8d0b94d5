//! Controller Service: CreateSnapshot, DeleteSnapshot, ListSnapshots, GetSnapshot.

use csi_mock::capabilities::Feature;
use csi_mock::controller::{self, ControllerConfig};
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::*;
use serde_json::json;
use tonic::Code;

use crate::bench::*;

const UNKNOWN: &str = "snap-0ffffffffffffffff";

async fn listed(b: &Bench, request: ListSnapshotsRequest) -> (Vec<Snapshot>, String) {
    let reported = b.controller().list_snapshots(request).await.unwrap().into_inner();
    (reported.entries.into_iter().map(|e| e.snapshot.unwrap()).collect(), reported.next_token)
}

fn by_id(id: &str) -> ListSnapshotsRequest {
    ListSnapshotsRequest { snapshot_id: id.into(), ..Default::default() }
}

fn by_source(id: &str) -> ListSnapshotsRequest {
    ListSnapshotsRequest { source_volume_id: id.into(), ..Default::default() }
}

async fn delete(b: &Bench, id: &str) -> Code {
    let request = DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
    code(b.controller().delete_snapshot(request).await)
}

mod list_snapshots {
    use super::*;

    const NEEDS: [Feature; 2] = [Feature::ListSnapshots, Feature::CreateDeleteSnapshot];

    #[test]
    fn should_return_appropriate_values_no_optional_values_added() {
        case(&NEEDS, async |b| {
            let (volume, id) = b.snapshot("s").await;
            let (all, next) = listed(&b, ListSnapshotsRequest::default()).await;
            assert_eq!((all.len(), next), (1, String::new()));
            assert_eq!((&all[0].snapshot_id, &all[0].source_volume_id, all[0].size_bytes), (&id, &volume, GIB));
            assert!(all[0].creation_time.is_some());
        });
    }

    #[test]
    fn should_return_snapshots_that_match_the_specified_snapshot_id() {
        case(&NEEDS, async |b| {
            let (_, id) = b.snapshot("s").await;
            b.snapshot("t").await;
            let (all, _) = listed(&b, by_id(&id)).await;
            assert_eq!(all.iter().map(|s| &s.snapshot_id).collect::<Vec<_>>(), [&id]);
        });
    }

    #[test]
    fn should_return_empty_when_the_specified_snapshot_id_does_not_exist() {
        case(&NEEDS, async |b| {
            for id in [UNKNOWN, "none-exist-id"] {
                assert!(listed(&b, by_id(id)).await.0.is_empty());
            }
        });
    }

    #[test]
    fn should_return_snapshots_that_match_the_specified_source_volume_id() {
        case(&NEEDS, async |b| {
            let (volume, id) = b.snapshot("s").await;
            b.snapshot("t").await;
            let (all, _) = listed(&b, by_source(&volume)).await;
            assert_eq!(all.iter().map(|s| &s.snapshot_id).collect::<Vec<_>>(), [&id]);
        });
    }

    #[test]
    fn should_return_empty_when_the_specified_source_volume_id_does_not_exist() {
        case(&NEEDS, async |b| {
            for id in ["vol-0ffffffffffffffff", "none-exist-volume-id"] {
                assert!(listed(&b, by_source(id)).await.0.is_empty());
            }
        });
    }

    #[test]
    fn check_the_presence_of_new_snapshots_in_the_snapshot_list() {
        case(&NEEDS, async |b| {
            let (_, id) = b.snapshot("s").await;
            let ids = |all: &[Snapshot]| all.iter().map(|s| s.snapshot_id.clone()).collect::<Vec<_>>();
            assert!(ids(&listed(&b, ListSnapshotsRequest::default()).await.0).contains(&id));
            assert_eq!(delete(&b, &id).await, Code::Ok);
            assert!(listed(&b, ListSnapshotsRequest::default()).await.0.is_empty());
        });
    }

    #[test]
    fn should_return_next_token_when_a_limited_number_of_entries_are_requested() {
        case(&NEEDS, async |b| {
            let mut made = Vec::new();
            for n in 0..5 {
                made.push(b.snapshot(&format!("s{n}")).await.1);
            }
            made.sort();
            let (mut seen, mut token) = (Vec::new(), String::new());
            for expected in [2, 2, 1] {
                let request = ListSnapshotsRequest { max_entries: 2, starting_token: token, ..Default::default() };
                let (page, next) = listed(&b, request).await;
                assert_eq!(page.len(), expected);
                seen.extend(page.into_iter().map(|s| s.snapshot_id));
                token = next;
            }
            assert_eq!((seen, token), (made, String::new()));
            let request = ListSnapshotsRequest { starting_token: "what".into(), ..Default::default() };
            assert_eq!(code(b.controller().list_snapshots(request).await), Code::Aborted);
        });
    }
}

mod get_snapshot {
    use super::*;

    const NEEDS: [Feature; 2] = [Feature::GetSnapshot, Feature::CreateDeleteSnapshot];

    async fn get(b: &Bench, id: &str) -> Result<Snapshot, tonic::Status> {
        let request = GetSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        b.controller().get_snapshot(request).await.map(|r| r.into_inner().snapshot.unwrap())
    }

    #[test]
    fn should_fail_when_no_snapshot_id_is_provided() {
        case(&NEEDS, async |b| assert_eq!(code(get(&b, "").await), Code::InvalidArgument));
    }

    #[test]
    fn should_return_the_snapshot() {
        case(&NEEDS, async |b| {
            let (volume, id) = b.snapshot("s").await;
            let reported = get(&b, &id).await.unwrap();
            assert_eq!((reported.snapshot_id, reported.source_volume_id, reported.ready_to_use), (id, volume, true));
        });
    }

    #[test]
    fn should_fail_when_the_snapshot_does_not_exist() {
        case(&NEEDS, async |b| {
            for id in [UNKNOWN, "reallyfakesnapshotid"] {
                assert_eq!(code(get(&b, id).await), Code::NotFound);
            }
        });
    }
}

mod delete_snapshot {
    use super::*;

    const NEEDS: [Feature; 1] = [Feature::CreateDeleteSnapshot];

    #[test]
    fn should_fail_when_no_snapshot_id_is_provided() {
        case(&NEEDS, async |b| assert_eq!(delete(&b, "").await, Code::InvalidArgument));
    }

    #[test]
    fn should_succeed_when_an_invalid_snapshot_id_is_used() {
        case(&NEEDS, async |b| {
            for id in [UNKNOWN, "reallyfakesnapshotid"] {
                assert_eq!(delete(&b, id).await, Code::Ok);
            }
        });
    }

    #[test]
    fn should_return_appropriate_values() {
        case(&NEEDS, async |b| {
            let (_, id) = b.snapshot("s").await;
            assert_eq!((delete(&b, &id).await, delete(&b, &id).await), (Code::Ok, Code::Ok));
        });
    }
}

mod create_snapshot {
    use super::*;

    const NEEDS: [Feature; 1] = [Feature::CreateDeleteSnapshot];

    #[test]
    fn should_fail_when_no_name_is_provided() {
        case(&NEEDS, async |b| {
            let volume = b.volume("v", 1).await;
            assert_eq!(
                code(b.controller().create_snapshot(snapshot_request("", &volume)).await),
                Code::InvalidArgument
            );
        });
    }

    #[test]
    fn should_fail_when_no_source_volume_id_is_provided() {
        case(&NEEDS, async |b| {
            assert_eq!(code(b.controller().create_snapshot(snapshot_request("s", "")).await), Code::InvalidArgument);
            for gone in ["vol-0ffffffffffffffff", "what"] {
                assert_eq!(code(b.controller().create_snapshot(snapshot_request("s", gone)).await), Code::NotFound);
            }
        });
    }

    #[test]
    fn should_succeed_when_requesting_to_create_a_snapshot_with_already_existing_name_and_same_source_volume_id() {
        case(&NEEDS, async |b| {
            let (volume, id) = b.snapshot("s").await;
            let again = b.controller().create_snapshot(snapshot_request("s", &volume)).await.unwrap().into_inner();
            let again = again.snapshot.unwrap();
            assert_eq!((again.snapshot_id, again.ready_to_use), (id, true));
        });
    }

    #[test]
    fn should_fail_when_requesting_to_create_a_snapshot_with_already_existing_name_and_different_source_volume_id() {
        case(&NEEDS, async |b| {
            b.snapshot("s").await;
            let other = b.volume("other", 1).await;
            assert_eq!(code(b.controller().create_snapshot(snapshot_request("s", &other)).await), Code::AlreadyExists);
        });
    }

    #[test]
    fn should_succeed_when_creating_snapshot_with_maximum_length_name() {
        case(&NEEDS, async |b| {
            b.snapshot(&"s".repeat(120)).await;
            let volume = b.volume("v", 1).await;
            b.controller().create_snapshot(snapshot_request(&"s".repeat(128), &volume)).await.unwrap();
        });
    }

    #[test]
    fn parameters_of_the_class_are_tags_or_refused() {
        case(&NEEDS, async |b| {
            let volume = b.volume("v", 1).await;
            let with = |key: &str, value: &str| CreateSnapshotRequest {
                parameters: [(key.into(), value.into())].into(),
                ..snapshot_request("s", &volume)
            };
            assert_eq!(code(b.controller().create_snapshot(with("colour", "red")).await), Code::InvalidArgument);
            assert_eq!(
                code(b.controller().create_snapshot(with("tagSpecification_1", "x")).await),
                Code::InvalidArgument
            );
            b.controller().create_snapshot(with("tagSpecification_1", "team=a")).await.unwrap();
        });
    }

    #[test]
    fn volumes_and_snapshots_have_the_tags_of_the_cluster() {
        case(&NEEDS, async |b| {
            let config = ControllerConfig {
                cluster_id: Some("kind".to_owned()),
                extra_tags: [("team".to_owned(), "storage".to_owned())].into(),
                settings: b.settings.clone(),
                ..ControllerConfig::new(b.cloud.clone())
            };
            let mut csi = ControllerClient::new(Channel(controller::start(&b.ctx, config)));
            let made = csi.create_volume(b.create("v", 1)).await.unwrap().into_inner().volume.unwrap();
            csi.create_snapshot(snapshot_request("s", &made.volume_id)).await.unwrap();
            let own = |name: &str| {
                json!({
                    "kubernetes.io/cluster/kind": "owned",
                    "Name": format!("kind-dynamic-{name}"),
                    "ebs.csi.aws.com/cluster-name": "kind",
                    "ebs.csi.aws.com/cluster": "true",
                    "team": "storage",
                })
            };
            let (mut of_volume, mut of_snapshot) = (own("v"), own("s"));
            of_volume["CSIVolumeName"] = json!("v");
            of_volume["KubernetesCluster"] = json!("kind");
            of_snapshot["CSIVolumeSnapshotName"] = json!("s");
            let state = b.ec2.dump();
            let tags = |kind: &str, id: &str| {
                let all = state[kind].as_array().unwrap();
                all.iter().find(|one| one["id"] == id).unwrap()["tags"].clone()
            };
            assert_eq!(tags("volumes", &made.volume_id), of_volume);
            assert_eq!(state["snapshots"][0]["tags"], of_snapshot);
        });
    }

    #[test]
    fn a_class_enables_fast_restores_and_locks() {
        case(&NEEDS, async |b| {
            let (volume, other) = (b.volume("v", 1).await, b.volume("w", 1).await);
            let with = |volume: &str, parameters: &[(&str, &str)]| CreateSnapshotRequest {
                parameters: parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
                ..snapshot_request("s", volume)
            };
            let zones = "fastSnapshotRestoreAvailabilityZones";
            let nowhere = with(&volume, &[(zones, "us-east-1a, us-east-1z")]);
            assert_eq!(code(b.controller().create_snapshot(nowhere).await), Code::InvalidArgument);
            // A lock needs a duration. The snapshot goes again, so its name is free.
            let half = with(&other, &[("lockMode", "governance")]);
            assert_eq!(code(b.controller().create_snapshot(half).await), Code::Internal);
            let whole = with(&volume, &[(zones, "us-east-1a"), ("lockMode", "governance"), ("lockDuration", "1")]);
            let made = b.controller().create_snapshot(whole).await.unwrap().into_inner().snapshot.unwrap();
            assert_eq!(delete(&b, &made.snapshot_id).await, Code::Internal, "it is locked");
        });
    }
}
