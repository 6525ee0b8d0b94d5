//! Seeded bugs of the scheduler, of the collectors, of the loops of nodes, and of what all loops share.

use substrate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "new-pod-found-late",
        about: "kube-scheduler does not notice a new pod, and finds it a minute later",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lower-nominations-kept",
        about: "kube-scheduler preempts pods for a pod, and lower pods stay nominated for the node",
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
        name: "retries-without-backoff",
        about: "a work queue retries failed items at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "read-only-volume-ignored",
        about: "kubelet mounts a PersistentVolume with csi.readOnly for writing",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "binding-not-awaited",
        about: "kube-scheduler binds a pod without waiting until its claims are bound",
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
        name: "collected-whatever-it-is-now",
        about: "the garbage collector repeats a refused deletion for the object that has the name now",
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
        name: "pods-of-lost-node-stay-ready",
        about: "node-lifecycle does not mark the pods of a node that is not Ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "older-verdict-stays",
        about: "kube-scheduler writes two verdicts about a pod at the same time, and the older one may arrive last",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unschedulable-not-told",
        about: "kube-scheduler does not write the condition PodScheduled to a pod that fits on no node",
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
        name: "foreground-not-awaited",
        about: "the garbage collector removes the finalizer of a foreground deletion while dependents block it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "no-execute-ignored",
        about: "taint eviction deletes no pod",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lost-node-stays-ready",
        about: "node lifecycle never sets a node to Unknown",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "dependents-found-late",
        about: "the garbage collector looks at the dependents of an owner that is gone after 60 seconds",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "evicted-late",
        about: "taint eviction deletes each pod 30 seconds after the end of its toleration",
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
        name: "failed-binding-not-retried",
        about: "kube-scheduler does not schedule a pod again after its binding failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-binding-keeps-room",
        about: "kube-scheduler still counts a pod on its node after its binding failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-preemption-not-retried",
        about: "kube-scheduler does not try a pod again if it could not remove its victims",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-toleration-read",
        about: "taint-eviction reads the first toleration of a pod only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-limit-remembered",
        about: "kube-scheduler applies no volume limit to a node whose CSINode once had none",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "freed-slot-wakes-no-pod",
        about: "kube-scheduler does not retry a waiting pod when a volume is detached from a full node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unbound-claims-not-counted",
        about: "kube-scheduler does not count the volumes that have yet to be provisioned towards the limit of a node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "budgets-not-spared",
        about: "kube-scheduler preempts the pods that a disruption budget protects before the others",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "reset-selection-not-noticed",
        about: "kube-scheduler keeps waiting for a claim whose selected node the provisioner has removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "total-outage-evicts",
        about: "node-lifecycle taints the nodes although none is ready any more",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "former-pods-timer-kept",
        about: "taint-eviction keeps the timer of a deleted pod, and deletes the next pod of its name",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-reservation-kept",
        about: "kube-scheduler keeps the volumes and claims that it reserved for a pod whose binding failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "taint-change-restarts-wait",
        about: "taint-eviction starts the tolerated time of a pod again when the taints of its node change",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "anti-affinity-of-others-ignored",
        about: "kube-scheduler ignores the anti-affinity of the pods that are on a node already",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-marking-not-repeated",
        about: "node-lifecycle does not mark the pods of a lost node again after a write that failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "affinity-across-namespaces",
        about: "kube-scheduler counts pods of all namespaces for an affinity term that names no namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-dependent-released",
        about: "the garbage collector releases one dependent of an owner that is deleted with its dependents kept",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "placed-pod-not-evicted",
        about: "taint-eviction overlooks the taints of a node when a pod that exists already is placed there",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreground-one-level-deep",
        about: "the garbage collector deletes the dependents of an owner in foreground deletion in the background",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "uncordoned-node-stays-tainted",
        about: "node-lifecycle keeps the taint of a cordoned node after it is uncordoned",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-pods-keep-room",
        about: "the scheduler counts the requests of pods that have finished",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "changed-pod-not-retried",
        about: "kube-scheduler does not retry a waiting pod whose own labels, tolerations or gates change",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pods-of-all-nodes-marked",
        about: "node-lifecycle marks the pods of all nodes as not ready when one node is lost",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ended-pod-marked-failed",
        about: "pod garbage collection marks a pod as failed that had succeeded",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "placement-before-lists",
        about: "kube-scheduler places pods before it has listed nodes, claims and volume limits",
        recreates: "no public issue is known",
    },
];
