//! I8: no component writes one object without a pause.
//!
//! A loop that answers its own writes, or two loops that undo each other's, never comes to rest, although no call fails.
//! A rollout of a Deployment, which writes most in the shipped scenarios, stays below a tenth of the limit.
//! Not counted: the steps of a scenario, which may write as often as they like, the server's own writes, and
//! csi-snapshotter's writes of VolumeGroupSnapshotContents. Upstream queues a content after each of its own writes
//! (`NewCSISnapshotSideCarController`, with a TODO), so it repeats CreateVolumeGroupSnapshot without a pause until the
//! group is ready, also after a final error.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::json::Text;

use super::Found;
use crate::spec::names::RUNNER;

/// Number of writes within [`SPAN`] that no work needs.
const MOST: usize = 500;
/// Span of the writes.
const SPAN: Duration = Duration::from_secs(10);

/// Recent writes of each object, by user, resource and object. One entry is reported once.
#[derive(Debug, Default)]
pub(super) struct Writes(BTreeMap<(Text, Text, Arc<str>), Recent>);

#[derive(Debug, Default)]
struct Recent {
    at: VecDeque<u64>,
    is_reported: bool,
}

impl Writes {
    pub fn check(&mut self, scale: TimeScale, event: &Event) -> Option<Found> {
        let commit = event.get::<Commit>()?;
        let is_poll = commit.user == "csi-snapshotter" && commit.resource == "volumegroupsnapshotcontents";
        if is_poll || [RUNNER, &event.process].contains(&commit.user.as_str()) {
            return None;
        }
        let key = (commit.user.clone(), commit.resource.clone(), commit.object.clone());
        if commit.r#type == EventType::Deleted {
            self.0.remove(&key);
            return None;
        }
        let recent = self.0.entry(key).or_default();
        let span = scale.apply(SPAN).as_millis();
        while recent.at.front().is_some_and(|ms| u128::from(event.ms - ms) > span) {
            recent.at.pop_front();
        }
        recent.at.push_back(event.ms);
        if recent.at.len() < MOST || std::mem::replace(&mut recent.is_reported, true) {
            return None;
        }
        let Commit { user, resource, object, .. } = commit;
        let message = format!("{user} wrote {resource} {object} {MOST} times within {} s", SPAN.as_secs());
        Some(Found { message, operation: format!("{} {resource}", commit.verb), ..Found::default() })
    }
}

#[cfg(test)]
mod tests {
    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns the number of findings of a run in which `user` writes an object this often, with this time between.
    fn found(times: u32, between: Duration, user: &'static str) -> usize {
        let events = simulate(Options::default(), async move |world| {
            let process = "fake-apiserver".into();
            for count in 1..=times {
                let commit = serde_json::json!({
                    "object": "default/web", "resource": "deployments", "rv": count, "type": "MODIFIED",
                    "user": user, "verb": "update",
                });
                let commit: Commit = serde_json::from_value(commit).expect("a commit");
                world.trace().info(&process, commit);
                world.clock().sleep_until(between * count).await;
            }
            world.trace().events()
        });
        let mut writes = Writes::default();
        events.iter().filter_map(|event| writes.check(TimeScale::default(), event)).count()
    }

    #[test]
    fn a_component_that_writes_without_a_pause_is_found_once() {
        assert_eq!(found(2_000, Duration::from_millis(10), "snapshot-controller"), 1);
        assert_eq!(found(2_000, Duration::from_millis(100), "snapshot-controller"), 0, "ten writes a second");
        assert_eq!(found(2_000, Duration::from_millis(10), RUNNER), 0, "a step");
    }
}
