//! Events of nodes, shown on the volumes that are attached to them: power loss, an unreachable node, volumes in use.

use std::collections::BTreeSet;

use fake_apiserver::events::Commit;
use substrate::json::Text;

use super::gather::{Gather, Running, short};
use super::{Row, Shape};

impl Gather {
    pub(super) fn on_crash(&mut self, node: &str, ms: u64) {
        self.silence(node, ms);
        self.waits.down(node, ms);
        self.on_node(node, ms, "power loss", Shape::Broken);
    }

    /// Ends the workloads of a node.
    pub(super) fn silence(&mut self, node: &str, ms: u64) {
        let (gone, rest) = std::mem::take(&mut self.running).into_iter().partition(|r| r.node == node);
        self.running = rest;
        for running in gone {
            self.stop(running, ms);
        }
    }

    /// Handles a node that reports itself as not ready.
    pub(super) fn on_not_ready(&mut self, node: &str, ms: u64) {
        // The first status of a new node comes before its volumes.
        if self.attached.values().any(|(_, n)| n == node) && self.unready.insert(node.to_owned(), false).is_none() {
            self.on_node(node, ms, "node NotReady", Shape::Warning);
        }
    }

    pub(super) fn on_unknown(&mut self, node: &str, ms: u64) {
        if self.unready.insert(node.to_owned(), true) == Some(true) {
            return;
        }
        if let Some(row) = self.waits.unknown(node, ms) {
            self.on_row(node, &row);
        }
        self.on_node(node, ms, "node Unknown", Shape::Warning);
        let here = |running: &&Running| running.node == node;
        let pods: Vec<(usize, String)> = self.running.iter().filter(here).map(|r| (r.row.0, r.pod.clone())).collect();
        for (index, pod) in pods {
            let detail = format!("{} runs on there", short(&pod));
            let row = Row { node: Some(node.to_owned()), detail, ..Row::state(ms, "unheard") };
            let at = self.add(index, row);
            self.unreachable.push((at, node.to_owned(), pod));
        }
    }

    pub(super) fn on_ready(&mut self, node: &str, ms: u64) {
        self.waits.ready(node);
        if self.unready.remove(node).is_some() {
            self.on_node(node, ms, "node Ready", Shape::Moment);
        }
        self.end_unreachable(ms, |of, _| of == node);
    }

    /// Ends the rows of pods on unreachable nodes for which `over` returns true: they stopped, or the node is back.
    pub(super) fn end_unreachable(&mut self, ms: u64, over: impl Fn(&str, &str) -> bool) {
        let (gone, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unreachable).into_iter().partition(|(_, node, pod)| over(node, pod));
        self.unreachable = rest;
        for (at, ..) in gone {
            self.end(at, ms);
        }
    }

    /// Adds a row to every volume that is attached to the node.
    fn on_node(&mut self, node: &str, ms: u64, phase: &str, shape: Shape) {
        self.on_row(node, &Row { shape, node: Some(node.to_owned()), ..Row::moment(ms, phase) });
    }

    /// Adds this row to every volume that is attached to the node.
    fn on_row(&mut self, node: &str, row: &Row) {
        let here: Vec<usize> = self.attached.values().filter(|(_, n)| n == node).map(|(at, _)| at.0).collect();
        for index in here {
            self.add(index, row.clone());
        }
    }

    /// Handles `volumesInUse` of a node. The kubelet mounts a volume only after it is listed there, and a volume is
    /// detached only after it is no longer listed.
    pub(super) fn on_node_status(&mut self, commit: &Commit, ms: u64) {
        let Some(status) = &commit.node else { return };
        let handle = |name: &Text| name.rsplit_once('^').map_or_else(|| name.to_string(), |(_, h)| h.to_owned());
        let handles: Vec<String> = status.volumes_in_use.iter().map(handle).collect();
        let in_use: BTreeSet<usize> = handles.iter().map(|handle| self.index(handle)).collect();
        for (index, row) in self.waits.in_use(&commit.object, in_use, ms) {
            self.add(index, row);
        }
    }
}
