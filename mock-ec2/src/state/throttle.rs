//! Request throttling: one token bucket per action, sized by the action's class (EC2 API "Request throttling").

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{ACTIONS, Action};

/// Settings of a bucket. Absent fields have EC2's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bucket {
    /// Bucket size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Tokens added per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refill: Option<u64>,
    /// Tokens per second that another user of the account takes (aws-ebs-csi-driver#1148).
    pub neighbour: u64,
}

/// Throttled actions, by class or by action; an action takes precedence.
pub type Throttled = BTreeMap<String, Bucket>;

/// Classes with bucket size and refill per second.
const CLASSES: [(&str, u64, u64); 7] = [
    ("describe", 100, 20),
    ("unfiltered-describe", 50, 10),
    ("mutating", 50, 5),
    ("resource", 100, 5),
    ("run-instances", 5, 2),
    ("tags", 100, 10),
    ("terminate-instances", 100, 5),
];
/// Bucket of RunInstances per instance: size and refill per second.
const INSTANCES: (u64, u64) = (1_000, 2);

/// Checks the keys of `throttled`.
///
/// # Errors
/// The key that is neither a class nor an action.
pub fn check(throttled: &Throttled) -> Result<(), String> {
    let known = |key: &str| ACTIONS.contains(&key) || CLASSES.iter().any(|(class, ..)| *class == key);
    match throttled.keys().find(|key| !known(key)) {
        None => Ok(()),
        Some(key) => {
            let classes: Vec<&str> = CLASSES.iter().map(|(class, ..)| *class).collect();
            Err(format!("throttle.{key}: use an action or one of {}", classes.join(", ")))
        }
    }
}

/// Returns the class of `action`.
fn class(action: &Action) -> &'static str {
    let bare =
        |filters: bool, ids: bool, page: bool| if filters || ids || page { "describe" } else { "unfiltered-describe" };
    match action {
        Action::DescribeVolumes(d) => bare(!d.filters.is_empty(), !d.ids.is_empty(), d.page.max_results.is_some()),
        Action::DescribeInstances(d) => bare(!d.filters.is_empty(), !d.ids.is_empty(), d.page.max_results.is_some()),
        Action::DescribeSnapshots(d) => bare(!d.filters.is_empty(), !d.ids.is_empty(), d.page.max_results.is_some()),
        action if action.reads_only() => "describe",
        Action::CreateVolume(_) | Action::DeleteVolume(_) | Action::CreateSnapshot(_) | Action::DeleteSnapshot(_) => {
            "resource"
        }
        Action::CreateTags(_) | Action::DeleteTags(_) => "tags",
        Action::RunInstances(_) => "run-instances",
        Action::TerminateInstances(_) => "terminate-instances",
        _ => "mutating",
    }
}

/// Remaining tokens per bucket, in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(BTreeMap<(&'static str, &'static str), (Duration, u64)>);

impl Buckets {
    /// Takes the tokens of `action`. Returns false if there are too few. `now` is monotonic time, not scaled.
    pub fn admit(&mut self, now: Duration, throttled: &Throttled, action: &Action) -> bool {
        let class = class(action);
        let Some(bucket) = throttled.get(action.name()).or_else(|| throttled.get(class)) else { return true };
        let (_, size, refill) = CLASSES.iter().find(|(name, ..)| *name == class).copied().unwrap_or(("", 100, 20));
        let limits = (bucket.size.unwrap_or(size), bucket.refill.unwrap_or(refill));
        let started = match action {
            Action::RunInstances(run) => run.max_count,
            _ => 0,
        };
        self.take(now, (action.name(), class), limits, bucket.neighbour, 1)
            && (started == 0 || self.take(now, ("RunInstances", "instances"), INSTANCES, 0, started))
    }

    fn take(
        &mut self,
        now: Duration,
        key: (&'static str, &'static str),
        (size, refill): (u64, u64),
        neighbour: u64,
        cost: u64,
    ) -> bool {
        let full = size.saturating_mul(1_000);
        let (at, left) = self.0.entry(key).or_insert((now, full));
        // One token per second is one thousandth per millisecond.
        let passed = u64::try_from(now.saturating_sub(*at).as_millis()).unwrap_or(u64::MAX);
        *at += Duration::from_millis(passed);
        let came = left.saturating_add(passed.saturating_mul(refill));
        *left = came.min(full.saturating_add(passed.saturating_mul(neighbour)));
        *left = left.saturating_sub(passed.saturating_mul(neighbour)).min(full);
        let cost = cost.saturating_mul(1_000);
        if *left < cost {
            return false;
        }
        *left -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::DescribeVolumes;
    use super::super::ids::VolumeId;
    use super::*;

    fn admitted(buckets: &mut Buckets, now_ms: u64, throttled: &Throttled, action: &Action) -> usize {
        let now = Duration::from_millis(now_ms);
        (0..300).filter(|_| buckets.admit(now, throttled, action)).count()
    }

    #[test]
    fn each_action_has_its_bucket_and_it_fills_again() {
        let all = Action::DescribeVolumes(DescribeVolumes::default());
        let delete = Action::DeleteVolume("vol-00000001".parse::<VolumeId>().unwrap());
        let on: Throttled = ["unfiltered-describe", "resource"].map(|c| (c.to_owned(), Bucket::default())).into();
        let mut buckets = Buckets::default();
        assert_eq!(admitted(&mut buckets, 0, &Throttled::new(), &all), 300);
        assert_eq!(admitted(&mut buckets, 0, &on, &all), 50);
        assert_eq!(admitted(&mut buckets, 0, &on, &delete), 100);
        assert_eq!(admitted(&mut buckets, 1_500, &on, &all), 15);
        assert_eq!(admitted(&mut buckets, 3_600_000, &on, &all), 50);
    }

    #[test]
    fn a_neighbour_takes_tokens_too_and_an_action_can_be_named() {
        let all = Action::DescribeVolumes(DescribeVolumes::default());
        let bucket = Bucket { size: Some(10), refill: Some(4), neighbour: 3 };
        let on: Throttled = [("DescribeVolumes".to_owned(), bucket)].into();
        let mut buckets = Buckets::default();
        assert_eq!(admitted(&mut buckets, 0, &on, &all), 10);
        assert_eq!(admitted(&mut buckets, 5_000, &on, &all), 5);
        assert!(check(&on).is_ok());
        assert!(check(&[("Fly".to_owned(), bucket)].into()).unwrap_err().contains("throttle.Fly"));
    }
}
