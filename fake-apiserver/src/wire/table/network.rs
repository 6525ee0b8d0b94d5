//! Cells of network kinds: services, endpoints, ingresses, network policies.

use std::collections::BTreeSet;

use jiff::Timestamp;
use substrate::json::Value;

use super::cells::{list, name_and_age, or, text};
use super::workload::{labels, selector};
use crate::kinds::Kind;

/// Maximum number of endpoints and ports that are shown; the rest is counted.
const SHOWN: usize = 3;

/// Returns the cells of a network kind; `None` for other kinds.
pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let spec = &object["spec"];
    let (name, age) = name_and_age(object, now);
    Some(match kind.plural {
        "services" => vec![
            name,
            text(&spec["type"]),
            or(&spec["clusterIP"], "<none>"),
            external(object).into(),
            ports(list(&spec["ports"])).into(),
            age,
            labels(&spec["selector"]).into(),
        ],
        "endpoints" => vec![name, endpoints(object).into(), age],
        "endpointslices" => {
            let ports: Vec<String> = list(&object["ports"])
                .iter()
                .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
                    (Some(number), _) => number.to_string(),
                    (None, name) => name.unwrap_or("*").to_owned(),
                })
                .collect();
            let addresses: Vec<String> = list(&object["endpoints"])
                .iter()
                .flat_map(|endpoint| list(&endpoint["addresses"]))
                .filter_map(|address| address.as_str().map(str::to_owned))
                .collect();
            let ports = if ports.is_empty() { "<unset>".to_owned() } else { some(&ports) };
            let addresses = if addresses.is_empty() { "<unset>".to_owned() } else { some(&addresses) };
            vec![name, text(&object["addressType"]), ports.into(), addresses.into(), age]
        }
        "ingresses" => {
            let class = or(&spec["ingressClassName"], "<none>");
            let hosts = hosts(list(&spec["rules"]));
            let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
            vec![name, class, hosts.into(), balancer(object).join(",").into(), ports.into(), age]
        }
        "ingressclasses" => {
            let of = &spec["parameters"];
            let parameters = if of.is_object() {
                let word = |field: &str| of[field].as_str().unwrap_or_default();
                let dot = if word("apiGroup").is_empty() { "" } else { "." };
                format!("{}{dot}{}/{}", word("kind"), word("apiGroup"), word("name"))
            } else {
                "<none>".to_owned()
            };
            let annotation = "ingressclass.kubernetes.io/is-default-class";
            let default = if object["metadata"]["annotations"][annotation] == "true" { " (default)" } else { "" };
            let name = format!("{}{default}", name.as_str().unwrap_or_default());
            vec![name.into(), text(&spec["controller"]), parameters.into(), age]
        }
        "ipaddresses" => {
            let parent = &spec["parentRef"];
            let word = |field: &str| parent[field].as_str().unwrap_or_default();
            let mut of = word("resource").to_owned();
            if !word("group").is_empty() {
                of = format!("{of}.{}", word("group"));
            }
            if !word("namespace").is_empty() {
                of = format!("{of}/{}", word("namespace"));
            }
            // Upstream prints the age, for which there is no column.
            vec![name, format!("{of}/{}", word("name")).into(), age]
        }
        "networkpolicies" => vec![name, selector(&spec["podSelector"]).into(), age],
        "servicecidrs" => {
            let cidrs: Vec<&str> = list(&spec["cidrs"]).iter().filter_map(Value::as_str).collect();
            vec![name, cidrs.join(",").into(), age]
        }
        _ => return None,
    })
}

/// Returns at most three elements of a list, and the number of the others.
fn some(list: &[String]) -> String {
    let shown = list[..list.len().min(SHOWN)].join(",");
    if list.len() > SHOWN { format!("{shown} + {} more...", list.len() - SHOWN) } else { shown }
}

fn ports(ports: &[Value]) -> String {
    let pieces: Vec<String> = ports
        .iter()
        .map(|port| {
            let number = port["port"].as_i64().unwrap_or(0);
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            match port["nodePort"].as_i64().filter(|n| *n > 0) {
                Some(on_node) => format!("{number}:{on_node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    if pieces.is_empty() { "<none>".to_owned() } else { pieces.join(",") }
}

/// Returns the hosts of the rules. Rules without a host are not shown, but counted.
fn hosts(rules: &[Value]) -> String {
    let (mut shown, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= shown.len() == SHOWN;
        if let Some(host) = rule["host"].as_str().filter(|host| !more && !host.is_empty()) {
            shown.push(host);
        }
    }
    match shown.join(",") {
        hosts if hosts.is_empty() => "*".to_owned(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - SHOWN),
        hosts => hosts,
    }
}

/// Returns the addresses of a load balancer.
fn balancer(object: &Value) -> Vec<&str> {
    let filled = |value: &'_ Value| value.as_str().is_some_and(|text| !text.is_empty());
    let given: BTreeSet<&str> = list(&object["status"]["loadBalancer"]["ingress"])
        .iter()
        .filter_map(|ingress| ["ip", "hostname"].iter().map(move |field| &ingress[*field]).find(|of| filled(of)))
        .filter_map(Value::as_str)
        .collect();
    given.into_iter().collect()
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let mut given = Vec::new();
    let none = match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => return spec["externalName"].as_str().unwrap_or_default().to_owned(),
        "LoadBalancer" => {
            given = balancer(service);
            "<pending>"
        }
        "ClusterIP" | "NodePort" => "<none>",
        _ => return "<unknown>".to_owned(),
    };
    given.extend(list(&spec["externalIPs"]).iter().filter_map(Value::as_str));
    if given.is_empty() { none.to_owned() } else { given.join(",") }
}

fn endpoints(object: &Value) -> String {
    let subsets = list(&object["subsets"]);
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(&subset["addresses"]).iter().filter_map(|a| a["ip"].as_str());
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            all.extend(addresses().map(|address| match address.contains(':') {
                true => format!("[{address}]:{}", port["port"]),
                false => format!("{address}:{}", port["port"]),
            }));
        }
    }
    if subsets.is_empty() { "<none>".to_owned() } else { some(&all) }
}
