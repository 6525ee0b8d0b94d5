//! Environment variables of Services (upstream `pkg/kubelet/envvars`, `FromServices`, and `getServiceEnvVarMap`).
//!
//! A program shares the network of its machine, which routes no address of a Service. So the variables of the Service
//! `kubernetes` name an address of the API server itself, from its Endpoints: a program finds the server as it would in
//! a cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};

use crate::kube::Kind;

/// Namespace and name of the API server's Service.
pub(super) const SERVER: (&str, &str) = ("default", "kubernetes");

/// Returns the variables for the programs of a pod. `services` are those of its namespace, `server` those of the API
/// server.
pub(super) fn variables(
    pod: &Pod,
    services: &[Service],
    server: (Option<&Service>, Option<&Endpoints>),
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Some(service) = server.0.filter(|service| cluster_ip(service).is_some()) {
        all.extend(of_server(service, server.1));
    }
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links);
    if links.unwrap_or(true) {
        let own = services.iter().filter(|one| (one.namespace(), one.name()) != SERVER);
        own.for_each(|service| all.extend(of_service(service)));
    }
    all
}

/// Returns the address of a Service; None if it has none.
fn cluster_ip(service: &Service) -> Option<&str> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!address.is_empty() && address != "None").then_some(address)
}

fn of_service(service: &Service) -> BTreeMap<String, String> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let ports: Vec<Port> = ports
        .iter()
        .map(|port| Port {
            name: port.name.as_deref().unwrap_or_default(),
            protocol: port.protocol.as_deref().unwrap_or("TCP"),
            number: port.port,
        })
        .collect();
    cluster_ip(service).map_or_else(BTreeMap::new, |address| of_address(service.name(), address, &ports))
}

/// Returns the variables of the API server's Service with the first address of its Endpoints.
fn of_server(service: &Service, endpoints: Option<&Endpoints>) -> BTreeMap<String, String> {
    let subset = endpoints.and_then(|endpoints| endpoints.subsets.as_ref()?.first());
    let place = subset.and_then(|subset| {
        let address = subset.addresses.as_ref()?.first()?;
        let port = subset.ports.as_ref()?.first()?;
        Some((address.ip.as_str(), Port { name: "https", protocol: "TCP", number: port.port }))
    });
    match place {
        Some((address, port)) => of_address(service.name(), address, &[port]),
        None => of_service(service),
    }
}

struct Port<'a> {
    name: &'a str,
    protocol: &'a str,
    number: i32,
}

fn of_address(name: &str, address: &str, ports: &[Port<'_>]) -> BTreeMap<String, String> {
    let name = variable_name(name);
    let Some(first) = ports.first() else { return BTreeMap::new() };
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let mut all = BTreeMap::from([
        (format!("{name}_SERVICE_HOST"), address.to_owned()),
        (format!("{name}_SERVICE_PORT"), first.number.to_string()),
        (format!("{name}_PORT"), format!("{}://{host}:{}", first.protocol.to_lowercase(), first.number)),
    ]);
    for Port { name: port_name, protocol, number } in ports {
        if !port_name.is_empty() {
            all.insert(format!("{name}_SERVICE_PORT_{}", variable_name(port_name)), number.to_string());
        }
        let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
        let lower = protocol.to_lowercase();
        all.insert(prefix.clone(), format!("{lower}://{host}:{number}"));
        all.insert(format!("{prefix}_PROTO"), lower);
        all.insert(format!("{prefix}_PORT"), number.to_string());
        all.insert(format!("{prefix}_ADDR"), address.to_owned());
    }
    all
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn service(namespace: &str, name: &str, spec: Value) -> Service {
        from_value(json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec })).expect("a Service")
    }

    fn pod(spec: Value) -> Pod {
        from_value(json!({ "metadata": { "namespace": "default", "name": "p" }, "spec": spec })).expect("a pod")
    }

    fn text(all: &BTreeMap<String, String>) -> Vec<String> {
        all.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_service_has_the_variables_of_its_ports() {
        let ports = json!([{ "name": "web-ui", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" }]);
        let own = service("default", "my-app", json!({ "clusterIP": "10.96.0.9", "ports": ports }));
        let all = variables(&pod(json!({ "containers": [] })), &[own], (None, None));
        assert_eq!(
            text(&all),
            [
                "MY_APP_PORT=tcp://10.96.0.9:80",
                "MY_APP_PORT_53_UDP=udp://10.96.0.9:53",
                "MY_APP_PORT_53_UDP_ADDR=10.96.0.9",
                "MY_APP_PORT_53_UDP_PORT=53",
                "MY_APP_PORT_53_UDP_PROTO=udp",
                "MY_APP_PORT_80_TCP=tcp://10.96.0.9:80",
                "MY_APP_PORT_80_TCP_ADDR=10.96.0.9",
                "MY_APP_PORT_80_TCP_PORT=80",
                "MY_APP_PORT_80_TCP_PROTO=tcp",
                "MY_APP_SERVICE_HOST=10.96.0.9",
                "MY_APP_SERVICE_PORT=80",
                "MY_APP_SERVICE_PORT_DNS=53",
                "MY_APP_SERVICE_PORT_WEB_UI=80",
            ]
        );
    }

    #[test]
    fn headless_services_have_none_and_links_can_be_switched_off() {
        let headless = service("default", "db", json!({ "clusterIP": "None", "ports": [{ "port": 1 }] }));
        let own = service("default", "app", json!({ "clusterIP": "10.96.0.9", "ports": [{ "port": 1 }] }));
        let all = [headless, own];
        let names = |spec| variables(&pod(spec), &all, (None, None)).len();
        assert_eq!(names(json!({ "containers": [] })), 7);
        assert_eq!(names(json!({ "containers": [], "enableServiceLinks": false })), 0);
    }

    #[test]
    fn the_server_is_found_at_its_own_address_in_each_namespace() {
        let server = service("default", "kubernetes", json!({ "clusterIP": "10.96.0.1", "ports": [{ "port": 443 }] }));
        let endpoints = json!({ "metadata": { "namespace": "default", "name": "kubernetes" },
            "subsets": [{ "addresses": [{ "ip": "127.0.0.1" }], "ports": [{ "port": 6443 }] }] });
        let endpoints: Endpoints = from_value(endpoints).expect("Endpoints");
        let spec = json!({ "containers": [], "enableServiceLinks": false });
        let of = |endpoints| variables(&pod(spec.clone()), std::slice::from_ref(&server), (Some(&server), endpoints));
        let all = of(Some(&endpoints));
        assert_eq!(all["KUBERNETES_SERVICE_HOST"], "127.0.0.1");
        assert_eq!((&*all["KUBERNETES_SERVICE_PORT"], &*all["KUBERNETES_SERVICE_PORT_HTTPS"]), ("6443", "6443"));
        assert_eq!(of(None)["KUBERNETES_SERVICE_HOST"], "10.96.0.1");
    }
}
