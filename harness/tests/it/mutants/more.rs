//! Seeded bugs in requests and their results: requirements of claims, classes and pods, lifetimes, limits, and the
//! answers of the cloud and the API server.

use harness::invariants::Id;

use super::ephemeral::{claim_of_another, ephemeral, ephemeral_and_late, ephemeral_with_label};
use super::pods_and_nodes::{
    all_at_once, attach_fails, attached_slowly, claim_goes_before_detach, claim_goes_while_its_pod_ends,
    csinode_deleted, deletion_missed, detach_fails_for_long, devices_swapped, instance_terminated, kubelet_away,
    kubelet_down_in_a_publish, kubelet_down_with_two, leader_gone, node_deleted, node_seen_late, one_too_many,
    pod_made_again, pod_seen_late, ready_node_out_of_service, two_on_a_node, unmount_fails, unpublish_fails_twice,
};
use super::requirements::{
    bound_volume_deleted, class_deleted, delete_fails, given_again, grown_slowly, modified, of_two_gib, once_pod,
    retained_and_claimed_again, second_for_one_pod, selected, shaped, static_volume, volume_in_use_deleted, xfs,
    zone_is_full,
};
use super::scenarios::{
    grown, in_another_zone, left, moved, read_only, retained, slow_attach, slow_unstage, with_options,
};
use super::snapshots::{cloned, restored, restored_slowly, snapshot_deleted, snapshot_retained, snapshotted_slowly};
use super::{Case, Slip, case, slip};

/// Seeded bugs that break an invariant.
pub const CASES: &[Case] = &[
    case(&["fs-type-dropped"], xfs, Id::I10, "and its StorageClass asks for xfs"),
    case(&["fs-type-not-passed"], xfs, Id::I9, "and its PersistentVolume asks for xfs"),
    case(&["fs-type-ignored"], xfs, Id::I9, "and its PersistentVolume asks for xfs"),
    case(&["mount-flags-ignored"], with_options, Id::I9, "without the mount option noatime"),
    case(&["read-only-ignored"], read_only, Id::I9, "for writing, and each pod there asks for it read-only"),
    case(&["node-expansion-skipped"], grown, Id::I9, "and the filesystem of"),
    case(&["access-modes-dropped"], once_pod, Id::I10, "without the access mode ReadWriteOncePod"),
    case(&["access-modes-not-compared"], static_volume, Id::I10, "without the access mode ReadWriteMany"),
    case(&["size-not-compared"], static_volume, Id::I10, "and its claim asks for 2147483648"),
    case(&["zone-not-compared"], zone_is_full, Id::I10, "was put on node-a in us-east-1a"),
    case(&["zone-told-not-made"], in_another_zone, Id::I10, "and the cloud has it in us-east-1a"),
    case(&["capacity-told-not-made"], of_two_gib, Id::I10, "with more bytes than the 1 GiB that the cloud has"),
    case(&["iops-dropped"], shaped, Id::I10, "with the iops 3000 in the cloud"),
    case(&["throughput-dropped"], shaped, Id::I10, "with the throughput 125 in the cloud"),
    case(&["encryption-dropped"], shaped, Id::I10, "with the encrypted false in the cloud"),
    case(&["delete-error-is-success"], delete_fails, Id::I5, "a cloud volume is left over"),
    case(
        &["released-volume-offered-again"],
        retained_and_claimed_again,
        Id::I6,
        "was released by a claim that is gone",
    ),
    case(
        &["terminating-pod-not-counted"],
        claim_goes_while_its_pod_ends,
        Id::I11,
        "was removed while pod/default/web uses it",
    ),
    case(&["read-only-volume-ignored"], given_again, Id::I9, "for writing, and its PersistentVolume is read-only"),
    case(&["node-expansion-not-asked"], grown, Id::I12, "has a filesystem of 1073741824 bytes"),
    case(&["expansion-needs-no-node"], grown, Id::I12, "has a filesystem of 1073741824 bytes"),
    case(&["bound-volume-removed"], bound_volume_deleted, Id::I11, "was removed while it is bound"),
    case(&["ready-node-forced"], unmount_fails, Id::I2, "no legitimate forced detach is on record"),
    case(&["deleted-node-is-unmounted"], node_deleted, Id::I2, "no legitimate forced detach is on record"),
    case(&["failed-attach-forgotten"], attach_fails, Id::I8, "waits for its deletion"),
    case(&["volume-goes-before-attachment"], volume_in_use_deleted, Id::I8, "waits for the detach of own"),
    case(&["attachment-finalizer-kept"], left, Id::I8, "waits for the detach of"),
    case(&["attachment-not-awaited"], slow_attach, Id::I3, "where it is not attached"),
    case(&["one-volume-reconstructed"], kubelet_down_with_two, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["formats-each-time"], moved, Id::I6, "found 0 records"),
    case(&["attach-is-not-waited-for"], attached_slowly, Id::I3, "where it is not attached"),
    case(&["selector-forgotten"], moved, Id::I7, "which is not selected"),
    case(&["deletion-told-as-change"], moved, Id::I7, "sends"),
    case(&["delete-precondition-ignored"], pod_made_again, Id::I11, "was removed by a kubelet"),
    case(&["expand-not-asked"], grown, Id::I10, "says that it has 2147483648 bytes, and the cloud has 1 GiB"),
    case(
        &["size-before-expansion"],
        grown_slowly,
        Id::I10,
        "says that it has 2147483648 bytes, and the cloud has 1 GiB",
    ),
    case(&["modify-not-asked"], modified, Id::I10, "and the cloud has the iops 3000 instead of 6000"),
    case(&["class-told-not-asked"], modified, Id::I10, "and the cloud has the iops 3000 instead of 6000"),
    case(&["volume-limits-ignored"], one_too_many, Id::I10, "as the pod with volume number 3"),
    case(&["one-volume-too-many"], one_too_many, Id::I10, "as the pod with volume number 3"),
    case(&["limit-race"], all_at_once, Id::I10, "as the pod with volume number"),
    case(
        &["volume-limits-ignored", "attach-limit-ignored"],
        one_too_many,
        Id::I10,
        "is volume number 3 attached to node-a",
    ),
    case(&["once-pod-not-compared"], second_for_one_pod, Id::I10, "of ReadWriteOncePod, which pod/default/web uses"),
    case(&["foreign-claim-taken"], claim_of_another, Id::I10, "which does not belong to it"),
    case(&["living-owner-ignored"], ephemeral_and_late, Id::I11, "was deleted while its owner pod/default/web exists"),
    case(&["pods-of-ready-node-collected"], ready_node_out_of_service, Id::I11, "and its node node-a is Ready"),
    case(&["in-use-not-awaited"], moved, Id::I3, "whose status.volumesInUse does not list it"),
    case(
        &["unstage-while-published", "mount-references-ignored"],
        unpublish_fails_twice,
        Id::I2,
        "NodeUnstageVolume was called",
    ),
    case(&["pod-removed-before-unmount"], moved, Id::I2, "was removed by its kubelet while"),
    case(&["published-for-another-pod"], two_on_a_node, Id::I9, "which does not use it"),
    case(&["retries-without-backoff"], detach_fails_for_long, Id::I8, "its caller does not wait"),
    case(&["publish-context-not-passed"], moved, Id::I9, "without the metadata of volumeattachment/"),
    case(&["attached-volume-deleted"], claim_goes_before_detach, Id::I11, "while volumeattachment/"),
    case(&["class-in-use-removed"], class_deleted, Id::I11, "was removed while pvc/default/data has it"),
    case(&["selector-not-compared"], selected, Id::I12, "selects volumes with the label disk=large"),
    case(&["template-metadata-dropped"], ephemeral_with_label, Id::I12, "lacks `of` of the labels"),
    case(&["snapshot-delete-not-asked"], snapshot_deleted, Id::I3, "DeleteSnapshot answered OK for"),
    case(&["node-unknown-early"], kubelet_away, Id::I8, "was set to Unknown"),
    case(&["toleration-seconds-ignored"], kubelet_away, Id::I11, "whose taints it tolerates for 300 seconds"),
    case(&["in-use-only-while-wanted"], slow_unstage, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["detach-not-verified"], node_seen_late, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["live-pods-not-read"], pod_seen_late, Id::I11, "was removed while pod/default/web uses it"),
    case(&["missing-node-is-detached"], csinode_deleted, Id::I5, "a cloud volume is left over"),
];

