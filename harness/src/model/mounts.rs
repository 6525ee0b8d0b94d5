//! Mounts of volumes on nodes, as reported by the disk and by the answers of the driver.

use csi_mock::events::{CsiCall, CsiDone, DiskStaged};
use substrate::json::Text;

use super::{RunModel, VolumeOnNode};
use crate::spec::names;

impl RunModel {
    /// Records that the kubelet that requests a volume knows it.
    pub(super) fn on_kubelet_asks(&mut self, call: &CsiCall) {
        let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return };
        let mounts = matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume");
        if !mounts && !matches!(call.rpc.as_str(), "NodeUnpublishVolume" | "NodeUnstageVolume") {
            return;
        }
        let place = self.place(volume, node);
        if let Some(hold) = self.holds.get_mut(&place) {
            hold.forgotten = false;
        }
        if mounts {
            self.asked_to_stage.insert(place, false);
        }
    }

    /// Returns true if the kubelet that had a volume staged on a node has ended since it asked.
    fn is_without_attachment(&self, place: &VolumeOnNode) -> bool {
        self.asked_to_stage.get(place).is_some_and(|ended| *ended)
    }

    pub(super) fn on_staged(&mut self, staged: &DiskStaged) {
        let place = self.place(&staged.volume, &staged.node);
        let forgotten = self.is_without_attachment(&place);
        let hold = self.holds.entry(place.clone()).or_default();
        hold.staged = Some(!staged.readonly);
        hold.path = staged.path.clone();
        hold.raw = staged.raw;
        hold.begins(forgotten);
        self.held_since_attached.insert(place);
    }

    pub(super) fn on_published(&mut self, volume: &Text, node: &str, path: &Text, readonly: bool) {
        let place = self.place(volume, node);
        let hold = self.holds.entry(place.clone()).or_default();
        if hold.staged.is_none() && hold.published.is_empty() {
            // A raw device of a driver without staging: only its publish is visible.
            hold.begins(false);
            hold.raw = true;
        }
        if hold.path == *path {
            // A driver without staging mounts at the target itself.
            hold.staged = None;
        }
        hold.published.insert(path.clone(), !readonly);
        self.held_since_attached.insert(place);
    }

    pub(super) fn on_unpublished(&mut self, place: &VolumeOnNode, path: &str) {
        let Some(hold) = self.holds.get_mut(place) else { return };
        if path.is_empty() {
            hold.published.clear();
        } else {
            hold.published.remove(path);
        }
        self.forget_if_empty(place);
    }

    pub(super) fn on_unstaged(&mut self, place: &VolumeOnNode) {
        if let Some(hold) = self.holds.get_mut(place) {
            hold.staged = None;
        }
        self.forget_if_empty(place);
    }

    /// Handles a driver that ended between the mount of a filesystem and its event. At the next attempt it finds the
    /// mount and answers OK without a new disk event.
    pub(super) fn on_staged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeStageVolume" || done.code != "OK" {
            return;
        }
        let place = self.place(volume, node);
        let forgotten = self.is_without_attachment(&place);
        let hold = self.holds.entry(place.clone()).or_default();
        if hold.staged.is_none() {
            hold.staged = Some(true);
            hold.begins(forgotten);
            self.held_since_attached.insert(place);
        }
    }

    /// Handles the same case for a target path. If a driver does not stage, this is the only report of the filesystem.
    pub(super) fn on_published_by_word(&mut self, done: &CsiDone) {
        if done.rpc != "NodePublishVolume" || done.code != "OK" {
            return;
        }
        let target = self.calls.answered().map(|call| call.target.clone().unwrap_or_default());
        let (Some(target), Some(volume), Some(node)) = (target, &done.volume, &done.node) else { return };
        let place = self.place(volume, node);
        let hold = self.holds.entry(place.clone()).or_default();
        if hold.published.contains_key(target.as_str()) {
            return;
        }
        if hold.staged.is_none() && hold.published.is_empty() {
            hold.begins(false);
            hold.path = target.clone();
        }
        hold.published.insert(target, true);
        self.held_since_attached.insert(place);
    }

    /// Handles a restarted driver, which does not remember that it staged a raw device. No mount shows this, so the
    /// driver's OK counts. For a filesystem, the mount must be gone.
    pub(super) fn on_unstaged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeUnstageVolume" || done.code != "OK" {
            return;
        }
        let place = self.place(volume, node);
        if self.holds.get(&place).is_some_and(|hold| hold.raw) {
            self.on_unstaged(&place);
        }
    }

    /// Records that a kubelet starts: it knows the volumes that it finds on its disk.
    pub(super) fn on_started(&mut self, process: &str) {
        for (_, hold) in self.holds.iter_mut().filter(|(place, _)| *process == names::kubelet(&place.node)) {
            hold.forgotten |= hold.published.is_empty();
            hold.unattached_at_start = hold.lost_by_node;
        }
        for (_, ended) in self.asked_to_stage.iter_mut().filter(|(place, _)| *process == names::kubelet(&place.node)) {
            *ended = true;
        }
    }
}
