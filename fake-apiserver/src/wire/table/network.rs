//! Cells of network kinds: services, endpoints, ingresses, network policies.

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
                .map(|port| port["port"].as_i64().map_or("*".to_owned(), |p| p.to_string()))
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
            let class = &spec["ingressClassName"];
            let class = or(
                class,
                object["metadata"]["annotations"]["kubernetes.io/ingress.class"].as_str().unwrap_or("<none>"),
            );
            let hosts: Vec<String> = list(&spec["rules"])
                .iter()
                .map(|rule| rule["host"].as_str().filter(|h| !h.is_empty()).unwrap_or("*").to_owned())
                .collect();
            let hosts = if hosts.is_empty() { "*".to_owned() } else { some(&hosts) };
            let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
            vec![name, class, hosts.into(), balancer(object).into(), ports.into(), age]
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
            vec![name, text(&spec["controller"]), parameters.into(), age]
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
            vec![name, format!("{of}/{}", word("name")).into()]
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

/// Returns the addresses of a load balancer.
fn balancer(object: &Value) -> String {
    let given: Vec<&str> = list(&object["status"]["loadBalancer"]["ingress"])
        .iter()
        .filter_map(|ingress| ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str()))
        .collect();
    given.join(",")
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let mut given: Vec<String> =
        list(&spec["externalIPs"]).iter().filter_map(|ip| ip.as_str().map(str::to_owned)).collect();
    match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => return spec["externalName"].as_str().unwrap_or_default().to_owned(),
        "LoadBalancer" => {
            let balanced = balancer(service);
            if !balanced.is_empty() {
                given.insert(0, balanced);
            } else if given.is_empty() {
                return "<pending>".to_owned();
            }
        }
        _ => {}
    }
    if given.is_empty() { "<none>".to_owned() } else { given.join(",") }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses = list(&subset["addresses"]).iter().filter_map(|a| a["ip"].as_str());
        let ports = list(&subset["ports"]);
        for address in addresses {
            if ports.is_empty() {
                all.push(address.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{address}:{}", port["port"])));
        }
    }
    if all.is_empty() { "<none>".to_owned() } else { some(&all) }
}
