//! Seeded bugs of the node agent.

use substrate::mutant::Mutant;

/// List of seeded bugs.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "mount-options-dropped",
        about: "the mount options of a PersistentVolume are not passed to the driver",
        recreates: "kubernetes#67897",
    },
    Mutant {
        name: "read-only-not-passed",
        about: "a volume that a pod mounts read-only is published for writing",
        recreates: "kubernetes#61008",
    },
    Mutant {
        name: "populated-too-early",
        about: "after a start, the kubelet unmounts volumes on disk before it has found the volumes of running pods",
        recreates: "kubernetes#113979",
    },
    Mutant {
        name: "stage-not-repeated",
        about: "a volume whose unstaging failed counts as staged, so it is published for the next pod without staging",
        recreates: "kubernetes#86360",
    },
    Mutant {
        name: "unmount-before-stop",
        about: "the volumes of a terminating pod are unmounted before its containers are stopped",
        recreates: "kubernetes#27691",
    },
    Mutant {
        name: "removal-failures-ignored",
        about: "a volume counts as unmounted although its mount path cannot be removed",
        recreates: "kubernetes#60987",
    },
    Mutant {
        name: "unmount-skipped",
        about: "the volumes of a terminating pod are never unmounted",
        recreates: "kubernetes#41096",
    },
    Mutant {
        name: "volumes-in-use-dropped",
        about: "after a start, the kubelet empties volumesInUse before it has looked at its disk",
        recreates: "kubernetes#101791",
    },
    Mutant {
        name: "reconstruction-skipped",
        about: "after a start, the kubelet does not reconstruct volumes from its disk",
        recreates: "kubernetes#60645",
    },
    Mutant {
        name: "fs-type-not-passed",
        about: "the filesystem of a PersistentVolume is not passed to the driver",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attachment-not-awaited",
        about: "a volume is staged before its VolumeAttachment is attached",
        recreates: "kubernetes#124398",
    },
    Mutant {
        name: "one-volume-reconstructed",
        about: "after a start, the kubelet reconstructs one volume of its disk",
        recreates: "kubernetes#60645",
    },
    Mutant {
        name: "node-expansion-skipped",
        about: "the kubelet reports an expansion without calling NodeExpandVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "in-use-not-awaited",
        about: "a volume is mounted before the node's status lists it in volumesInUse",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unstage-while-published",
        about: "a volume that no pod wants any more is unstaged before it is unpublished",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "published-for-another-pod",
        about: "a volume is published in the directory of another pod of the node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pod-removed-before-unmount",
        about: "a pod is removed from the API before its volumes are unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "mount-references-ignored",
        about: "a volume is unstaged without a look for its other mounts",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-not-given",
        about: "a volume is mounted without the fsGroup of its pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-awaits-restart",
        about: "a volume that a running pod uses is not expanded until the pod is restarted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "devices-not-reconstructed",
        about: "after a start, the kubelet reconstructs filesystems but no raw devices",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "uncertain-call-is-final",
        about: "a volume counts as not mounted after a call to the driver that timed out",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "container-not-restarted",
        about: "a container that exited is not started again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restart-wait-not-doubled",
        about: "a container that fails again and again always waits for ten seconds",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lost-pod-runs-again",
        about: "a pod with restartPolicy Never runs again after its machine lost power",
        recreates: "kubernetes#8878",
    },
    Mutant {
        name: "resize-condition-kept",
        about: "the kubelet keeps the conditions of a claim's resize after the expansion",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "publish-context-not-passed",
        about: "NodeStageVolume and NodePublishVolume are called without the publish context of the attachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-status-each-time",
        about: "the kubelet writes the status of its node each ten seconds, although nothing has changed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deleted-pod-stopped-late",
        about: "the kubelet begins to stop the containers of a deleted pod after 60 seconds",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ended-pod-stays-longer",
        about: "the kubelet deletes a pod a minute after its volumes were unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "mount-found-late",
        about: "the kubelet starts the containers of a pod at a later resync, not as soon as its volumes are mounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "staging-record-not-written",
        about: "the kubelet does not write vol_data.json beside a staging path, so that it leaves the volume staged",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-data-after-mount",
        about: "the metadata of a pod's volume is written after NodePublishVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "in-use-only-while-wanted",
        about: "volumesInUse lists a volume only while a pod wants it, not while it is mounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "grace-period-not-granted",
        about: "the kubelet kills the containers of a deleted pod without its grace period",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-claim-not-grown",
        about: "the kubelet looks for an expansion at the first claim of a running pod only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-expansion-error-not-told",
        about: "the kubelet does not write a failed NodeExpandVolume to the claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-mount-not-retried",
        about: "a mount that failed with a final error is not tried again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "staging-directory-made-early",
        about: "the staging directory is created before the volume is known to be attached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "reconstructed-volume-not-in-use",
        about: "volumesInUse does not list a volume that was reconstructed from the disk",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-unmount-ends-use",
        about: "volumesInUse does not list a volume whose unmount has failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "former-report-counts",
        about: "a volume is mounted as soon as it is attached if volumesInUse listed it for an earlier pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "growth-missed-by-mount",
        about: "a volume that grew while no pod used it is mounted without an expansion of its filesystem",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "reconstructed-device-forgotten",
        about: "after a start, a NodeStageVolume that fails makes the kubelet forget the global mount on its disk",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "overwritten-status-kept",
        about: "the kubelet does not repair the status of a pod that another component has overwritten",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shorter-grace-ignored",
        about: "the kubelet ignores a second deletion of a pod with a shorter grace period",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deleting-claim-refused",
        about: "the kubelet looks up no volume of a claim that is being deleted, even if a running pod uses it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "orphaned-pod-unmounted",
        about: "after a start, the volumes of a pod that is gone are unmounted while its containers run",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "other-drivers-unlisted",
        about: "the registration of a driver removes the other drivers of the node from its CSINode",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "once-pod-mounted-twice",
        about: "the kubelet mounts a ReadWriteOncePod volume for a second pod of the node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-name-forgotten",
        about: "the kubelet ignores the second of two volumes of a pod that refer to one claim",
        recreates: "kubernetes#99453",
    },
    Mutant {
        name: "expansion-told-before-made",
        about: "the kubelet writes the new size to the claim before it calls NodeExpandVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restart-wait-not-reset",
        about: "a container that has run for long waits after its next failure as after its earlier ones",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-policy-ignored",
        about: "a volume gets the fsGroup of its pod although the policy of its driver excludes that",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-user-not-reconstructed",
        about: "after a start, the kubelet reconstructs a volume for the first of the pods that have it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-report-counts",
        about: "a volume counts as listed in volumesInUse after a status write that failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deadline-from-restart",
        about: "the kubelet counts activeDeadlineSeconds of a running pod from its own restart",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "hook-of-first-container-only",
        about: "the kubelet runs the preStop hook of the first container of a pod only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-volume-republished",
        about: "of the volumes whose drivers require it, the kubelet publishes only the first one of a pod again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pod-address-shared",
        about: "the kubelet reports one address for all pods of its node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "host-address-of-the-pod",
        about: "the kubelet reports the address of a pod as that of its node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-id-not-annotated",
        about: "the kubelet does not name the node's id of a driver in the annotation of the node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "uncertain-stage-not-undone",
        about: "the kubelet does not unstage a volume after a NodeStageVolume without a final answer",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "crash-loop-told-while-running",
        about: "the kubelet reports CrashLoopBackOff for a container that has started again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "delete-grace-ignored",
        about: "the kubelet grants a deleted pod the grace period of its spec, not that of the deletion",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-status-report-dropped",
        about: "the kubelet does not repeat a failed write of a pod's status, not even the last one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-lookup-not-repeated",
        about: "the kubelet does not look up the volumes of a pod again after a lookup failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stray-failures-add-up",
        about: "the kubelet counts the failures of a probe that are not in a row as if they were",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "hook-time-not-counted",
        about: "a container gets its whole grace period after its preStop hook, however long the hook has run",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "condition-times-renewed",
        about: "each write of a pod's status sets the transition times of conditions that have not changed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-pod-stays-mounted",
        about: "the volumes of a finished pod stay mounted until the pod is deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stale-lease-renewed",
        about: "the kubelet does not read its lease again after the API server has refused a renewal",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "changed-deadline-ignored",
        about: "the kubelet ignores activeDeadlineSeconds if a running pod gets it or if it becomes shorter",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "init-env-not-awaited",
        about: "the kubelet starts a pod although a Secret or ConfigMap of an init container's variables is missing",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-success-suffices",
        about: "the kubelet reports a pod as Succeeded if one of its containers succeeded and others failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "debug-container-rerun",
        about: "the kubelet starts an ephemeral container again after the machine has restarted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "extended-resource-dropped",
        about: "the kubelet's report of its node drops resources that others have advertised in its status",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "id-of-former-driver-kept",
        about: "the kubelet keeps the node id of a driver that has left the node in the annotation of the Node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreign-ephemeral-claim-used",
        about: "the kubelet mounts the claim of an ephemeral volume that is not the pod's",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unfinished-node-expansion-told",
        about: "the kubelet records an expansion as failed that the driver may still finish",
        recreates: "no public issue is known",
    },
];
