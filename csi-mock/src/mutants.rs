//! Planted defects of the driver and of its disk, with their origins.

use substrate::mutant::Mutant;

/// List of planted defects. Each is queried at its place in the code, and only with the feature `mutants`.
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
        name: "sync-does-nothing",
        about: "a disk in memory answers that bytes are durable when they are not, and an unmount writes nothing back",
        recreates: "kubernetes#83590",
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
];
