//! Planted defects of the node agent.

use substrate::mutant::Mutant;

/// List of planted defects.
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
];
