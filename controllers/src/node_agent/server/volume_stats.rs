//! Statistics of mounted volumes: what a driver reports, how long an answer is kept, and the metrics (upstream
//! `csi_client.go` NodeGetVolumeStats, `volume_stat_calculator.go` and `collectors/volume_stats.go`). Pure.
//!
//! Upstream asks the drivers by a timer. This kubelet asks when the statistics are read, and not again within the
//! same period.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::NodeGetVolumeStatsResponse;
use csi_proto::csi::volume_usage::Unit;
use jiff::Timestamp;

use crate::metrics::{Family, Metrics, families};
use crate::node_agent::volume_manager::VolumeSpec;

/// Pod's uid, and the volume's name in the pod.
type Key = (String, String);

/// Claim of a volume (`PVCReference`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub namespace: String,
    pub name: String,
}

/// Volume that is mounted for a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodVolume {
    /// The pod's uid.
    pub uid: String,
    /// Name in the pod's `spec.volumes`.
    pub name: String,
    /// The claim; None for an inline volume.
    pub claim: Option<Claim>,
    /// The volume.
    pub spec: Arc<VolumeSpec>,
}

impl PodVolume {
    fn key(&self) -> Key {
        (self.uid.clone(), self.name.clone())
    }
}

/// Figures of a volume, in bytes and inodes. A figure that the driver does not report is 0, as upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub capacity: u64,
    pub available: u64,
    pub used: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    pub inodes_used: u64,
    /// True if the volume's condition is abnormal; None if the driver reports no conditions.
    pub abnormal: Option<bool>,
}

impl Figures {
    /// Reads a driver's answer; None if it has no figures. `has_condition` is the node capability VOLUME_CONDITION.
    pub fn read(answer: &NodeGetVolumeStatsResponse, has_condition: bool) -> Option<Self> {
        if answer.usage.is_empty() && !has_condition {
            return None;
        }
        let is_abnormal = || answer.volume_condition.as_ref().is_some_and(|condition| condition.abnormal);
        let mut figures = Self { abnormal: has_condition.then(is_abnormal), ..Self::default() };
        let number = |n: i64| u64::try_from(n).unwrap_or_default();
        for usage in &answer.usage {
            let (total, used, available) = (number(usage.total), number(usage.used), number(usage.available));
            if usage.unit == i32::from(Unit::Bytes) {
                figures = Self { capacity: total, used, available, ..figures };
            } else if usage.unit == i32::from(Unit::Inodes) {
                figures = Self { inodes: total, inodes_used: used, inodes_free: available, ..figures };
            }
        }
        Some(figures)
    }
}

/// Figures with the wall time at which the driver was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub figures: Figures,
    pub at: Timestamp,
}

/// A question to a driver, and its last answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Monotonic time of the last question.
    at: Duration,
    /// True until its answer.
    is_open: bool,
    /// None if there is no answer yet, or the last question failed.
    answer: Option<Measured>,
}

/// Answers of the drivers about the volumes of this node.
#[derive(Debug, Default)]
pub(crate) struct VolumeStats(BTreeMap<Key, Asked>);

impl VolumeStats {
    /// Returns those of the `mounted` volumes whose last question is `period` old, and takes them for asked now. Forgets
    /// volumes that are not mounted.
    pub fn due(&mut self, now: Duration, period: Duration, mounted: &[PodVolume]) -> Vec<PodVolume> {
        let keys: BTreeSet<Key> = mounted.iter().map(PodVolume::key).collect();
        self.0.retain(|key, _| keys.contains(key));
        let is_due = |asked: &Asked| !asked.is_open && now.saturating_sub(asked.at) >= period;
        let due: Vec<PodVolume> =
            mounted.iter().filter(|volume| self.0.get(&volume.key()).is_none_or(is_due)).cloned().collect();
        for volume in &due {
            let answer = self.get(volume);
            self.0.insert(volume.key(), Asked { at: now, is_open: true, answer });
        }
        due
    }

    /// Keeps the answer about a volume; None if the question failed.
    pub fn store(&mut self, volume: &PodVolume, answer: Option<Measured>) {
        if let Some(asked) = self.0.get_mut(&volume.key()) {
            asked.is_open = false;
            asked.answer = answer;
        }
    }

    /// Returns the last answer about a volume.
    pub fn get(&self, volume: &PodVolume) -> Option<Measured> {
        self.0.get(&volume.key())?.answer
    }
}

