//! Forms of EndpointSlices: the slices of a Service list each pod that it selects once, with its address, its node, its
//! readiness and the ports of the Service; and no slice outlives its Service.
//!
//! Not compared: a pod that has ended, because a change of its phase alone wakes no controller; a pod of a node that is
//! gone, which the controller skips; ports that a pod names; zones and hints, which do not follow a change of the node.

use std::collections::BTreeMap;

use substrate::json::Value;

use super::workloads::{has_condition, is_ended};
use super::{Comparison, is_there, key, list, name, text};

/// Value of the label `managed-by` of the controller's slices.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

impl Comparison<'_> {
    /// Compares each Service with its slices, and each slice with its Service.
    pub(super) fn endpoint_slices(&mut self) {
        if !self.has_all(&["endpointslice-controller", "garbage-collector-controller"]) {
            return;
        }
        let stored = &self.machines.stored;
        let is_selecting = |service: &&Value| {
            let selector = service["spec"]["selector"].as_object();
            selector.is_some_and(|labels| !labels.is_empty()) && text(&service["spec"]["type"]) != "ExternalName"
        };
        for service in stored.rare("services").filter(is_selecting) {
            let differs = self.form_of_slices(service);
            self.judge(None, differs.map(|differs| format!("service/{} {differs}", key(service))));
        }
        for slice in stored.rare("endpointslices").filter(|slice| is_managed(slice)) {
            let of = service_of(slice);
            let has_service =
                stored.rare("services").any(|service| name(service) == of && is_of_one_namespace(service, slice));
            let left =
                (!has_service).then(|| format!("endpointslice/{} exists, and its service/{of} is gone", key(slice)));
            self.judge(None, left);
        }
    }

    fn form_of_slices(&self, service: &Value) -> Option<String> {
        let stored = &self.machines.stored;
        let is_its = |slice: &&Value| {
            is_managed(slice) && service_of(slice) == name(service) && is_of_one_namespace(service, slice)
        };
        let slices: Vec<&Value> = stored.rare("endpointslices").filter(is_its).collect();
        let mut families: Vec<&str> = list(&service["spec"]["ipFamilies"]).iter().map(text).collect();
        if families.is_empty() {
            families.push("IPv4");
        }
        families.into_iter().find_map(|family| self.form_of_family(service, family, &slices))
    }

    fn form_of_family(&self, service: &Value, family: &str, slices: &[&Value]) -> Option<String> {
        let mut listed: BTreeMap<&str, &Value> = BTreeMap::new();
        for slice in slices.iter().filter(|slice| text(&slice["addressType"]) == family) {
            let endpoints = list(&slice["endpoints"]);
            if let Some(differs) = unlike_ports(service, slice).filter(|_| !endpoints.is_empty()) {
                return Some(format!("{differs} in endpointslice/{}", name(slice)));
            }
            for endpoint in endpoints {
                let target = &endpoint["targetRef"];
                if listed.insert(text(&target["uid"]), endpoint).is_some() {
                    return Some(format!("lists pod/{} twice", text(&target["name"])));
                }
            }
        }
        let stored = &self.machines.stored;
        let publishes = service["spec"]["publishNotReadyAddresses"] == true;
        for pod in stored.pods.iter().filter(|pod| selects(service, pod)) {
            let endpoint = listed.remove(text(&pod["metadata"]["uid"]));
            let addresses: Vec<&str> = list(&pod["status"]["podIPs"])
                .iter()
                .map(|ip| text(&ip["ip"]))
                .filter(|ip| ip.contains(':') == (family == "IPv6"))
                .collect();
            let node = text(&pod["spec"]["nodeName"]);
            if is_ended(pod) || addresses.is_empty() || !stored.nodes.iter().any(|of| name(of) == node) {
                continue;
            }
            let Some(endpoint) = endpoint else {
                return Some(format!("selects pod/{}, and its EndpointSlices do not list it", name(pod)));
            };
            let (serving, terminating) = (has_condition(pod, "Ready", "True"), !is_there(pod));
            let conditions = &endpoint["conditions"];
            let wanted =
                [("ready", publishes || (serving && !terminating)), ("serving", serving), ("terminating", terminating)];
            if let Some((condition, wanted)) = wanted.into_iter().find(|(of, wanted)| conditions[*of] != *wanted) {
                return Some(format!("lists pod/{} without {condition}: {wanted}", name(pod)));
            }
            if text(&endpoint["nodeName"]) != node {
                return Some(format!("lists pod/{} without its node {node}", name(pod)));
            }
            let has: Vec<&str> = list(&endpoint["addresses"]).iter().map(text).collect();
            if has != addresses {
                return Some(format!("lists pod/{} at {has:?}, and its addresses are {addresses:?}", name(pod)));
            }
        }
        let stray = listed.into_values().map(|endpoint| text(&endpoint["targetRef"]["name"])).next()?;
        Some(format!("lists pod/{stray}, which it does not select"))
    }
}

fn is_managed(slice: &Value) -> bool {
    text(&slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]) == CONTROLLER
}

