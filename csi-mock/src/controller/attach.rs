//! Waiting for an attachment to come or go. The verdict on one look at the volume is pure.

use std::time::Duration;

use jiff::Timestamp;

use super::xml::{Attachment, Volume};

/// How long an attachment may be `attaching` before the driver detaches it and fails (ec2-api.md §12).
pub(crate) const STUCK_ATTACHING: Duration = Duration::from_secs(90);

/// A wait between looks at the cloud: `first`, then longer by `factor` each time, `steps` looks in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub first: Duration,
    pub factor: f64,
    pub steps: u32,
}

/// Attach and detach: the first look at once, then 1 s × 1.8ⁿ (ec2-api.md §12).
pub(crate) const ATTACHMENT: Backoff = Backoff { first: Duration::from_secs(1), factor: 1.8, steps: 13 };
/// Create: 1.25 s before the first look ([`CREATE_DELAY`]), then 0.5 s × 1.5ⁿ (ec2-api.md §12).
pub(crate) const CREATION: Backoff = Backoff { first: Duration::from_millis(500), factor: 1.5, steps: 11 };
/// Modify: the first look at once, then 1 s × 1.7ⁿ (ec2-api.md §12).
pub(crate) const MODIFICATION: Backoff = Backoff { first: Duration::from_secs(1), factor: 1.7, steps: 10 };
/// What the driver sleeps before it looks at a new volume for the first time.
pub(crate) const CREATE_DELAY: Duration = Duration::from_millis(1250);

impl Backoff {
    /// The waits after each look but the last.
    pub fn waits(self) -> impl Iterator<Item = Duration> {
        (0..self.steps - 1).map(move |n| self.first.mul_f64(self.factor.powi(n as i32)))
    }
}

/// What a look at a volume says about its attachment to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Attached there under this device name.
    Attached(String),
    /// Not there.
    Absent,
    /// On another instance, and nowhere else.
    Elsewhere(String),
    /// On its way for longer than [`STUCK_ATTACHING`].
    Stuck,
    /// Attached more than once although it must not be.
    Multiple,
    /// On its way in either direction (`attaching`, `detaching`, `busy`).
    Waiting(String),
}

/// Judges one look at time `now`; `patience` is [`STUCK_ATTACHING`] scaled.
pub(crate) fn look(volume: &Volume, instance: &str, now: Timestamp, patience: Duration) -> Look {
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
        "attaching" if age(ours, now) > patience => Look::Stuck,
        status => Look::Waiting(status.to_owned()),
    }
}

/// How old an attachment is by wall time; an unreadable attachTime counts as new.
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
        // 12 waits lie between 13 looks.
        assert_eq!((total(ATTACHMENT), total(CREATION)), (1444, 56));
    }
}
