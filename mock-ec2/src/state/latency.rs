//! Duration of transitions: seeded distributions per operation.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use substrate::Seed;
use substrate::seed::unit;

use super::filter::wildcard;

/// Named set of distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyProfile {
    /// Each intermediate state appears in the mutating call's answer and in the event stream. It ends at the next call
    /// or after 1 ms.
    #[default]
    Instant,
    /// Figures that operators quote: AttachVolume takes 5–30 s for its caller, including polling.
    Aws,
    /// Figures of the EBS driver's authors: attach and detach mostly 1–4 s.
    AwsRecent,
}

impl std::str::FromStr for LatencyProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "instant" => Ok(Self::Instant),
            "aws" => Ok(Self::Aws),
            "aws-recent" => Ok(Self::AwsRecent),
            _ => Err(format!("`{text}` is not a latency profile: use instant, aws or aws-recent")),
        }
    }
}

impl LatencyProfile {
    /// Returns the name in files and on command lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instant => "instant",
            Self::Aws => "aws",
            Self::AwsRecent => "aws-recent",
        }
    }
}

impl std::fmt::Display for LatencyProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Operation that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// `creating` → `available`.
    CreateVolume,
    /// `deleting` → gone.
    DeleteVolume,
    /// `attaching` → `attached`.
    AttachVolume,
    /// The same for io2 (Block Express).
    AttachIo2Volume,
    /// `detaching` → gone.
    DetachVolume,
    /// `detaching` → gone, by force.
    ForceDetachVolume,
    /// `pending` → `running`.
    RunInstances,
    /// `detaching` → `busy`, of a mounted device.
    BecomeBusy,
    /// `modifying` → `optimizing`.
    ModifyVolume,
    /// `optimizing` → `completed`.
    OptimizeVolume,
    /// `pending` → `completed`.
    CreateSnapshot,
    /// Loading the blocks of a volume from its snapshot, per GiB.
    InitializeVolume,
    /// Each stage of fast restore.
    EnableFastRestore,
    /// `stopping` → `stopped`.
    StopInstances,
    /// `shutting-down` → `terminated`.
    TerminateInstances,
    /// From TerminateInstances until the volumes are released.
    ImplicitDetach,
    /// Between the storage tiers of a snapshot.
    TierSnapshot,
}

/// Duration of an operation in a latency file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LatencyRule {
    /// The operation.
    pub operation: Operation,
    /// Limits the rule to volumes of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
    /// Limits the rule to instances of this type; `*` and `?` are wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Points of the quantile function: fraction from 0 to 1, and milliseconds.
    pub quantiles: Vec<(f64, f64)>,
}

impl LatencyRule {
    /// Checks the quantiles.
    ///
    /// # Errors
    /// The reason why they are invalid.
    pub fn check(&self) -> Result<(), String> {
        let (first, last) = (self.quantiles.first().map(|q| q.0), self.quantiles.last().map(|q| q.0));
        let rising = self.quantiles.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1);
        let sound = self.quantiles.iter().all(|(_, ms)| ms.is_finite() && (0.0..=1e12).contains(ms));
        if first == Some(0.0) && last == Some(1.0) && rising && sound {
            return Ok(());
        }
        Err("quantiles: write [share, milliseconds] pairs, both rising, from share 0 to share 1".to_owned())
    }

    /// Returns true if the rule applies to `operation` on these types.
    pub fn fits(&self, operation: Operation, volume_type: Option<&str>, instance_type: Option<&str>) -> bool {
        let same = |own: &Option<String>, given: Option<&str>| {
            own.as_deref().is_none_or(|own| given.is_some_and(|given| wildcard(own, given)))
        };
        // Attaching io2 is AttachVolume with its own distribution.
        let asked = if operation == Operation::AttachIo2Volume { Operation::AttachVolume } else { operation };
        (self.operation == operation || self.operation == asked)
            && same(&self.volume_type, volume_type)
            && same(&self.instance_type, instance_type)
    }

    /// Draws the duration of one operation, before the time scale.
    pub fn draw(&self, draw: &Seed) -> Duration {
        Duration::from_millis(at(&self.quantiles, unit(&mut draw.rng())) as u64)
    }
}

/// Latency file: a profile and its exceptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyFile {
    /// Profile for operations without a rule.
    #[serde(default)]
    pub base: LatencyProfile,
    /// Rules; the first that applies decides.
    #[serde(default)]
    pub rules: Vec<LatencyRule>,
}

impl LatencyFile {
    /// Parses YAML or JSON.
    ///
    /// # Errors
    /// The invalid field, and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = substrate::yaml::from_str(text).map_err(|e| e.to_string())?;
        for (position, rule) in file.rules.iter().enumerate() {
            rule.check().map_err(|reason| format!("rules[{position}].{reason}"))?;
        }
        Ok(file)
    }
}

