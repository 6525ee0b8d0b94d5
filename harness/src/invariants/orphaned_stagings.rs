//! Staging directories that a restarted kubelet does not know.
//!
//! Like upstream's, it reads the pods' directories. A volume that was unpublished everywhere has none, so the kubelet
//! never cleans up its staging path. The same is true if kubelet created the directory, but its call to stage the
//! volume never reached the driver (`MountDevice` in `pkg/volume/csi/csi_attacher.go`). A running kubelet forgets a path
//! whose removal failed after that of its vol_data.json: the next try finds no file (`UnmountDevice` there).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use controllers::node_agent::names::{Paths, VOL_DATA};
use csi_mock::events::{CsiCall, CsiDone};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::Effect;
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
    /// Volumes and nodes for which a driver was ever asked to stage or publish.
    mounted: BTreeSet<VolumeOnNode>,
    /// Nodes and names of staging directories whose removal failed when kubelet had removed their vol_data.json.
    unremoved: BTreeSet<(String, String)>,
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
        } else if let Some(fired) = event.get::<FaultFired>() {
            self.on_fault(fired);
        } else if let Some(AttachmentChanged { volume, instance, state: AttachmentPhase::Detached, .. }) = event.get() {
            // Attach-detach waits for the kubelet, which reports a volume until its directory is gone.
            let key = model.place(volume.as_str(), instance.as_str());
            if self.stagings.get(&key).is_some_and(|staging| staging.unstaged && !staging.forgotten) {
                self.stagings.remove(&key);
            }
        }
    }

    fn on_fault(&mut self, fired: &FaultFired) {
        let (Some(path), Some(node)) = (fired.attribute("path"), fired.attribute("node")) else { return };
        if let (Some(directory), Effect::IoError(_)) = (without_record(&fired.op, path), &fired.effect) {
            let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
            self.unremoved.extend(name.map(|name| (node.to_owned(), name)));
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
        if matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume") {
            let name = Paths::new("/").staging_dir("", volume).file_name().map(OsStr::to_owned);
            self.unremoved.retain(|(at, left)| *at != **node || Some(left.as_ref()) != name.as_deref());
            self.mounted.insert(key.clone());
        }
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

    /// Returns the volume with the staging directory `path` on `node`, if the kubelet does not know it, and the detail
    /// that says why.
    pub fn volume(&self, node: &str, path: &Path) -> Option<(&str, &'static str)> {
        if let Some(volume) = self.forgotten(node, path) {
            return Some((volume, "kubeletRestartedSinceUnpublish"));
        }
        let name = path.file_name()?.to_str()?;
        let is_unremoved = self.unremoved.contains(&(node.to_owned(), name.to_owned()));
        let is = |of: &&VolumeOnNode| Paths::new("/").staging_dir("", &of.volume).file_name() == path.file_name();
        let of = self.mounted.iter().filter(|of| is_unremoved && of.node == *node).find(is)?;
        Some((&of.volume, "removalFailed"))
    }

    fn forgotten(&self, node: &str, path: &Path) -> Option<&str> {
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

/// Returns the directory whose vol_data.json is gone when this removal fails: kubelet removes the mount point first, then
/// the file, then the directory (`removeMountDir` in `pkg/volume/csi/csi_util.go`).
pub(super) fn without_record<'a>(op: &str, path: &'a str) -> Option<&'a Path> {
    let path = Path::new(path);
    match op {
        "remove_file" if path.ends_with(VOL_DATA) => path.parent(),
        "remove_dir" if !path.ends_with("mount") && !path.ends_with("globalmount") => Some(path),
        _ => None,
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
    const FAILS: &str = "the removal of the directory fails";
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
            if *step == FAILS {
                let effect = Effect::IoError("EBUSY".into());
                let path = Paths::new("/root").staging_dir("d", VOLUME).display().to_string();
                let attributes = [("node".to_owned(), "node-a".to_owned()), ("path".to_owned(), path)].into();
                trace.info(&kubelet, FaultFired { attributes, ..FaultFired::new("f", "remove_dir", effect) });
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

    #[test]
    fn a_directory_stays_if_its_removal_failed_since_it_was_last_used() {
        let leaves = Some("kubelet-leaves-unremovable-staging-directory".to_owned());
        let (publish, unpublish) = ("NodePublishVolume", "NodeUnpublishVolume");
        assert_eq!(declared_after(&[publish, unpublish, FAILS]), leaves);
        assert_eq!(declared_after(&[publish, unpublish, FAILS, publish, unpublish]), None);
        assert_eq!(declared_after(&[FAILS]), None, "nothing was mounted");
    }

    #[test]
    fn a_failed_removal_loses_the_record_once_the_mount_point_is_gone() {
        let directory = |op, path| without_record(op, path).and_then(Path::to_str);
        assert_eq!(directory("remove_dir", "/k/pods/u/volumes/kubernetes.io~csi/pv/mount"), None);
        assert_eq!(directory("remove_dir", "/k/csi/d/hash/globalmount"), None);
        assert_eq!(directory("remove_dir", "/k/csi/d/hash"), Some("/k/csi/d/hash"));
        assert_eq!(directory("remove_file", "/k/csi/d/hash/vol_data.json"), Some("/k/csi/d/hash"));
        assert_eq!(directory("write", "/k/csi/d/hash/vol_data.json"), None);
    }
}
