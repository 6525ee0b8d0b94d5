//! Seeded bugs of the driver, with their origins.

use substrate::mutant::Mutant;

/// List of seeded bugs. Each is queried at its place in the code, and only with the feature `mutants`.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "expand-answers-early",
        about: "NodeExpandVolume answers OK without growing the filesystem",
        recreates: "kubernetes#84030",
    },
    Mutant {
        name: "unstage-forgets-unmount",
        about: "NodeUnstageVolume answers OK and leaves the filesystem mounted at its staging path",
        recreates: "sergelogvinov/proxmox-csi-plugin#601",
    },
    Mutant {
        name: "unstage-leaves-directory",
        about: "NodeUnstageVolume leaves a file in the staging directory, so that the directory cannot be removed",
        recreates: "kubernetes#105536",
    },
    Mutant {
        name: "unpublish-leaves-directory",
        about: "NodeUnpublishVolume leaves a file in the target directory, so that the directory cannot be removed",
        recreates: "kubernetes#60987",
    },
    Mutant {
        name: "unpublish-answers-early",
        about: "ControllerUnpublishVolume answers OK without the cloud's detach",
        recreates: "kubernetes-csi/external-attacher#164",
    },
    Mutant {
        name: "detach-is-not-waited-for",
        about: "ControllerUnpublishVolume answers OK as soon as the cloud has begun to detach",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#375",
    },
    Mutant {
        name: "publish-trusts-directory",
        about: "NodePublishVolume treats a volume as published if the target directory exists, mounted or not",
        recreates: "kubernetes-csi/csi-driver-nfs#762",
    },
    Mutant {
        name: "device-by-name",
        about: "NodeStageVolume looks for a volume under its previous device name on the node",
        recreates: "kubernetes#34437",
    },
    Mutant {
        name: "panics-on-failed-detach",
        about: "ControllerUnpublishVolume panics when the cloud's detach fails",
        recreates: "kubernetes#27774",
    },
    Mutant {
        name: "retries-without-wait",
        about: "ControllerUnpublishVolume retries without a pause, and so forever, when the cloud's detach fails",
        recreates: "hetznercloud/csi-driver#58",
    },
    Mutant {
        name: "failed-calls-pile-up",
        about: "ControllerUnpublishVolume leaks memory when the cloud's detach fails",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#1482",
    },
    Mutant {
        name: "formats-after-error",
        about: "NodeStageVolume treats a device that it could not inspect as empty, and creates a new filesystem",
        recreates: "kubernetes#95183",
    },
    Mutant {
        name: "names-another-device",
        about: "ControllerPublishVolume returns a device in the publish context that the volume does not have in the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "iops-dropped",
        about: "CreateVolume does not pass the IOPS of the parameters to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zone-told-not-made",
        about: "CreateVolume creates a volume in the cloud's first zone and answers with the requested one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "capacity-told-not-made",
        about: "CreateVolume rounds the size down and answers with the requested one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "read-only-ignored",
        about: "NodePublishVolume mounts for writing although the request says read-only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "mount-flags-ignored",
        about: "NodeStageVolume mounts without the mount flags of the request",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "fs-type-ignored",
        about: "NodeStageVolume creates and mounts ext4, whatever the request asks for",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "formats-each-time",
        about: "NodeStageVolume creates a new filesystem on a device that has one",
        recreates: "kubernetes#95183",
    },
    Mutant {
        name: "attach-is-not-waited-for",
        about: "ControllerPublishVolume answers OK as soon as the cloud has begun to attach",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unpublish-forgets-unmount",
        about: "NodeUnpublishVolume answers OK and leaves the volume mounted at the target path",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-device-taken",
        about: "NodeStageVolume mounts the first device of the node, whatever volume the request names",
        recreates: "kubernetes#34437",
    },
    Mutant {
        name: "expand-not-asked",
        about: "ControllerExpandVolume answers OK without a request to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "modify-not-asked",
        about: "ControllerModifyVolume answers OK without a request to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "source-dropped",
        about: "CreateVolume creates an empty volume for a request with a source, and names the source",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "limit-not-told",
        about: "NodeGetInfo names no limit of volumes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-limit-ignored",
        about: "ControllerPublishVolume attaches more volumes to a node than the driver's limit",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "refused-detach-told-done",
        about: "ControllerUnpublishVolume takes IncorrectState for the end of a detach",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-needs-no-node",
        about: "ControllerExpandVolume says that no node has to expand the filesystem",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tags-dropped",
        about: "CreateVolume sets no tag of the volume except its name",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "multi-attach-dropped",
        about: "CreateVolume creates a volume for several nodes without Multi-Attach",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "topology-not-told",
        about: "CreateVolume does not answer with the zone of the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "delete-not-asked",
        about: "DeleteVolume answers OK without a request to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stuck-attach-left",
        about: "ControllerPublishVolume leaves an attachment that is stuck in `attaching`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-stage-stays-mounted",
        about: "NodeStageVolume leaves the filesystem mounted when it fails after the mount",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "access-point-shared",
        about: "CreateVolume of the EFS driver gives all claims of a file system one access point",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "access-point-not-adopted",
        about: "CreateVolume of the EFS driver fails if an earlier call has created the access point of the volume",
        recreates: "kubernetes-sigs/aws-efs-csi-driver#1467",
    },
    Mutant {
        name: "access-point-left",
        about: "DeleteVolume of the EFS driver answers OK without deleting the access point",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-delete-not-asked",
        about: "DeleteSnapshot answers OK without a request to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "iops-not-raised-with-size",
        about: "ControllerExpandVolume does not raise the IOPS that follow the size",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-context-dropped",
        about: "CreateVolume answers without the volume context",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unknown-unpublish-fails",
        about: "ControllerUnpublishVolume fails if the volume, the instance or the attachment does not exist",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "gid-shared",
        about: "the driver of shared file systems gives each access point the first group of the range",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "preferred-zone-ignored",
        about: "CreateVolume creates a volume in the last of the requested zones, not in the first",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-is-not-waited-for",
        about: "ControllerExpandVolume answers OK as soon as the cloud has begun to modify the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pending-snapshot-told-ready",
        about: "CreateSnapshot answers that a pending snapshot is ready to use",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unpublish-takes-every-target",
        about: "NodeUnpublishVolume unmounts the volume at the target paths of all pods of the node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-taken-again",
        about: "CreateSnapshot takes another snapshot although an earlier call with the name has taken one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "throughput-not-modified",
        about: "ControllerModifyVolume does not pass the throughput of the parameters to the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "share-mount-option-dropped",
        about: "NodePublishVolume of the EFS driver mounts without the last of the mount options",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "share-read-only-ignored",
        about: "the driver of shared file systems mounts for writing although the request says read-only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "slow-detach-told-done",
        about: "ControllerUnpublishVolume answers OK when the cloud has not detached in time",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restaged-volume-refused",
        about: "NodeStageVolume fails if the volume is staged at the path already",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "slow-creation-fails",
        about: "CreateVolume answers INTERNAL if the new volume is not available at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "repeated-unpublish-refused",
        about: "NodeUnpublishVolume fails if nothing is mounted at the target path",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "limit-told-too-high",
        about: "NodeGetInfo names a limit of one volume more than the node takes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "busy-told-detached",
        about: "ControllerUnpublishVolume answers OK while the attachment is `busy`",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pending-modification-trusted",
        about: "ControllerExpandVolume answers OK if the cloud refuses because another modification is under way",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tag-only-change-skipped",
        about: "ControllerModifyVolume ignores the tags of the parameters if they change nothing else",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "clone-zone-not-checked",
        about: "CreateVolume clones a volume of a zone that the request does not allow",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "delete-in-use-told-done",
        about: "DeleteVolume answers OK if the cloud refuses because the volume is in use",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "capacity-of-all-zones",
        about: "GetCapacity answers with the sum of all zones, whatever topology the request names",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-modification-told-done",
        about: "ControllerExpandVolume and ControllerModifyVolume answer OK if the modification failed in the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-rounded-down",
        about: "ControllerExpandVolume rounds the requested size down to whole GiB",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-ready-with-first-member",
        about: "CreateVolumeGroupSnapshot answers that a group is ready if its first snapshot is",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "last-gid-refused",
        about: "a repeated CreateVolume of the EFS driver refuses its own access point if that has the last group of the range",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "listed-volume-taken-for-attached",
        about: "ControllerPublishVolume does not wait for the attachment if the instance lists the volume already",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "size-in-decimal-gigabytes",
        about: "CreateVolume rounds the size up to units of 1000³ bytes, and asks for as many GiB",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-target-refused",
        about: "NodePublishVolume refuses a second target of a node, although the access mode allows several",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lock-kept-after-failed-publish",
        about: "ControllerPublishVolume keeps its lock if it fails, so that later calls are ABORTED",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-snapshot-is-the-first",
        about: "CreateSnapshot answers with an earlier snapshot of the volume, whatever name that has",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-expansion-asked-for-raw-device",
        about: "ControllerExpandVolume says that a node has to expand a raw device, too",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "format-options-dropped",
        about: "NodeStageVolume creates the filesystem without the options that the StorageClass gives",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "name-of-finished-attach-reused",
        about: "ControllerPublishVolume takes a device name that was in use when it looked, because its attach has ended since",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "larger-volume-told-as-asked",
        about: "ControllerExpandVolume answers with the requested size, although the volume is larger",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "refused-value-told-internal",
        about: "CreateVolume answers INTERNAL to a value that the cloud refuses",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zone-capacity-not-checked",
        about: "CreateVolume creates a volume in a zone whose capacity is used up",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "full-instance-told-internal",
        about: "ControllerPublishVolume answers INTERNAL if the cloud says that the instance is full",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "refused-name-forgotten",
        about: "ControllerPublishVolume asks again for a device name that the cloud has refused as in use",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "published-volume-grown",
        about: "ControllerExpandVolume grows a published volume, although the driver offers expansion of detached volumes only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "type-not-modified",
        about: "ControllerModifyVolume leaves out the type of the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "tag-not-removed",
        about: "ControllerModifyVolume removes no tag",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "inode-size-given-as-ratio",
        about: "NodeStageVolume gives mkfs.ext4 the size of an inode as the number of bytes for each inode",
        recreates: "no public issue is known",
    },
];
