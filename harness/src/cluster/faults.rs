//! The faults of a cluster: kept, and checked, in the world's own book, and told to components that are OS processes,
//! each of which keeps a book of its own and says in its trace what fires.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_apiserver::events::Commit;
use substrate::World;
use substrate::events::FaultFired;
use substrate::fault::{Fault, Mistake, Report};
use substrate::host::Order;
use tokio::sync::Notify;

use super::{Cluster, forgetful};
use crate::runner::condition;
use crate::scenario::object::Condition;

/// How often a condition is looked at whatever the trace says.
const LOOK: Duration = Duration::from_secs(2);

/// What is known of faults beside the world's book.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// How often they fired in other OS processes.
    elsewhere: Mutex<BTreeMap<String, u64>>,
    /// The last reports of those whose condition held.
    over: Mutex<BTreeMap<String, Report>>,
}

impl Told {
    /// Counts what other OS processes tell of in the trace of `world`.
    pub(super) fn follow(self: &Arc<Self>, world: &World) {
        let told = self.clone();
        world.trace().observe(move |event| {
            if let Some(FaultFired { fault, .. }) = event.get() {
                *lock(&told.elsewhere).entry(fault.clone()).or_default() += 1;
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Puts a fault in force. Components that are OS processes count their own operations each for itself.
    ///
    /// # Errors
    /// The field that is wrong, and the nearest right word.
    pub async fn add_fault(&self, fault: &Fault) -> Result<(), Mistake> {
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map_err(|message| Mistake::new("when.until", message))?;
        if self.has_processes()
            && let Some(names) = self.world.faults().known().names()
        {
            forgetful::check_fault(names, fault)?;
        }
        self.world.faults().add(self.world.clock().mono(), fault.clone())?;
        lock(&self.told.over).remove(&fault.name);
        lock(&self.told.elsewhere).remove(&fault.name);
        if let Some(desk) = &self.desk
            && let Err(mistake) = desk.put(fault).await
        {
            self.world.faults().remove(&fault.name);
            return Err(mistake);
        }
        self.order(&Order::Fault(Box::new(fault.clone()))).await;
        if let Some(condition) = until {
            self.end_when(fault.name.clone(), condition);
        }
        Ok(())
    }

    /// What a fault has done, also when its condition has ended it; nothing when it is not in force.
    pub fn fault_report(&self, name: &str) -> Option<Report> {
        let report = self.world.faults().get(name).or_else(|| lock(&self.told.over).get(name).cloned());
        report.map(|report| self.with_others(report))
    }

    /// Ends a fault and says what it did; nothing when it was never in force.
    pub async fn remove_fault(&self, name: &str) -> Option<Report> {
        let report = self.world.faults().remove(name).or_else(|| lock(&self.told.over).remove(name));
        self.order(&Order::End(name.to_owned())).await;
        if let (Some(desk), Some(report)) = (&self.desk, &report) {
            desk.end(&report.fault).await;
        }
        report.map(|report| self.with_others(report))
    }

    /// Ends all faults.
    pub async fn clear_faults(&self) {
        for report in self.world.faults().clear(None) {
            if let Some(desk) = &self.desk {
                desk.end(&report.fault).await;
            }
            self.order(&Order::End(report.fault.name)).await;
        }
    }

    fn with_others(&self, mut report: Report) -> Report {
        if self.has_processes() {
            report.hits = lock(&self.told.elsewhere).get(&report.fault.name).copied().unwrap_or(0);
        }
        report
    }

    /// Tells every component that is an OS process.
    async fn order(&self, order: &Order) {
        for member in self.all_members().values() {
            member.order(order).await;
        }
    }

    /// Ends the fault `name` as soon as `condition` holds.
    pub(super) fn end_when(&self, name: String, condition: Condition) {
        let (world, objects, told) = (self.world.clone(), self.objects.clone(), self.told.clone());
        let sign = Arc::new(Notify::new());
        let (seen, key, resource) = (sign.clone(), condition.object.key(), condition.object.kind.resource());
        world.trace().observe(move |event| {
            if event.get::<Commit>().is_some_and(|c| c.resource == resource && *c.object == *key) {
                seen.notify_one();
            }
        });
        let members: Vec<_> = self.all_members().into_values().collect();
        self.user.spawn(async move {
            while world.faults().is_in_force(world.clock().mono(), &name) {
                // What the API server does not answer now it answers at the next look.
                let look = objects.look(&condition.object).await;
                if look.is_ok_and(|seen| condition::holds(condition.object.kind, seen.as_ref(), condition.is)) {
                    if let Some(report) = world.faults().remove(&name) {
                        lock(&told.over).insert(name.clone(), report);
                    }
                    for member in &members {
                        member.order(&Order::End(name.clone())).await;
                    }
                    return;
                }
                tokio::select! { biased;
                    () = sign.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        });
    }
}
