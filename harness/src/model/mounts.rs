//! Mounts of volumes on nodes, as reported by the disk and by the answers of the driver.

use csi_mock::events::{CsiCall, CsiDone, DiskStaged};

use super::RunModel;
use crate::spec::names;

impl RunModel {
    /// Records that the kubelet that requests a volume knows it.
    pub(super) fn on_kubelet_asks(&mut self, call: &CsiCall) {
        let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return };
        let mounts = matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume");
        if !mounts && !matches!(call.rpc.as_str(), "NodeUnpublishVolume" | "NodeUnstageVolume") {
            return;
        }
        let key = (volume.to_string(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.forgotten = false;
        }
        if mounts {
            self.asked_to_stage.insert(key, false);
        }
    }

    /// Returns true if the kubelet that had a volume staged on a node has ended since it asked.
    fn is_without_attachment(&self, volume: &str, node: &str) -> bool {
        let key = (volume.to_owned(), self.name(node).to_owned());
        self.asked_to_stage.get(&key).is_some_and(|ended| *ended)
    }

    pub(super) fn on_staged(&mut self, staged: &DiskStaged) {
        let forgotten = self.is_without_attachment(&staged.volume, &staged.node);
        let hold = self.of(&staged.volume, &staged.node);
        hold.staged = Some(!staged.readonly);
        hold.path = staged.path.clone();
        hold.raw = staged.raw;
        hold.begins(forgotten);
        let node = self.name(&staged.node).to_owned();
        self.held_since_attached.insert((staged.volume.to_string(), node));
    }

    pub(super) fn on_published(&mut self, volume: &str, node: &str, path: &str, readonly: bool) {
        let hold = self.of(volume, node);
        if hold.staged.is_none() && hold.published.is_empty() {
            // A raw device of a driver without staging: only its publish is visible.
            hold.begins(false);
            hold.raw = true;
        }
        if hold.path == path {
            // A driver without staging mounts at the target itself.
            hold.staged = None;
        }
        hold.published.insert(path.to_owned(), !readonly);
        let node = self.name(node).to_owned();
        self.held_since_attached.insert((volume.to_owned(), node));
    }

    pub(super) fn on_unpublished(&mut self, volume: &str, node: &str, path: &str) {
        let hold = self.of(volume, node);
        if path.is_empty() {
            hold.published.clear();
        } else {
            hold.published.remove(path);
        }
        self.forget_if_empty(volume, node);
    }

    /// Handles a driver that ended between the mount of a filesystem and its event. At the next attempt it finds the
    /// mount and answers OK without a new disk event.
    pub(super) fn on_staged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeStageVolume" || done.code != "OK" {
            return;
        }
        let forgotten = self.is_without_attachment(volume, node);
        let hold = self.of(volume, node);
        if hold.staged.is_none() {
            hold.staged = Some(true);
            hold.begins(forgotten);
            let node = self.name(node).to_owned();
            self.held_since_attached.insert((volume.to_string(), node));
        }
    }

    /// Handles the same case for a target path. If a driver does not stage, this is the only report of the filesystem.
    pub(super) fn on_published_by_word(&mut self, done: &CsiDone) {
        if done.rpc != "NodePublishVolume" || done.code != "OK" {
            return;
        }
        let target = self.calls.answered().map(|call| call.target.clone().unwrap_or_default());
        let (Some(target), Some(volume), Some(node)) = (target, &done.volume, &done.node) else { return };
        let hold = self.of(volume, node);
        if hold.published.contains_key(target.as_str()) {
            return;
        }
        if hold.staged.is_none() && hold.published.is_empty() {
            hold.begins(false);
            hold.path = target.clone();
        }
        hold.published.insert(target.to_string(), true);
        let node = self.name(node).to_owned();
        self.held_since_attached.insert((volume.to_string(), node));
    }

    /// Handles a restarted driver, which does not remember that it staged a raw device. No mount shows this, so the
    /// driver's OK counts. For a filesystem, the mount must be gone.
    pub(super) fn on_unstaged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeUnstageVolume" || done.code != "OK" {
            return;
        }
        let key = (volume.to_string(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key).filter(|hold| hold.raw) {
            hold.staged = None;
            self.forget_if_empty(volume, node);
        }
    }

    /// Records that a kubelet starts: it knows the volumes that it finds on its disk.
    pub(super) fn on_started(&mut self, process: &str) {
        for (_, hold) in self.holds.iter_mut().filter(|((_, node), _)| *process == names::kubelet(node)) {
            hold.forgotten |= hold.published.is_empty();
            hold.unattached_at_start = hold.lost_by_node;
        }
        for (_, ended) in self.asked_to_stage.iter_mut().filter(|((_, node), _)| *process == names::kubelet(node)) {
            *ended = true;
        }
    }
}
