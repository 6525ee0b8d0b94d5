//! Finalizers, annotations and parameters of external-snapshotter (`pkg/utils/util.go`).

/// Finalizer of a content that is bound.
pub const CONTENT_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Finalizer of a snapshot whose content is deleted with it.
pub const SNAPSHOT_BOUND_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Finalizer of a snapshot from which claims can be restored.
pub const SNAPSHOT_SOURCE_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Finalizer of a claim of which a snapshot is being taken.
pub const CLAIM_FINALIZER: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/// Annotation of the default class of a driver.
pub const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Annotation of a content whose snapshot is being deleted.
pub const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Annotation of a content for which CreateSnapshot has not ended: the driver may have a snapshot or not.
pub const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// Annotation of a content with the name of its secret.
pub const SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
/// Annotation of a content with the namespace of its secret.
pub const SECRET_NAMESPACE: &str = "snapshot.storage.kubernetes.io/deletion-secret-namespace";

/// Value of [`BEING_CREATED`] and [`BEING_DELETED`].
pub const YES: &str = "yes";
