//! Seeded bugs of the cloud.

use substrate::mutant::Mutant;
use substrate::{Ctx, mutant};

use crate::state::seeded_bugs::SeededBugs;

/// List of seeded bugs.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "busy-ignored",
        about: "DetachVolume without force removes the device of a mounted volume",
        recreates: "kubernetes#37854",
    },
    Mutant {
        name: "attach-twice",
        about: "AttachVolume attaches a volume without Multi-Attach to a second instance",
        recreates: "kubernetes#45346",
    },
    Mutant {
        name: "delete-while-attached",
        about: "DeleteVolume deletes an attached volume, and its device stays",
        recreates: "kubernetes-csi/external-provisioner#176",
    },
    Mutant {
        name: "snapshot-not-point-in-time",
        about: "a snapshot also has bytes that were written before it was completed",
        recreates: "openebs/zfs-localpv#207",
    },
    Mutant {
        name: "client-token-ignored",
        about: "CreateVolume with a ClientToken that was used before creates a second volume",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#165",
    },
    Mutant {
        name: "attachment-lingers",
        about: "DetachVolume without force ends in the API, but the device stays on the instance",
        recreates: "kubernetes#77389",
    },
    Mutant {
        name: "encryption-dropped",
        about: "CreateVolume creates a volume without encryption although the request asks for it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "throughput-dropped",
        about: "CreateVolume ignores the requested throughput",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modification-never-ends",
        about: "a modification of a volume never leaves the state `modifying`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-goes-with-instance",
        about: "TerminateInstances deletes attached volumes without DeleteOnTermination",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "type-ignored",
        about: "CreateVolume creates a gp2 volume, whatever type the request asks for",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deletion-never-ends",
        about: "a deleted volume never leaves the state `deleting`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-size-ignored",
        about: "CreateVolume from a snapshot ignores the requested size",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modification-resets-iops",
        about: "ModifyVolume sets the default IOPS when the request names none",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "terminated-instance-holds-volumes",
        about: "TerminateInstances does not detach the volumes of the instance",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "detached-from-any-instance",
        about: "DetachVolume from an instance that does not have the volume detaches it from another instance",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "available-while-detaching",
        about: "a volume is `available` while it is being detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zone-not-checked",
        about: "AttachVolume attaches a volume to an instance in another zone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "device-name-shared",
        about: "AttachVolume accepts a device name that another volume of the instance has",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "optimizing-skipped",
        about: "a modification of a volume goes from `modifying` to `completed`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shrinking-allowed",
        about: "ModifyVolume accepts a size that is smaller than the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "slot-not-freed",
        about: "DetachVolume leaves the device name and the slot of the volume in use",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attached-while-creating",
        about: "AttachVolume attaches a volume that is still being created",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "token-parameters-not-compared",
        about: "CreateVolume with a ClientToken that was used with other parameters returns the earlier volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modification-pace-ignored",
        about: "ModifyVolume modifies a volume more than four times in 24 hours",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tags-replaced",
        about: "CreateTags removes the tags that the volume had before",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shared-volume-freed",
        about: "DetachVolume from one of several instances makes the volume `available`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stopped-instance-loses-volumes",
        about: "StopInstances detaches the data volumes of the instance",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attached-device-not-grown",
        about: "the device of an attached volume keeps its size after ModifyVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-not-encrypted",
        about: "CreateSnapshot of an encrypted volume takes a snapshot that is not encrypted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "copy-tags-dropped",
        about: "CopyVolumes creates a volume without the tags of the request",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "last-slot-not-given",
        about: "AttachVolume treats an instance with one free slot as full",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modified-iops-not-applied",
        about: "a modification of a volume ends and leaves its IOPS as they were",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ended-guest-keeps-mounts",
        about: "the volumes of an instance that stopped or rebooted count as mounted still",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-not-encrypted",
        about: "CreateVolume from an encrypted snapshot creates a volume that is not encrypted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-size-before-growth",
        about: "CreateSnapshot of a volume that was modified notes the size that it had before",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "busy-volume-stays",
        about: "a busy volume stays attached after its instance has unmounted it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "copy-token-ignored",
        about: "CopyVolumes with a ClientToken that was used before creates a second volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modified-while-optimizing",
        about: "ModifyVolume accepts a volume whose earlier modification is still `optimizing`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-tags-dropped",
        about: "CreateSnapshot ignores the tags of the request",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modification-resets-size",
        about: "ModifyVolume without a size sets the size from before the latest modification",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tag-of-other-value-deleted",
        about: "DeleteTags with a value deletes a tag that has another value",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "force-after-detach-ignored",
        about: "DetachVolume with force does nothing if a detach without force is under way or busy",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-device-attribute-changed",
        about: "ModifyInstanceAttribute changes DeleteOnTermination of the first device in the request only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-attachment-filtered",
        about: "DescribeVolumes with a filter on attachments compares the first attachment of a volume only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-resource-tagged",
        about: "CreateTags with several resources tags the first of them only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-uses-default-key",
        about: "a volume from a snapshot is encrypted with the default key, not with the snapshot's",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-attachment-too-many",
        about: "a Multi-Attach volume can be attached to seventeen instances",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "launch-token-ignored",
        about: "RunInstances with a ClientToken that was used before starts further instances",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-fails-with-its-volume",
        about: "a snapshot that is not completed yet fails when its volume is deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "repeated-detach-starts-over",
        about: "DetachVolume of a volume that is being detached starts the detach again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "excluded-volume-snapshotted",
        about: "CreateSnapshots also takes snapshots of the data volumes that the request excludes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modified-throughput-not-applied",
        about: "a modification ends and leaves the throughput of the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tag-value-not-replaced",
        about: "CreateTags leaves the value of a tag that the resource has already",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tag-index-not-refreshed",
        about: "a filter on tags does not find a volume by a tag that it got after its creation",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "completed-snapshots-count-as-pending",
        about: "CreateSnapshot counts the completed snapshots of a volume towards the limit of pending ones",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "type-change-keeps-iops",
        about: "ModifyVolume to another type keeps the IOPS of the former type when the request names none",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shared-volume-leaves-all-instances",
        about: "TerminateInstances of one instance detaches a Multi-Attach volume from the other instances, too",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "freed-slot-not-used",
        about: "an attachment that waits for a slot does not get the slot that a detach frees",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-quota-off-by-one",
        about: "the account may have one volume fewer than its quota",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "page-repeats-last",
        about: "a page of instance types, tags and others begins with the last item of the page before",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "compliance-lock-loosened",
        about: "LockSnapshot changes the mode of a lock in compliance mode after its cooling-off period",
        recreates: "no public issue is known",
    },
];

