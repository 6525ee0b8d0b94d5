//! Wait for an attachment or a detachment. The evaluation of one read of the volume is pure.

use std::time::Duration;

use jiff::Timestamp;

use super::xml::{Attachment, Volume};

/// Time in `attaching` after which the driver detaches the volume and fails (aws-ebs-csi-driver#2833).
pub(crate) const STUCK_ATTACHING: Duration = Duration::from_secs(90);

/// Backoff between reads of the cloud: `first`, then longer by `factor` each time, `steps` reads in total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub first: Duration,
    pub factor: f64,
    pub steps: u32,
}

/// Attach and detach: the first read at once, then 1 s × 1.8ⁿ (EBS driver, `cloud.go`).
pub(crate) const ATTACHMENT: Backoff = Backoff { first: Duration::from_secs(1), factor: 1.8, steps: 13 };
/// Create: 1.25 s before the first read ([`CREATE_DELAY`]), then 0.5 s × 1.5ⁿ (EBS driver, `cloud.go`).
pub(crate) const CREATION: Backoff = Backoff { first: Duration::from_millis(500), factor: 1.5, steps: 11 };
/// Modify: the first read at once, then 1 s × 1.7ⁿ (EBS driver, `cloud.go`).
pub(crate) const MODIFICATION: Backoff = Backoff { first: Duration::from_secs(1), factor: 1.7, steps: 10 };
/// Delay before the driver's first read of a new volume.
pub(crate) const CREATE_DELAY: Duration = Duration::from_millis(1250);

impl Backoff {
    /// Iterates over the waits after each read except the last.
    pub fn waits(self) -> impl Iterator<Item = Duration> {
        (0..self.steps - 1).map(move |n| self.first.mul_f64(self.factor.powi(n as i32)))
    }
}

/// Result of reading a volume for its attachment to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Attached there under this device name.
    Attached(String),
    /// Not attached there.
    Absent,
    /// Attached only to another instance.
    Elsewhere(String),
    /// `attaching` for longer than [`STUCK_ATTACHING`].
    Stuck,
    /// Attached more than once without Multi-Attach.
    Multiple,
    /// In transition (`attaching`, `detaching`, `busy`).
    Waiting(String),
}

/// Evaluates one read at time `now`; `limit` is [`STUCK_ATTACHING`] scaled.
pub(crate) fn look(volume: &Volume, instance: &str, now: Timestamp, limit: Duration) -> Look {
    let attachments = &volume.attachment_set.item;
    let present = |a: &&Attachment| a.status != "detached";
    if attachments.iter().filter(present).count() > 1 && volume.multi_attach_enabled != "true" {
        return Look::Multiple;
    }
    let Some(ours) = attachments.iter().filter(present).find(|a| a.instance_id == instance) else {
        return attachments
            .iter()
            .find(present)
            .map_or(Look::Absent, |other| Look::Elsewhere(other.instance_id.clone()));
    };
    match &*ours.status {
        "attached" => Look::Attached(ours.device.clone()),
        "attaching" if age(ours, now) > limit => Look::Stuck,
        status => Look::Waiting(status.to_owned()),
    }
}

/// Returns the age of an attachment by wall time; an unreadable attachTime counts as new.
fn age(attachment: &Attachment, now: Timestamp) -> Duration {
    let since = attachment.attach_time.parse::<Timestamp>().ok();
    since.and_then(|t| Duration::try_from(now.duration_since(t)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::xml::Set;
    use super::*;

    fn volume(attachments: &[(&str, &str)]) -> Volume {
        let item = attachments.iter().map(|(instance, status)| Attachment {
            instance_id: (*instance).to_owned(),
            device: "/dev/xvdaa".to_owned(),
            status: (*status).to_owned(),
            attach_time: "2026-01-01T00:00:00.000Z".to_owned(),
        });
        Volume { attachment_set: Set { item: item.collect() }, ..Volume::default() }
    }

    #[rstest]
    #[case(&[], 0, Look::Absent)]
    #[case(&[("i-1", "attached")], 0, Look::Attached("/dev/xvdaa".into()))]
    #[case(&[("i-1", "attaching")], 90, Look::Waiting("attaching".into()))]
    #[case(&[("i-1", "attaching")], 91, Look::Stuck)]
    #[case(&[("i-1", "busy")], 1000, Look::Waiting("busy".into()))]
    #[case(&[("i-2", "attached")], 0, Look::Elsewhere("i-2".into()))]
    #[case(&[("i-1", "attached"), ("i-2", "attached")], 0, Look::Multiple)]
    #[case(&[("i-1", "detached")], 0, Look::Absent)]
    fn one_look_gives_one_verdict(#[case] there: &[(&str, &str)], #[case] seconds: i64, #[case] verdict: Look) {
        let now = substrate::clock::epoch() + jiff::SignedDuration::from_secs(seconds);
        assert_eq!(look(&volume(there), "i-1", now, STUCK_ATTACHING), verdict);
    }

    #[test]
    fn the_attach_wait_is_about_2600_seconds_and_the_create_wait_about_60() {
        let total = |b: Backoff| b.waits().sum::<Duration>().as_secs();
        // 12 waits between 13 reads.
        assert_eq!((total(ATTACHMENT), total(CREATION)), (1444, 56));
    }
}
