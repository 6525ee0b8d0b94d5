//! What each step of a scenario does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use substrate::fault::Fault;

use super::condition::{self, Look};
use super::objects::{ObjectError, Objects};
use super::watchman::{Sign, Watchman};
use super::{Failure, SilentFault, defaults};
use crate::cluster::Cluster;
use crate::invariants::{Checked, Id};
use crate::scenario::model::{
    Action, Attached, BytesIntact, Delete, Elapsed, EventSeen, Expectation, Manifest, Scenario, Step, Taint, Untaint,
    Wait,
};
use crate::scenario::object::{Kind, ObjectRef, State};

/// How long a workload may take to read what it finds.
const READING: Duration = Duration::from_secs(30);

/// Where a file demands that invariants were looked at, and on how many occasions.
type Demand = (Option<(u64, u64)>, BTreeMap<Id, u64>);

/// A run under way.
pub(super) struct Run<'a> {
    scenario: &'a Scenario,
    cluster: &'a Cluster,
    objects: Objects,
    watchman: Arc<Watchman>,
    started: Duration,
    began: Vec<Duration>,
    declared: Vec<String>,
    /// Those that were cleared before they had fired.
    cleared: Vec<SilentFault>,
    /// How often invariants must have been looked at by the end, and where that is demanded.
    demanded: Vec<Demand>,
    line: Option<(u64, u64)>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        cluster: &'a Cluster,
        watchman: Arc<Watchman>,
        started: Duration,
    ) -> Self {
        Self {
            scenario,
            cluster,
            objects: cluster.objects().clone(),
            watchman,
            started,
            began: Vec::new(),
            declared: Vec::new(),
            cleared: Vec::new(),
            demanded: Vec::new(),
            line: None,
        }
    }

    /// Waits until all nodes are ready, then puts the scenario's objects and faults in place.
    pub(super) async fn prepare(&mut self) -> Result<(), Failure> {
        for node in &self.scenario.nodes {
            let object = ObjectRef::new(Kind::node(), None, &node.name);
            self.wait(&object, State::Ready, None, Duration::from_secs(120)).await?;
        }
        self.apply(&[defaults::csi_driver(&self.cluster.spec().driver_name)]).await?;
        self.apply(&self.scenario.objects).await?;
        for fault in &self.scenario.faults {
            self.fault(fault).await?;
        }
        self.started = self.cluster.world().clock().mono();
        Ok(())
    }

    pub(super) async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        self.line = Some((step.line, step.column));
        self.began.push(self.now());
        match &step.action {
            Action::Apply(manifests) => self.apply(manifests).await?,
            Action::Wait(wait) => self.wait_step(wait).await?,
            // What is demanded of the whole run is known at its end.
            Action::Expect(Expectation::Checked(counts)) => self.demanded.push((self.line, counts.clone())),
            Action::Expect(expectation) => self.expect(expectation).await?,
            Action::Crash(node) => self.on_node(node, self.cluster.crash(node).await)?,
            Action::Restart(node) => self.on_node(node, self.cluster.restart(node).await)?,
            Action::Delete(delete) => self.delete(delete).await?,
            Action::Taint(taint) => self.taint(taint).await?,
            Action::Untaint(untaint) => self.untaint(untaint).await?,
            Action::Cordon(node) => self.unschedulable(node, true).await?,
            Action::Uncordon(node) => self.unschedulable(node, false).await?,
            Action::Fault(fault) => self.fault(fault).await?,
            Action::ClearFault(name) => self.clear_fault(name).await?,
            Action::Sleep(duration) => tokio::time::sleep(self.cluster.scaled(*duration)).await,
        }
        Ok(())
    }

    /// Faults that were declared and never fired; only asked of a run that came to its end.
    pub(super) fn silent_faults(&self, ended: bool) -> Vec<SilentFault> {
        if !ended {
            return Vec::new();
        }
        let reports = self.declared.iter().filter_map(|name| self.cluster.fault_report(name));
        let silent = reports.filter(|report| report.hits == 0).map(SilentFault::of);
        silent.chain(self.cleared.iter().cloned()).collect()
    }

    /// What the file demands of the whole run: that invariants were looked at, and that declared deviations occurred.
    pub(super) fn demands(&self, checked: &Checked, missing: &[String]) -> Result<(), Failure> {
        for (position, counts) in &self.demanded {
            for (id, least) in counts {
                let seen = checked.get(*id);
                if seen < *least {
                    let expected = format!("{id} was looked at on at least {least} occasions ({})", id.of());
                    return Err(Failure { position: *position, expected, seen: format!("there were {seen}") });
                }
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(id) => Err(Failure {
                position: None,
                expected: format!("the declared deviation {id} occurs: the file lists it under `violations`"),
                seen: "it did not occur: its faults no longer force it, or it was mended".to_owned(),
            }),
        }
    }

    fn now(&self) -> Duration {
        self.cluster.world().clock().mono()
    }

    fn failure(&self, expected: impl Into<String>, seen: impl Into<String>) -> Failure {
        Failure { position: self.line, expected: expected.into(), seen: seen.into() }
    }

    fn api<T>(&self, what: &str, result: Result<T, ObjectError>) -> Result<T, Failure> {
        result.map_err(|e| self.failure(format!("the API server takes: {what}"), e.to_string()))
    }

    fn on_node(&self, node: &str, result: Result<(), String>) -> Result<(), Failure> {
        result.map_err(|e| self.failure(format!("node {node} obeys"), e))
    }

    async fn apply(&self, manifests: &[Manifest]) -> Result<(), Failure> {
        for manifest in manifests {
            self.api(&format!("apply {}", manifest.object), self.objects.apply(manifest).await)?;
        }
        Ok(())
    }

    /// Checks `probe` now and after every sign in the trace until it is content or `within` has passed.
    async fn until<T>(
        &self,
        within: Duration,
        sign: Sign,
        probe: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let deadline = tokio::time::Instant::now() + self.cluster.scaled(within);
        self.watchman.look_for(sign);
        loop {
            let changed = self.watchman.seen();
            tokio::pin!(changed);
            // Registered before the look, so that a change between look and wait is not missed.
            changed.as_mut().enable();
            let failure = match probe().await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            if tokio::time::Instant::now() >= deadline {
                return Err(failure);
            }
            tokio::select! { biased;
                () = changed => {}
                () = tokio::time::sleep(self.cluster.poll()) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
            // A burst of changes is looked at once.
            tokio::time::sleep(self.cluster.settle()).await;
        }
    }

    async fn wait_step(&self, wait: &Wait) -> Result<(), Failure> {
        if let Some(state) = wait.is {
            self.wait(&wait.object, state, wait.on.as_deref(), wait.within).await?;
        }
        match wait.records {
            Some(records) => self.wait_records(&wait.object, records, wait.within).await,
            None => Ok(()),
        }
    }

    async fn wait(&self, object: &ObjectRef, state: State, on: Option<&str>, within: Duration) -> Result<(), Failure> {
        let on_text = on.map(|node| format!(" on {node}")).unwrap_or_default();
        let expected = format!("{object} is {state}{on_text} within {within:?}");
        self.until(within, Sign::Object(object.clone(), object.key()), async || {
            let seen = self.api(&format!("get {object}"), self.objects.look(object).await)?;
            let node = seen.as_ref().and_then(Look::node);
            if condition::holds(object.kind, seen.as_ref(), state) && (on.is_none() || on == node) {
                Ok(())
            } else {
                Err(self.failure(expected.clone(), condition::describe(object.kind, seen.as_ref())))
            }
        })
        .await
    }

    async fn wait_records(&self, pod: &ObjectRef, records: u64, within: Duration) -> Result<(), Failure> {
        self.until(within, Sign::Records(pod.key()), async || {
            let written = self.cluster.records_synced(&pod.key());
            let expected = format!("{pod} has written {records} records within {within:?}");
            if written >= records { Ok(()) } else { Err(self.failure(expected, format!("it has written {written}"))) }
        })
        .await
    }

    async fn expect(&self, expectation: &Expectation) -> Result<(), Failure> {
        match expectation {
            Expectation::Event(event) => self.expect_event(event).await,
            Expectation::BytesIntact(bytes) => self.expect_bytes(bytes).await,
            Expectation::Attached(attached) => self.expect_attached(attached).await,
            Expectation::Elapsed(elapsed) => self.expect_elapsed(elapsed),
            Expectation::Checked(_) => Ok(()),
        }
    }

    async fn expect_event(&self, wanted: &EventSeen) -> Result<(), Failure> {
        let namespace = wanted.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let contains = wanted.contains.as_deref().unwrap_or_default();
        let expected = format!(
            "an event {} of {} that says {contains:?}, within {:?}",
            wanted.reason, wanted.object, wanted.within
        );
        self.until(wanted.within, Sign::Event(wanted.reason.clone()), async || {
            let events = self.api("list events", self.objects.events(&namespace).await)?;
            let of_object: Vec<&Value> = events.iter().filter(|e| is_about(e, &wanted.object)).collect();
            let found = of_object
                .iter()
                .any(|e| e["reason"] == *wanted.reason && e["message"].as_str().is_some_and(|m| m.contains(contains)));
            if found {
                return Ok(());
            }
            let seen: Vec<String> = of_object
                .iter()
                .map(|e| {
                    format!(
                        "{} {:?}",
                        e["reason"].as_str().unwrap_or_default(),
                        e["message"].as_str().unwrap_or_default()
                    )
                })
                .collect();
            let seen = if seen.is_empty() { "no event of it".to_owned() } else { seen.join("; ") };
            Err(self.failure(expected.clone(), seen))
        })
        .await
    }

    /// A container is running, and told so, before its workload has read what it finds.
    async fn expect_bytes(&self, wanted: &BytesIntact) -> Result<(), Failure> {
        let expected = format!("{} finds at least {} intact records when it starts", wanted.pod, wanted.records);
        self.until(READING, Sign::Records(wanted.pod.key()), async || {
            let seen = match self.cluster.records_found(&wanted.pod.key()) {
                Some((found, true)) if found >= wanted.records => return Ok(()),
                Some((found, true)) => format!("it found {found}"),
                Some((_, false)) => "what it found is damaged".to_owned(),
                None => "it has not started".to_owned(),
            };
            Err(self.failure(expected.clone(), seen))
        })
        .await
    }

    async fn expect_attached(&self, wanted: &Attached) -> Result<(), Failure> {
        let expected = format!(
            "the volume of {} is attached to {} and nowhere else, within {:?}",
            wanted.claim, wanted.node, wanted.within
        );
        self.until(wanted.within, Sign::Any(Kind::volume_attachment()), async || {
            let claim = self.api("get the claim", self.objects.get(&wanted.claim).await)?;
            let pv = claim.as_ref().and_then(|c| c["spec"]["volumeName"].as_str());
            let Some(pv) = pv else {
                return Err(self.failure(expected.clone(), "the claim has no volume"));
            };
            let attachments = self.api("list attachments", self.objects.list(Kind::volume_attachment()).await)?;
            let nodes: Vec<&str> = attachments
                .iter()
                .filter(|va| va["spec"]["source"]["persistentVolumeName"] == pv && va["status"]["attached"] == true)
                .filter_map(|va| va["spec"]["nodeName"].as_str())
                .collect();
            if nodes == [wanted.node.as_str()] {
                Ok(())
            } else {
                Err(self.failure(expected.clone(), format!("{pv} is attached to {nodes:?}")))
            }
        })
        .await
    }

    /// Durations of a scenario are in its own time, so what passed in the world is multiplied by the scale.
    fn expect_elapsed(&self, wanted: &Elapsed) -> Result<(), Failure> {
        let since = wanted.since.and_then(|step| self.began.get(step).copied()).unwrap_or(self.started);
        let passed = self.cluster.unscaled(self.now().saturating_sub(since));
        let early = wanted.at_least.is_some_and(|least| passed < least);
        // Real work takes real time, which no scale shortens: an upper bound is meant for virtual time.
        let late = self.cluster.is_simulated() && wanted.at_most.is_some_and(|most| passed > most);
        if early || late {
            let bounds = format!(
                "from {:?} to {:?}",
                wanted.at_least.unwrap_or_default(),
                wanted.at_most.unwrap_or(Duration::MAX)
            );
            return Err(self.failure(format!("elapsed time {bounds}"), format!("{passed:?} have passed")));
        }
        Ok(())
    }

    async fn delete(&self, delete: &Delete) -> Result<(), Failure> {
        let grace = if delete.force { Some(0) } else { delete.grace.map(|g| g.as_secs() as i64) };
        self.api(&format!("delete {}", delete.object), self.objects.delete(&delete.object, grace).await)
    }

    async fn taints(&self, node: &str) -> Result<(ObjectRef, Vec<Value>), Failure> {
        let object = ObjectRef::new(Kind::node(), None, node);
        let value = self.api(&format!("get {object}"), self.objects.get(&object).await)?;
        let taints = value.and_then(|n| n["spec"]["taints"].as_array().cloned()).unwrap_or_default();
        Ok((object, taints))
    }

    async fn taint(&self, taint: &Taint) -> Result<(), Failure> {
        let (object, mut taints) = self.taints(&taint.node).await?;
        taints.retain(|t| t["key"] != *taint.key || t["effect"] != *taint.effect);
        taints.push(json!({ "key": taint.key, "value": taint.value, "effect": taint.effect }));
        let patch = json!({ "spec": { "taints": taints } });
        self.api(&format!("taint {object}"), self.objects.patch(&object, &patch).await)
    }

    async fn untaint(&self, untaint: &Untaint) -> Result<(), Failure> {
        let (object, mut taints) = self.taints(&untaint.node).await?;
        taints.retain(|t| t["key"] != *untaint.key);
        let patch = json!({ "spec": { "taints": taints } });
        self.api(&format!("untaint {object}"), self.objects.patch(&object, &patch).await)
    }

    async fn unschedulable(&self, node: &str, on: bool) -> Result<(), Failure> {
        let object = ObjectRef::new(Kind::node(), None, node);
        let patch = json!({ "spec": { "unschedulable": if on { Value::Bool(true) } else { Value::Null } } });
        self.api(&format!("cordon {object}"), self.objects.patch(&object, &patch).await)
    }

    async fn fault(&mut self, fault: &Fault) -> Result<(), Failure> {
        let added = self.cluster.add_fault(fault).await;
        added.map_err(|e| self.failure(format!("fault {} is put in force", fault.name), e.to_string()))?;
        self.declared.push(fault.name.clone());
        Ok(())
    }

    async fn clear_fault(&mut self, name: &str) -> Result<(), Failure> {
        let expected = format!("fault {name} is in force");
        match self.cluster.remove_fault(name).await {
            Some(report) if report.hits == 0 => self.cleared.push(SilentFault::of(report)),
            Some(_) => {}
            None => return Err(self.failure(expected, "it is not")),
        }
        Ok(())
    }
}

fn is_about(event: &Value, object: &ObjectRef) -> bool {
    let about = &event["involvedObject"];
    about["kind"] == object.kind.kind() && about["name"] == *object.name
}
