//! I3, for replicas: a replica that has lost its lease to another stops leading.
//!
//! client-go has no fencing. If an answer is late, the old leader continues until its next renewals have failed. A
//! leader that gives up its lease first finishes its work. Both end within 30 seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use controllers::events::{LeaderElected, LeaderLost};
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{ProcessCrashed, ProcessFailed, ProcessPanicked, ProcessStarted};

use super::Found;

/// Time that an old leader may take to end.
const GRACE: Duration = Duration::from_secs(30);

/// Two leaders of one lease.
#[derive(Debug)]
struct Overlap {
    lease: String,
    old: String,
    new: String,
    since_ms: u64,
}

/// Current leaders.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    by_lease: BTreeMap<String, String>,
    overlaps: Vec<Overlap>,
}

impl Leaders {
    pub fn check(&mut self, scale: TimeScale, event: &Event) -> Option<Found> {
        let process = &*event.process;
        if let Some(LeaderElected { lease, .. }) = event.get() {
            let before = self.by_lease.insert(lease.to_string(), process.to_owned());
            if let Some(old) = before.filter(|before| before != process) {
                let (lease, new) = (lease.to_string(), process.to_owned());
                self.overlaps.push(Overlap { lease, old, new, since_ms: event.ms });
            }
        } else if event.is::<ProcessCrashed>()
            || event.is::<ProcessFailed>()
            || event.is::<ProcessPanicked>()
            || event.is::<ProcessStarted>()
            || event.is::<LeaderLost>()
        {
            self.by_lease.retain(|_, leader| leader != process);
            self.overlaps.retain(|overlap| overlap.old != process && overlap.new != process);
        }
        let grace = u64::try_from(scale.apply(GRACE).as_millis()).unwrap_or(u64::MAX);
        let at = self.overlaps.iter().position(|overlap| event.ms > overlap.since_ms.saturating_add(grace))?;
        let Overlap { lease, old, new, .. } = self.overlaps.remove(at);
        let message = format!("{old} still leads by the lease {lease}, {GRACE:?} after {new} has taken it");
        Some(Found { message, operation: "lead".to_owned(), ..Found::default() })
    }
}

#[cfg(test)]
mod tests {
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns the findings of a run in which this happens, followed by one minute.
    fn found(happens: impl AsyncFnOnce(&World)) -> Vec<String> {
        simulate(Options::default(), async |world| {
            happens(&world).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            world.trace().info(&"other".into(), ProcessStarted { incarnation: 1 });
            let mut leaders = Leaders::default();
            let events = world.trace().events();
            let found = events.iter().filter_map(|event| leaders.check(TimeScale::default(), event));
            found.map(|found| found.message).collect()
        })
    }

    fn elected(world: &World, process: &str) {
        let (lease, identity) = ("kube-system/l".into(), process.into());
        world.trace().info(&process.into(), LeaderElected { lease, identity, transitions: 0 });
    }

    fn lost(world: &World, process: &str) {
        let (lease, identity) = ("kube-system/l".into(), process.into());
        world.trace().info(&process.into(), LeaderLost { lease, identity });
    }

    #[test]
    fn a_leader_that_goes_on_without_its_lease_is_found() {
        let found = found(async |world| {
            elected(world, "a");
            elected(world, "b");
        });
        assert_eq!(found, ["a still leads by the lease kube-system/l, 30s after b has taken it"]);
    }

    #[test]
    fn leaders_one_after_the_other_are_in_order_and_so_is_one_that_needs_a_moment_to_end() {
        let found = found(async |world| {
            elected(world, "a");
            lost(world, "a");
            elected(world, "b");
            world.trace().info(&"b".into(), ProcessCrashed {});
            elected(world, "a");
            elected(world, "b");
            tokio::time::sleep(Duration::from_secs(12)).await;
            lost(world, "a");
        });
        assert_eq!(found, [] as [&str; 0]);
    }
}
