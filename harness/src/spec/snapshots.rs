//! Kinds of snapshots in a cluster. A cluster has them if one of the snapshot loops runs in it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use substrate::WorldKind;

use super::ClusterSpec;

/// Resource of the definitions, as in a saved state.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Resource of the classes, as in a saved state.
const CLASSES: &str = "volumesnapshotclasses.snapshot.storage.k8s.io";
/// Default class of snapshots, as the examples of the EBS driver call it.
pub(crate) const CLASS: &str = "csi-aws-vsc";
/// The loops.
const LOOPS: [&str; 2] = [controllers::SNAPSHOT_CONTROLLER, controllers::SNAPSHOTTER];

/// The default class, of the driver `driver`.
pub(crate) fn default_class(driver: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {
            "name": CLASS,
            "annotations": { "snapshot.storage.kubernetes.io/is-default-class": "true" },
        },
        "driver": driver,
        "deletionPolicy": "Delete",
    })
}

impl ClusterSpec {
    /// Returns the specification of a cluster in a world of this kind. A simulation without snapshots leaves their
    /// loops out, because they would have no work.
    pub(crate) fn in_world(mut self, kind: WorldKind) -> Self {
        if kind == WorldKind::Simulated && !self.has_snapshots {
            self.without.extend(LOOPS.map(str::to_owned));
        }
        self
    }

    /// Adds the kinds of snapshots and, for users, a default class to the initial objects by resource. Keeps
    /// definitions that are among the initial objects.
    ///
    /// # Errors
    /// If a definition cannot be read.
    pub(crate) fn add_snapshot_kinds(&self, resources: &mut BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        for (resource, object) in self.snapshot_objects()? {
            let all = resources.entry(resource.to_owned()).or_default();
            if !all.iter().any(|other| other["metadata"]["name"] == object["metadata"]["name"]) {
                all.push(object);
            }
        }
        Ok(())
    }

    /// Those kinds and that class, each with its resource.
    ///
    /// # Errors
    /// If a definition cannot be read.
    pub(crate) fn snapshot_objects(&self) -> Result<Vec<(&'static str, Value)>, String> {
        if LOOPS.iter().all(|name| self.without.contains(*name)) {
            return Ok(Vec::new());
        }
        let definitions: Vec<Value> = controllers::snapshot::definitions().map_err(|e| e.to_string())?;
        let definitions = definitions.into_iter().map(|one| (DEFINITIONS, one));
        let class = self.mirrors.then(|| (CLASSES, default_class(&self.driver_name)));
        Ok(definitions.chain(class).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(spec: &ClusterSpec) -> Vec<(String, usize)> {
        let mut all = BTreeMap::new();
        spec.add_snapshot_kinds(&mut all).unwrap();
        all.into_iter().map(|(resource, objects)| (resource, objects.len())).collect()
    }

    #[test]
    fn a_cluster_without_the_loops_has_no_kinds_of_snapshots() {
        let spec = ClusterSpec { has_snapshots: false, ..ClusterSpec::default() };
        assert_eq!(resources(&spec.clone().in_world(WorldKind::Live)), [(DEFINITIONS.to_owned(), 6)]);
        assert_eq!(resources(&spec.in_world(WorldKind::Simulated)), []);
        let people = ClusterSpec { mirrors: true, ..ClusterSpec::default() };
        assert_eq!(resources(&people), [(DEFINITIONS.to_owned(), 6), (CLASSES.to_owned(), 1)]);
        let own = ClusterSpec { without: LOOPS.map(str::to_owned).into(), ..people };
        assert_eq!(resources(&own), []);
    }
}