fn service_of(slice: &Value) -> &str {
    text(&slice["metadata"]["labels"]["kubernetes.io/service-name"])
}

fn is_of_one_namespace(one: &Value, other: &Value) -> bool {
    one["metadata"]["namespace"] == other["metadata"]["namespace"]
}

fn selects(service: &Value, pod: &Value) -> bool {
    let labels = &pod["metadata"]["labels"];
    let mut selector = service["spec"]["selector"].as_object().into_iter().flatten();
    is_of_one_namespace(service, pod) && selector.all(|(key, value)| labels[key.as_str()] == *value)
}

/// Returns the difference between the ports of a Service and those of its slice. The port of a pod can differ from that
/// of another one if the Service names it.
fn unlike_ports(service: &Value, slice: &Value) -> Option<String> {
    let (ports, listed) = (list(&service["spec"]["ports"]), list(&slice["ports"]));
    let number = |port: &Value| port["targetPort"].as_i64().filter(|at| *at != 0).or(port["port"].as_i64());
    if ports.iter().any(|port| port["targetPort"].as_str().is_some()) {
        return None;
    }
    let is_listed = |port: &&Value| {
        listed.iter().any(|of| {
            text(&of["name"]) == text(&port["name"])
                && of["port"].as_i64() == number(port)
                && text(&of["protocol"]) == text(&port["protocol"])
        })
    };
    if let Some(missing) = ports.iter().find(|port| !is_listed(port)) {
        return Some(format!("does not have its port {}", missing["port"]));
    }
    (listed.len() != ports.len()).then(|| format!("has {} ports, and {}", ports.len(), listed.len()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;

    /// Returns the differences of a cluster with a Service, its slice and its pod after a change.
    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            let metadata = json!({ "namespace": "default", "name": "web", "uid": "u", "labels": { "app": "web" } });
            let conditions = json!([{ "type": "Ready", "status": "True" }]);
            cluster["pods"] = json!([{
                "metadata": metadata, "spec": { "nodeName": "node-a" },
                "status": { "phase": "Running", "podIPs": [{ "ip": "10.0.0.1" }], "conditions": conditions },
            }]);
            let labels = json!({
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "web",
            });
            cluster["rare"] = json!({
                "services": [{
                    "metadata": { "namespace": "default", "name": "web" },
                    "spec": {
                        "selector": { "app": "web" }, "ipFamilies": ["IPv4"],
                        "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP" }],
                    },
                }],
                "endpointslices": [{
                    "metadata": { "namespace": "default", "name": "web-1", "labels": labels },
                    "addressType": "IPv4", "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }],
                    "endpoints": [{
                        "addresses": ["10.0.0.1"], "nodeName": "node-a", "targetRef": { "name": "web", "uid": "u" },
                        "conditions": { "ready": true, "serving": true, "terminating": false },
                    }],
                }],
            });
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.endpoint_slices())
    }

    #[rstest]
    #[case("/rare/endpointslices/0/endpoints", json!([]),
        "service/default/web selects pod/web, and its EndpointSlices do not list it")]
    #[case("/rare/endpointslices/0/endpoints/0/targetRef/uid", json!("former"),
        "service/default/web selects pod/web, and its EndpointSlices do not list it")]
    #[case("/rare/endpointslices/0/endpoints/0/conditions/ready", json!(false),
        "service/default/web lists pod/web without ready: true")]
    #[case(
        "/rare/endpointslices/0/endpoints/0/conditions/terminating",
        Json::Null,
        "service/default/web lists pod/web without terminating: false"
    )]
    #[case(
        "/rare/endpointslices/0/endpoints/0/nodeName",
        Json::Null,
        "service/default/web lists pod/web without its node node-a"
    )]
    #[case("/rare/endpointslices/0/endpoints/0/addresses/0", json!("10.0.0.2"),
        r#"service/default/web lists pod/web at ["10.0.0.2"], and its addresses are ["10.0.0.1"]"#)]
    #[case("/rare/endpointslices/0/ports/0/port", json!(80),
        "service/default/web does not have its port 80 in endpointslice/web-1")]
    #[case("/pods/0/metadata/labels/app", json!("other"),
        "service/default/web lists pod/web, which it does not select")]
    #[case("/rare/services", json!([]),
        "endpointslice/default/web-1 exists, and its service/web is gone")]
    fn slices_list_what_their_service_selects(#[case] at: &str, #[case] value: Json, #[case] message: &str) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), [message]);
        assert_eq!(found(&["endpointslice-controller"], change), Vec::<String>::new());
    }

    #[test]
    fn a_pod_that_has_ended_may_be_listed_or_not() {
        let end = |cluster: &mut Json| cluster["pods"][0]["status"]["phase"] = json!("Succeeded");
        assert_eq!(found(&[], end), Vec::<String>::new());
        let unlisted = |cluster: &mut Json| {
            end(cluster);
            cluster["rare"]["endpointslices"][0]["endpoints"] = json!([]);
        };
        assert_eq!(found(&[], unlisted), Vec::<String>::new());
    }
}