/// Seeded bugs that fail a step.
pub const SLIPS: &[Slip] = &[
    slip("modification-never-ends", grown_slowly, "pvc/data"),
    slip("unpublish-forgets-unmount", moved, "pod/web is gone"),
    slip("first-device-taken", two_on_a_node, "pod/other has written"),
    slip("device-by-name", devices_swapped, "pod/other has written"),
    slip("claim-without-owner", ephemeral, "pod/web"),
    slip("dependents-kept", ephemeral, "pvc/web-scratch is gone"),
    slip("claim-finalizer-kept", retained, "pvc/data is gone"),
    slip("informer-keeps-deleted", deletion_missed, "pod/next"),
    slip("lease-never-expires", leader_gone, "pod/web"),
    slip("source-dropped", cloned, "intact records"),
    slip("limit-not-told", one_too_many, "FailedScheduling"),
    slip("volume-goes-with-instance", instance_terminated, "pod/next"),
    slip("snapshot-source-released-early", snapshotted_slowly, "pvc/data is Terminating"),
    slip("snapshot-ready-early", snapshotted_slowly, "pvc/data is Terminating"),
    slip("snapshot-policy-ignored", snapshot_retained, "volumesnapshotcontents"),
    slip("snapshot-of-wrong-volume", restored, "intact records"),
    slip("snapshot-deleted-in-restore", restored_slowly, "pod/reader is Running"),
    slip("volume-data-after-mount", kubelet_down_in_a_publish, "pod/next has written"),
];
