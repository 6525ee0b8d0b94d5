//! The faults of a cluster. The world's own book keeps and validates them. Containers receive them, keep a book of
//! their own and report each firing in their trace.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::Commit;
use indexmap::IndexMap;
use substrate::World;
use substrate::events::FaultFired;
use substrate::fault::{Fault, Mistake, Report};
use tokio::sync::Notify;

use super::Cluster;
use crate::cluster::condition;
use crate::spec::object::Condition;

/// Interval at which a condition is checked even without a matching event in the trace.
const LOOK: Duration = Duration::from_secs(2);

/// Maximum number of kept reports of faults that ended by their condition. A cluster that stays up for days has many.
const MOST_OVER: usize = 200;

/// Counts and reports of faults beside the world's book.
#[derive(Debug, Default)]
pub(super) struct FaultReports {
    /// Number of times each fault fired in containers.
    elsewhere: Mutex<BTreeMap<String, u64>>,
    /// Last reports of faults that ended by their condition, oldest first.
    over: Mutex<IndexMap<String, Report>>,
}

impl FaultReports {
    /// Counts the firings in containers that the trace of `world` reports.
    pub(super) fn follow(self: &Arc<Self>, world: &World) {
        let fault_reports = self.clone();
        world.trace().observe(move |event| {
            if let Some(FaultFired { fault, .. }) = event.get() {
                *lock(&fault_reports.elsewhere).entry(fault.clone()).or_default() += 1;
            }
        });
    }

