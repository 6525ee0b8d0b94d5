//! Attached volumes by node, and the volumes to report in node statuses (`ActualStateOfWorld` upstream).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use super::volume::{Counts, VolumeOnNode, VolumeSpec};

/// Attachment state of a volume on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachState {
    /// An attach succeeded.
    Attached,
    /// An operation failed: the volume may or may not be attached.
    Uncertain,
    /// No attachment known.
    Detached,
}

/// Attachment of a volume to a node.
#[derive(Clone, Debug)]
pub struct AttachedNode {
    /// True if an attach was confirmed; otherwise the state is uncertain.
    pub confirmed: bool,
    /// True if the node uses the volume according to its status, or until its status says otherwise.
    pub mounted: bool,
    /// Monotonic time of the first request to detach.
    pub detach_requested: Option<Duration>,
}

impl AttachedNode {
    /// Returns true if it is attached and no detach was requested.
    pub fn is_settled(&self) -> bool {
        self.confirmed && self.detach_requested.is_none()
    }
}

/// Volume that is, or may be, attached to at least one node.
#[derive(Clone, Debug)]
pub struct AttachedVolume {
    /// Its spec; unknown after a restart until a pod or a VolumeAttachment names it.
    pub spec: Option<Arc<VolumeSpec>>,
    /// Its attachments by node.
    pub nodes: BTreeMap<String, AttachedNode>,
}

impl AttachedVolume {
    /// Returns true if several nodes may attach it (`IsMultiAttachAllowed`); an unknown spec allows it.
    pub fn multi_attach(&self) -> bool {
        self.spec.as_ref().is_none_or(|spec| spec.multi_attach)
    }
}

#[derive(Clone, Debug, Default)]
struct Report {
    volumes: BTreeSet<String>,
    dirty: bool,
}

/// Volumes by unique name. The hash has no random key, so the order depends on the history alone. In a tree of many
/// names, which share a long prefix and lie apart in memory, the comparisons cost most of a pass.
type Volumes = IndexMap<String, AttachedVolume, BuildHasherDefault<DefaultHasher>>;

/// Volume → nodes, and node → volumes to report in `status.volumesAttached`.
#[derive(Clone, Debug, Default)]
pub struct ActualStateOfWorld {
    volumes: Volumes,
    by_node: BTreeMap<String, BTreeSet<String>>,
    reports: BTreeMap<String, Report>,
    touched: Vec<VolumeOnNode>,
    counts: Counts,
    /// Seeded bug: reports only volumes that it did not know on their node.
    pub(super) reports_new_only: bool,
}

impl ActualStateOfWorld {
    /// Records an attach (`confirmed`), or a possible attach. A new entry counts as mounted until a node status says
    /// otherwise. Only a confirmed one is reported as attached.
    pub fn add(&mut self, volume: &str, spec: Option<&Arc<VolumeSpec>>, node: &str, confirmed: bool) {
        self.touched.push((volume.to_owned(), node.to_owned()));
        let entry = self
            .volumes
            .entry(volume.to_owned())
            .or_insert_with(|| AttachedVolume { spec: spec.cloned(), nodes: BTreeMap::new() });
        if let Some(spec) = spec {
            entry.spec = Some(spec.clone());
        }
        let is_known = entry.nodes.contains_key(node);
        entry.nodes.entry(node.to_owned()).and_modify(|on| on.confirmed = confirmed).or_insert_with(|| {
            self.counts.added(volume);
            AttachedNode { confirmed, mounted: true, detach_requested: None }
        });
        self.by_node.entry(node.to_owned()).or_default().insert(volume.to_owned());
        if confirmed && !(is_known && self.reports_new_only) {
            self.report(volume, node);
        }
    }

    /// Records a detach.
    pub fn remove(&mut self, volume: &str, node: &str) {
        self.touched.push((volume.to_owned(), node.to_owned()));
        if let Some(entry) = self.volumes.get_mut(volume) {
            if entry.nodes.remove(node).is_some() {
                self.counts.removed(volume);
            }
            if entry.nodes.is_empty() {
                self.volumes.swap_remove(volume);
            }
        }
        if let Some(volumes) = self.by_node.get_mut(node) {
            volumes.remove(volume);
            if volumes.is_empty() {
                self.by_node.remove(node);
            }
        }
        self.unreport(volume, node);
    }

