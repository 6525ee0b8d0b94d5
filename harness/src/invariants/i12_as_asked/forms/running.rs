//! Forms of pods on nodes: conditions follow from the statuses of the containers, a running pod has an address of its
//! own and that of its node, an ended pod has no running container, and the QoS class follows from the resources.
//!
//! Not compared: pods that wait for their volumes or containers (I8 has these), and pods of nodes that are not Ready,
//! because their kubelet does not report; the condition Ready of a pod with readiness gates, which others write;
//! the number of restarts, which needs the history; defaults of the admission, which an initial object may lack.

use std::collections::BTreeMap;

use substrate::json::Value;

use super::workloads::{has_condition, is_ended};
use super::{Comparison, is_there, key, list, name, text};

/// Annotation of a pod that the kubelet, or Mooring itself, created for a process of the node.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Comparison<'_> {
    /// Compares each pod on a node with the statuses of its containers and with its node.
    pub(super) fn running(&mut self) {
        if !self.has_all(&["kubelet"]) {
            return;
        }
        let stored = &self.machines.stored;
        let mut owners: BTreeMap<&str, &Value> = BTreeMap::new();
        let is_mirror = |pod: &Value| !pod["metadata"]["annotations"][MIRROR].is_null();
        for pod in stored.pods.iter().filter(|pod| is_there(pod) && !is_mirror(pod)) {
            let node = stored.nodes.iter().find(|node| name(node) == text(&pod["spec"]["nodeName"]));
            let Some(node) = node.filter(|node| has_condition(node, "Ready", "True")) else { continue };
            let phase = text(&pod["status"]["phase"]);
            let mut differs = unlike_resources(pod);
            if is_ended(pod) {
                differs = differs.or_else(|| form_of_ended(pod));
            } else if phase == "Running" {
                differs = differs.or_else(|| form_of_running(pod, node));
                let ip = text(&pod["status"]["podIP"]);
                if pod["spec"]["hostNetwork"] != true
                    && let Some(other) = owners.insert(ip, pod)
                {
                    differs = differs.or_else(|| Some(format!("has the address {ip}, as pod/{} has", key(other))));
                }
            }
            self.judge(None, differs.map(|differs| format!("pod/{} {differs}", key(pod))));
        }
    }
}

/// Returns the status of a container.
fn status_of<'a>(pod: &'a Value, field: &str, container: &Value) -> Option<&'a Value> {
    list(&pod["status"][field]).iter().find(|status| name_of(status) == name_of(container))
}

fn name_of(container: &Value) -> &str {
    text(&container["name"])
}

fn form_of_ended(pod: &Value) -> Option<String> {
    let phase = text(&pod["status"]["phase"]);
    let statuses = list(&pod["status"]["containerStatuses"]);
    if let Some(status) = statuses.iter().find(|status| !status["state"]["running"].is_null()) {
        return Some(format!("is {phase}, and its container {} runs", name_of(status)));
    }
    let failed =
        statuses.iter().find(|status| status["state"]["terminated"]["exitCode"].as_i64().is_some_and(|of| of != 0));
    if let Some(status) = failed.filter(|_| phase == "Succeeded") {
        return Some(format!("is Succeeded, and its container {} has failed", name_of(status)));
    }
    let left = ["Ready", "ContainersReady"].into_iter().find(|of| has_condition(pod, of, "True"))?;
    Some(format!("is {phase}, and has the condition {left}: True"))
}

fn form_of_running(pod: &Value, node: &Value) -> Option<String> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = list(&spec["initContainers"]).iter().filter(|of| text(&of["restartPolicy"]) == "Always");
    let all = list(&spec["containers"]).iter().map(|of| ("containerStatuses", of));
    let mut are_ready = true;
    for (field, container) in all.chain(sidecars.map(|of| ("initContainerStatuses", of))) {
        let Some(own) = status_of(pod, field, container) else {
            return Some(format!("runs, and has no status of its container {}", name_of(container)));
        };
        let is_ready = own["ready"] == true;
        if is_ready && own["state"]["running"].is_null() {
            return Some(format!("has the container {}, which is ready and does not run", name_of(container)));
        }
        are_ready &= is_ready;
    }
    let wanted = [("PodScheduled", true), ("Initialized", true), ("ContainersReady", are_ready), ("Ready", are_ready)];
    let has_gates = !list(&spec["readinessGates"]).is_empty();
    let conditions = wanted.into_iter().filter(|(of, _)| !has_gates || *of != "Ready");
    for (condition, wanted) in conditions {
        if has_condition(pod, condition, "True") != wanted {
            let word = if wanted { "True" } else { "False" };
            return Some(format!("runs, and its containers ask for the condition {condition}: {word}"));
        }
    }
    let (ip, host) = (text(&status["podIP"]), text(&status["hostIP"]));
    if ip.is_empty() || text(&status["podIPs"][0]["ip"]) != ip {
        return Some(format!("runs with the podIP `{ip}` and the podIPs {}", status["podIPs"]));
    }
    if !list(&node["status"]["addresses"]).iter().any(|of| text(&of["address"]) == host) {
        return Some(format!("runs with the hostIP `{host}`, which node/{} does not have", name(node)));
    }
    if !text(&status["nominatedNodeName"]).is_empty() {
        return Some(format!("runs, and is nominated for {}", text(&status["nominatedNodeName"])));
    }
    status["startTime"].is_null().then(|| "runs, and has no startTime".to_owned())
}