/// A metric, and its value among the figures of a volume.
type Gauge = (&'static Family, fn(&Figures) -> Option<u64>);

/// Shows figures as metrics. A claim that several pods have counts once.
pub(super) fn show(metrics: &Metrics, measured: &[(Claim, Figures)]) {
    let mut claims: BTreeMap<&Claim, &Figures> = BTreeMap::new();
    for (claim, figures) in measured {
        claims.entry(claim).or_insert(figures);
    }
    let gauges: [Gauge; 7] = [
        (&families::VOLUME_CAPACITY, |figures| Some(figures.capacity)),
        (&families::VOLUME_AVAILABLE, |figures| Some(figures.available)),
        (&families::VOLUME_USED, |figures| Some(figures.used)),
        (&families::VOLUME_INODES, |figures| Some(figures.inodes)),
        (&families::VOLUME_INODES_FREE, |figures| Some(figures.inodes_free)),
        (&families::VOLUME_INODES_USED, |figures| Some(figures.inodes_used)),
        (&families::VOLUME_ABNORMAL, |figures| figures.abnormal.map(u64::from)),
    ];
    for (family, value) in gauges {
        let mut samples = Vec::new();
        for (claim, figures) in &claims {
            if let Some(value) = value(figures) {
                samples.push((vec![claim.namespace.as_str(), claim.name.as_str()], value));
            }
        }
        metrics.replace(family, samples);
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::{VolumeCondition, VolumeUsage};

    use super::*;

    fn usage(unit: Unit, total: i64, used: i64, available: i64) -> VolumeUsage {
        VolumeUsage { total, used, available, unit: unit.into() }
    }

    fn answer(usage: Vec<VolumeUsage>, abnormal: Option<bool>) -> NodeGetVolumeStatsResponse {
        let volume_condition = abnormal.map(|abnormal| VolumeCondition { abnormal, message: "m".to_owned() });
        NodeGetVolumeStatsResponse { usage, volume_condition }
    }

    fn volume(uid: &str) -> PodVolume {
        PodVolume {
            uid: uid.to_owned(),
            name: "data".to_owned(),
            claim: None,
            spec: Arc::new(VolumeSpec::reconstructed("d", "h", "pv", false)),
        }
    }

    #[test]
    fn figures_are_read_as_upstream_reads_them() {
        let bytes = || usage(Unit::Bytes, 100, 30, 60);
        let filesystem = answer(vec![bytes(), usage(Unit::Inodes, 10, 3, 7)], None);
        let figures = Figures { capacity: 100, used: 30, available: 60, ..Figures::default() };
        let all = Figures { inodes: 10, inodes_used: 3, inodes_free: 7, ..figures };
        assert_eq!(Figures::read(&filesystem, false), Some(all));
        assert_eq!(Figures::read(&answer(vec![bytes()], None), false), Some(figures), "a raw device has no inodes");
        let odd = answer(vec![usage(Unit::Unknown, 1, 1, 1), usage(Unit::Bytes, -1, -1, -1)], None);
        assert_eq!(Figures::read(&odd, false), Some(Figures::default()));
        assert_eq!(Figures::read(&answer(Vec::new(), Some(true)), false), None);
        let abnormal = |reported| Figures::read(&answer(Vec::new(), reported), true).and_then(|read| read.abnormal);
        assert_eq!([abnormal(Some(true)), abnormal(None)], [Some(true), Some(false)]);
    }

    #[test]
    fn a_driver_is_asked_once_in_a_period_and_not_while_its_answer_is_due() {
        let (second, period) = (Duration::from_secs(1), Duration::from_secs(60));
        let (mut stats, mounted) = (VolumeStats::default(), [volume("u1")]);
        let asked = |stats: &mut VolumeStats, seconds: u32| stats.due(second * seconds, period, &mounted).len();
        assert_eq!([asked(&mut stats, 0), asked(&mut stats, 90)], [1, 0], "the first answer is still due");
        let measured = Measured { figures: Figures { used: 1, ..Figures::default() }, at: Timestamp::UNIX_EPOCH };
        stats.store(&mounted[0], Some(measured));
        assert_eq!([asked(&mut stats, 90), asked(&mut stats, 91)], [1, 0]);
        assert_eq!(stats.get(&mounted[0]), Some(measured), "the old answer counts until the new one");
        stats.store(&mounted[0], None);
        assert_eq!(stats.get(&mounted[0]), None);
        assert_eq!([asked(&mut stats, 149), asked(&mut stats, 150)], [0, 1], "a failed question waits as well");
        assert_eq!(stats.due(second * 151, period, &[]).len(), 0);
        stats.store(&mounted[0], Some(measured));
        assert_eq!(stats.get(&mounted[0]), None, "an unmounted volume is forgotten");
    }

    #[test]
    fn a_claim_has_one_sample_and_a_condition_only_if_it_is_reported() {
        let claim = |name: &str| Claim { namespace: "default".to_owned(), name: name.to_owned() };
        let figures = |used, abnormal| Figures { used, abnormal, ..Figures::default() };
        let metrics = Metrics::default();
        show(&metrics, &[(claim("gone"), figures(9, None))]);
        let shared =
            [(claim("a"), figures(1, None)), (claim("b"), figures(2, Some(true))), (claim("a"), figures(3, None))];
        show(&metrics, &shared);
        let text = metrics.text();
        let lines = |family: &str| {
            let of_family = text.lines().filter(|line| line.starts_with(&format!("{family}{{")));
            of_family.map(str::to_owned).collect::<Vec<_>>()
        };
        let sample = |family: &str, claim: &str, value: u64| {
            format!("{family}{{namespace=\"default\",persistentvolumeclaim=\"{claim}\"}} {value}")
        };
        let used = "kubelet_volume_stats_used_bytes";
        assert_eq!(lines(used), [sample(used, "a", 1), sample(used, "b", 2)]);
        let abnormal = "kubelet_volume_stats_health_status_abnormal";
        assert_eq!(lines(abnormal), [sample(abnormal, "b", 1)]);
    }
}