/// Distribution as points of its quantile function: (fraction, milliseconds), both rising, with fractions 0 to 1.
/// Linear between points, so a draw needs no transcendental function and is equal on every machine.
type Quantiles = &'static [(f64, f64)];

/// The 1 ms of `instant`; not divided by the time scale.
pub const INSTANT: Duration = Duration::from_millis(1);

// CreateVolume → available: median 1.5 s, p99 about 4 s (driver authors, us-west-2 and ap-south-1).
const CREATE: Quantiles = &[(0.0, 700.0), (0.5, 1_500.0), (0.9, 2_500.0), (0.99, 4_000.0), (1.0, 5_000.0)];
// No figure found; assumed: a second or two.
const DELETE: Quantiles = &[(0.0, 500.0), (0.5, 1_000.0), (1.0, 3_000.0)];
// Quoted: 5–30 s for a caller, and 15–45 s from the claim to a running pod. A driver polls after 1 s × 1.8ⁿ (at 2.8,
// 6.0, 11.9, 22.4 s), so a caller sees most of these at 12 s, and the tail after the attacher's 15 s timeout and its
// retries.
const ATTACH_QUOTED: Quantiles = &[(0.0, 6_100.0), (0.5, 8_000.0), (0.95, 11_500.0), (1.0, 16_000.0)];
// Quoted: 5–15 s, faster than gp3.
const ATTACH_IO2_QUOTED: Quantiles = &[(0.0, 4_000.0), (0.5, 5_500.0), (0.9, 8_000.0), (1.0, 11_500.0)];
// No figure is quoted for detach. Assumed: the order of attach, without its tail.
const DETACH_QUOTED: Quantiles = &[(0.0, 3_000.0), (0.5, 6_000.0), (0.9, 11_000.0), (1.0, 20_000.0)];
// Attach and detach complete: mostly 1–4 s (driver authors).
const ATTACH_RECENT: Quantiles = &[(0.0, 1_000.0), (0.5, 2_000.0), (0.95, 4_000.0), (0.99, 6_000.0), (1.0, 9_000.0)];
// A forced detach does not wait for the guest.
const FORCE: Quantiles = &[(0.0, 1_000.0), (1.0, 3_000.0)];
// Instances reach `running` in about ten to twenty seconds.
const RUN: Quantiles = &[(0.0, 6_000.0), (0.5, 12_000.0), (1.0, 25_000.0)];

// Detach while mounted is `busy` after 12 s (aws-ebs-csi-driver#1032) to 41 s (kubernetes#37854).
const BUSY: Quantiles = &[(0.0, 12_000.0), (1.0, 41_000.0)];
// A new size can be used within seconds.
const MODIFY: Quantiles = &[(0.0, 1_000.0), (0.5, 3_000.0), (1.0, 10_000.0)];
// Minutes to hours.
const OPTIMIZE: Quantiles = &[(0.0, 120_000.0), (0.5, 1_200_000.0), (0.9, 7_200_000.0), (1.0, 21_600_000.0)];
// Small snapshots take tens of seconds to minutes; no figure is quoted.
const SNAPSHOT: Quantiles = &[(0.0, 8_000.0), (0.5, 30_000.0), (0.9, 90_000.0), (1.0, 300_000.0)];
// Per GiB, at some 100 MiB/s.
const INITIALIZE: Quantiles = &[(0.0, 5_000.0), (0.5, 10_000.0), (1.0, 20_000.0)];
// Each stage; AWS documents 60 minutes per TiB for the second one.
const FAST_RESTORE: Quantiles = &[(0.0, 30_000.0), (1.0, 120_000.0)];
// Instances stop and end in tens of seconds.
const STOP: Quantiles = &[(0.0, 10_000.0), (0.5, 25_000.0), (1.0, 60_000.0)];
const TERMINATE: Quantiles = &[(0.0, 60_000.0), (0.5, 75_000.0), (1.0, 120_000.0)];
// AWS documents up to 72 hours for a restore; no figure is quoted for archiving.
const TIER: Quantiles = &[(0.0, 3_600_000.0), (0.5, 86_400_000.0), (1.0, 259_200_000.0)];
// About a minute after shutting-down (karpenter#1294).
const IMPLICIT: Quantiles = &[(0.0, 45_000.0), (0.5, 58_000.0), (1.0, 60_000.0)];

