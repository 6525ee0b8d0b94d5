//! CustomResourceDefinitions of the snapshot kinds (`snapshot.storage.k8s.io/v1`), and of groups of snapshots
//! (`groupsnapshot.storage.k8s.io`: v1, v1beta2 and v1beta1).

use serde::de::DeserializeOwned;
use substrate::yaml;

const TEXTS: [&str; 6] = [
    include_str!("definitions/class.yaml"),
    include_str!("definitions/content.yaml"),
    include_str!("definitions/snapshot.yaml"),
    include_str!("definitions/group-class.yaml"),
    include_str!("definitions/group-content.yaml"),
    include_str!("definitions/group.yaml"),
];

/// Returns the definitions of VolumeSnapshotClass, VolumeSnapshotContent and VolumeSnapshot, and of the three kinds of
/// groups. A cluster with these loops creates them before the loops start.
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
    use crate::snapshot::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
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
        let kinds = [
            place::<VolumeSnapshotClass>(),
            place::<VolumeSnapshotContent>(),
            place::<VolumeSnapshot>(),
            place::<VolumeGroupSnapshotClass>(),
            place::<VolumeGroupSnapshotContent>(),
            place::<VolumeGroupSnapshot>(),
        ];
        assert_eq!(places, kinds);
        for one in &all {
            let name = format!("{}.{}", one["spec"]["names"]["plural"], one["spec"]["group"]).replace('"', "");
            assert_eq!(one["metadata"]["name"], name.as_str());
        }
    }

    #[test]
    fn the_kinds_of_groups_are_served_in_three_versions_and_stored_in_one() {
        let all: Vec<Value> = definitions().unwrap();
        for one in &all[3..] {
            let versions = one["spec"]["versions"].as_array().unwrap();
            let of = |key: &str| -> Vec<&str> {
                versions.iter().filter(|v| v[key] == true).filter_map(|v| v["name"].as_str()).collect()
            };
            assert_eq!(of("served"), ["v1", "v1beta1", "v1beta2"]);
            assert_eq!((of("storage"), of("deprecated")), (vec!["v1beta2"], vec!["v1beta1"]));
        }
    }
}
