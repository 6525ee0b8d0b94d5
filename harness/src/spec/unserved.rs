//! Kinds that no control loop of Mooring handles, or only in part. The creator of such an object gets a warning, and so does its reader.

use std::collections::BTreeSet;

/// A kind that no control loop handles completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    group: &'static str,
    version: &'static str,
    /// Kind of the object.
    pub kind: &'static str,
    /// Resource name, as in URLs.
    plural: &'static str,
    /// Component that handles it in a complete cluster.
    by: &'static str,
    /// Consequence of its absence.
    lacks: &'static str,
}

const fn row(
    place: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    by: &'static str,
    lacks: &'static str,
) -> Row {
    Row { group: place.0, version: place.1, kind, plural, by, lacks }
}

impl Row {
    /// Group and version, as in manifests.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// URL path of an object, from its `namespace/name` or `name`.
    pub fn path(&self, key: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let place = match key.split_once('/') {
            Some((namespace, name)) => format!("namespaces/{namespace}/{}/{name}", self.plural),
            None => format!("{}/{key}", self.plural),
        };
        format!("/{root}/{}/{place}", self.api_version())
    }
}

const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const SNAPSHOTS: (&str, &str) = ("snapshot.storage.k8s.io", "v1");
const SNAPSHOTTER: &str = "snapshot-controller and csi-snapshotter";

/// Kinds of kube-controller-manager and of drivers' add-ons.
const ROWS: [Row; 5] = [
    row(
        ("autoscaling", "v2"),
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        MANAGER,
        "it scales only to its limits",
    ),
    row(SNAPSHOTS, "VolumeSnapshot", "volumesnapshots", SNAPSHOTTER, "no snapshot is taken"),
    row(SNAPSHOTS, "VolumeSnapshotContent", "volumesnapshotcontents", SNAPSHOTTER, "no snapshot is taken"),
    row(NETWORKING, "Ingress", "ingresses", "an ingress controller", "no traffic reaches it"),
    row(NETWORKING, "NetworkPolicy", "networkpolicies", "a network plugin", "no traffic is held back"),
];

const MANAGER: &str = "kube-controller-manager";

/// Reason of the Event.
pub(crate) const REASON: &str = "NoController";

/// Kinds of this cluster that no component handles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unserved {
    /// True if the user runs kube-controller-manager, which handles all its kinds.
    foreign_manager: bool,
    /// True if one of the loops of snapshots is left out.
    no_snapshots: bool,
}

impl Unserved {
    /// Kinds that no component handles in a cluster without `without`.
    pub fn without(without: &BTreeSet<String>) -> Self {
        let snapshots = [controllers::SNAPSHOT_CONTROLLER, controllers::SNAPSHOTTER];
        Self {
            foreign_manager: controllers::manager_is_left_out(without),
            no_snapshots: snapshots.iter().any(|name| without.contains(*name)),
        }
    }

    fn rows(self) -> impl Iterator<Item = &'static Row> {
        const { &ROWS }.iter().filter(move |row| match row.by {
            MANAGER => !self.foreign_manager,
            SNAPSHOTTER => self.no_snapshots,
            _ => true,
        })
    }

    fn row(self, group: &str, kind: &str) -> Option<&'static Row> {
        self.rows().find(|row| row.group == group && row.kind == kind)
    }

    /// Returns the text that no component handles objects of this kind. None if one does.
    pub fn lack(self, group: &str, kind: &str) -> Option<String> {
        let row = self.row(group, kind)?;
        let state = if row.by == MANAGER { "this cluster has no metrics" } else { "no loop of Mooring works on it" };
        Some(format!("{} is stored, but {state}: {}", row.kind, row.lacks))
    }

    /// Warning for the creator of an object of this kind.
    pub fn warning(self, group: &str, kind: &str) -> Option<String> {
        let (row, lack) = (self.row(group, kind)?, self.lack(group, kind)?);
        Some(if row.by == MANAGER { lack } else { format!("{lack} unless you run {}", row.by) })
    }

    /// Warning for the kind of `row`.
    pub fn text(self, row: &Row) -> String {
        self.warning(row.group, row.kind).unwrap_or_default()
    }

    /// Finds the kind of a resource that no component handles. Only custom resources have a group here.
    pub fn find(self, group: Option<&str>, plural: &str) -> Option<&'static Row> {
        self.rows().find(|row| row.plural == plural && group.is_none_or(|group| group == row.group))
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::kinds;

    use super::*;

    const OURS: Unserved = Unserved { foreign_manager: false, no_snapshots: true };
    const SCALER: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");

    #[test]
    fn a_warning_says_what_lacks_and_what_to_do() {
        assert_eq!(
            OURS.warning(SCALER.0, SCALER.1).unwrap(),
            "HorizontalPodAutoscaler is stored, but this cluster has no metrics: it scales only to its limits"
        );
        assert!(
            OURS.warning(SNAPSHOTS.0, "VolumeSnapshot")
                .unwrap()
                .ends_with("no snapshot is taken unless you run snapshot-controller and csi-snapshotter")
        );
        for (group, kind) in [("", "Pod"), ("apps", "StatefulSet"), ("batch", "CronJob"), ("example.com", "Ingress")] {
            assert_eq!(OURS.warning(group, kind), None);
        }
        assert_eq!(Unserved::default().warning(SNAPSHOTS.0, "VolumeSnapshot"), None);
        let theirs = Unserved { foreign_manager: true, ..OURS };
        assert_eq!(theirs.warning(SCALER.0, SCALER.1), None);
        assert!(theirs.warning(SNAPSHOTS.0, "VolumeSnapshot").is_some());
    }

    #[test]
    fn built_in_kinds_are_as_the_api_server_calls_them() {
        for row in ROWS.iter().filter(|row| !row.group.contains("snapshot")) {
            let known = |kind: &&kinds::Kind| kind.group == row.group && kind.kind == row.kind;
            assert_eq!(kinds::all().iter().find(known).map(|kind| kind.plural), Some(row.plural), "{}", row.kind);
            assert_eq!(OURS.find(None, row.plural).map(|row| row.kind), Some(row.kind));
            assert!(kinds::find_kind(&row.api_version(), row.kind).is_some(), "{}", row.kind);
        }
        assert!(OURS.find(None, "pods").is_none() && OURS.find(Some("example.com"), "ingresses").is_none());
        let ingress = OURS.find(None, "ingresses").unwrap();
        assert_eq!(ingress.path("default/db"), "/apis/networking.k8s.io/v1/namespaces/default/ingresses/db");
        let content = OURS.find(Some("snapshot.storage.k8s.io"), "volumesnapshotcontents").unwrap();
        assert_eq!(content.path("c"), "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/c");
    }
}
