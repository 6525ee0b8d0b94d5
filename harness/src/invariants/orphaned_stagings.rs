//! Staging directories that a restarted kubelet does not know.
//!
//! Like upstream's, it reads the pods' directories. A volume that was unpublished everywhere has none, so the kubelet
//! never cleans up its staging path. The same is true if kubelet created the directory, but its call to stage the
//! volume never reached the driver (`MountDevice` in `pkg/volume/csi/csi_attacher.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use controllers::node_agent::names::Paths;
use csi_mock::events::{CsiCall, CsiDone};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};
use substrate::json::Text;

use crate::model::{RunModel, VolumeId, VolumeOnNode, target};
use crate::spec::names::kubelet;

/// Work of a kubelet on a volume, according to the calls of its driver.
#[derive(Debug, Default)]
struct Staging {
    /// Target paths that are still published.
    published: BTreeSet<Text>,
    /// True if it is unstaged; the kubelet then removes the directory.
    unstaged: bool,
    /// True if the kubelet ended while no target path was published, and has not called the driver for the volume
    /// since.
    forgotten: bool,
}

/// By volume and node.
#[derive(Debug, Default)]
pub(super) struct OrphanedStagings {
    stagings: BTreeMap<VolumeOnNode, Staging>,
    /// Volumes and nodes for which a driver was ever asked to stage.
    asked: BTreeSet<VolumeOnNode>,
    /// Kubelets that were started more than once, each with the volumes that existed at its last start.
    restarted: BTreeMap<String, BTreeSet<VolumeId>>,
}

impl OrphanedStagings {
    /// Records an event.
    pub fn observe(&mut self, model: &RunModel, event: &Event) {
        if let Some(call) = event.get::<CsiCall>() {
            self.on_call(call);
        } else if let Some(done) = event.get::<CsiDone>() {
            self.on_done(model, done);
        } else if let Some(ProcessStarted { incarnation }) = event.get() {
            if *incarnation > 1 && event.process.ends_with("/kubelet") {
                self.restarted.insert(event.process.to_string(), model.in_our_cloud.clone());
            }
            self.on_end(&event.process);
        } else if event.is::<ProcessCrashed>() {
            self.on_end(&event.process);
        } else if let Some(AttachmentChanged { volume, instance, state: AttachmentPhase::Detached, .. }) = event.get() {
            // Attach-detach waits for the kubelet, which reports a volume until its directory is gone.
            let key = model.place(volume.as_str(), instance.as_str());
            if self.stagings.get(&key).is_some_and(|staging| staging.unstaged && !staging.forgotten) {
                self.stagings.remove(&key);
            }
        }
    }

    /// Forgets the knowledge of a kubelet that ends.
    fn on_end(&mut self, process: &str) {
        for (_, staging) in self.stagings.iter_mut().filter(|(key, _)| *process == kubelet(&key.node)) {
            staging.forgotten |= staging.published.is_empty();
        }
    }

