//! Disks that pods name themselves, and that two pods on a node cannot both write to (`isVolumeConflict` of the plugin
//! VolumeRestrictions).

use k8s_openapi::api::core::v1::{Pod, Volume};

/// A disk of a pod.
#[derive(Clone, Debug)]
pub struct Disk {
    identity: Identity,
    /// True if other pods may read it, too.
    read_only: bool,
}

#[derive(Clone, Debug)]
enum Identity {
    Gce(String),
    Ebs(String),
    Iscsi(String),
    Rbd { monitors: Vec<String>, pool: Option<String>, image: String },
}

impl Disk {
    fn of(volume: &Volume) -> Option<Self> {
        let (identity, read_only) = if let Some(gce) = &volume.gce_persistent_disk {
            (Identity::Gce(gce.pd_name.clone()), gce.read_only)
        } else if let Some(ebs) = &volume.aws_elastic_block_store {
            // Readers exclude each other, too.
            (Identity::Ebs(ebs.volume_id.clone()), None)
        } else if let Some(iscsi) = &volume.iscsi {
            (Identity::Iscsi(iscsi.iqn.clone()), iscsi.read_only)
        } else {
            let rbd = volume.rbd.as_ref()?;
            let (monitors, pool, image) = (rbd.monitors.clone(), rbd.pool.clone(), rbd.image.clone());
            (Identity::Rbd { monitors, pool, image }, rbd.read_only)
        };
        Some(Self { identity, read_only: read_only == Some(true) })
    }

    fn conflicts(&self, other: &Self) -> bool {
        let same = match (&self.identity, &other.identity) {
            (Identity::Gce(one), Identity::Gce(two))
            | (Identity::Ebs(one), Identity::Ebs(two))
            | (Identity::Iscsi(one), Identity::Iscsi(two)) => one == two,
            (
                Identity::Rbd { monitors, pool, image },
                Identity::Rbd { monitors: theirs, pool: other, image: named },
            ) => pool == other && image == named && monitors.iter().any(|monitor| theirs.contains(monitor)),
            _ => false,
        };
        same && !(self.read_only && other.read_only)
    }
}

/// Returns the disks of a pod.
pub fn disks(pod: &Pod) -> impl Iterator<Item = Disk> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).filter_map(Disk::of)
}

/// Returns true if a pod cannot run beside a pod with `ours`.
pub fn taken(ours: &[Disk], pod: &Pod) -> bool {
    !ours.is_empty() && disks(pod).any(|theirs| ours.iter().any(|disk| disk.conflicts(&theirs)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(volume: Value) -> Pod {
        let spec = json!({ "containers": [], "volumes": [volume] });
        from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).expect("a pod")
    }

    fn gce(name: &str, read_only: bool) -> Value {
        json!({ "name": "d", "gcePersistentDisk": { "pdName": name, "readOnly": read_only } })
    }

    fn ebs(id: &str) -> Value {
        json!({ "name": "d", "awsElasticBlockStore": { "volumeID": id, "readOnly": true } })
    }

    fn rbd(monitors: &[&str], image: &str) -> Value {
        json!({ "name": "d", "rbd": { "monitors": monitors, "pool": "p", "image": image } })
    }

    #[rstest]
    #[case::one_writer(gce("a", false), gce("a", true), true)]
    #[case::readers(gce("a", true), gce("a", true), false)]
    #[case::other_disk(gce("a", false), gce("b", false), false)]
    #[case::ebs_readers(ebs("a"), ebs("a"), true)]
    #[case::another_kind(ebs("a"), gce("a", false), false)]
    #[case::common_monitor(rbd(&["m", "n"], "i"), rbd(&["n"], "i"), true)]
    #[case::no_common_monitor(rbd(&["m"], "i"), rbd(&["n"], "i"), false)]
    #[case::other_image(rbd(&["m"], "i"), rbd(&["m"], "j"), false)]
    fn two_pods_share_a_disk_only_as_readers(#[case] one: Value, #[case] two: Value, #[case] expected: bool) {
        let ours: Vec<Disk> = disks(&pod(one)).collect();
        assert_eq!(taken(&ours, &pod(two)), expected);
    }
}
