//! Seeded bugs of the control loops, which prove that the checkers of a run find them.

use substrate::mutant::Mutant;

/// All seeded bugs. A loop queries them by name, with the feature `mutants`.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "class-mount-options-dropped",
        about: "the provisioner does not copy the mount options of a StorageClass to the PersistentVolume",
        recreates: "kubernetes-csi/external-provisioner#125",
    },
    Mutant {
        name: "reclaim-policy-dropped",
        about: "the provisioner creates each PersistentVolume with the reclaim policy Delete",
        recreates: "rook/rook#1259",
    },
    Mutant {
        name: "zone-not-passed",
        about: "the provisioner does not pass the zone of the scheduler's node to the driver",
        recreates: "kubernetes#49906",
    },
    Mutant {
        name: "claim-in-use-removed",
        about: "pvc-protection removes its finalizer from a claim that a pod uses",
        recreates: "kubernetes#76703",
    },
    Mutant {
        name: "attach-required-ignored",
        about: "attach-detach creates a VolumeAttachment although the CSIDriver object says attachRequired: false",
        recreates: "kubernetes#89173",
    },
    Mutant {
        name: "multi-attach-check-skipped",
        about: "attach-detach attaches a single-node volume although it is attached to another node",
        recreates: "kubernetes#45346",
    },
    Mutant {
        name: "force-detach-early",
        about: "attach-detach forces a detach from an unhealthy node after one minute instead of six",
        recreates: "kubernetes#34358",
    },
    Mutant {
        name: "detach-without-unmount-wait",
        about: "attach-detach detaches a volume that the node's status says is in use",
        recreates: "kubernetes#106710",
    },
    Mutant {
        name: "volumes-attached-not-updated",
        about: "attach-detach detaches a volume and leaves it in the node's status.volumesAttached",
        recreates: "kubernetes#27836",
    },
    Mutant {
        name: "attachment-left-behind",
        about: "attach-detach treats a volume as detached without deleting the VolumeAttachment",
        recreates: "kubernetes#97230",
    },
    Mutant {
        name: "dangling-attachments-ignored",
        about: "after a restart, attach-detach reads attachments from node statuses only, not from VolumeAttachments",
        recreates: "kubernetes#77324",
    },
    Mutant {
        name: "status-flaps",
        about: "attach-detach changes status.volumesAttached of every node back and forth once a minute, forever",
        recreates: "kubernetes#88565",
    },
    Mutant {
        name: "finalizer-removed-early",
        about: "external-attacher removes its finalizer from a VolumeAttachment before ControllerUnpublishVolume",
        recreates: "kubernetes#116663",
    },
    Mutant {
        name: "attached-before-publish",
        about: "external-attacher sets attached=true before it calls ControllerPublishVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "never-retries-detach",
        about: "external-attacher never retries a failed ControllerUnpublishVolume",
        recreates: "kubernetes#92145",
    },
    Mutant {
        name: "pv-deleted-not-volume",
        about: "external-provisioner removes a released PersistentVolume without DeleteVolume",
        recreates: "kubernetes-csi/external-provisioner#195",
    },
    Mutant {
        name: "provision-under-new-name",
        about: "external-provisioner requests the volume of a claim under another name at each attempt",
        recreates: "kubernetes-csi/external-provisioner#63",
    },
    Mutant {
        name: "detach-error-is-success",
        about: "external-attacher treats a volume as detached when ControllerUnpublishVolume fails",
        recreates: "kubernetes-csi/external-attacher#164",
    },
    Mutant {
        name: "released-by-cache",
        about: "the binder releases a volume whose claim is missing in its cache, without asking the API server",
        recreates: "kubernetes#66287",
    },
    Mutant {
        name: "binding-without-uid",
        about: "the binder identifies a volume's claim by name, so a new claim of that name gets the old claim's volume",
        recreates: "kubernetes#20196",
    },
    Mutant {
        name: "resize-target-kept",
        about: "external-resizer keeps its first target size, even if the claim requests another size later",
        recreates: "kubernetes-csi/external-resizer#132",
    },
    Mutant {
        name: "limit-race",
        about: "kube-scheduler counts a pod on its node only after the watch event, so several pods take the last attachment slot",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#1163",
    },
    Mutant {
        name: "informer-keeps-deleted",
        about: "after a new list, an informer's cache keeps objects that were deleted meanwhile",
        recreates: "kubernetes#115658",
    },
    Mutant {
        name: "lease-never-expires",
        about: "a replica waits forever for the lease of a leader that is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lease-lost-in-a-call",
        about: "a leader whose renewal times out waits for the answer and keeps leading, even if another replica has the lease",
        recreates: "kubernetes#65090",
    },
    Mutant {
        name: "out-of-service-remembered",
        about: "attach-detach treats a node as out of service after the taint was removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "retain-ignored",
        about: "external-provisioner deletes a released volume whose reclaim policy is Retain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "fs-type-dropped",
        about: "the provisioner does not write the filesystem of the StorageClass to the PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "access-modes-dropped",
        about: "the provisioner creates each PersistentVolume with the access mode ReadWriteOnce",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "delete-error-is-success",
        about: "external-provisioner treats a volume as deleted when DeleteVolume fails",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "access-modes-not-compared",
        about: "the binder binds a claim to a volume without the access modes that the claim asks for",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "size-not-compared",
        about: "the binder binds a claim to a volume that is too small",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "released-volume-offered-again",
        about: "the binder makes a released volume available to the next claim of the name, with its bytes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-volume-removed",
        about: "pv-protection removes its finalizer from a volume that is bound",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ready-node-forced",
        about: "attach-detach forces a detach after six minutes although the node is Ready",
        recreates: "kubernetes#34358",
    },
    Mutant {
        name: "deleted-node-is-unmounted",
        about: "attach-detach treats the volumes of a deleted Node as unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-attach-forgotten",
        about: "attach-detach treats a volume as not attached after an attach that failed",
        recreates: "kubernetes#77324",
    },
    Mutant {
        name: "volume-goes-before-attachment",
        about: "external-attacher removes its finalizer from a PersistentVolume that has a VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attachment-finalizer-kept",
        about: "external-attacher keeps its finalizer on a VolumeAttachment that it has detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zone-not-compared",
        about: "kube-scheduler ignores the node affinity of a pod's volumes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-limits-ignored",
        about: "kube-scheduler places pods beyond the volume limit of a node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-volume-too-many",
        about: "kube-scheduler lets a node have one volume more than its limit",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "once-pod-not-compared",
        about: "kube-scheduler places a second pod with a ReadWriteOncePod claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "equals-preempted",
        about: "kube-scheduler preempts pods of the same priority",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "preemption-policy-ignored",
        about: "kube-scheduler preempts pods for a pod whose preemptionPolicy is Never",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "victims-not-reprieved",
        about: "kube-scheduler preempts all pods of lower priority on a node, more than it needs to",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "victims-without-condition",
        about: "kube-scheduler deletes a preempted pod without the condition that tells the reason",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "nominated-room-taken",
        about: "kube-scheduler gives the room of a pod that waits for its victims to a pod of lower priority",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreign-claim-taken",
        about: "kube-scheduler places a pod whose ephemeral volume is the claim of another pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-without-owner",
        about: "the ephemeral volume controller creates a claim without its pod as owner",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "living-owner-ignored",
        about: "the garbage collector treats an owner that it has not heard of yet as gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "dependents-kept",
        about: "the garbage collector keeps objects whose owners are gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pods-of-ready-node-collected",
        about: "pod garbage collection deletes the pods of an out-of-service node that is Ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "size-before-expansion",
        about: "external-resizer writes the new size to the PersistentVolume before ControllerExpandVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-expansion-not-asked",
        about: "external-resizer reports the new size of a claim whose filesystem a node has to expand",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "class-told-not-asked",
        about: "external-resizer reports a new VolumeAttributesClass without calling ControllerModifyVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "retries-without-backoff",
        about: "a work queue retries failed items at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-finalizer-kept",
        about: "pvc-protection never removes its finalizer",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "terminating-pod-not-counted",
        about: "pvc-protection removes its finalizer from a claim whose pod is terminating",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "read-only-volume-ignored",
        about: "kubelet mounts a PersistentVolume with csi.readOnly for writing",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-phase-not-written",
        about: "the binder never writes the phase Bound to a PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unfinished-creation-forgotten",
        about: "external-provisioner forgets a CreateVolume that timed out when its claim is deleted, and the volume leaks",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "publish-context-dropped",
        about: "external-attacher does not write the driver's publish context to the VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-pod-keeps-volume",
        about: "attach-detach keeps the volumes of a finished pod attached until the pod is deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-size-not-written",
        about: "external-resizer does not write the new size to the PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-completed-before-volume",
        about: "external-resizer writes a new VolumeAttributesClass to the claim before the PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "binding-not-awaited",
        about: "kube-scheduler binds a pod without waiting until its claims are bound",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreign-finalizers-removed",
        about: "pv-protection removes all finalizers of a deleted PersistentVolume with its own",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unreachable-taint-kept",
        about: "node-lifecycle keeps the taint of an unreachable node that is Ready again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "eviction-not-called-off",
        about: "taint-eviction deletes a pod although the taint of its node is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "quarantine-skipped",
        about: "pod garbage collection deletes the pods of a missing node at once, before the node can register again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-dependent-collected",
        about: "the garbage collector deletes one dependent of an object that is gone, and keeps the others",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-template-repeated",
        about: "the ephemeral volume controller creates all claims of a pod from the pod's first template",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-announced-always",
        about: "the expander announces an expansion of claims that do not grow",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-source-released-early",
        about: "snapshot-controller removes its finalizer from a claim of which a snapshot is being taken",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-policy-ignored",
        about: "snapshot-controller creates each content with the deletion policy Delete",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-of-wrong-volume",
        about: "snapshot-controller requests a snapshot of a volume of another claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-ready-early",
        about: "snapshot-controller reports a snapshot as ready as soon as its content exists",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-retain-ignored",
        about: "csi-snapshotter deletes a snapshot whose deletion policy is Retain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-timeout-is-final",
        about: "csi-snapshotter treats a CreateSnapshot that timed out as failed, and lets the content be removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "scaled-down-claims-deleted",
        about: "the StatefulSet controller deletes the claims of a pod that it deletes, although the policy is Retain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lowest-ordinal-first",
        about: "the StatefulSet controller scales down from the lowest surplus ordinal",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "max-unavailable-ignored",
        about: "the Deployment controller removes old pods in a rollout without regard to maxUnavailable",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "adopts-without-uid-check",
        about: "controllers adopt objects by name only, and do not check that they still exist themselves",
        recreates: "kubernetes#42639",
    },
    Mutant {
        name: "evictions-forgotten",
        about: "the disruption controller counts an evicted pod that still exists as healthy",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "detach-not-verified",
        about: "attach-detach detaches without reading the node's volumesInUse from the API server",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-detach-ignored",
        about: "attach-detach treats a volume as attached after a detach that failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-error-kept",
        about: "external-attacher keeps the error of an earlier attach after one that succeeded",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-node-is-detached",
        about: "external-attacher treats the volumes of a node without a CSINode as detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attached-volume-deleted",
        about: "external-provisioner calls DeleteVolume for a volume that has a VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "selector-not-compared",
        about: "the binder binds a claim to a volume that the claim's selector excludes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "live-pods-not-read",
        about: "pvc-protection trusts its cache of pods, and does not list them before it removes its finalizer",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "class-in-use-removed",
        about: "vac-protection removes its finalizer from a VolumeAttributesClass that a claim uses",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "template-metadata-dropped",
        about: "the ephemeral volume controller creates claims without the labels and annotations of the template",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-missing-owner-suffices",
        about: "the garbage collector deletes an object that has another owner, which exists",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attached-volumes-not-counted",
        about: "kube-scheduler counts only the volumes of a node's pods, not those that are still attached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-unknown-early",
        about: "node-lifecycle sets a node to Unknown after 20 seconds without a heartbeat instead of 50",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "toleration-seconds-ignored",
        about: "taint-eviction deletes pods at once, however long they tolerate the taint",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ordinals-not-awaited",
        about: "the StatefulSet controller creates a pod before the pods of lower ordinals are ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-deleted-in-restore",
        about: "snapshot-controller deletes a snapshot from which a claim is being restored",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lowest-ordinal-updated-first",
        about: "a rolling update of a StatefulSet replaces the pod of the lowest ordinal first",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "partition-ignored",
        about: "a rolling update of a StatefulSet replaces the pods below its partition",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "scaled-down-claims-kept",
        about: "the StatefulSet controller keeps the claims of a pod that it deletes, although the policy is Delete",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "updated-pod-not-awaited",
        about: "a rolling update of a StatefulSet does not wait until the pod that it replaced is ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "surplus-pods-deleted-at-once",
        about: "the StatefulSet controller deletes all surplus pods of an ordered set at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-failure-too-many",
        about: "the Job controller allows one failure more than the backoffLimit",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-job-runs-on",
        about: "the Job controller does not delete the running pods of a Job that has failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "parallelism-ignored",
        about: "the Job controller runs all pods of a Job at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "max-surge-ignored",
        about: "a rollout of a Deployment creates all new pods at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "old-sets-kept",
        about: "the Deployment controller keeps all old ReplicaSets, whatever revisionHistoryLimit says",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unready-pods-available",
        about: "the ReplicaSet controller counts pods that are not ready as available",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ready-pods-deleted-first",
        about: "the ReplicaSet controller deletes ready pods before pods that are not ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "percentage-rounded-down",
        about: "the disruption controller rounds a percentage in minAvailable down",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unready-pods-healthy",
        about: "the disruption controller counts pods that are not ready as healthy",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pods-of-lost-node-stay-ready",
        about: "node-lifecycle does not mark the pods of a node that is not Ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lost-claim-stays-bound",
        about: "the binder never writes the phase Lost to a claim whose PersistentVolume is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unschedulable-not-told",
        about: "kube-scheduler does not write the condition PodScheduled to a pod that fits on no node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "provisioning-not-told",
        about: "external-provisioner reports no Event about a new volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-mode-not-compared",
        about: "the binder binds a claim to a volume of the other volume mode",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-node-mode-suffices",
        about: "attach-detach attaches a volume to one node only if any of its access modes is of one node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "report-not-restored",
        about: "attach-detach leaves a volume out of the node's status after the write before its detach has failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-error-not-told",
        about: "the attacher does not write the error of ControllerPublishVolume to the VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "publish-read-only-dropped",
        about: "the attacher publishes the volume of a read-only PersistentVolume for writing",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-not-ready-restored",
        about: "the provisioner restores a volume from a snapshot that is not ready to use",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "selected-node-kept",
        about: "the provisioner leaves the selected node on a claim for which another node must be chosen",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "allowed-topologies-ignored",
        about: "the provisioner ignores the allowed topologies of a StorageClass",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "clone-source-not-protected",
        about: "the provisioner adds no finalizer to a claim while it is cloned",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-error-kept",
        about: "the snapshot controller leaves the error in the status of a snapshot that became ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-size-dropped",
        about: "the snapshot controller does not copy the restore size to the VolumeSnapshot",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "largest-volume-chosen",
        about: "the binder binds a claim to the largest volume that matches, not to the smallest",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "class-not-compared",
        about: "the binder binds a claim to a volume of another StorageClass",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "storage-capacity-ignored",
        about: "the scheduler ignores the published storage capacities",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shared-volume-counted-twice",
        about: "the scheduler counts a volume once for each pod on the node that uses it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "no-schedule-taint-ignored",
        about: "the scheduler ignores taints with the effect NoSchedule",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "not-ready-told-as-unreachable",
        about: "node lifecycle taints a node that is not ready as unreachable",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "orphan-finalizer-first",
        about: "the garbage collector removes the orphan finalizer before it releases the dependents",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-selector-ignored",
        about: "the scheduler ignores node selectors and node affinities",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "requests-not-compared",
        about: "the scheduler ignores the requests of pods",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recreate-not-awaited",
        about: "a Deployment with the strategy Recreate creates new pods before the old ones have ended",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreground-not-awaited",
        about: "the garbage collector removes the finalizer of a foreground deletion while dependents block it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "force-detach-never",
        about: "attach-detach never detaches a volume that its node has not unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "no-execute-ignored",
        about: "taint eviction deletes no pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "reserved-volume-taken",
        about: "the binder binds a claim to a volume that is reserved for another claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "job-ttl-ignored",
        about: "finished Jobs stay beyond ttlSecondsAfterFinished",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lost-node-stays-ready",
        about: "node lifecycle never sets a node to Unknown",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-affinity-not-written",
        about: "external-provisioner creates each PersistentVolume without a node affinity",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recorded-node-id-ignored",
        about: "external-attacher ignores the node id of a VolumeAttachment whose CSINode is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "growth-before-start-missed",
        about: "external-resizer does not expand claims that grew before it started",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unbound-content-left",
        about: "snapshot-controller leaves the content of a snapshot that is deleted before its status names it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pending-snapshot-not-polled",
        about: "csi-snapshotter does not look again at a snapshot that is not ready yet",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-capacity-not-written",
        about: "the binder does not write the capacity of the volume to a bound claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "freed-claim-not-checked",
        about: "pvc-protection does not check a deleted claim again when the last pod that uses it is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "previous-node-read",
        about: "attach-detach evaluates the previous version of a changed Node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-claim-wakes-no-pod",
        about: "kube-scheduler does not retry a waiting pod when its claim changes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recreated-owner-accepted",
        about: "the garbage collector takes a new owner of the same name for the owner that is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "terminating-pods-fill-places",
        about: "the ReplicaSet controller counts pods that are being deleted as replicas",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pods-of-deleted-job-held",
        about: "the Job controller keeps its finalizer on the pods of a deleted Job",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "paused-rollout-goes-on",
        about: "the Deployment controller rolls out the changes of a paused Deployment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-pod-not-replaced",
        about: "the StatefulSet controller does not replace a pod that has failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "daemon-tolerations-dropped",
        about: "the DaemonSet controller creates pods without the tolerations of daemons",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "terminating-endpoint-ready",
        about: "the EndpointSlice controller lists a pod that is being deleted as ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "published-capacity-kept",
        about: "the provisioner never updates a published capacity",
        recreates: "no public issue is known",
    },
];
