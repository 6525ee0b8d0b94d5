//! Waits in which no component could act: their subject and duration.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Shape};
use crate::output::took;

/// Minimum duration of a wait that is shown, in milliseconds.
const SHORT: u64 = 500;

/// A volume (by index) and a node.
type VolumeOnNode = (usize, String);

/// Open waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Volumes in use by node, from the node status.
    in_use: BTreeMap<String, BTreeSet<usize>>,
    /// Attached volumes that are not yet in the node's status, so that the kubelet does not mount them.
    to_mount: BTreeMap<VolumeOnNode, u64>,
    /// Unmounted volumes that are still in the node's status, so that they are not detached.
    to_detach: BTreeMap<VolumeOnNode, u64>,
    /// Nodes without power.
    down: BTreeMap<String, u64>,
    /// Unreachable nodes.
    unknown: BTreeMap<String, u64>,
    /// Volumes that could not be deleted: time of the first try, number of tries, reason.
    not_deleted: BTreeMap<usize, (u64, u64, String)>,
}

impl Waits {
    /// Records that a volume is attached to a node.
    pub fn attached(&mut self, index: usize, node: &str, ms: u64) {
        if !self.uses(index, node) {
            self.to_mount.insert((index, node.to_owned()), ms);
        }
    }

    /// Records that it is no longer attached.
    pub fn not_attached(&mut self, index: usize, node: &str) {
        self.to_mount.remove(&(index, node.to_owned()));
        self.to_detach.remove(&(index, node.to_owned()));
    }

    /// Records the start of a call on a node, which ends a wait even without a new status. Returns the row of that
    /// wait.
    pub fn begun(&mut self, index: usize, phase: &str, node: &str, ms: u64) -> Option<Row> {
        let waits = match phase {
            "NodeStage" | "NodePublish" => &mut self.to_mount,
            "ControllerUnpublish" => &mut self.to_detach,
            _ => return None,
        };
        let since = waits.remove(&(index, node.to_owned()))?;
        waited(since, ms, Some(node), |_| "for the node status".to_owned())
    }

    /// Records that a volume was unstaged.
    pub fn unstaged(&mut self, index: usize, node: &str, ms: u64) {
        if self.uses(index, node) {
            self.to_detach.insert((index, node.to_owned()), ms);
        }
    }

    fn uses(&self, index: usize, node: &str) -> bool {
        self.in_use.get(node).is_some_and(|used| used.contains(&index))
    }

    /// Records the volumes in use that a node reports. Returns the rows of the waits that this ends.
    pub fn in_use(&mut self, node: &str, used: BTreeSet<usize>, ms: u64) -> Vec<(usize, Row)> {
        let mut over = Vec::new();
        let mut close = |waits: &mut BTreeMap<VolumeOnNode, u64>, uses: bool| {
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

    /// Records that a node lost its power.
    pub fn down(&mut self, node: &str, ms: u64) {
        self.down.entry(node.to_owned()).or_insert(ms);
    }

    /// Records that a node is unreachable. Returns the row of the time until this was noticed.
    pub fn unknown(&mut self, node: &str, ms: u64) -> Option<Row> {
        self.unknown.entry(node.to_owned()).or_insert(ms);
        let since = *self.down.get(node)?;
        waited(since, ms, Some(node), |time| format!("no heartbeat for {time}"))
    }

    /// Records that a node is back.
    pub fn ready(&mut self, node: &str) {
        self.down.remove(node);
        self.unknown.remove(node);
    }

    /// Returns the row of the time for which the pods of a node tolerated its taint, when they are evicted.
    pub fn eviction(&self, node: &str, ms: u64) -> Option<Row> {
        let since = *self.unknown.get(node)?;
        waited(since, ms, Some(node), |time| format!("eviction after {time}"))
    }

    /// Records that a volume could not be deleted.
    pub fn not_deleted(&mut self, index: usize, why: &str, ms: u64) {
        let (_, times, last) = self.not_deleted.entry(index).or_insert((ms, 0, String::new()));
        *times += 1;
        *last = if why.contains("still attached") { ": still attached".to_owned() } else { String::new() };
    }

    /// Records the deletion of a volume. Returns the row of the failed tries before it.
    pub fn deletion(&mut self, index: usize, ms: u64) -> Option<Row> {
        let (since, times, why) = self.not_deleted.remove(&index)?;
        waited(since, ms, None, |_| if times == 1 { format!("1 try{why}") } else { format!("{times} tries{why}") })
    }

    /// Rows of the waits that are open at the end.
    pub fn open(self) -> Vec<(usize, Row)> {
        let places = self.to_mount.into_iter().chain(self.to_detach);
        let row = |((index, node), since): (VolumeOnNode, u64)| {
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

fn waited(since: u64, ms: u64, node: Option<&str>, describe: impl Fn(&str) -> String) -> Option<Row> {
    let span = ms.saturating_sub(since);
    let detail = describe(&rounded(span));
    (span >= SHORT).then(|| Row { node: node.map(str::to_owned), detail, ..wait(since) }.until(ms))
}

/// Formats a rounded duration: `7s`, `5m00s`.
fn rounded(ms: u64) -> String {
    match ms {
        0..950 => took(ms),
        950..99_500 => format!("{}s", (ms + 500) / 1_000),
        _ => took((ms + 500) / 1_000 * 1_000),
    }
}
