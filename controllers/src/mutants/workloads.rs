//! Seeded bugs of the loops of workloads, disruption budgets and EndpointSlices.

use substrate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "changed-set-found-late",
        about: "the ReplicaSet controller looks at a changed ReplicaSet after 20 seconds",
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
        name: "newest-set-shrinks-first",
        about: "the Deployment controller takes old pods from the newest of the old ReplicaSets",
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
        name: "ordinals-not-awaited",
        about: "the StatefulSet controller creates a pod before the pods of lower ordinals are ready",
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
        name: "recreate-not-awaited",
        about: "a Deployment with the strategy Recreate creates new pods before the old ones have ended",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "job-ttl-ignored",
        about: "finished Jobs stay beyond ttlSecondsAfterFinished",
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
        name: "when-deleted-misread",
        about: "the StatefulSet controller applies whenScaled where the policy says whenDeleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-pods-not-counted",
        about: "the disruption controller subtracts maxUnavailable from the pods that exist, not from the replicas",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "rollout-never-completes",
        about: "the StatefulSet controller never makes the update revision the current one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "endpoints-error-dropped",
        about: "the EndpointSlice controller forgets a Service if a write fails",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deadline-counts-suspension",
        about: "the Job controller counts the time in which a Job was suspended towards activeDeadlineSeconds",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-job-stays-active",
        about: "the CronJob controller removes a Job from its active list if it succeeded, but not if it failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "newest-finished-job-deleted",
        about: "the CronJob controller deletes the newest finished Jobs beyond the history limits, and keeps the oldest",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "old-and-new-set-counted",
        about: "the disruption controller counts a Deployment once for each of its ReplicaSets",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-port-not-listed",
        about: "the EndpointSlice controller lists only the first port of a Service",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "endpoint-without-node",
        about: "the EndpointSlice controller leaves out the node of each endpoint",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unselected-daemon-kept",
        about: "the DaemonSet controller leaves a pod on a node that the set no longer selects",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "daemons-wanted-everywhere",
        about: "the DaemonSet controller reports that a pod is wanted on each node, whatever the set selects",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-jobs-kept",
        about: "the CronJob controller keeps one finished Job more than its limits",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-labels-dropped",
        about: "the StatefulSet controller creates the claims of a pod without labels",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recreated-pod-ignores-partition",
        about: "the StatefulSet controller creates every pod at the update revision, also one below the partition",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "scaled-size-not-annotated",
        about: "the Deployment controller scales a ReplicaSet and leaves the size in its annotations as it was",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "min-ready-wait-not-planned",
        about: "the ReplicaSet controller does not come back to a ready pod when its minReadySeconds are over",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "changed-node-not-noticed",
        about: "the DaemonSet controller looks at new nodes only, not at nodes whose labels or taints change",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "old-daemon-pods-told-updated",
        about: "the DaemonSet controller counts every pod of a set in updatedNumberScheduled",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "job-failures-forgotten",
        about: "the Job controller forgets the failures that it has counted, and does not wait before the next pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pod-replacement-policy-ignored",
        about: "the Job controller replaces a pod that is still terminating, although the policy is Failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unselected-pod-stays-endpoint",
        about: "the EndpointSlice controller overlooks a pod whose changed labels a Service no longer selects",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-claim-not-created",
        about: "the StatefulSet controller does not create the claims that a pending pod lacks",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "relabelled-pod-kept",
        about: "controllers keep an object whose labels they no longer select as their own",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "partition-ignores-start-ordinal",
        about: "the StatefulSet controller counts the partition from 0, not from the first ordinal, when it creates a pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unready-address-hidden-at-end",
        about: "the EndpointSlice controller reports a terminating pod as not ready, although the Service has publishNotReadyAddresses",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pod-of-any-name-adopted",
        about: "a StatefulSet adopts pods with its labels whose names are not its own",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "daemons-before-pods-listed",
        about: "the DaemonSet controller starts before it has listed the pods, and makes each daemon once more",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-creation-still-expected",
        about: "the ReplicaSet controller waits for a pod that it could not create",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "min-ready-seconds-not-passed-on",
        about: "the Deployment controller does not write a changed minReadySeconds to its ReplicaSet",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "set-of-another-used",
        about: "the Deployment controller uses any ReplicaSet that has the name of its new one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "empty-work-queue-complete",
        about: "the Job controller completes a Job without completions as soon as no pod of it runs",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "managed-by-ignored",
        about: "the Job controller makes pods for a Job that another controller manages",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-job-stays-active",
        about: "the CronJob controller keeps a Job that is gone in its active list",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "job-of-another-listed",
        about: "the CronJob controller lists a Job of another owner that has the name of its next one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "endpoint-without-hostname",
        about: "the EndpointSlice controller leaves out the hostname of each endpoint",
        recreates: "no public issue is known",
    },
];
