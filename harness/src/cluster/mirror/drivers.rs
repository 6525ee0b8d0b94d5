//! Nodes without a driver, the time since when, and the message for pods that wait there. A pure state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType as Change;
use jiff::Timestamp;
use serde_json::{Value, json};
use substrate::json::Text;

/// Reason of the Event.
pub(super) const REASON: &str = "DriverNotRegistered";
/// Time that a driver has to register before a message is written. Mooring's takes less than a second.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Documentation page that the message names.
const PAGE: &str = "docs/test-your-driver.md";

/// Drivers of a node, as its CSINode object lists them.
#[derive(Clone, Debug)]
struct Seat {
    /// Time at which the node joined or last lost a driver.
    since: Timestamp,
    drivers: BTreeSet<Text>,
}

/// The drivers of all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Drivers(BTreeMap<Arc<str>, Seat>);

impl Drivers {
    /// Learns from a commit of a Node or a CSINode.
    pub fn learn(&mut self, at: Timestamp, commit: &Commit) {
        match (&*commit.resource, commit.r#type) {
            ("nodes", Change::Deleted) => drop(self.0.remove(&commit.object)),
            ("nodes", _) => drop(self.seat(at, &commit.object)),
            ("csinodes", change) => {
                let has = commit.csinode.as_ref().filter(|_| change != Change::Deleted);
                let drivers: BTreeSet<Text> = has.iter().flat_map(|is| &is.drivers).map(|d| d.name.clone()).collect();
                let seat = self.seat(at, &commit.object);
                if !seat.drivers.is_subset(&drivers) {
                    seat.since = at;
                }
                seat.drivers = drivers;
            }
            _ => {}
        }
    }

    fn seat(&mut self, at: Timestamp, node: &Arc<str>) -> &mut Seat {
        self.0.entry(node.clone()).or_insert_with(|| Seat { since: at, drivers: BTreeSet::new() })
    }

    /// Returns the time since which `driver` is missing on `node`. Nothing if it is there, or the node is unknown.
    fn missing(&self, driver: &str, node: &str) -> Option<Timestamp> {
        let seat = self.0.get(node)?;
        (!seat.drivers.iter().any(|has| *has == *driver)).then_some(seat.since)
    }

    /// Returns the message for a claim that waits for `driver` on `node`, or on any node. Nothing if the driver is there.
    pub fn lack(&self, driver: &str, node: Option<&str>, registry: impl Fn(&str) -> Option<PathBuf>) -> Option<String> {
        let nodes: Vec<(&str, Timestamp)> = match node {
            Some(node) => vec![(node, self.missing(driver, node)?)],
            // A driver on one node is enough.
            None => self.0.keys().map(|node| Some((&**node, self.missing(driver, node)?))).collect::<Option<_>>()?,
        };
        let ((first, since), more) = (nodes.first()?, nodes.len() - 1);
        let on = if more == 0 { (*first).to_owned() } else { format!("{first} and {more} more nodes") };
        let place = registry(first).map_or_else(
            || format!("`mooring status` says whether {first}/csi-node runs"),
            |place| {
                format!(
                    "start the driver's node service there, with its registration socket in {} ({PAGE})",
                    place.display()
                )
            },
        );
        Some(format!("no driver {driver} has registered on {on} since {}: {place}", clock(*since)))
    }

    /// Nodes that have had no driver for longer than [`GRACE`], for `mooring status`.
    pub fn bare(&self, now: Timestamp, registry: impl Fn(&str) -> Option<PathBuf>) -> Vec<Value> {
        let age = |seat: &Seat| now.duration_since(seat.since).unsigned_abs();
        let bare = self.0.iter().filter(|(_, seat)| seat.drivers.is_empty() && age(seat) >= GRACE);
        bare.map(|(node, seat)| {
            json!({
                "node": node,
                "since": clock(seat.since),
                "seconds": age(seat).as_secs(),
                "registry": registry(node),
            })
        })
        .collect()
    }
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{CsiNode, Driver};
    use substrate::Now;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Now::at(Duration::from_secs(second)).wall
    }

    fn has(node: &str, drivers: &[&str]) -> Commit {
        let drivers = drivers.iter().map(|name| Driver { limit: None, name: (*name).into() }).collect();
        Commit { csinode: Some(Box::new(CsiNode { drivers })), ..Commit::new("csinodes", node, 1, Change::Modified) }
    }

    fn place(node: &str) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/run/{node}/plugins_registry")))
    }

    #[test]
    fn a_node_lacks_a_driver_from_when_it_joined_or_lost_it() {
        let mut drivers = Drivers::default();
        drivers.learn(at(1), &Commit::new("nodes", "node-a", 1, Change::Added));
        drivers.learn(at(2), &Commit::new("nodes", "node-b", 1, Change::Added));
        assert_eq!(
            drivers.lack("x.csi", Some("node-a"), place).unwrap(),
            "no driver x.csi has registered on node-a since 00:00:01Z: start the driver's node service there, with its \
             registration socket in /run/node-a/plugins_registry (docs/test-your-driver.md)"
        );
        assert!(drivers.lack("x.csi", None, place).unwrap().contains("on node-a and 1 more nodes since 00:00:01Z"));
        drivers.learn(at(9), &has("node-b", &["x.csi"]));
        assert_eq!(drivers.lack("x.csi", None, place), None, "one is enough");
        assert_eq!(drivers.lack("x.csi", Some("node-b"), place), None);
        assert!(drivers.lack("x.csi", Some("node-a"), |_| None).unwrap().ends_with("whether node-a/csi-node runs"));
        drivers.learn(at(20), &has("node-b", &[]));
        assert!(drivers.lack("x.csi", Some("node-b"), place).unwrap().contains("since 00:00:20Z"));
        drivers.learn(at(21), &Commit::new("nodes", "node-b", 1, Change::Deleted));
        assert_eq!(drivers.lack("x.csi", Some("node-b"), place), None, "nothing is known of it");
    }

    #[test]
    fn a_node_is_bare_once_a_driver_had_its_time() {
        let mut drivers = Drivers::default();
        drivers.learn(at(1), &Commit::new("nodes", "node-a", 1, Change::Added));
        drivers.learn(at(1), &has("node-b", &["x.csi"]));
        assert_eq!(drivers.bare(at(5), place), Vec::<Value>::new());
        let bare = drivers.bare(at(36), place);
        assert_eq!(bare.len(), 1);
        assert_eq!(
            (&bare[0]["node"], &bare[0]["since"], &bare[0]["seconds"]),
            (&json!("node-a"), &json!("00:00:01Z"), &json!(35))
        );
    }
}
