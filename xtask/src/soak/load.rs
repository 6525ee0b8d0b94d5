//! A load like a StatefulSet's: pods with ordinal names, each with its own claim, recreated when they are gone; and the
//! actions of users and operators.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::bail;
use harness::cluster::{ObjectError, Objects};
use harness::spec::Manifest;
use harness::spec::object::{Kind, ObjectRef};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::Seed;
use substrate::json::Value as Tree;
use substrate::seed::between;

use super::running::Running;

/// The name of the set.
const SET: &str = "web";
/// Time limit of a request, as for a user who gives up and moves on.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest volume, in GiB.
const LARGEST: u64 = 8;

/// Numbers of actions so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pods: u64,
    claims: u64,
    deleted: u64,
    drained: u64,
    grown: u64,
    /// Requests that failed, as they do while servers are broken.
    failed: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, claims, deleted, drained, grown, failed } = self;
        write!(
            f,
            "{pods} pods and {claims} claims made, {deleted} deleted, {drained} drains, {grown} expansions, {failed} requests failed"
        )
    }
}

/// The set, and the client that changes it.
pub struct Load<'a> {
    runtime: tokio::runtime::Runtime,
    objects: Objects,
    running: &'a Running,
    rng: ChaCha8Rng,
    replicas: u64,
    /// The last size given to each claim, in GiB.
    sizes: BTreeMap<u64, u64>,
    done: Done,
}

