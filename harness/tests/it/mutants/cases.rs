//! Seeded bugs that break an invariant: the order of events, leaks, bytes, watches, and the ends of calls.

use harness::invariants::Id;

use super::scenarios::{
    claim_goes_first, controller_manager_down, copied, create_reply_lost, grown, grown_twice, in_another_zone,
    kubelet_cut_off, kubelet_down, kubelet_restarts, leader_cut_off, left, left_standing, lost_kubelet, moved,
    provisioned_twice, read_only, recreated, retained, second_pod_first, slow_attach, slow_unstage, stage_fails,
    stayed_long, taken_back, unpublish_fails, unstage_fails_late, unstaged, with_options,
};
use super::{Case, case};

/// If the next component compensates for one bug, the bugs that are needed together are listed together.
pub const CASES: &[Case] = &[
    case(&["detach-without-unmount-wait", "busy-ignored"], slow_unstage, Id::I1, "became writable on node-b"),
    case(
        &["unstage-forgets-unmount", "removal-failures-ignored", "busy-ignored"],
        moved,
        Id::I1,
        "became writable on node-b",
    ),
    case(&["force-detach-early", "busy-ignored"], lost_kubelet, Id::I1, "became writable on node-b"),
    // The driver refuses a volume with two attachments, so the third bug reports the attachment without the driver.
    case(
        &["multi-attach-check-skipped", "attach-twice", "attached-before-publish"],
        second_pod_first,
        Id::I1,
        "became writable on node-b",
    ),
    case(&["detach-without-unmount-wait"], slow_unstage, Id::I2, "ControllerUnpublishVolume was called"),
    case(
        &["unstage-forgets-unmount", "removal-failures-ignored"],
        moved,
        Id::I2,
        "ControllerUnpublishVolume was called",
    ),
    case(&["force-detach-early"], lost_kubelet, Id::I2, "no legitimate forced detach is on record"),
    case(&["volumes-in-use-dropped"], kubelet_down, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["force-detach-early"], || unstaged(&lost_kubelet()), Id::I2, "while it is published there"),
    case(&["attached-before-publish"], slow_attach, Id::I3, "where it is not attached"),
    case(&["attached-before-publish"], || unstaged(&slow_attach()), Id::I3, "where it is not attached"),
    case(&["stage-not-repeated"], unstage_fails_late, Id::I3, "where it is not staged"),
    case(&["volumes-attached-not-updated"], left, Id::I4, "is in status.volumesAttached of the node, and not"),
    case(&["unpublish-answers-early"], left, Id::I4, "is attached in the cloud, and not"),
    case(&["finalizer-removed-early"], unpublish_fails, Id::I4, "is attached in the cloud, and not"),
    case(&["finalizer-ignored"], unpublish_fails, Id::I4, "is attached in the cloud, and not"),
    case(&["pv-deleted-not-volume"], moved, Id::I5, "a cloud volume is left over"),
    case(&["client-token-ignored"], create_reply_lost, Id::I5, "a cloud volume is left over"),
    case(&["unstage-leaves-directory", "removal-failures-ignored"], moved, Id::I5, "directories are left over"),
    case(&["unpublish-leaves-directory", "removal-failures-ignored"], moved, Id::I5, "directories are left over"),
    // A volume is not deleted while its VolumeAttachment exists, so the first bug removes the VolumeAttachment too
    // early.
    case(&["unpublish-answers-early", "delete-while-attached"], left, Id::I5, "devices are left over"),
    case(&["sync-does-nothing"], moved, Id::I6, "found 0 records"),
    case(&["watch-gap"], kubelet_cut_off, Id::I7, "has left out revision"),
    case(&["watch-duplicate"], moved, Id::I7, "sends revision"),
    case(&["watch-out-of-order"], moved, Id::I7, "sends revision"),
    case(&["bookmark-ahead"], stayed_long, Id::I7, "sends revision"),
    case(&["detach-error-is-success"], unpublish_fails, Id::I4, "is attached in the cloud, and not"),
    case(&["reconstruction-skipped"], kubelet_down, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["provision-under-new-name"], provisioned_twice, Id::I5, "a cloud volume is left over"),
    case(&["formats-after-error"], stage_fails, Id::I6, "found 0 records"),
    case(&["never-retries-detach"], unpublish_fails, Id::I8, "waits for the detach of"),
    case(&["unmount-skipped"], left, Id::I8, "waits for NodeUnstageVolume"),
    case(&["unmount-skipped"], || unstaged(&left()), Id::I8, "waits for NodeUnpublishVolume"),
    case(&["attachment-left-behind"], left, Id::I8, "waits for its deletion"),
    case(&["attachment-lingers"], left, Id::I8, "waits for the cloud: its attachment is detaching"),
    case(&["dangling-attachments-ignored"], controller_manager_down, Id::I8, "waits for its deletion"),
    // Two loops undo each other's writes, and the run would never end.
    case(
        &["paused-rollout-goes-on"],
        || include_str!("../../../../scenarios/contracts/api-apply.yaml").to_owned(),
        Id::I8,
        "wrote deployments default/web 500 times within 10 s",
    ),
    case(&["lease-lost-in-a-call"], leader_cut_off, Id::I3, "still leads by the lease"),
    case(&["snapshot-not-point-in-time"], copied, Id::I6, "were synced when"),
    case(&["binding-without-uid"], recreated, Id::I6, "was released by a claim that is gone"),
    case(&["status-flaps"], left_standing, Id::I8, "it never came to rest"),
    case(&["multi-attach-check-skipped"], second_pod_first, Id::I1, "while it is attached to node-a"),
    case(&["detach-is-not-waited-for"], || format!("latency: aws\n{}", moved()), Id::I3, "where it is still attached"),
    case(&["unmount-before-stop"], moved, Id::I2, "while the container of default/web writes to it"),
    case(&["out-of-service-remembered"], taken_back, Id::I2, "no legitimate forced detach is on record"),
    case(&["names-another-device"], moved, Id::I9, "the attachment's metadata names"),
    case(&["mount-options-dropped"], with_options, Id::I9, "without the mount option noatime"),
    case(&["read-only-not-passed"], read_only, Id::I9, "for writing, and each pod there asks for it read-only"),
    case(&["expand-answers-early"], grown, Id::I9, "and the filesystem of"),
    case(&["class-mount-options-dropped"], with_options, Id::I10, "with the mount options []"),
    case(&["reclaim-policy-dropped"], retained, Id::I10, "with the reclaim policy Delete"),
    case(&["zone-not-passed"], in_another_zone, Id::I10, "and the scheduler chose node-b in us-east-1b"),
    case(&["claim-in-use-removed"], claim_goes_first, Id::I11, "was removed while pod/default/web uses it"),
    case(&["retain-ignored"], retained, Id::I11, "has the reclaim policy Retain"),
    case(&["resize-target-kept"], grown_twice, Id::I12, "and its PersistentVolume has"),
    case(&["populated-too-early"], kubelet_restarts, Id::I2, "while the container of default/web writes to it"),
];
