//! Seeded bugs of the loops of claims and volumes: binder, provisioner, resizer, protection, ephemeral volumes.

use substrate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "claim-without-owner",
        about: "the ephemeral volume controller creates a claim without its pod as owner",
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
        name: "foreign-finalizers-removed",
        about: "pv-protection removes all finalizers of a deleted PersistentVolume with its own",
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
        name: "lost-claim-stays-bound",
        about: "the binder never writes the phase Lost to a claim whose PersistentVolume is gone",
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
        name: "reserved-volume-taken",
        about: "the binder binds a claim to a volume that is reserved for another claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "node-affinity-not-written",
        about: "external-provisioner creates each PersistentVolume without a node affinity",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "growth-before-start-missed",
        about: "external-resizer does not expand claims that grew before it started",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "bound-capacity-not-written",
        about: "the binder does not write the capacity of the volume to a bound claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "freed-claim-found-late",
        about: "claim protection looks at a claim that is no longer used after 20 seconds",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "freed-claim-not-checked",
        about: "pvc-protection does not check a deleted claim again when the last pod that uses it is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "replaced-pod-frees-no-claim",
        about: "the protection of claims does not check those of a pod that another one of its name has replaced",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "published-capacity-kept",
        about: "the provisioner never updates a published capacity",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "creation-without-attributes",
        about: "external-provisioner creates a volume without the parameters of the claim's VolumeAttributesClass",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-save-dropped",
        about: "external-provisioner does not retry the failed creation of a PersistentVolume object",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "clone-holds-its-source",
        about: "external-provisioner keeps its finalizer on a deleted claim as long as a clone of it exists",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "sizes-compared-as-text",
        about: "external-resizer compares the request and the capacity of a claim as texts",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volume-class-not-written",
        about: "external-resizer does not write the new VolumeAttributesClass to the PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-claims-dropped",
        about: "pvc-protection does not retry the claims whose write failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "new-volumes-wait-for-resync",
        about: "the binder handles a new PersistentVolume only at its next resync",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claims-not-resynced",
        about: "the binder's periodic resync leaves out the claims",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-creation-not-retried",
        about: "external-provisioner does not repeat a CreateVolume that failed with a final error",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "former-zone-remembered",
        about: "external-provisioner keeps the zone of the former node when another node must be chosen",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-reschedule-not-retried",
        about: "csi-provisioner does not try again if it cannot take the selected node from a claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "capacity-told-as-requested",
        about: "the binder writes the requested size to a bound claim instead of the capacity of the volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "answered-size-ignored",
        about: "external-resizer writes the size that it asked for instead of the one that the driver answered",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-node-expansion-not-resumed",
        about: "external-resizer ignores that a node could not expand a volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "aborted-creation-is-over",
        about: "external-provisioner treats a CreateVolume that the driver answered with ABORTED as ended",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "zones-remembered-by-name",
        about: "external-provisioner remembers the zones of a claim by its name, without its namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "resizing-condition-kept",
        about: "external-resizer leaves the condition Resizing on a claim that no node has to expand",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "first-allowed-zone-read",
        about: "external-provisioner reads only the first of the zones that a StorageClass allows",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "clone-counted-across-namespaces",
        about: "external-provisioner holds a deleted claim for clones of its namesake in another namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unneeded-volume-kept",
        about: "the binder keeps a volume that was provisioned for a claim which is bound to another volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "latest-class-told",
        about: "external-resizer reports the class that the claim names now, not the one that the driver applied",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "requested-volume-not-checked",
        about: "the binder binds a claim to the volume that it names, even if that is too small or of another class",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-size-not-compared",
        about: "external-provisioner restores a snapshot to a claim that requests less than the snapshot's size",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "infeasible-expansion-not-delayed",
        about: "external-resizer repeats an infeasible expansion after its usual backoff, not after five minutes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "available-phase-not-written",
        about: "the PV binder knows itself that a new volume is Available, and does not write it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "released-volume-held",
        about: "PV protection holds a deleted volume that has a claimRef, though it is not Bound any more",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ephemeral-claim-error-dropped",
        about: "the ephemeral controller does not try again after a claim could not be created",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "capacity-follows-volume",
        about: "the binder writes the new capacity of a volume to its bound claim before the filesystem has grown",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finalizer-kept-after-retain",
        about: "external-provisioner keeps its finalizer on a volume whose reclaim policy was changed to Retain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "growth-behind-node-expansion-missed",
        about: "external-resizer does not look again at a claim that asked for more while a node expanded its volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "oldest-default-class",
        about: "the binder gives a waiting claim the oldest of several default classes, not the newest",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "binds-deleting-volume",
        about: "the binder binds a claim to a volume that is being deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "infeasible-class-remembered",
        about: "external-provisioner remembers a refused StorageClass by the claim, even if the class was made again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "reduced-request-not-news",
        about: "external-resizer does not look at a claim whose request was reduced",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "infeasible-class-blocks-next",
        about: "external-resizer lets a VolumeAttributesClass wait because the driver refused the former one",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "target-class-not-protected",
        about: "vac-protection removes its finalizer from a VolumeAttributesClass that a volume is being modified to",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "refused-class-not-let-go",
        about: "external-resizer goes on with a VolumeAttributesClass that the driver has refused, though the claim asks for another",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unfinished-modification-delayed",
        about: "external-resizer delays the retry of an unfinished modification as if the driver had refused it for good",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deleting-claim-cloned",
        about: "external-provisioner clones a claim that is being deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "volumes-not-awaited",
        about: "the binder starts before it has listed the volumes, and treats bound claims as lost",
        recreates: "no public issue is known",
    },
];
