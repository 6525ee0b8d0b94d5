//! Seeded bugs of the API server, which prove the checkers.

use substrate::mutant::Mutant;

/// All seeded bugs. They exist with the cargo feature `mutants` only.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "watch-gap",
        about: "a watch that goes on after an old resourceVersion lacks the first event that it missed",
        recreates: "etcd#18089",
    },
    Mutant {
        name: "watch-duplicate",
        about: "the first new event of each watch is sent twice",
        recreates: "etcd#17247",
    },
    Mutant {
        name: "watch-out-of-order",
        about: "the first new event of each watch is sent after the second one",
        recreates: "etcd#15271",
    },
    Mutant {
        name: "bookmark-ahead",
        about: "bookmarks name a revision that is not there yet, and what it brings is missed by who goes on from it",
        recreates: "etcd#15220",
    },
    Mutant {
        name: "finalizer-ignored",
        about: "a deleted object goes at once, whatever finalizers it has",
        recreates: "kubernetes#110521",
    },
    Mutant {
        name: "stale-write-accepted",
        about: "an update with an old resourceVersion overwrites what was written since",
        recreates: "kubernetes#4982",
    },
    Mutant {
        name: "delete-precondition-ignored",
        about: "a delete with the uid of an earlier object deletes the present object of that name",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "selector-forgotten",
        about: "a watch with a selector gets every event of its kind",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deletion-told-as-change",
        about: "the deletion of an object is sent as a change of it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "released-object-stays",
        about: "a deleted object stays after its last finalizer was removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "grace-period-ignored",
        about: "a deleted pod goes at once, whatever its grace period",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "patch-precondition-ignored",
        about: "a patch with the uid or resourceVersion of an earlier object changes the present object",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "list-ignores-selector",
        about: "a list with a selector returns every object of its kind",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "leaving-object-not-told",
        about: "a watch with a selector is not told of an object that stops matching",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "status-in-main-write",
        about: "an update of an object also replaces its status",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "budget-ignored",
        about: "an eviction deletes a pod although its disruption budget allows no disruption",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "eviction-not-counted",
        about: "an eviction does not lower the disruptions that the budget allows",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "allow-expansion-ignored",
        about: "a claim may grow although its StorageClass does not allow expansion",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "continue-skips-one",
        about: "each further page of a list lacks its first object",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finalizer-added-while-deleting",
        about: "a finalizer may be added to an object that is being deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "default-class-not-set",
        about: "a claim without a class does not get the default class",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "waiting-events-merged",
        about: "a watch sends only the first of several waiting events in a row about one object",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "status-patch-replaces-lists",
        about: "a strategic merge patch of a status replaces lists instead of merging them by key",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "namespace-goes-before-content",
        about: "a deleted namespace goes while objects in it still wait for their finalizers or grace periods",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "orphaning-ignored",
        about: "a delete with the propagation policy Orphan sets no orphan finalizer",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "generation-not-raised",
        about: "a change of the spec does not raise metadata.generation",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "primitive-deletions-ignored",
        about: "a strategic merge patch that deletes finalizers leaves them",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recovery-refused",
        about: "a claim may not request less again, even if its volume has not grown",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "eviction-without-condition",
        about: "an eviction deletes a pod without the condition DisruptionTarget",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expired-watch-goes-on",
        about: "a watch that goes on after a forgotten resourceVersion starts at the present, without an error",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expansion-beyond-quota",
        about: "a claim may grow beyond the ResourceQuota of its namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stale-budget-spent",
        about: "an eviction trusts the status of a budget whose new spec the disruption controller has not seen",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "oldest-default-class-taken",
        about: "a claim without a class gets the oldest of several default classes, not the newest",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "json-patch-test-ignored",
        about: "a JSON patch is applied although one of its tests fails",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "continued-list-reads-present",
        about: "each further page of a list has the present objects, not those of the first page's revision",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "created-in-ending-namespace",
        about: "an object may be created in a namespace that is being deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "grace-ends-with-finalizer",
        about: "a terminating pod goes with its last finalizer, before its grace period has ended",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "quota-keeps-deleted",
        about: "a ResourceQuota counts objects that were deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "former-account-trusted",
        about: "a token of a service account that was deleted is valid again once another one has the name",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "stale-scale-accepted",
        about: "an update of a Scale with an old resourceVersion overwrites what was written since",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "dry-run-eviction-counted",
        about: "a dry run of an eviction lowers the disruptions that the budget allows",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "growth-charged-in-full",
        about: "an update that raises a request charges the whole new request to the quota, not the difference",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "leaving-object-missed-while-away",
        about: "a watch with a selector that goes on after a gap is not told of objects that left it in the gap",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unready-pod-evicted-freely",
        about: "an eviction of a pod that is not ready does not ask the disruption budget, although too few pods are healthy",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "second-quota-not-charged",
        about: "a write is checked against the first ResourceQuota of its namespace and charged to it only",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "limits-checked-at-creation-only",
        about: "a claim may grow beyond the maximum of a LimitRange",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unchanged-write-stored",
        about: "a write that changes nothing makes a new resourceVersion and a watch event",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "apply-takes-fields-of-updates",
        about: "server-side apply reports no conflict for a field that an update or patch has set",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "named-rule-allows-lists",
        about: "RBAC allows a list of all objects by a rule with resourceNames",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "neighbour-namespace-watched",
        about: "a watch of a namespace also gets events of namespaces whose names begin with its name",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "definition-goes-before-objects",
        about: "a deleted CustomResourceDefinition goes although objects with finalizers remain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "status-raises-generation",
        about: "a status write raises metadata.generation",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "binding-drops-tolerations",
        about: "the binding of a pod to a node removes the pod's tolerations",
        recreates: "no public issue is known",
    },
    Mutant { name: "list-lacks-last", about: "a list lacks its last object", recreates: "no public issue is known" },
    Mutant {
        name: "get-reads-past",
        about: "a get answers with the object before its last change",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "write-answers-former",
        about: "an update or a patch answers with the object before it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "uid-of-the-name",
        about: "an object that is created again under its name has the uid of the former one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "late-status-ends-deletion",
        about: "a status write of a terminating pod takes its deletionTimestamp away",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-update-drops-volume-mode",
        about: "an update of a claim removes its volumeMode",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ended-pod-charged",
        about: "a ResourceQuota counts pods that have ended",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "changed-quota-not-adopted",
        about: "the status of a ResourceQuota keeps the limits that it had when it was created",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "custom-objects-survive-namespace",
        about: "a deleted namespace goes without its custom objects, which stay",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "expired-watch-starts-late",
        about: "a watch at a revision that is no longer held starts with the oldest event that is, instead of 410",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pod-index-not-refreshed",
        about: "a list of the pods of a node has them as they were when they were bound",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "merge-patch-null-ignored",
        about: "a null in a merge patch does not remove its field",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zero-replicas-defaulted",
        about: "a StatefulSet with zero replicas gets one, as if the number were not set",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "eviction-grace-dropped",
        about: "an eviction ignores the grace period of its deleteOptions",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "object-goes-with-first-finalizer",
        about: "a terminating object goes as soon as it loses one of its finalizers",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "empty-class-defaulted",
        about: "a claim that asks for no class with an empty name gets the default class",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "account-of-any-namespace-bound",
        about: "a role binding of a service account also grants its role to the accounts of that name in other namespaces",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "apply-keeps-dropped-fields",
        about: "server-side apply leaves the fields that the manager applied before and does not apply any more",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "token-outlives-pod",
        about: "a token that is bound to a pod is valid after the pod is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-pod-rebound",
        about: "a binding moves a pod that is on a node already to another node",
        recreates: "no public issue is known",
    },
];
