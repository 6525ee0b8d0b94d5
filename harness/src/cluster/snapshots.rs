//! Kinds of snapshots in an API server that was reset, or that is not Mooring's.

use super::objects::Objects;
use super::{Cluster, ClusterSpec};
use crate::spec::custom::Customs;
use crate::spec::{Kind, Manifest, ObjectRef};

impl ClusterSpec {
    /// Creates the same objects in an API server that was reset, or that is not ours.
    ///
    /// # Errors
    /// Names the object that cannot be created.
    pub(super) async fn create_snapshot_kinds(&self, objects: &Objects) -> Result<(), String> {
        for (_, value) in self.snapshot_objects()? {
            let [api_version, kind, name] = [&value["apiVersion"], &value["kind"], &value["metadata"]["name"]]
                .map(|text| text.as_str().unwrap_or_default().to_owned());
            let kind = Kind::of_manifest(&api_version, &kind)
                .or_else(|| Customs::with_snapshots().of_manifest(&api_version, &kind))
                .ok_or_else(|| format!("{kind} {name}: there is no such kind"))?;
            let object = ObjectRef::new(kind, None, &name);
            objects.apply(&Manifest { object, value }).await.map_err(|e| format!("{name}: {e}"))?;
        }
        Ok(())
    }
}

impl Cluster {
    /// Creates the initial objects in a real API server, which begins without them.
    ///
    /// # Errors
    /// Names the object that cannot be created.
    pub async fn create_at_origin(&self) -> Result<(), String> {
        self.spec.create_snapshot_kinds(&self.objects).await
    }
}
