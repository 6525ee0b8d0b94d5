//! Finalizers and annotations of groups (`pkg/utils/util.go`).

/// Finalizer of a content that is bound.
pub const CONTENT_FINALIZER: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
/// Finalizer of a group that is bound.
pub const BOUND_FINALIZER: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
/// Finalizer of a VolumeSnapshot that is a member of a group.
pub const MEMBER_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";

/// Annotation of the default class of a driver.
pub const DEFAULT_CLASS: &str = "groupsnapshot.storage.kubernetes.io/is-default-class";
/// Annotation of a content whose group is being deleted.
pub const BEING_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
/// Annotation of a content for which CreateVolumeGroupSnapshot has not ended.
pub const BEING_CREATED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
/// Annotation of a content with the name of its secret.
pub const SECRET_NAME: &str = "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
/// Annotation of a content with the namespace of its secret.
pub const SECRET_NAMESPACE: &str = "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";
/// Annotation of a VolumeSnapshotContent with the driver's id of its group.
pub const HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
