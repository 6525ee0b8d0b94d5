//! The included workloads, by the component that the program replaces.

use std::collections::BTreeSet;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The file's name in `scenarios/perturb/`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! workload {
    ($name:literal) => {
        Workload { name: $name, text: include_str!(concat!("../../../scenarios/perturb/", $name)) }
    };
}

const ATTACHER: Workload = workload!("attacher.yaml");
const PROVISIONER: Workload = workload!("provisioner.yaml");
const RESIZER: Workload = workload!("resizer.yaml");
const SNAPSHOTTER: Workload = workload!("snapshotter.yaml");
const VOLUME: Workload = workload!("volume.yaml");

/// All included workloads.
pub const ALL: [Workload; 5] = [ATTACHER, PROVISIONER, RESIZER, SNAPSHOTTER, VOLUME];

/// Returns the workload for a program that replaces these components; `None` if it replaces no component.
pub fn of(replaces: &BTreeSet<String>) -> Option<Workload> {
    let has = |name: &str| replaces.contains(name);
    let own = [
        ("csi-attacher", ATTACHER),
        ("csi-provisioner", PROVISIONER),
        ("csi-resizer", RESIZER),
        ("csi-snapshotter", SNAPSHOTTER),
        ("snapshot-controller", SNAPSHOTTER),
    ];
    let mut own: Vec<Workload> = own.into_iter().filter(|(name, _)| has(name)).map(|(_, workload)| workload).collect();
    own.dedup();
    match own[..] {
        _ if has("csi-mock") => Some(VOLUME),
        [one] => Some(one),
        [] => (!replaces.is_empty()).then_some(VOLUME),
        _ => Some(VOLUME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_a_valid_scenario() {
        let of =
            |names: &[&str]| of(&names.iter().map(|name| (*name).to_owned()).collect()).map(|workload| workload.name);
        assert_eq!(of(&["csi-attacher"]), Some("attacher.yaml"));
        assert_eq!(of(&["csi-provisioner", "csi-attacher"]), Some("volume.yaml"));
        assert_eq!(of(&["snapshot-controller", "csi-snapshotter"]), Some("snapshotter.yaml"));
        assert_eq!(of(&["csi-mock"]), Some("volume.yaml"));
        assert_eq!(of(&["kube-scheduler"]), Some("volume.yaml"));
        assert_eq!(of(&[]), None);
        for Workload { name, text } in ALL {
            crate::scenario::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