    /// Returns the number of attachments of each driver.
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        self.counts.of()
    }

    /// Takes the volumes whose attachment or mount changed since the last call.
    pub fn take_touched(&mut self) -> Vec<VolumeOnNode> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the attachment of the volume to the node, confirmed or uncertain.
    pub fn on_node(&self, volume: &str, node: &str) -> Option<&AttachedNode> {
        self.volumes.get(volume)?.nodes.get(node)
    }

    /// Returns the attachment state of the volume on the node.
    pub fn state(&self, volume: &str, node: &str) -> AttachState {
        match self.on_node(volume, node) {
            Some(on) if on.confirmed => AttachState::Attached,
            Some(_) => AttachState::Uncertain,
            None => AttachState::Detached,
        }
    }

    /// Returns a volume by its unique name.
    pub fn get(&self, volume: &str) -> Option<&AttachedVolume> {
        self.volumes.get(volume)
    }

    /// Iterates over all volumes, ordered by unique name.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &AttachedVolume)> {
        let mut all: Vec<_> = self.volumes.iter().map(|(name, volume)| (name.as_str(), volume)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Returns true if any node has a confirmed attachment of the volume.
    pub fn is_confirmed_anywhere(&self, volume: &str) -> bool {
        self.volumes.get(volume).is_some_and(|entry| entry.nodes.values().any(|on| on.confirmed))
    }

    /// Returns the nodes with a confirmed attachment of the volume.
    pub fn confirmed_nodes(&self, volume: &str) -> Vec<String> {
        let Some(entry) = self.volumes.get(volume) else { return Vec::new() };
        entry.nodes.iter().filter(|(_, on)| on.confirmed).map(|(node, _)| node.clone()).collect()
    }

    /// Applies a node's `status.volumesInUse`. Returns true if that changed an entry.
    pub fn set_mounted(&mut self, node: &str, in_use: &[String]) -> bool {
        let mut changed = false;
        let in_use: BTreeSet<&String> = in_use.iter().collect();
        for volume in self.by_node.get(node).into_iter().flatten() {
            if let Some(on) = self.volumes.get_mut(volume).and_then(|entry| entry.nodes.get_mut(node)) {
                let mounted = in_use.contains(volume);
                if on.mounted != mounted {
                    on.mounted = mounted;
                    changed = true;
                    self.touched.push((volume.clone(), node.to_owned()));
                }
            }
        }
        changed
    }

    /// Records the first request to detach, and returns its time.
    pub fn request_detach(&mut self, volume: &str, node: &str, now: Duration) -> Duration {
        let on = self.volumes.get_mut(volume).and_then(|entry| entry.nodes.get_mut(node));
        on.map_or(now, |on| *on.detach_requested.get_or_insert(now))
    }

    /// Clears the request to detach.
    pub fn reset_detach_request(&mut self, volume: &str, node: &str) {
        if let Some(on) = self.volumes.get_mut(volume).and_then(|entry| entry.nodes.get_mut(node)) {
            on.detach_requested = None;
        }
    }

    /// Adds the volume to the list that the node's status reports.
    pub fn report(&mut self, volume: &str, node: &str) {
        if self.state(volume, node) == AttachState::Detached {
            return;
        }
        let report = self.reports.entry(node.to_owned()).or_default();
        if report.volumes.insert(volume.to_owned()) {
            report.dirty = true;
        }
    }

    /// Removes the volume from the list that the node's status reports.
    pub fn unreport(&mut self, volume: &str, node: &str) {
        if let Some(report) = self.reports.get_mut(node)
            && report.volumes.remove(volume)
        {
            report.dirty = true;
        }
    }

    /// Returns the list for a node's status, if it must be written.
    pub fn take_report(&mut self, node: &str) -> Option<Vec<String>> {
        let report = self.reports.get_mut(node)?;
        std::mem::take(&mut report.dirty).then(|| report.volumes.iter().cloned().collect())
    }

    /// Returns all lists that must be written.
    pub fn take_reports(&mut self) -> Vec<(String, Vec<String>)> {
        self.reports
            .iter_mut()
            .filter(|(_, report)| report.dirty)
            .map(|(node, report)| {
                report.dirty = false;
                (node.clone(), report.volumes.iter().cloned().collect())
            })
            .collect()
    }

    /// Marks the statuses of all nodes for another write.
    pub(super) fn touch_reports(&mut self) {
        self.reports.values_mut().for_each(|report| report.dirty = true);
    }

    /// Marks the node's status for another write (`SetNodeStatusUpdateNeeded`).
    pub fn touch_report(&mut self, node: &str) {
        if let Some(report) = self.reports.get_mut(node) {
            report.dirty = true;
        }
    }
}
