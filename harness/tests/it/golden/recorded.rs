//! The requests recorded from the real programs (kube-controller-manager and kube-scheduler 1.36.2, csi-attacher 4.12,
//! csi-provisioner 6.3, csi-resizer 2.1): client, verb, resource and kind of body of every write.

use super::flow::Line;

const TABLE: &str = include_str!("recorded.tsv");

/// Writes of recorded clients that no recorded request agrees with: file, client, beginning of `does`, reason.
pub const UNRECORDED: &[(&str, &str, &str, &str)] = &[
    (
        "expand-recover",
        "csi-resizer",
        "PATCH strategic events",
        "no expansion failed in the recorded runs, so no Event came twice",
    ),
    ("clone", "csi-provisioner", "PUT persistentvolumeclaims", "no volume was cloned in the recorded runs"),
];

/// Recorded writes that no file contains: client, write, reason.
pub const OUTSIDE: &[(&str, &str, &str)] = &[
    ("csi-attacher", "POST events", "leader election"),
    ("csi-attacher", "POST leases", "leader election"),
    ("csi-attacher", "PUT leases", "leader election"),
    ("csi-provisioner", "POST leases", "leader election"),
    ("csi-provisioner", "PUT leases", "leader election"),
    ("csi-provisioner", "POST csistoragecapacities", "the driver of the flows does not count capacity"),
    ("csi-resizer", "POST leases", "leader election"),
    ("csi-resizer", "PUT leases", "leader election"),
    ("kube-controller-manager/node-controller", "PATCH strategic events", "no flow has the same Event of it twice"),
    ("kube-scheduler/scheduler", "POST events", "leader election"),
];

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    /// The client.
    pub client: String,
    verb: String,
    resource: String,
    body: String,
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_default();
        Row { client: next(), verb: next(), resource: next(), body: next() }
    };
    TABLE.lines().skip(1).map(row).collect()
}

impl Row {
    /// Formats verb, kind of patch and resource as in a golden.
    pub fn what(&self) -> String {
        // v1/pods/status, storage.k8s.io/v1/volumeattachments
        let mut parts: Vec<&str> = self.resource.split('/').collect();
        let version = parts.iter().position(|part| part.starts_with('v') && part[1..].starts_with(char::is_numeric));
        parts.drain(..version.map_or(0, |version| version + 1));
        let group = if self.resource.starts_with("events.k8s.io/") { ".events.k8s.io" } else { "" };
        let kind = match self.body.as_str() {
            "json-patch+json" => " json",
            "merge-patch+json" => " merge",
            "strategic-merge-patch+json" => " strategic",
            _ => "",
        };
        format!("{}{kind} {}{group}", self.verb, parts.join("/"))
    }

    /// Returns true if the write belongs to this row.
    pub fn is(&self, line: &Line) -> bool {
        let words = if line.does.starts_with("PATCH") { 3 } else { 2 };
        let what: Vec<&str> = line.does.split(' ').take(words).collect();
        self.client == line.by && self.what() == what.join(" ")
    }
}
