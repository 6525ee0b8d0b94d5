//! Carries out the steps of a scenario. `scenario/steps` lists the actions; each is a method of [`Run`] here.

mod cloud;
mod counts;
mod driver;
mod expects;
mod faults;
mod holds;
mod lists;
mod node_files;
mod objects;
mod patches;
mod processes;
mod requests;
mod waits;

pub(super) use counts::{event_count, is_event};

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::fault::Span;

use super::PauseHook;
use super::call_recorder::CallRecorder;
use super::describe::CloudReader;
use super::forbidden::{ForbiddenConditions, Jobs, Tools};
use super::listed::Listed;
use super::metrics::Meter;
use super::waiter::{Trigger, Waiter};
use super::{Failure, SilentFault};
use crate::cluster::Cluster;
use crate::cluster::defaults;
use crate::cluster::{ObjectError, Objects};
use crate::invariants::{AppliedObjects, Checked, Id};
use crate::scenario::model::{Action, Manifest, Scenario, Step};
use crate::scenario::saved;
use crate::scenario::steps::actions;
use crate::spec::object::{Kind, ObjectRef, State};

/// Time limit for a node to become Ready before the first step.
const READY: Duration = Duration::from_secs(120);
/// The same limit in wall-clock time, for a busy machine with a cluster whose waits are divided.
const READY_WALL: Duration = Duration::from_secs(60);

/// Required numbers of checks of invariants, and the index of the step with this requirement.
type Demand = (Option<usize>, BTreeMap<Id, u64>);

/// A run in progress.
pub(super) struct Run<'a> {
    scenario: &'a Scenario,
    cluster: &'a Cluster,
    objects: Objects,
    waiter: Arc<Waiter>,
    started: Duration,
    began: Vec<Duration>,
    declared: Vec<String>,
    /// Faults that were cleared before they had fired.
    cleared: Vec<SilentFault>,
    /// Required numbers of checks of invariants at the end of the run.
    demanded: Vec<Demand>,
    /// Index of the current step.
    now: Option<usize>,
    call_recorder: Arc<CallRecorder>,
    cloud_reader: CloudReader,
    meter: Meter,
    forbidden: Arc<ForbiddenConditions>,
    /// Number of recorded calls at the start of each step.
    recorded: Vec<usize>,
    /// Number of recorded writes to the API server at the start of each step.
    written: Vec<usize>,
    /// Objects that the steps have requested so far.
    applied_objects: Mutex<AppliedObjects>,
    /// Saved ids of the cloud by name.
    saved: BTreeMap<String, String>,
    pause_hook: &'a PauseHook,
    /// Last failed check of the current step.
    last: Mutex<Option<Unmet>>,
    /// Last answer to each list request, by URL path.
    lists: Mutex<BTreeMap<String, Listed>>,
}

/// Formats the time limit of an expectation; empty for one that must hold now.
fn within(limit: Duration) -> String {
    if limit.is_zero() { String::new() } else { format!(", within {}", Span(limit)) }
}

/// Defines the execution of an action by the method that has its name.
macro_rules! carry_out {
    ($($action:ident: $variant:ident($value:ty),)+) => {
        impl Run<'_> {
            async fn carry_out(&mut self, action: &Action) -> Result<(), Failure> {
                match action {
                    $(Action::$variant(value) => self.$action(value).await,)+
                }
            }
        }
    };
}

actions!(carry_out);

/// A failed check. Its text is created only when it is read.
struct Unmet(Box<dyn FnOnce() -> Failure + Send>);

impl From<Failure> for Unmet {
    fn from(failure: Failure) -> Self {
        Self(Box::new(|| failure))
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        cluster: &'a Cluster,
        waiter: Arc<Waiter>,
        call_recorder: Arc<CallRecorder>,
        started: Duration,
        pause_hook: &'a PauseHook,
    ) -> (Self, Arc<ForbiddenConditions>, Jobs) {
        let cloud_reader = CloudReader { service: cluster.ec2().clone(), call_recorder: call_recorder.clone() };
        let meter = Meter {
            cloud: cluster.ec2().clone(),
            apiserver: cluster.objects().service().clone(),
            processes: cluster.metrics(),
            token: cluster.spec().admin_token.clone(),
        };
        let (forbidden, jobs) = ForbiddenConditions::new(Tools {
            clock: cluster.world().clock().clone(),
            objects: cluster.objects().clone(),
            cloud_reader: cloud_reader.clone(),
            meter: meter.clone(),
            call_recorder: call_recorder.clone(),
        });
        let run = Self {
            scenario,
            cluster,
            objects: cluster.objects().clone(),
            waiter,
            started,
            began: Vec::new(),
            declared: Vec::new(),
            cleared: Vec::new(),
            demanded: Vec::new(),
            now: None,
            applied_objects: Mutex::new(AppliedObjects::new(&cluster.spec().driver_name, &cluster.spec().without)),
            saved: BTreeMap::new(),
            pause_hook,
            call_recorder,
            cloud_reader,
            meter,
            forbidden: forbidden.clone(),
            recorded: Vec::new(),
            written: Vec::new(),
            last: Mutex::default(),
            lists: Mutex::default(),
        };
        (run, forbidden, jobs)
    }

    /// Waits until all nodes are ready, then creates the scenario's objects and activates its faults.
    pub(super) async fn prepare(&mut self) -> Result<(), Failure> {
        let ready = READY.max(self.cluster.unscaled(READY_WALL));
        for node in &self.scenario.nodes {
            let object = ObjectRef::new(Kind::node(), None, &node.name);
            self.wait_state(&object, State::Ready, None, ready).await?;
        }
        self.apply(&defaults::csi_drivers(self.cluster.spec())).await?;
        self.apply(&self.scenario.objects).await?;
        for fault in &self.scenario.faults {
            self.fault(fault).await?;
        }
        self.cluster.launch_programs();
        self.started = self.cluster.world().clock().mono();
        Ok(())
    }

