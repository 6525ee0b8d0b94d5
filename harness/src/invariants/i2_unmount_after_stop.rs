//! I2, of containers: a volume is taken away from a pod only when its container has ended. A writer that goes on without
//! its volume writes beside it, or fails.

use std::collections::BTreeSet;

use controllers::machine::events::{WorkloadStarted, WorkloadStopped};
use csi_mock::events::{DiskCrashed, DiskUnpublished};
use substrate::Event;
use substrate::events::ProcessCrashed;

use super::Found;
use super::facts::Facts;

/// Who writes.
#[derive(Debug, Default)]
pub(super) struct UnmountAfterStop {
    /// Volume, node and pod.
    writers: BTreeSet<(String, String, String)>,
}

impl UnmountAfterStop {
    pub fn check(&mut self, facts: &Facts, event: &Event) -> Option<Found> {
        if let Some(WorkloadStarted { node, pod, volume, .. }) = event.get() {
            self.writers.insert((volume.to_string(), node.to_string(), pod.to_string()));
        } else if let Some(WorkloadStopped { node, pod, volume }) = event.get() {
            self.writers.remove(&(volume.to_string(), node.to_string(), pod.to_string()));
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.ended(facts.name(node));
        } else if event.is::<ProcessCrashed>() {
            // The process of a machine has the node's name; its writers end with it, unheard.
            self.ended(&event.process);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            return self.on_unpublished(facts, volume, facts.name(node), path);
        }
        None
    }

    fn ended(&mut self, node: &str) {
        self.writers.retain(|(_, on, _)| on != node);
    }

    /// Each writer has a target path; fewer paths than writers is one that lost its own.
    fn on_unpublished(&mut self, facts: &Facts, volume: &str, node: &str, path: &str) -> Option<Found> {
        let left = facts.hold(volume, node).map_or(0, |hold| hold.published.len());
        let writers = || self.writers.iter().filter(|(of, on, _)| of == volume && on == node);
        let (_, _, pod) = writers().nth(left)?;
        let message = format!("{volume} was taken away at {path} on {node} while the container of {pod} writes to it");
        let found = Found {
            message,
            operation: "NodeUnpublishVolume".to_owned(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
            ..Found::default()
        };
        // One mistake is reported once.
        self.writers.retain(|(of, on, _)| of != volume || on != node);
        Some(found)
    }
}
