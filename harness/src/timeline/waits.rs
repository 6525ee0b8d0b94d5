//! What nobody could do anything about: who waited for what, and for how long.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Shape};
use crate::output::took;

/// Shorter waits explain nothing.
const SHORT: u64 = 500;

/// A volume, by its index, and a node.
type Place = (usize, String);

/// The waits that have begun.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The volumes that each node says that it uses.
    in_use: BTreeMap<String, BTreeSet<usize>>,
    /// Attached, and not yet in the node's status: the kubelet does not mount it.
    to_mount: BTreeMap<Place, u64>,
    /// Unmounted, and still in the node's status: it is not detached.
    to_detach: BTreeMap<Place, u64>,
    /// Nodes without power.
    down: BTreeMap<String, u64>,
    /// Nodes of which nobody hears.
    unknown: BTreeMap<String, u64>,
    /// Volumes that could not be deleted: since when, how often, why.
    not_deleted: BTreeMap<usize, (u64, u64, String)>,
}

impl Waits {
    /// A volume is attached to a node.
    pub fn attached(&mut self, index: usize, node: &str, ms: u64) {
        if !self.uses(index, node) {
            self.to_mount.insert((index, node.to_owned()), ms);
        }
    }

    /// It is not any more.
    pub fn not_attached(&mut self, index: usize, node: &str) {
        self.to_mount.remove(&(index, node.to_owned()));
        self.to_detach.remove(&(index, node.to_owned()));
    }

    /// A call begins on a node, whatever its status says. Gives what was waited until then.
    pub fn begun(&mut self, index: usize, phase: &str, node: &str, ms: u64) -> Option<Row> {
        let waits = match phase {
            "NodeStage" | "NodePublish" => &mut self.to_mount,
            "ControllerUnpublish" => &mut self.to_detach,
            _ => return None,
        };
        let since = waits.remove(&(index, node.to_owned()))?;
        waited(since, ms, Some(node), |_| "for the node status".to_owned())
    }

    /// A volume was unstaged.
    pub fn unstaged(&mut self, index: usize, node: &str, ms: u64) {
        if self.uses(index, node) {
            self.to_detach.insert((index, node.to_owned()), ms);
        }
    }

    fn uses(&self, index: usize, node: &str) -> bool {
        self.in_use.get(node).is_some_and(|used| used.contains(&index))
    }

    /// A node's status says which volumes it uses. Gives what was waited for that.
    pub fn in_use(&mut self, node: &str, used: BTreeSet<usize>, ms: u64) -> Vec<(usize, Row)> {
        let mut over = Vec::new();
        let mut close = |waits: &mut BTreeMap<Place, u64>, uses: bool| {
            waits.retain(|(index, at), since| {
                let goes_on = at != node || used.contains(index) != uses;
                if !goes_on {
                    over.extend(status(*since, ms, node).map(|row| (*index, row)));
                }
                goes_on
            });
        };
        close(&mut self.to_mount, true);
        close(&mut self.to_detach, false);
        self.in_use.insert(node.to_owned(), used);
        over
    }

    /// A node lost its power.
    pub fn down(&mut self, node: &str, ms: u64) {
        self.down.entry(node.to_owned()).or_insert(ms);
    }

    /// Nobody hears of a node. Gives how long nobody noticed.
    pub fn unknown(&mut self, node: &str, ms: u64) -> Option<Row> {
        self.unknown.entry(node.to_owned()).or_insert(ms);
        let since = *self.down.get(node)?;
        waited(since, ms, Some(node), |time| format!("no heartbeat for {time}"))
    }

    /// A node is back.
    pub fn ready(&mut self, node: &str) {
        self.down.remove(node);
        self.unknown.remove(node);
    }

    /// The pods of a node are evicted. Gives how long they were tolerated.
    pub fn eviction(&self, node: &str, ms: u64) -> Option<Row> {
        let since = *self.unknown.get(node)?;
        waited(since, ms, Some(node), |time| format!("eviction after {time}"))
    }

    /// A volume could not be deleted.
    pub fn not_deleted(&mut self, index: usize, why: &str, ms: u64) {
        let (_, times, last) = self.not_deleted.entry(index).or_insert((ms, 0, String::new()));
        *times += 1;
        *last = if why.contains("still attached") { ": still attached".to_owned() } else { String::new() };
    }

    /// It is deleted. Gives how long it was not.
    pub fn deletion(&mut self, index: usize, ms: u64) -> Option<Row> {
        let (since, times, why) = self.not_deleted.remove(&index)?;
        waited(since, ms, None, |_| if times == 1 { format!("1 try{why}") } else { format!("{times} tries{why}") })
    }

    /// What is waited for at the end.
    pub fn open(self) -> Vec<(usize, Row)> {
        let places = self.to_mount.into_iter().chain(self.to_detach);
        let row = |((index, node), since): (Place, u64)| {
            let detail = "for the node status".to_owned();
            (index, Row { node: Some(node), detail, ..wait(since) })
        };
        places.map(row).collect()
    }
}

fn status(since: u64, ms: u64, node: &str) -> Option<Row> {
    waited(since, ms, Some(node), |time| format!("next node status in {time}"))
}

fn wait(since: u64) -> Row {
    Row { shape: Shape::Wait, ..Row::moment(since, "waits") }
}

fn waited(since: u64, ms: u64, node: Option<&str>, says: impl Fn(&str) -> String) -> Option<Row> {
    let span = ms.saturating_sub(since);
    let detail = says(&rounded(span));
    (span >= SHORT).then(|| Row { node: node.map(str::to_owned), detail, ..wait(since) }.until(ms))
}

/// As people say it: `7s`, `5m00s`.
fn rounded(ms: u64) -> String {
    match ms {
        0..950 => took(ms),
        950..99_500 => format!("{}s", (ms + 500) / 1_000),
        _ => took((ms + 500) / 1_000 * 1_000),
    }
}
