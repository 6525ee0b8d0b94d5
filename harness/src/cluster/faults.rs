//! Where the faults of a run act: in the world's own book when all components share this OS process, else in the
//! books of the component processes, over their admin APIs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{Method, Request, StatusCode};
use serde_json::Value;
use substrate::HttpService;
use substrate::body::{call, collect, full};
use substrate::fault::{Effect, Fault, Plane};

use super::Cluster;

/// Longest answer of an admin API about faults.
const ANSWER_LIMIT: usize = 1 << 20;

/// The admin APIs of component processes, and what was put in force there.
#[derive(Default)]
pub(super) struct Desks {
    desks: BTreeMap<String, Desk>,
    declared: Mutex<BTreeMap<String, Declared>>,
}

/// One process' admin API.
struct Desk {
    plane: Plane,
    /// The node whose CSI node service it is.
    node: Option<String>,
    service: HttpService,
}

/// A fault in force.
struct Declared {
    fault: Fault,
    /// How often it fired in incarnations of processes that have ended.
    before: u64,
}

impl Desks {
    /// Adds the process `name`, which owns `plane`, or the part of it that belongs to `node`.
    pub(super) fn add(&mut self, name: &str, plane: Plane, node: Option<&str>, service: HttpService) {
        self.desks.insert(name.to_owned(), Desk { plane, node: node.map(str::to_owned), service });
    }

    /// Puts `fault` in force in every process that can meet it.
    async fn put(&self, fault: &Fault) -> Result<(), String> {
        let desks: Vec<&Desk> = self.desks.values().filter(|desk| desk.meets(fault)).collect();
        if desks.is_empty() {
            let plane = serde_json::to_string(&fault.matches.plane).unwrap_or_default();
            return Err(format!(
                "match.plane: no component process acts on faults of the plane {plane}; with --processes there are ec2, k8s and csi"
            ));
        }
        if matches!(fault.effect, Effect::Crash(_) | Effect::Reboot(_)) {
            let text =
                "effect: with --processes nobody starts again what a fault crashes; use the steps crash and restart";
            return Err(text.to_owned());
        }
        if self.declared().contains_key(&fault.name) {
            return Err(format!("name: a fault called `{}` is in force already", fault.name));
        }
        for desk in desks {
            desk.put(fault).await?;
        }
        self.declared().insert(fault.name.clone(), Declared { fault: fault.clone(), before: 0 });
        Ok(())
    }

    /// How often the fault `name` has fired; nothing when it is not in force anywhere.
    async fn hits(&self, name: &str) -> Result<Option<u64>, String> {
        self.sum(name, Method::GET).await
    }

    /// Ends the fault `name` and says how often it fired.
    async fn remove(&self, name: &str) -> Result<Option<u64>, String> {
        let hits = self.sum(name, Method::DELETE).await?;
        self.declared().remove(name);
        Ok(hits)
    }

    async fn sum(&self, name: &str, method: Method) -> Result<Option<u64>, String> {
        let Some((fault, before)) = self.declared().get(name).map(|d| (d.fault.clone(), d.before)) else {
            return Ok(None);
        };
        let mut found = None;
        for desk in self.desks.values().filter(|desk| desk.meets(&fault)) {
            if let Some(hits) = desk.hits(name, method.clone()).await? {
                found = Some(found.unwrap_or(before) + hits);
            }
        }
        Ok(found)
    }

    /// Remembers how often the faults in the process of `node` fired, which is about to end.
    pub(super) async fn leave(&self, node: &str) {
        for (name, fault) in self.of_node(node) {
            for desk in self.desks.values().filter(|desk| desk.node.as_deref() == Some(node) && desk.meets(&fault)) {
                // A process that does not answer any more has taken its count along.
                let hits = desk.hits(&name, Method::GET).await.ok().flatten().unwrap_or(0);
                if let Some(declared) = self.declared().get_mut(&name) {
                    declared.before += hits;
                }
            }
        }
    }

