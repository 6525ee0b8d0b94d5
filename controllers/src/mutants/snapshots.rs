//! Seeded bugs of the snapshot-controller and the csi-snapshotter.

use substrate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "snapshot-deleted-in-restore",
        about: "snapshot-controller deletes a snapshot from which a claim is being restored",
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
        name: "unbound-content-left",
        about: "snapshot-controller leaves the content of a snapshot that is deleted before its status names it",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "new-content-found-late",
        about: "csi-snapshotter looks at a new VolumeSnapshotContent after 20 seconds, not at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "marked-content-found-late",
        about: "csi-snapshotter looks at a VolumeSnapshotContent that is being deleted after 20 seconds, not at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ready-content-found-late",
        about: "snapshot-controller looks at a changed VolumeSnapshotContent after 20 seconds, not at once",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "pending-snapshot-not-polled",
        about: "csi-snapshotter does not look again at a snapshot that is not ready yet",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-failure-not-told",
        about: "csi-snapshotter does not report the error of a snapshot that it could not take",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "own-snapshot-counted",
        about: "snapshot-controller takes a snapshot that is being deleted for one that still needs its claim",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-member-left-out",
        about: "snapshot-controller requests no snapshot of the last claim of a group",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-members-kept",
        about: "snapshot-controller does not delete the snapshots of a group that is deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "group-left-in-cloud",
        about: "csi-snapshotter removes a group without deleting its snapshots in the driver",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "claim-held-by-ready-snapshot",
        about: "snapshot-controller releases a claim when its snapshot is deleted, not when it is ready",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "content-goes-before-snapshot",
        about: "csi-snapshotter removes its finalizer from a content before it calls DeleteSnapshot",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-named-by-name",
        about: "csi-snapshotter names the driver's snapshot after the name of the VolumeSnapshot, not after its uid",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "creation-mark-kept",
        about: "csi-snapshotter keeps the annotation of a running CreateSnapshot after one that failed for good",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "retained-content-not-marked",
        about: "snapshot-controller does not mark the content of a deleted snapshot if the deletion policy is Retain",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "any-default-class-taken",
        about: "snapshot-controller gives a snapshot the first default class, whatever driver that class is for",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "content-not-protected",
        about: "snapshot-controller gives a content no finalizer, so that it can go before its snapshot in the cloud",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "creation-time-lost",
        about: "snapshot-controller reports 1970 as the creation time of each snapshot",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "restore-elsewhere-holds-snapshot",
        about: "snapshot-controller holds a deleted snapshot for a claim that is restored from its namesake in another namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-elsewhere-holds-claim",
        about: "snapshot-controller holds a claim for an unready snapshot of its namesake in another namespace",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "foreign-content-handled",
        about: "csi-snapshotter handles contents of other drivers",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "snapshot-released-while-it-is-restored",
        about: "external-provisioner removes its finalizer from a snapshot that a claim is made of",
        recreates: "no public issue is known",
    },
];
