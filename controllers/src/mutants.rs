//! Planted defects of the control loops, which prove that the checkers of a run find them.

use substrate::mutant::Mutant;

/// All planted defects. A loop queries them by name, with the feature `mutants`.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "class-mount-options-dropped",
        about: "the provisioner does not copy the mount options of a StorageClass to the PersistentVolume",
        recreates: "kubernetes-csi/external-provisioner#125",
    },
    Mutant {
        name: "reclaim-policy-dropped",
        about: "the provisioner makes each PersistentVolume with the reclaim policy Delete",
        recreates: "rook/rook#1259",
    },
    Mutant {
        name: "zone-not-passed",
        about: "the provisioner does not tell the driver the zone of the node that the scheduler chose",
        recreates: "kubernetes#49906",
    },
    Mutant {
        name: "claim-in-use-removed",
        about: "pvc-protection lets a claim go that a pod uses",
        recreates: "kubernetes#76703",
    },
    Mutant {
        name: "multi-attach-check-skipped",
        about: "attach-detach attaches a single-node volume although it is attached to another node",
        recreates: "kubernetes#45346",
    },
    Mutant {
        name: "force-detach-early",
        about: "attach-detach forces a detach from an unhealthy node after one minute in place of six",
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
        about: "attach-detach takes a detach for done without deleting the VolumeAttachment",
        recreates: "kubernetes#97230",
    },
    Mutant {
        name: "dangling-attachments-ignored",
        about: "attach-detach learns after a restart what is attached from node statuses alone, not from VolumeAttachments",
        recreates: "kubernetes#77324",
    },
    Mutant {
        name: "status-flaps",
        about: "attach-detach changes status.volumesAttached of every node back and forth once a minute, for ever",
        recreates: "kubernetes#88565",
    },
    Mutant {
        name: "finalizer-removed-early",
        about: "external-attacher removes its finalizer from a VolumeAttachment before ControllerUnpublishVolume",
        recreates: "kubernetes#116663",
    },
    Mutant {
        name: "attached-before-publish",
        about: "external-attacher says attached=true before ControllerPublishVolume was called",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "never-retries-detach",
        about: "external-attacher never tries a failed ControllerUnpublishVolume again",
        recreates: "kubernetes#92145",
    },
    Mutant {
        name: "pv-deleted-not-volume",
        about: "external-provisioner removes a released PersistentVolume without DeleteVolume",
        recreates: "kubernetes-csi/external-provisioner#195",
    },
    Mutant {
        name: "provision-name-anew",
        about: "external-provisioner asks for the volume of a claim under another name with each try",
        recreates: "kubernetes-csi/external-provisioner#63",
    },
    Mutant {
        name: "detach-error-is-success",
        about: "external-attacher takes a volume for detached when ControllerUnpublishVolume fails",
        recreates: "kubernetes-csi/external-attacher#164",
    },
    Mutant {
        name: "released-by-cache",
        about: "the binder releases a volume whose claim its cache lacks, without asking the API server",
        recreates: "kubernetes#66287",
    },
    Mutant {
        name: "binding-without-uid",
        about: "the binder knows a volume's claim by its name, so one that is made anew gets the volume of the old one",
        recreates: "kubernetes#20196",
    },
    Mutant {
        name: "resize-target-kept",
        about: "external-resizer keeps the size that it asked for first, whatever the claim asks for later",
        recreates: "kubernetes-csi/external-resizer#132",
    },
    Mutant {
        name: "limit-race",
        about: "kube-scheduler counts a pod on its node only when the API server tells of it, so several take the last place",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#1163",
    },
    Mutant {
        name: "informer-keeps-deleted",
        about: "a cache that is listed anew keeps objects that were deleted meanwhile",
        recreates: "kubernetes#115658",
    },
    Mutant {
        name: "lease-never-expires",
        about: "a replica waits for ever for the lease of one that is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "lease-lost-in-a-call",
        about: "a leader whose renewal is not answered in time waits for the answer and leads on, whoever has the lease by now",
        recreates: "kubernetes#65090",
    },
    Mutant {
        name: "out-of-service-remembered",
        about: "attach-detach takes a node for out of service after the taint was removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "retain-ignored",
        about: "external-provisioner deletes a released volume whose reclaim policy is Retain",
        recreates: "no public issue is known",
    },
];