/// Compares the QoS class with the resources. Only pods without any are BestEffort.
fn unlike_resources(pod: &Value) -> Option<String> {
    let (spec, class) = (&pod["spec"], text(&pod["status"]["qosClass"]));
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(&spec[field]));
    let of_pod = std::iter::once(&spec["resources"]);
    let names_some = |resources: &Value| {
        let amounts = [&resources["requests"], &resources["limits"]].into_iter();
        amounts.flat_map(|of| [&of["cpu"], &of["memory"]]).any(|amount| !matches!(amount.as_str(), None | Some("0")))
    };
    let asks = containers.map(|of| &of["resources"]).chain(of_pod).any(names_some);
    let is_unlike = !class.is_empty() && (class == "BestEffort") == asks;
    is_unlike.then(|| {
        format!("has the qosClass {class}, and {} cpu or memory", if asks { "asks for" } else { "asks for no" })
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;

    fn running(name: &str, ip: &str) -> Json {
        let types = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let conditions: Vec<Json> = types.iter().map(|of| json!({ "type": of, "status": "True" })).collect();
        let container = json!({ "name": "app", "ready": true, "state": { "running": { "startedAt": "t" } } });
        json!({
            "metadata": { "namespace": "default", "name": name, "uid": "u" },
            "spec": { "nodeName": "node-a", "containers": [{ "name": "app" }] },
            "status": {
                "phase": "Running", "conditions": conditions, "containerStatuses": [container], "startTime": "t",
                "podIP": ip, "podIPs": [{ "ip": ip }], "hostIP": "10.0.0.4", "qosClass": "BestEffort",
            },
        })
    }

    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            cluster["nodes"][0]["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.0.4" }]);
            cluster["pods"] = json!([running("web", "10.1.0.1"), running("more", "10.1.0.2")]);
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.running())
    }

    #[rstest]
    #[case("/pods/0/status/containerStatuses/0/ready", json!(false),
        "pod/default/web runs, and its containers ask for the condition ContainersReady: False")]
    #[case("/pods/0/status/conditions/3/status", json!("False"),
        "pod/default/web runs, and its containers ask for the condition Ready: True")]
    #[case("/pods/0/status/conditions/0/status", json!("False"),
        "pod/default/web runs, and its containers ask for the condition PodScheduled: True")]
    #[case("/pods/0/status/containerStatuses/0/state", json!({ "waiting": {} }),
        "pod/default/web has the container app, which is ready and does not run")]
    #[case("/pods/0/status/containerStatuses", json!([]),
        "pod/default/web runs, and has no status of its container app")]
    #[case("/pods/0/status/podIPs/0/ip", json!("10.1.0.9"),
        r#"pod/default/web runs with the podIP `10.1.0.1` and the podIPs [{"ip":"10.1.0.9"}]"#)]
    #[case("/pods/0/status/hostIP", json!("10.0.0.5"),
        "pod/default/web runs with the hostIP `10.0.0.5`, which node/node-a does not have")]
    #[case("/pods/0/status/startTime", Json::Null, "pod/default/web runs, and has no startTime")]
    #[case("/pods/0/status/phase", json!("Succeeded"), "pod/default/web is Succeeded, and its container app runs")]
    #[case("/pods/0/status/qosClass", json!("Guaranteed"),
        "pod/default/web has the qosClass Guaranteed, and asks for no cpu or memory")]
    #[case("/pods/1", running("more", "10.1.0.1"), "pod/default/more has the address 10.1.0.1, as pod/default/web has")]
    fn a_pod_is_as_its_containers_and_its_node_say(#[case] at: &str, #[case] value: Json, #[case] message: &str) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), [message]);
        assert_eq!(found(&["kubelet"], change), Vec::<String>::new());
    }

    #[test]
    fn a_pod_of_a_node_that_is_not_ready_is_not_compared() {
        let change = |cluster: &mut Json| {
            cluster["nodes"][0]["status"]["conditions"][0]["status"] = json!("Unknown");
            cluster["pods"][0]["status"]["podIP"] = json!("");
        };
        assert_eq!(found(&[], change), Vec::<String>::new());
    }
}
