//! The row of a pod: a summary of its containers' states.

use jiff::Timestamp;
use substrate::json::{Value, json};

use super::age;
use super::cells::list;

/// Returns the condition of a finished pod's row, by which a client can hide it.
pub(super) fn row_condition(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({ "type": "Completed", "status": "True", "reason": reason, "message": message }))
}

/// Returns the cells of one pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::since(&Value::from(at.to_string()), now))
        }
        _ => summary.restarts.to_string(),
    };
    let none = |value: &Value| Value::from(value.as_str().filter(|s| !s.is_empty()).unwrap_or("<none>"));
    vec![
        pod["metadata"]["name"].clone(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age::since(&pod["metadata"]["creationTimestamp"], now).into(),
        none(&status["podIPs"][0]["ip"]),
        none(&spec["nodeName"]),
        none(&status["nominatedNodeName"]),
        readiness_gates(pod).into(),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let phase = status["phase"].as_str().unwrap_or_default();
        let mut summary = Self {
            reason: text(&status["reason"]).unwrap_or(phase).to_owned(),
            ready: 0,
            total: list(&spec["containers"]).len()
                + list(&spec["initContainers"]).iter().filter(|c| is_sidecar(c)).count(),
            restarts: 0,
            last_restart: None,
        };
        if list(&status["conditions"]).iter().any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
            summary.reason = "SchedulingGated".to_owned();
        }
        let initializing = summary.init_containers(pod);
        if !initializing || condition(pod, "Initialized") {
            summary.containers(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if status["reason"] == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Counts the init containers. Returns true if one of them keeps the pod from starting.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let declared = list(&pod["spec"]["initContainers"]);
        for (i, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            self.count_restarts(container);
            let sidecar = declared.iter().any(|d| d["name"] == container["name"] && is_sidecar(d));
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = if terminated.is_object() {
                format!("Init:{}", ended(terminated))
            } else {
                match text(&waiting["reason"]).filter(|r| *r != "PodInitializing") {
                    Some(reason) => format!("Init:{reason}"),
                    None => format!("Init:{i}/{}", declared.len()),
                }
            };
            return true;
        }
        false
    }

    fn containers(&mut self, pod: &Value) {
        // Restarts of finished init containers no longer count; those of sidecars do.
        let declared = list(&pod["spec"]["initContainers"]);
        (self.restarts, self.last_restart) = (0, None);
        for container in list(&pod["status"]["initContainerStatuses"]) {
            if declared.iter().any(|d| d["name"] == container["name"] && is_sidecar(d)) {
                self.count_restarts(container);
            }
        }
        let (mut running, mut failure) = (false, None);
        for container in list(&pod["status"]["containerStatuses"]).iter().rev() {
            self.count_restarts(container);
            let state = &container["state"];
            if let Some(reason) = text(&state["waiting"]["reason"]) {
                self.reason = reason.to_owned();
            } else if state["terminated"].is_object() {
                self.reason = ended(&state["terminated"]);
                if state["terminated"]["exitCode"].as_i64().unwrap_or(0) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        // A completed container does not hide a running or a failed one.
        if self.reason == "Completed" {
            self.reason = match failure {
                _ if running && condition(pod, "Ready") => "Running".to_owned(),
                Some(failure) => failure,
                None if running => "NotReady".to_owned(),
                None => return,
            };
        }
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let at = age::parse(&container["lastState"]["terminated"]["finishedAt"]);
        self.last_restart = self.last_restart.max(at);
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|s| !s.is_empty())
}

/// Returns the reason why a container ended, or else its signal, or else its exit code.
fn ended(terminated: &Value) -> String {
    match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or(0)) {
        (Some(reason), _) => reason.to_owned(),
        (None, 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        (None, signal) => format!("Signal:{signal}"),
    }
}

fn is_sidecar(init_container: &Value) -> bool {
    init_container["restartPolicy"] == "Always"
}

fn condition(pod: &Value, name: &str) -> bool {
    list(&pod["status"]["conditions"]).iter().any(|c| c["type"] == name && c["status"] == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|g| g["conditionType"].as_str().is_some_and(|name| condition(pod, name))).count();
    format!("{open}/{}", gates.len())
}
