//! Annotations of the volume controllers on claims, volumes and classes (component-helpers `storage/volume`).

/// On a claim: its binding was completed once. From then on a missing volume means lost data.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: the controller, not the user, chose the other side.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node that the scheduler chose for the first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a volume: its provisioner.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim or volume: the CSI driver that replaces an in-tree plugin.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a claim: the provisioner that should create a volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Older name of [`STORAGE_PROVISIONER`]; both are written.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim or volume: its class, before the field existed.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: the default of claims without a class.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Older name of [`DEFAULT_CLASS`].
pub const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