    pub(super) async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        self.now = Some(step.index);
        self.saw(None);
        if let Some(name) = &step.name {
            self.forbidden.end_at(name).await?;
        }
        self.began.push(self.time());
        self.recorded.push(self.call_recorder.len());
        self.written.push(self.cluster.written());
        self.carry_out(&step.action).await
    }

    /// Failure of steps that exceeded `limit`: the expectation of the current step, and the state that it saw last.
    pub(super) fn cut_off(&self, limit: &str) -> Failure {
        let last = self.last.lock().take();
        match last.map(|last| last.0()) {
            Some(last) => Failure { expected: format!("{}, and {limit}", last.expected), ..last },
            None => self.failure(limit, "it was still at work on this step"),
        }
    }

    /// Returns the objects that the steps have requested so far.
    pub(super) fn applied_objects(&self) -> MutexGuard<'_, AppliedObjects> {
        self.applied_objects.lock()
    }

    fn saw(&self, failure: Option<Unmet>) {
        *self.last.lock() = failure;
    }

    /// Ends the conditions that are forbidden until the end of the steps.
    pub(super) async fn end_steps(&self) -> Result<(), Failure> {
        self.forbidden.end_all().await
    }

    /// Returns the faults that were declared but never fired. Empty if the run did not reach its end.
    pub(super) fn silent_faults(&self, ended: bool) -> Vec<SilentFault> {
        if !ended {
            return Vec::new();
        }
        let reports = self.declared.iter().filter_map(|name| self.cluster.fault_report(name));
        let silent = reports.filter(|report| report.hits == 0).map(SilentFault::of);
        silent.chain(self.cleared.iter().cloned()).collect()
    }

    /// Checks the requirements on the whole run: the numbers of checks of invariants, and the declared deviations that
    /// must occur.
    pub(super) fn demands(&self, checked: &Checked, missing: &[String]) -> Result<(), Failure> {
        for (step, counts) in &self.demanded {
            for (id, least) in counts {
                let seen = checked.get(*id);
                if seen < *least {
                    let expected = format!("{id} was looked at on at least {least} occasions ({})", id.of());
                    return Err(Failure { step: *step, expected, seen: format!("there were {seen}") });
                }
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(id) => Err(Failure {
                step: None,
                expected: format!("the declared deviation {id} occurs: the file lists it under `violations`"),
                seen: "it did not occur: its faults no longer force it, or it was mended".to_owned(),
            }),
        }
    }

    async fn pause(&self, text: &str) -> Result<(), Failure> {
        let shown = self.pause_hook.pause(self.cluster, text).await;
        shown.map_err(|seen| self.failure("the cluster can be shown", seen))
    }

    fn time(&self) -> Duration {
        self.cluster.world().clock().mono()
    }

    fn failure(&self, expected: impl Into<String>, seen: impl Into<String>) -> Failure {
        Failure { step: self.now, expected: expected.into(), seen: seen.into() }
    }

    fn api<T>(&self, what: &str, result: Result<T, ObjectError>) -> Result<T, Failure> {
        result.map_err(|e| self.failure(format!("the API server accepts: {what}"), e.to_string()))
    }

    async fn apply(&self, manifests: &[Manifest]) -> Result<(), Failure> {
        for manifest in manifests {
            let mut manifest = manifest.clone();
            saved::replace(&mut manifest.value, &mut |name| self.saved.get(name).cloned());
            self.fill_in_uids(&mut manifest).await?;
            let stored = self.api(&format!("apply {}", manifest.object), self.objects.apply(&manifest).await)?;
            self.applied_objects().applied(&manifest, &stored);
        }
        Ok(())
    }

    /// Replaces each `{uid: PATH}` in a manifest by the current uid of the object.
    async fn fill_in_uids(&self, manifest: &mut Manifest) -> Result<(), Failure> {
        let mut uids = BTreeMap::new();
        for path in saved::uids(&manifest.value) {
            let object = self.api(&format!("get {path}"), self.objects.get_path(&path).await)?;
            let uid = object.as_ref().and_then(|object| object["metadata"]["uid"].as_str());
            let expected = || format!("{path} is there: {} names its uid", manifest.object);
            let uid = uid.ok_or_else(|| self.failure(expected(), "it is not there"))?.to_owned();
            uids.insert(path, uid);
        }
        saved::replace_uids(&mut manifest.value, &|path| uids.get(path).map(|uid| uid.as_str().into()));
        Ok(())
    }

    /// Calls `probe` now and after every trigger in the trace, until it succeeds or `within` has passed.
    async fn until<T, E: Into<Unmet>>(
        &self,
        within: Duration,
        trigger: Trigger,
        probe: impl AsyncFn() -> Result<T, E>,
    ) -> Result<T, Failure> {
        let deadline = tokio::time::Instant::now() + self.cluster.limit(within);
        self.waiter.wait_for(trigger);
        loop {
            let changed = self.waiter.seen();
            tokio::pin!(changed);
            // Registered before the check, so that a change between the check and the wait is not missed.
            changed.as_mut().enable();
            let unmet: Unmet = match probe().await {
                Ok(value) => {
                    self.saw(None);
                    return Ok(value);
                }
                Err(unmet) => unmet.into(),
            };
            if tokio::time::Instant::now() >= deadline {
                return Err(unmet.0());
            }
            self.saw(Some(unmet));
            tokio::select! { biased;
                () = changed => {}
                () = tokio::time::sleep(self.cluster.poll()) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
            // One check covers a burst of changes.
            tokio::time::sleep(self.cluster.settle()).await;
        }
    }
}