impl<'a> Load<'a> {
    /// Creates a set of `replicas` that does not run yet.
    ///
    /// # Errors
    /// If the API server's address cannot be read.
    pub fn begin(running: &'a Running, seed: &Seed, replicas: u64) -> Result<Self, anyhow::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let service = {
            let _inside = runtime.enter();
            substrate::dial::http(running.text("kubernetesHttp")).map_err(|e| anyhow::anyhow!("{e}"))?
        };
        let (objects, rng) = (Objects::new(service), seed.child("load").rng());
        Ok(Self { runtime, objects, running, rng, replicas, sizes: BTreeMap::new(), done: Done::default() })
    }

    /// Returns the numbers of actions so far.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Acts as the StatefulSet controller and, if `acts`, performs an action of a user.
    pub fn tick(&mut self, acts: bool) {
        let Some(pods) = self.pods() else {
            self.done.failed += 1;
            return;
        };
        self.tend(&pods);
        if acts {
            self.act(&pods);
        }
    }

    /// Returns true if every replica runs.
    pub fn runs(&self) -> bool {
        let pods = self.pods().unwrap_or_default();
        (0..self.replicas).all(|at| pods.get(&at).is_some_and(runs))
    }

    /// Returns the replicas that do not run, and their status.
    pub fn missing(&self) -> String {
        let Some(pods) = self.pods() else { return "the API server does not answer".to_owned() };
        let missing = (0..self.replicas).filter(|at| !pods.get(at).is_some_and(runs));
        let is = |at: u64| match pods.get(&at) {
            None => format!("{SET}-{at} is not there"),
            Some(pod) => format!("{SET}-{at} is {} on {}", pod["status"], pod["spec"]["nodeName"]),
        };
        missing.map(is).collect::<Vec<_>>().join("; ")
    }

    /// Uncordons all nodes.
    pub fn uncordon(&mut self) {
        for node in self.running.nodes() {
            self.cordon(&node, false);
        }
    }

    /// Deletes the Event objects, which the API server keeps for an hour, as upstream's does: the memory that they hold
    /// would hide a leak.
    pub fn forget_events(&mut self) {
        let events = self.asks(self.objects.list(Kind::event())).and_then(Result::ok).unwrap_or_default();
        for event in &events {
            let part = |key: &str| event["metadata"][key].as_str().unwrap_or_default().to_owned();
            let event = ObjectRef::new(Kind::event(), Some(&part("namespace")), &part("name"));
            let deleted = self.asks(self.objects.delete(&event, None));
            self.note(deleted);
        }
    }

    /// Deletes everything.
    ///
    /// # Errors
    /// If something is still there afterwards.
    pub fn end(&mut self) -> Result<(), anyhow::Error> {
        for at in 0..self.replicas {
            self.delete(Kind::pod(), &format!("{SET}-{at}"), None);
            self.delete(Kind::claim(), &claim(at), None);
        }
        match self.pods().unwrap_or_default().values().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
            true => Ok(()),
            false => bail!("pods cannot be deleted"),
        }
    }

    /// Returns the result of a request; None if it times out.
    fn asks<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, request).await }).ok()
    }

    /// Returns the pods of the set, by their ordinal; None if the API server does not answer.
    fn pods(&self) -> Option<BTreeMap<u64, Tree>> {
        let all = self.asks(self.objects.list(Kind::pod()))?.ok()?;
        let number = |pod: &Tree| pod["metadata"]["name"].as_str()?.strip_prefix(SET)?.strip_prefix('-')?.parse().ok();
        Some(all.into_iter().filter_map(|pod| Some((number(&pod)?, pod))).collect())
    }

    /// Creates the first missing replica; later ones wait until all before them run.
    fn tend(&mut self, pods: &BTreeMap<u64, Tree>) {
        for at in 0..self.replicas {
            match pods.get(&at) {
                Some(pod) if runs(pod) => {}
                Some(pod) if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) => {
                    return self.delete(Kind::pod(), &format!("{SET}-{at}"), None);
                }
                Some(_) => return self.complete(at),
                None => return self.make(at),
            }
        }
    }

    /// Recreates a pod's claim that was deleted after the pod was created.
    fn complete(&mut self, at: u64) {
        let claims = self.asks(self.objects.list(Kind::claim())).and_then(Result::ok);
        if claims.is_some_and(|all| !all.iter().any(|one| one["metadata"]["name"] == *claim(at))) {
            self.make_claim(at);
        }
    }

    fn make_claim(&mut self, at: u64) {
        let size = *self.sizes.entry(at).or_insert(1);
        let made = self.create(Kind::claim(), json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim(at) },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": format!("{size}Gi") } } },
        }));
        self.done.claims += u64::from(made);
    }

    fn make(&mut self, at: u64) {
        self.make_claim(at);
        let grace = [1, 2, 5][self.up_to(3) as usize - 1];
        let made = self.create(Kind::pod(), json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("{SET}-{at}"), "labels": { "app": SET } },
            "spec": {
                "terminationGracePeriodSeconds": grace,
                "containers": [{
                    "name": "writer", "image": "mooring/writer",
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim(at) } }],
            },
        }));
        self.done.pods += u64::from(made);
    }

    /// Performs a random action of a user or an operator.
    fn act(&mut self, pods: &BTreeMap<u64, Tree>) {
        let at = self.up_to(self.replicas) - 1;
        let nodes = self.running.nodes();
        let node = nodes[self.up_to(nodes.len() as u64) as usize - 1].clone();
        match self.up_to(24) {
            1..=4 => self.delete(Kind::pod(), &format!("{SET}-{at}"), None),
            5 => self.delete(Kind::pod(), &format!("{SET}-{at}"), Some(0)),
            6 => self.cordon(&node, true),
            7 | 8 => self.cordon(&node, false),
            9 | 10 => self.drain(&node, pods),
            11 | 12 => self.grow(at),
            13 => {
                // Like scaling the set down and deleting the claims of the removed replicas.
                let last = self.replicas - 1;
                self.delete(Kind::pod(), &format!("{SET}-{last}"), None);
                self.delete(Kind::claim(), &claim(last), None);
                self.sizes.remove(&last);
            }
            _ => {}
        }
    }

    fn drain(&mut self, node: &str, pods: &BTreeMap<u64, Tree>) {
        self.cordon(node, true);
        for (at, _) in pods.iter().filter(|(_, pod)| pod["spec"]["nodeName"] == node) {
            self.delete(Kind::pod(), &format!("{SET}-{at}"), None);
        }
        self.done.drained += 1;
    }

    fn grow(&mut self, at: u64) {
        let Some(size) = self.sizes.get_mut(&at).filter(|size| **size < LARGEST) else { return };
        *size += 1;
        let with = json!({ "spec": { "resources": { "requests": { "storage": format!("{size}Gi") } } } });
        let object = reference(Kind::claim(), &claim(at));
        let grown = self.asks(self.objects.patch(&object, &with));
        self.done.grown += u64::from(is_ok(&grown));
        self.note(grown);
    }

    fn cordon(&mut self, node: &str, is: bool) {
        let with = json!({ "spec": { "unschedulable": is } });
        let patched = self.asks(self.objects.patch(&ObjectRef::new(Kind::node(), None, node), &with));
        self.note(patched);
    }

    fn delete(&mut self, kind: Kind, name: &str, grace: Option<i64>) {
        let deleted = self.asks(self.objects.delete(&reference(kind, name), grace));
        self.done.deleted += u64::from(is_ok(&deleted));
        self.note(deleted);
    }

    /// Creates an object. Returns false if that fails or the object exists.
    fn create(&mut self, kind: Kind, value: Value) -> bool {
        let object = reference(kind, value["metadata"]["name"].as_str().unwrap_or_default());
        match self.asks(self.objects.get(&object)) {
            Some(Ok(None)) => {}
            Some(Ok(Some(_))) => return false,
            other => {
                self.note(other.map(|result| result.map(drop)));
                return false;
            }
        }
        let made = self.asks(self.objects.apply(&Manifest { object, value })).map(|result| result.map(drop));
        let is_made = is_ok(&made);
        self.note(made);
        is_made
    }

    fn note(&mut self, result: Option<Result<(), ObjectError>>) {
        let failed = result.is_none_or(|result| result.is_err_and(|error| !error.is_not_found()));
        self.done.failed += u64::from(failed);
    }

    fn up_to(&mut self, most: u64) -> u64 {
        between(&mut self.rng, 1, most)
    }
}

fn claim(at: u64) -> String {
    format!("data-{SET}-{at}")
}

fn reference(kind: Kind, name: &str) -> ObjectRef {
    ObjectRef::new(kind, Some("default"), name)
}

fn is_ok(result: &Option<Result<(), ObjectError>>) -> bool {
    result.as_ref().is_some_and(Result::is_ok)
}

/// Returns true for a pod that runs and is not being deleted.
fn runs(pod: &Tree) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}
