//! Coordinates of objects and of their owners.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Coordinates of an object (`objectReference`). The order of the fields is that of upstream's `referenceLessThan`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub kind: String,
    pub api_version: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Identity {
    /// Coordinates of an owner, in `namespace`.
    pub fn of_owner(owner: &OwnerReference, namespace: &str) -> Self {
        Self {
            kind: owner.kind.clone(),
            api_version: owner.api_version.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }

    /// Returns true if the reference names this object, except for the namespace (`ownerReferenceMatchesCoordinates`).
    pub fn is_named_by(&self, owner: &OwnerReference) -> bool {
        owner.uid == self.uid
            && owner.name == self.name
            && owner.kind == self.kind
            && owner.api_version == self.api_version
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, api_version, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// Returns true if the owner must wait until this dependent is gone.
pub(super) fn blocks(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion == Some(true)
}
