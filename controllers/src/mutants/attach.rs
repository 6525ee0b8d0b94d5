//! Seeded bugs of attach-detach and of the external-attacher.

use substrate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "bound-pod-found-late",
        about: "attach-detach does not see that a pod was bound, and finds it when it looks at all pods, each three minutes",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-required-ignored",
        about: "attach-detach creates a VolumeAttachment although the CSIDriver object says attachRequired: false",
        recreates: "kubernetes#89173",
    },
    Mutant {
        name: "multi-attach-check-skipped",
        about: "attach-detach attaches a single-node volume although it is attached to another node",
        recreates: "kubernetes#45346",
    },
    Mutant {
        name: "force-detach-early",
        about: "attach-detach forces a detach from an unhealthy node after one minute instead of six",
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
        about: "attach-detach treats a volume as detached without deleting the VolumeAttachment",
        recreates: "kubernetes#97230",
    },
    Mutant {
        name: "dangling-attachments-ignored",
        about: "after a restart, attach-detach reads attachments from node statuses only, not from VolumeAttachments",
        recreates: "kubernetes#77324",
    },
    Mutant {
        name: "status-flaps",
        about: "attach-detach changes status.volumesAttached of every node back and forth once a minute, forever",
        recreates: "kubernetes#88565",
    },
    Mutant {
        name: "finalizer-removed-early",
        about: "external-attacher removes its finalizer from a VolumeAttachment before ControllerUnpublishVolume",
        recreates: "kubernetes#116663",
    },
    Mutant {
        name: "attached-before-publish",
        about: "external-attacher sets attached=true before it calls ControllerPublishVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "never-retries-detach",
        about: "external-attacher never retries a failed ControllerUnpublishVolume",
        recreates: "kubernetes#92145",
    },
    Mutant {
        name: "detach-error-is-success",
        about: "external-attacher treats a volume as detached when ControllerUnpublishVolume fails",
        recreates: "kubernetes-csi/external-attacher#164",
    },
    Mutant {
        name: "out-of-service-remembered",
        about: "attach-detach treats a node as out of service after the taint was removed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "ready-node-forced",
        about: "attach-detach forces a detach after six minutes although the node is Ready",
        recreates: "kubernetes#34358",
    },
    Mutant {
        name: "deleted-node-is-unmounted",
        about: "attach-detach treats the volumes of a deleted Node as unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-attach-forgotten",
        about: "attach-detach treats a volume as not attached after an attach that failed",
        recreates: "kubernetes#77324",
    },
    Mutant {
        name: "volume-goes-before-attachment",
        about: "external-attacher removes its finalizer from a PersistentVolume that has a VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attachment-finalizer-kept",
        about: "external-attacher keeps its finalizer on a VolumeAttachment that it has detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "publish-context-dropped",
        about: "external-attacher does not write the driver's publish context to the VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "finished-pod-keeps-volume",
        about: "attach-detach keeps the volumes of a finished pod attached until the pod is deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "detach-not-verified",
        about: "attach-detach detaches without reading the node's volumesInUse from the API server",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-detach-ignored",
        about: "attach-detach treats a volume as attached after a detach that failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-error-kept",
        about: "external-attacher keeps the error of an earlier attach after one that succeeded",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-node-is-detached",
        about: "external-attacher treats the volumes of a node without a CSINode as detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "one-node-mode-suffices",
        about: "attach-detach attaches a volume to one node only if any of its access modes is of one node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "report-not-restored",
        about: "attach-detach leaves a volume out of the node's status after the write before its detach has failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attach-error-not-told",
        about: "the attacher does not write the error of ControllerPublishVolume to the VolumeAttachment",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "publish-read-only-dropped",
        about: "the attacher publishes the volume of a read-only PersistentVolume for writing",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "force-detach-never",
        about: "attach-detach never detaches a volume that its node has not unmounted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "recorded-node-id-ignored",
        about: "external-attacher ignores the node id of a VolumeAttachment whose CSINode is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "previous-node-read",
        about: "attach-detach evaluates the previous version of a changed Node",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "last-mount-kept",
        about: "attach-detach ignores that a node has unmounted its last volume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-attach-not-retried",
        about: "external-attacher does not retry a failed ControllerPublishVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-attach-not-undone",
        about: "external-attacher removes a VolumeAttachment that is not attached without ControllerUnpublishVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "unready-node-remembered",
        about: "attach-detach treats a node that was not Ready once as not Ready forever",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "detach-request-kept",
        about: "attach-detach keeps the time of a detach request after a pod needs the volume again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "report-lost-with-node",
        about: "attach-detach does not write status.volumesAttached to a Node that was created again",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deleting-attachment-accepted",
        about: "attach-detach treats a volume as attached although its VolumeAttachment is being deleted",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "vanished-pod-known-by-name",
        about: "attach-detach takes a new pod of the same name for one that is gone, and keeps its volumes attached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "deleting-attachment-not-counted",
        about: "external-attacher releases a PersistentVolume while its last VolumeAttachment is still being detached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-report-not-repeated",
        about: "attach-detach does not repeat a failed write of the node's status.volumesAttached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "retried-attach-not-reported",
        about: "attach-detach leaves a volume out of status.volumesAttached if an earlier attempt had failed",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "shared-volume-attached-one-by-one",
        about: "attach-detach attaches a shared volume to a node only after its operation on another node has ended",
        recreates: "kubernetes#73972",
    },
    Mutant {
        name: "listed-volume-counts-as-attached",
        about: "external-attacher takes a volume in ListVolumes for attached to each node, whatever nodes the entry names",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "failed-attach-not-delayed",
        about: "attach-detach tries a failed attach again at once, without a wait that grows",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "last-attachment-not-noticed",
        about: "external-attacher does not look again at a deleted PersistentVolume when its last VolumeAttachment is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "missing-attachment-trusted",
        about: "attach-detach trusts a volume that it has attached, though the VolumeAttachment is gone",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attacher-finalizer-not-retried",
        about: "external-attacher does not try again after it could not remove its finalizer from a PersistentVolume",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "attached-status-not-retried",
        about: "external-attacher does not retry the write of a status that says that a volume is attached",
        recreates: "no public issue is known",
    },
    Mutant {
        name: "listed-volume-attached-again",
        about: "external-attacher treats each volume as missing in ListVolumes, and attaches it again each minute",
        recreates: "no public issue is known",
    },
];