    fn on_call(&mut self, call: &CsiCall) {
        let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return };
        let key = VolumeOnNode::new(volume, node);
        match call.rpc.as_str() {
            "NodeStageVolume" => {
                self.asked.insert(key.clone());
                let staging = self.stagings.entry(key).or_default();
                (staging.unstaged, staging.forgotten) = (false, false);
            }
            "NodePublishVolume" | "NodeUnpublishVolume" | "NodeUnstageVolume" => {
                let Some(staging) = self.stagings.get_mut(&key) else { return };
                staging.forgotten = false;
                if call.rpc == "NodePublishVolume" {
                    staging.published.insert(call.target.clone().unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    fn on_done(&mut self, model: &RunModel, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        let Some(staging) = self.stagings.get_mut(&VolumeOnNode::new(volume, node)) else { return };
        match (done.rpc.as_str(), done.code.as_str(), model.calls.answered()) {
            ("NodeUnpublishVolume", "OK", Some(call)) => drop(staging.published.remove(target(call))),
            ("NodeUnstageVolume", "OK", _) => staging.unstaged = true,
            _ => {}
        }
    }

    /// Returns the volume with the staging directory `path` on `node`, if the kubelet does not know it.
    pub fn volume(&self, node: &str, path: &Path) -> Option<&str> {
        let is = |volume: &str| Paths::new("/").staging_dir("", volume).file_name() == path.file_name();
        let mut there = self.stagings.iter().filter(|(key, staging)| key.node == *node && staging.forgotten);
        let staged = there.find(|(key, _)| is(&key.volume)).map(|(key, _)| &*key.volume);
        staged.or_else(|| {
            let never_asked = |volume: &&VolumeId| !self.asked.contains(&VolumeOnNode::new(&***volume, node));
            // Only a directory that was there when kubelet started is unknown to it.
            let existed = self.restarted.get(&kubelet(node))?;
            existed.iter().filter(never_asked).find(|volume| is(volume)).map(|volume| &**volume)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mock_ec2::events::{VolumeChanged, VolumePhase};
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::{Invariants, Leftovers, declared};

    const VOLUME: &str = "vol-0123456789abcdef0";
    const STARTS: &str = "kubelet starts";
    const MADE: &str = "the volume is made";

    /// Returns the declared deviation of the staging directory that is left on node-a after these calls.
    fn declared_after(steps: &[&str]) -> Option<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let (kubelet, driver): (Arc<str>, Arc<str>) = ("node-a/kubelet".into(), "node-a/csi-node".into());
        let of = || (Some(Text::from(VOLUME)), Some(Text::from("node-a")));
        for (at, step) in steps.iter().enumerate() {
            let ordinal = at as u64 + 1;
            if *step == STARTS {
                let before = steps[..at].iter().filter(|step| **step == STARTS).count();
                trace.info(&kubelet, ProcessStarted { incarnation: before as u32 + 1 });
                continue;
            }
            if *step == MADE {
                let made = VolumeChanged::new(VOLUME.parse().unwrap(), VolumePhase::Creating, "us-east-1a", 1);
                trace.info(&"mock-ec2".into(), made);
                continue;
            }
            let ((volume, node), target) = (of(), Some("/t".into()));
            trace.info(&driver, CsiCall { volume, node, target, ..CsiCall::new(*step, ordinal) });
            let (volume, node) = of();
            let code = "OK".into();
            let done = CsiDone { rpc: (*step).into(), volume, node, ordinal, code, took_ms: 1, message: None };
            trace.info(&driver, done);
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let path = Paths::new("/root").staging_dir("d", VOLUME);
        let directories = vec![format!("node-a: {}", path.display())];
        invariants.at_end(&Leftovers { directories, ..Leftovers::default() });
        let [found] = &invariants.violations().into_iter().filter(|v| v.id == "I5").collect::<Vec<_>>()[..] else {
            panic!("one violation: {:?}", invariants.violations())
        };
        assert_eq!(found.message, format!("a directory is left over: node-a: {}", path.display()));
        let known = declared::all().unwrap();
        known.iter().find(|deviation| deviation.is(found).unwrap()).map(|deviation| deviation.id.clone())
    }

    #[test]
    fn a_kubelet_that_starts_between_unpublish_and_the_end_forgets_the_directory() {
        let forgets = Some("kubelet-forgets-staging-directory".to_owned());
        let (stage, publish, unpublish, unstage) =
            ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume");
        assert_eq!(declared_after(&[stage, publish, unpublish, STARTS]), forgets);
        assert_eq!(declared_after(&[stage, publish, unpublish, unstage, STARTS]), forgets);
        // The kubelet created the directory, and the driver was never asked.
        assert_eq!(declared_after(&[MADE, STARTS, STARTS]), forgets);
        assert_eq!(declared_after(&[MADE, STARTS]), None);
        assert_eq!(declared_after(&[STARTS, STARTS, MADE]), None, "the directory is newer than this kubelet");
        // It did not restart, it finds the pod's directory, or it works on the volume again.
        assert_eq!(declared_after(&[STARTS, stage, publish, unpublish, unstage]), None);
        assert_eq!(declared_after(&[stage, publish, STARTS, unpublish, unstage]), None);
        assert_eq!(declared_after(&[stage, publish, unpublish, STARTS, stage, publish, unpublish, unstage]), None);
    }
}
