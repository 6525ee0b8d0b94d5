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
        about: "a volume that a pod uses read-only is published for writing",
        recreates: "kubernetes#61008",
    },
    Mutant {
        name: "populated-too-early",
        about: "a kubelet that starts takes down what is on disk before it has looked up the volumes of the pods that run",
        recreates: "kubernetes#113979",
    },
    Mutant {
        name: "stage-not-repeated",
        about: "a volume whose unstaging failed counts as staged, so the next pod has it published and not staged",
        recreates: "kubernetes#86360",
    },
    Mutant {
        name: "unmount-before-stop",
        about: "the volumes of a pod that goes are taken down before its containers are told to stop",
        recreates: "kubernetes#27691",
    },
    Mutant {
        name: "removal-failures-ignored",
        about: "a volume counts as unmounted although its mount path cannot be removed",
        recreates: "kubernetes#60987",
    },
    Mutant {
        name: "unmount-skipped",
        about: "the volumes of a pod that goes are never taken down",
        recreates: "kubernetes#41096",
    },
    Mutant {
        name: "volumes-in-use-dropped",
        about: "a kubelet that starts empties volumesInUse before it knows what is still on its disk",
        recreates: "kubernetes#101791",
    },
    Mutant {
        name: "reconstruction-skipped",
        about: "a kubelet that starts does not look at what is on its disk",
        recreates: "kubernetes#60645",
    },
];