    /// Keeps the last report of a fault that ended by its condition.
    fn keep(&self, report: Report) {
        let mut over = lock(&self.over);
        over.insert(report.fault.name.clone(), report);
        while over.len() > MOST_OVER {
            over.shift_remove_index(0);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Cluster {
    /// Puts a fault in force. Each container counts its own operations.
    ///
    /// # Errors
    /// Names the wrong field and suggests the nearest valid word.
    pub async fn add_fault(&self, fault: &Fault) -> Result<(), Mistake> {
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map_err(|message| Mistake::new("when.until", message))?;
        if self.is_in_containers() && fault.when.following.is_some() {
            return Err(Mistake::new("when.following", super::unable::FOLLOWS));
        }
        self.world.faults().add(self.world.clock().mono(), fault.clone())?;
        lock(&self.fault_reports.over).shift_remove(&fault.name);
        lock(&self.fault_reports.elsewhere).remove(&fault.name);
        if let Some(fault_admin) = &self.fault_admin
            && let Err(mistake) = fault_admin.put(fault).await
        {
            self.world.faults().remove(&fault.name);
            return Err(mistake);
        }
        if let Some(condition) = until {
            self.end_when(fault.name.clone(), condition);
        }
        Ok(())
    }

    /// Report of a fault, also after its condition has ended it. None after its removal, or if it was never added.
    pub fn fault_report(&self, name: &str) -> Option<Report> {
        let report = self.world.faults().get(name).or_else(|| lock(&self.fault_reports.over).get(name).cloned());
        report.map(|report| self.with_others(report))
    }

    /// Ends a fault and returns its report. None if it was never in force.
    pub async fn remove_fault(&self, name: &str) -> Option<Report> {
        let report = self.world.faults().remove(name).or_else(|| lock(&self.fault_reports.over).shift_remove(name));
        if let (Some(fault_admin), Some(report)) = (&self.fault_admin, &report) {
            fault_admin.end(&report.fault).await;
        }
        report.map(|report| self.with_others(report))
    }

    /// Ends all faults.
    pub async fn clear_faults(&self) {
        for report in self.world.faults().clear(None) {
            if let Some(fault_admin) = &self.fault_admin {
                fault_admin.end(&report.fault).await;
            }
        }
    }

    fn with_others(&self, mut report: Report) -> Report {
        if self.is_in_containers() {
            report.hits = lock(&self.fault_reports.elsewhere).get(&report.fault.name).copied().unwrap_or(0);
        }
        report
    }

    /// Ends the fault `name` as soon as `condition` holds.
    pub(super) fn end_when(&self, name: String, condition: Condition) {
        let (world, objects, fault_reports) = (self.world.clone(), self.objects.clone(), self.fault_reports.clone());
        let sign = Arc::new(Notify::new());
        let (seen, key, resource) = (sign.clone(), condition.object.key(), condition.object.kind.resource());
        let observing = world.trace().observe_for_now(move |event| {
            if event.get::<Commit>().is_some_and(|c| c.resource == resource && *c.object == *key) {
                seen.notify_one();
            }
        });
        self.user.spawn(async move {
            let _observing = observing;
            while awaits(&world, &name, &condition) {
                // If the API server does not answer, the next check will.
                let look = objects.look(&condition.object).await;
                if look.is_ok_and(|seen| condition::holds(condition.object.kind, seen.as_ref(), condition.is))
                    && awaits(&world, &name, &condition)
                {
                    if let Some(report) = world.faults().remove(&name) {
                        fault_reports.keep(report);
                    }
                    return;
                }
                tokio::select! { biased;
                    () = sign.notified() => {}
                    () = world.outlast(&name) => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        });
    }
}

/// Returns true if the fault `name` is in force with `condition`. A later fault of the same name with another condition
/// does not count.
fn awaits(world: &World, name: &str, condition: &Condition) -> bool {
    let until = world.faults().get(name).and_then(|report| report.fault.when.until);
    world.faults().is_in_force(world.clock().mono(), name)
        && until.is_some_and(|until| until.parse().as_ref() == Ok(condition))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use substrate::world::{Options, simulate};

    use super::*;
    use crate::cluster::defaults;
    use crate::spec::ClusterSpec;
    use crate::spec::Manifest;
    use crate::spec::object::{Kind, ObjectRef};

    /// Runs `test` in a cluster of one node, ten seconds after its start.
    fn in_cluster(test: impl AsyncFnOnce(World, Cluster)) {
        simulate(Options::default(), async |world| {
            let cluster = Cluster::simulate(&world, ClusterSpec::of_nodes(1)).unwrap();
            defaults::apply(cluster.objects(), cluster.spec()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
            test(world, cluster).await;
        });
    }

    fn fault(name: &str, until: Option<&str>) -> Fault {
        let when = until.map_or_else(|| json!({}), |until| json!({ "until": until }));
        let value = json!({ "name": name, "match": { "plane": "ec2", "op": "DeleteVolume" }, "when": when,
            "effect": { "count": true } });
        serde_json::from_value(value).unwrap()
    }

    async fn make_claim(cluster: &Cluster, name: &str) {
        let kind = Kind::of_word("pvc").unwrap();
        let resources = json!({ "requests": { "storage": "1Gi" } });
        let value = json!({ "apiVersion": kind.api_version(), "kind": kind.kind(),
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": resources } });
        let object = ObjectRef::new(kind, Some("default"), name);
        cluster.objects().apply(&Manifest { object, value }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    #[test]
    fn the_condition_of_an_ended_fault_has_no_observer() {
        in_cluster(async |world, cluster| {
            let before = world.trace().observers();
            for round in 0..20 {
                let (held, taken) = (format!("held-{round}"), format!("taken-{round}"));
                cluster.add_fault(&fault(&held, Some(&format!("pvc/{held}=Pending")))).await.unwrap();
                cluster.add_fault(&fault(&taken, Some("pvc/never=Bound"))).await.unwrap();
                assert_eq!(world.trace().observers(), before + 2);
                make_claim(&cluster, &held).await;
                assert!(world.faults().get(&held).is_none(), "its condition holds");
                cluster.remove_fault(&taken).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert_eq!(world.trace().observers(), before);
            }
        });
    }

    #[test]
    fn the_condition_of_a_fault_ends_no_other_one_of_its_name() {
        in_cluster(async |world, cluster| {
            cluster.add_fault(&fault("f", Some("pvc/data=Pending"))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.remove_fault("f").await.unwrap();
            cluster.add_fault(&fault("f", None)).await.unwrap();
            make_claim(&cluster, "data").await;
            assert!(world.faults().get("f").is_some(), "it has no condition");
        });
    }

    #[test]
    fn few_reports_of_faults_that_are_over_are_kept() {
        in_cluster(async |world, cluster| {
            make_claim(&cluster, "data").await;
            for round in 0..=MOST_OVER {
                let name = format!("f-{round:04}");
                cluster.add_fault(&fault(&name, Some("pvc/data=Pending"))).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(world.faults().get(&name).is_none(), "{name}: its condition holds");
            }
            assert!(cluster.fault_report(&format!("f-{MOST_OVER:04}")).is_some());
            assert!(cluster.fault_report("f-0000").is_none(), "it is the oldest");
            assert_eq!(lock(&cluster.fault_reports.over).len(), MOST_OVER);
        });
    }
}
