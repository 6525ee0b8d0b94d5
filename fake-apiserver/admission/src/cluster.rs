//! The cluster as admission reads it.

use std::sync::Arc;

use api_model::kinds::{Kind, KindRef};
use api_model::object::{Key, Object};
use imbl::OrdMap;

use crate::rbac::Roles;

/// Objects of one kind by key.
pub type Objects = OrdMap<Key, Arc<Object>>;

/// Objects and kinds of a cluster, for reading.
pub trait Cluster {
    /// Returns the objects of a kind, in list order.
    fn objects(&self, kind: &Kind) -> &Objects;

    /// Returns the served kind with this group, version and plural.
    fn kind(&self, group: &str, version: &str, plural: &str) -> Option<KindRef>;

    /// Returns the kind of an object with this apiVersion and kind.
    fn kind_of(&self, api_version: &str, kind: &str) -> Option<KindRef>;

    /// Returns every kind that has its own objects.
    fn stored_kinds(&self) -> Vec<KindRef>;

    /// Returns the objects that decide access; `None` if the server does not check access.
    fn roles(&self) -> Option<Roles>;

    /// Returns one object.
    fn object(&self, kind: &Kind, key: &str) -> Option<&Arc<Object>> {
        self.objects(kind).get(key)
    }
}
