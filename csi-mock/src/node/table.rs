//! Arguments of earlier node calls, for evaluating repeats with the same or other arguments. Pure.

use std::collections::BTreeMap;

use crate::check::Capability;

/// Arguments of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageArguments {
    /// The staging path.
    pub path: String,
    /// The capability.
    pub capability: Capability,
}

/// Arguments of a publish at one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishArguments {
    /// The staging path.
    pub staging_path: String,
    /// The capability.
    pub capability: Capability,
    /// True if read-only was requested.
    pub readonly: bool,
}

/// Entry of one volume.
#[derive(Clone, Debug, Default)]
struct Entry {
    staged: Option<StageArguments>,
    published: BTreeMap<String, PublishArguments>,
}

/// Arguments by volume, and first device names for a seeded bug.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<String, Entry>, BTreeMap<String, String>);

/// Relation of a call to earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No conflict.
    Go,
    /// ALREADY_EXISTS: the same path with other arguments.
    Incompatible,
    /// FAILED_PRECONDITION: another target, and the mode allows only this one.
    SecondTarget(String),
}

impl Table {
    /// Seeded bug: remembers the device name that the volume had when it was first staged here.
    pub fn first_name(&mut self, volume: &str, now: &str) -> String {
        self.1.entry(volume.to_owned()).or_insert_with(|| now.to_owned()).clone()
    }

    /// Checks a stage of `volume` with these arguments (CSI: NodeStageVolume, code 6).
    pub fn stage(&self, volume: &str, arguments: &StageArguments) -> Verdict {
        match self.0.get(volume).and_then(|e| e.staged.as_ref()) {
            Some(earlier) if earlier.path == arguments.path && earlier != arguments => Verdict::Incompatible,
            _ => Verdict::Go,
        }
    }

    /// Applies the T/P table of NodePublishVolume: T is the target, P the other arguments. `targets` are the disk's
    /// current targets of the volume, including those from before a restart.
    pub fn publish(&self, volume: &str, target: &str, arguments: &PublishArguments, targets: &[String]) -> Verdict {
        let known = self.0.get(volume).and_then(|e| e.published.get(target));
        if targets.iter().any(|t| t == target) {
            return match known {
                Some(earlier) if earlier != arguments => Verdict::Incompatible,
                _ => Verdict::Go,
            };
        }
        match targets.iter().find(|t| *t != target) {
            Some(other) if !arguments.capability.many_targets() => Verdict::SecondTarget(other.clone()),
            _ => Verdict::Go,
        }
    }

    /// Returns true if a stage of the volume is recorded.
    pub fn is_staged(&self, volume: &str) -> bool {
        self.0.get(volume).is_some_and(|e| e.staged.is_some())
    }

    /// Returns true if the recorded stage is that of a raw device.
    pub fn has_block(&self, volume: &str) -> bool {
        self.0.get(volume).and_then(|e| e.staged.as_ref()).is_some_and(|s| s.capability.block)
    }

    /// Records a stage.
    pub fn staged(&mut self, volume: &str, arguments: StageArguments) {
        self.0.entry(volume.to_owned()).or_default().staged = Some(arguments);
    }

    /// Records a publish.
    pub fn published(&mut self, volume: &str, target: &str, arguments: PublishArguments) {
        self.0.entry(volume.to_owned()).or_default().published.insert(target.to_owned(), arguments);
    }

    /// Forgets a publish.
    pub fn unpublished(&mut self, volume: &str, target: &str) {
        if let Some(entry) = self.0.get_mut(volume) {
            entry.published.remove(target);
            self.tidy(volume);
        }
    }

    /// Forgets a stage.
    pub fn unstaged(&mut self, volume: &str) {
        if let Some(entry) = self.0.get_mut(volume) {
            entry.staged = None;
            self.tidy(volume);
        }
    }

    fn tidy(&mut self, volume: &str) {
        if self.0.get(volume).is_some_and(|e| e.staged.is_none() && e.published.is_empty()) {
            self.0.remove(volume);
        }
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::volume_capability::access_mode::Mode;
    use rstest::rstest;

    use super::*;

    fn arguments(mode: Mode, readonly: bool) -> PublishArguments {
        let (fs_type, mount_flags) = ("ext4".into(), Vec::new());
        let capability = Capability { mode, block: false, fs_type, mount_flags, group: None };
        PublishArguments { staging_path: "/s".into(), capability, readonly }
    }

    #[rstest]
    #[case::same_target_same_arguments("/t", false, Mode::SingleNodeWriter, Verdict::Go)]
    #[case::same_target_other_arguments("/t", true, Mode::SingleNodeWriter, Verdict::Incompatible)]
    #[case::other_target_one_writer("/u", false, Mode::SingleNodeWriter, Verdict::SecondTarget("/t".into()))]
    #[case::other_target_single_writer("/u", false, Mode::SingleNodeSingleWriter, Verdict::SecondTarget("/t".into()))]
    #[case::other_target_many_writers("/u", false, Mode::SingleNodeMultiWriter, Verdict::Go)]
    #[case::other_target_many_nodes("/u", true, Mode::MultiNodeReaderOnly, Verdict::Go)]
    fn publishing_again_follows_the_table(
        #[case] target: &str,
        #[case] readonly: bool,
        #[case] mode: Mode,
        #[case] verdict: Verdict,
    ) {
        let mut table = Table::default();
        table.published("vol-1", "/t", arguments(mode, false));
        assert_eq!(table.publish("vol-1", target, &arguments(mode, readonly), &["/t".into()]), verdict);
    }

    #[test]
    fn a_target_that_is_gone_from_the_disk_does_not_count() {
        let mut table = Table::default();
        table.published("vol-1", "/t", arguments(Mode::SingleNodeWriter, false));
        assert_eq!(table.publish("vol-1", "/u", &arguments(Mode::SingleNodeWriter, false), &[]), Verdict::Go);
        table.unpublished("vol-1", "/t");
        assert!(table.0.is_empty());
    }
}