impl LatencyProfile {
    /// Draws the duration of one `operation`, before the time scale. `draw` names the draw, so that it is independent
    /// of other draws.
    pub fn draw(self, operation: Operation, draw: &Seed) -> Duration {
        let quantiles = match (self, operation) {
            (Self::Instant, _) => return INSTANT,
            (_, Operation::CreateVolume) => CREATE,
            (_, Operation::DeleteVolume) => DELETE,
            (_, Operation::ForceDetachVolume) => FORCE,
            (_, Operation::RunInstances) => RUN,
            (_, Operation::BecomeBusy) => BUSY,
            (_, Operation::ModifyVolume) => MODIFY,
            (_, Operation::OptimizeVolume) => OPTIMIZE,
            (_, Operation::CreateSnapshot) => SNAPSHOT,
            (_, Operation::InitializeVolume) => INITIALIZE,
            (_, Operation::EnableFastRestore) => FAST_RESTORE,
            (_, Operation::StopInstances) => STOP,
            (_, Operation::TerminateInstances) => TERMINATE,
            (_, Operation::ImplicitDetach) => IMPLICIT,
            (_, Operation::TierSnapshot) => TIER,
            (Self::Aws, Operation::AttachVolume) => ATTACH_QUOTED,
            (Self::Aws, Operation::AttachIo2Volume) => ATTACH_IO2_QUOTED,
            (Self::Aws, Operation::DetachVolume) => DETACH_QUOTED,
            (Self::AwsRecent, Operation::AttachVolume | Operation::AttachIo2Volume | Operation::DetachVolume) => {
                ATTACH_RECENT
            }
        };
        Duration::from_millis(at(quantiles, unit(&mut draw.rng())) as u64)
    }

    /// Returns true if every transition ends at the next call, regardless of the time.
    pub fn settles_at_once(self) -> bool {
        self == Self::Instant
    }
}

/// Returns the value of a quantile function at `share`.
fn at(quantiles: &[(f64, f64)], share: f64) -> f64 {
    let mut from = (0.0, 0.0);
    for &to in quantiles {
        if share <= to.0 {
            let width = to.0 - from.0;
            return if width > 0.0 { from.1 + (to.1 - from.1) * (share - from.0) / width } else { to.1 };
        }
        from = to;
    }
    from.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(profile: LatencyProfile, operation: Operation) -> Vec<u64> {
        let seed = Seed::root(7);
        let mut all: Vec<u64> =
            (0..2000).map(|n| profile.draw(operation, &seed.child(&n.to_string())).as_millis() as u64).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_aws_profile_keeps_the_quoted_figures() {
        let attach = draws(LatencyProfile::Aws, Operation::AttachVolume);
        assert!(attach[0] >= 5_000 && attach[1999] <= 30_000 && (7_500..8_500).contains(&attach[1000]));
        let create = draws(LatencyProfile::AwsRecent, Operation::CreateVolume);
        assert!((1_400..1_600).contains(&create[1000]) && (3_500..4_500).contains(&create[1980]));
        let recent = draws(LatencyProfile::AwsRecent, Operation::AttachVolume);
        assert!(recent[0] >= 1_000 && recent[1800] <= 4_000);
    }

    #[test]
    fn a_latency_file_differs_by_operation_and_types() {
        let text = "base: aws\nrules:\n- {operation: AttachVolume, volumeType: io2, quantiles: [[0, 1000], [1, 1000]]}\n\
                    - {operation: DetachVolume, instanceType: 'm7i.metal*', quantiles: [[0, 60000], [1, 60000]]}\n";
        let file = LatencyFile::parse(text).unwrap();
        let fits = |n: usize, operation, volume, instance| file.rules[n].fits(operation, volume, instance);
        assert!(fits(0, Operation::AttachIo2Volume, Some("io2"), None));
        assert!(
            !fits(0, Operation::AttachVolume, Some("gp3"), None)
                && !fits(0, Operation::DetachVolume, Some("io2"), None)
        );
        assert!(fits(1, Operation::DetachVolume, Some("gp3"), Some("m7i.metal-24xl")));
        assert!(!fits(1, Operation::DetachVolume, None, None));
        assert_eq!(file.rules[1].draw(&Seed::root(1)), Duration::from_secs(60));
        for bad in [
            "base: slow",
            "rules: [{operation: Fly, quantiles: []}]",
            "rules: [{operation: CreateVolume, quantiles: [[0, 5]]}]",
        ] {
            assert!(LatencyFile::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_draw_depends_on_its_name_only() {
        let seed = Seed::root(1).child("attach 1");
        let draw = |_| LatencyProfile::Aws.draw(Operation::AttachVolume, &seed);
        assert_eq!(draw(0), draw(1));
        assert_eq!(LatencyProfile::Instant.draw(Operation::AttachVolume, &seed), Duration::from_millis(1));
    }
}