/// Returns the seeded bugs that are switched on in the world of `ctx`.
pub(crate) fn seeded_bugs(ctx: &Ctx) -> SeededBugs {
    SeededBugs {
        busy_ignored: mutant!(ctx, "busy-ignored"),
        attach_twice: mutant!(ctx, "attach-twice"),
        delete_while_attached: mutant!(ctx, "delete-while-attached"),
        snapshot_late: mutant!(ctx, "snapshot-not-point-in-time"),
        client_token_ignored: mutant!(ctx, "client-token-ignored"),
        attachment_lingers: mutant!(ctx, "attachment-lingers"),
        encryption_dropped: mutant!(ctx, "encryption-dropped"),
        throughput_dropped: mutant!(ctx, "throughput-dropped"),
        modification_stays: mutant!(ctx, "modification-never-ends"),
        goes_with_instance: mutant!(ctx, "volume-goes-with-instance"),
        type_ignored: mutant!(ctx, "type-ignored"),
        deletion_stays: mutant!(ctx, "deletion-never-ends"),
        restore_size_ignored: mutant!(ctx, "restore-size-ignored"),
        iops_reset: mutant!(ctx, "modification-resets-iops"),
        holds_volumes: mutant!(ctx, "terminated-instance-holds-volumes"),
        detaches_anywhere: mutant!(ctx, "detached-from-any-instance"),
        available_early: mutant!(ctx, "available-while-detaching"),
        zones_ignored: mutant!(ctx, "zone-not-checked"),
        shares_devices: mutant!(ctx, "device-name-shared"),
        skips_optimizing: mutant!(ctx, "optimizing-skipped"),
        shrinks: mutant!(ctx, "shrinking-allowed"),
        keeps_slots: mutant!(ctx, "slot-not-freed"),
        attaches_early: mutant!(ctx, "attached-while-creating"),
        trusts_tokens: mutant!(ctx, "token-parameters-not-compared"),
        modifies_at_any_pace: mutant!(ctx, "modification-pace-ignored"),
        replaces_tags: mutant!(ctx, "tags-replaced"),
        frees_shared: mutant!(ctx, "shared-volume-freed"),
        stop_detaches: mutant!(ctx, "stopped-instance-loses-volumes"),
        keeps_device_size: mutant!(ctx, "attached-device-not-grown"),
        snapshots_plainly: mutant!(ctx, "snapshot-not-encrypted"),
        drops_copy_tags: mutant!(ctx, "copy-tags-dropped"),
        spares_last_slot: mutant!(ctx, "last-slot-not-given"),
        keeps_iops: mutant!(ctx, "modified-iops-not-applied"),
        keeps_mounts: mutant!(ctx, "ended-guest-keeps-mounts"),
        restores_plainly: mutant!(ctx, "restore-not-encrypted"),
        snapshots_former_size: mutant!(ctx, "snapshot-size-before-growth"),
        stays_busy: mutant!(ctx, "busy-volume-stays"),
        copies_again: mutant!(ctx, "copy-token-ignored"),
        modifies_optimizing: mutant!(ctx, "modified-while-optimizing"),
        drops_snapshot_tags: mutant!(ctx, "snapshot-tags-dropped"),
        size_reset: mutant!(ctx, "modification-resets-size"),
        deletes_any_value: mutant!(ctx, "tag-of-other-value-deleted"),
        ignores_late_force: mutant!(ctx, "force-after-detach-ignored"),
        changes_first_device: mutant!(ctx, "first-device-attribute-changed"),
        filters_first_attachment: mutant!(ctx, "first-attachment-filtered"),
        tags_first: mutant!(ctx, "first-resource-tagged"),
        restores_with_default_key: mutant!(ctx, "restore-uses-default-key"),
        attaches_one_more: mutant!(ctx, "one-attachment-too-many"),
        launches_again: mutant!(ctx, "launch-token-ignored"),
        fails_with_volume: mutant!(ctx, "snapshot-fails-with-its-volume"),
        restarts_detaches: mutant!(ctx, "repeated-detach-starts-over"),
        snapshots_excluded: mutant!(ctx, "excluded-volume-snapshotted"),
        keeps_throughput: mutant!(ctx, "modified-throughput-not-applied"),
        keeps_tag_values: mutant!(ctx, "tag-value-not-replaced"),
        keeps_tag_index: mutant!(ctx, "tag-index-not-refreshed"),
        counts_completed: mutant!(ctx, "completed-snapshots-count-as-pending"),
        keeps_iops_of_type: mutant!(ctx, "type-change-keeps-iops"),
        frees_everywhere: mutant!(ctx, "shared-volume-leaves-all-instances"),
        keeps_waiting: mutant!(ctx, "freed-slot-not-used"),
        spares_last_volume: mutant!(ctx, "volume-quota-off-by-one"),
        repeats_last: mutant!(ctx, "page-repeats-last"),
        loosens_locks: mutant!(ctx, "compliance-lock-loosened"),
    }
}