    /// Puts the faults that are in force into the process of `node`, which has started anew. Their counts there begin
    /// anew, too.
    pub(super) async fn come_back(&self, node: &str) -> Result<(), String> {
        for (_, fault) in self.of_node(node) {
            for desk in self.desks.values().filter(|desk| desk.node.as_deref() == Some(node) && desk.meets(&fault)) {
                desk.put(&fault).await?;
            }
        }
        Ok(())
    }

    fn of_node(&self, node: &str) -> Vec<(String, Fault)> {
        let here =
            |fault: &Fault| self.desks.values().any(|desk| desk.node.as_deref() == Some(node) && desk.meets(fault));
        let declared = self.declared();
        declared.iter().filter(|(_, d)| here(&d.fault)).map(|(name, d)| (name.clone(), d.fault.clone())).collect()
    }

    fn declared(&self) -> MutexGuard<'_, BTreeMap<String, Declared>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// Whether operations that `fault` is about can happen in this process.
    fn meets(&self, fault: &Fault) -> bool {
        let op = fault.matches.op.as_deref().unwrap_or_default();
        // Both services of a driver tell who they are; else the node service has the RPCs of that name.
        let both = ["*", "Get", "Probe"].iter().any(|name| op.starts_with(name)) || op.is_empty();
        let side = self.plane != Plane::Csi || both || op.starts_with("Node") == self.node.is_some();
        self.plane == fault.matches.plane && side
    }

    async fn put(&self, fault: &Fault) -> Result<(), String> {
        let body = serde_json::to_string(fault).map_err(|e| e.to_string())?;
        match self.send(Method::POST, "", body).await? {
            (status, _) if status.is_success() => Ok(()),
            (_, answer) => Err(answer["error"].as_str().unwrap_or("the process refuses it").to_owned()),
        }
    }

    async fn hits(&self, name: &str, method: Method) -> Result<Option<u64>, String> {
        match self.send(method, &format!("/{name}"), String::new()).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, report) if status.is_success() => Ok(report["hits"].as_u64()),
            (status, answer) => Err(format!("{status}: {answer}")),
        }
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Result<(StatusCode, Value), String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/admin/v1/faults{path}"))
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(full(body))
            .map_err(|e| format!("a fault's name must fit into a path: {e}"))?;
        let response = call(self.service.clone(), request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(|e| e.to_string())?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

impl Cluster {
    /// Puts a fault in force in the component that owns its plane. With components that are OS processes, a fault of
    /// the CSI node service acts, and counts, in the process of each node.
    ///
    /// # Errors
    /// When the fault makes no sense, or no component acts on it.
    pub async fn add_fault(&self, fault: &Fault) -> Result<(), String> {
        match &self.desks {
            Some(desks) => desks.put(fault).await,
            None => self.world.faults().add(self.world.clock().mono(), fault.clone()),
        }
    }

    /// How often a fault has fired; nothing when it is not in force.
    ///
    /// # Errors
    /// When a component process does not answer.
    pub async fn fault_hits(&self, name: &str) -> Result<Option<u64>, String> {
        match &self.desks {
            Some(desks) => desks.hits(name).await,
            None => Ok(self.world.faults().get(name).map(|report| report.hits)),
        }
    }

    /// Ends a fault and says how often it fired; nothing when it is not in force.
    ///
    /// # Errors
    /// When a component process does not answer.
    pub async fn remove_fault(&self, name: &str) -> Result<Option<u64>, String> {
        match &self.desks {
            Some(desks) => desks.remove(name).await,
            None => Ok(self.world.faults().remove(name).map(|report| report.hits)),
        }
    }

    /// Ends all faults of the run.
    pub async fn clear_faults(&self) {
        self.world.faults().clear(None);
        let Some(desks) = &self.desks else { return };
        let names: Vec<String> = desks.declared().keys().cloned().collect();
        for name in names {
            // A process that does not answer is down, and its faults with it.
            let _ = desks.remove(&name).await;
        }
    }
}
