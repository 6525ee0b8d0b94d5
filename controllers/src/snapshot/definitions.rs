//! CustomResourceDefinitions of the snapshot kinds (`snapshot.storage.k8s.io/v1`).

use serde::de::DeserializeOwned;
use substrate::yaml;

const TEXTS: [&str; 3] = [
    include_str!("definitions/class.yaml"),
    include_str!("definitions/content.yaml"),
    include_str!("definitions/snapshot.yaml"),
];

/// Returns the definitions of VolumeSnapshotClass, VolumeSnapshotContent and VolumeSnapshot. A cluster with these loops
/// creates them before the loops start.
///
/// # Errors
/// If one does not fit `T`; all of them fit a JSON value.
pub fn definitions<T: DeserializeOwned>() -> Result<Vec<T>, yaml::Error> {
    TEXTS.iter().map(|text| yaml::from_str(text)).collect()
}

#[cfg(test)]
mod tests {
    use substrate::json::Value;

    use super::*;
    use crate::kube::Kind;
    use crate::snapshot::objects::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

    fn place<K: Kind>() -> [String; 3] {
        [K::GROUP, K::KIND, K::URL_PATH_SEGMENT].map(str::to_owned)
    }

    #[test]
    fn each_kind_of_the_loops_has_a_definition() {
        let all: Vec<Value> = definitions().unwrap();
        let places: Vec<[String; 3]> = all
            .iter()
            .map(|one| {
                let spec = &one["spec"];
                [&spec["group"], &spec["names"]["kind"], &spec["names"]["plural"]]
                    .map(|text| text.as_str().unwrap().to_owned())
            })
            .collect();
        let kinds = [place::<VolumeSnapshotClass>(), place::<VolumeSnapshotContent>(), place::<VolumeSnapshot>()];
        assert_eq!(places, kinds);
        for one in &all {
            let name = format!("{}.{}", one["spec"]["names"]["plural"], one["spec"]["group"]).replace('"', "");
            assert_eq!(one["metadata"]["name"], name.as_str());
        }
    }
}
