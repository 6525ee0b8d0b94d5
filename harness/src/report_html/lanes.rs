//! Lanes in which events are drawn: the steps, the cloud, the API server, each control loop, the driver, and each node
//! with its kubelet, driver, kernel and containers.

use super::listener::RecordedEvent;

/// A lane of the drawing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    /// Sort key from top to bottom.
    order: (u8, String, u8),
    /// Group of lanes that are drawn together.
    pub group: String,
    /// Name of the lane.
    pub name: String,
}

impl Lane {
    /// Lane of an event.
    pub fn of(recorded: &RecordedEvent) -> Self {
        let process: &str = &recorded.process;
        let lane = |place: u8, group: &str, name: &str| Self {
            order: (place, name.to_owned(), 0),
            group: group.to_owned(),
            name: name.to_owned(),
        };
        if recorded.kind.starts_with("disk.") || recorded.kind == "csi.wrong_device" {
            let node = recorded.fields.get("node").and_then(|node| node.as_str()).unwrap_or(process);
            return Self::of_node(node, 3, "kernel");
        }
        match process {
            "scenario" => lane(0, "scenario", "scenario"),
            "user" | "cluster" | "supervisor" => lane(1, "scenario", "cluster"),
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

/// Returns true if a process runs control loops, as any replica.
fn is_loop(process: &str) -> bool {
    controllers::PROCESSES
        .iter()
        .any(|name| process.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}
