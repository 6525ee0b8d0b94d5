//! Where an event is drawn: the story, the cloud, the API server, each loop, the driver, and each node with its kubelet,
//! driver, kernel and containers.

use super::listener::Told;

/// A line of the drawing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    /// From top to bottom.
    order: (u8, String, u8),
    /// Its group: what is drawn together.
    pub group: String,
    /// Its name.
    pub name: String,
}

impl Lane {
    /// The lane of an event.
    pub fn of(told: &Told) -> Self {
        let process: &str = &told.process;
        let lane = |place: u8, group: &str, name: &str| Self {
            order: (place, name.to_owned(), 0),
            group: group.to_owned(),
            name: name.to_owned(),
        };
        if told.kind.starts_with("disk.") || told.kind == "csi.wrong_device" {
            let node = told.fields.get("node").and_then(|node| node.as_str()).unwrap_or(process);
            return Self::of_node(node, 3, "kernel");
        }
        match process {
            "scenario" => lane(0, "story", "story"),
            "user" | "cluster" | "supervisor" => lane(1, "story", "cluster"),
            "mock-ec2" => lane(2, "cloud", "cloud"),
            "fake-apiserver" => lane(3, "API", "API server"),
            "csi-controller" => lane(6, "driver", "csi-controller"),
            other => match other.split_once('/') {
                Some((node, "kubelet")) => Self::of_node(node, 1, "kubelet"),
                Some((node, part)) => Self::of_node(node, 2, part),
                None if is_loop(other) => lane(if other.starts_with("kube-") { 4 } else { 5 }, "loops", other),
                None => Self::of_node(other, 4, "containers"),
            },
        }
    }

    fn of_node(node: &str, at: u8, part: &str) -> Self {
        Self { order: (7, node.to_owned(), at), group: node.to_owned(), name: format!("{node} {part}") }
    }
}

/// Whether a process runs control loops, of whatever replica.
fn is_loop(process: &str) -> bool {
    controllers::PROCESSES
        .iter()
        .any(|name| process.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}
