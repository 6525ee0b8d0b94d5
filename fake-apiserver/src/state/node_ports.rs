//! Node ports of services (`registry/core/service/storage/alloc.go`, `portallocator`).

use substrate::json::Value;

use super::strategy::needs_health_check;
use super::value::{self, int, list, text};
use super::{FieldError, Status, Store};
use crate::kinds;

/// Lowest and highest node port (`--service-node-port-range`).
const FIRST: i64 = 30_000;
const LAST: i64 = 32_767;

/// Node port that a load balancer asks for the health of a node.
const HEALTH: &[&str] = &["healthCheckNodePort"];

/// A port of a service, and its node port.
type Pair = (i64, i64);

impl Store {
    /// Allocates the node ports that a service leaves open, also that of its health check. Those of `old` are kept. In a new service, ports with the
    /// same number and other protocols share one.
    pub(super) fn give_node_ports(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let gives = match text(service, &["spec", "type"]) {
            "NodePort" => true,
            "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != false,
            _ => false,
        };
        if !gives {
            return Ok(());
        }
        let own: Vec<Pair> = old.map(ports_of).unwrap_or_default();
        let needs_one = needs_health_check(service) && !old.is_some_and(needs_health_check);
        let mut given = ports_of(service);
        let mut taken = self.node_ports();
        taken.extend(given.iter().map(|(_, on_node)| *on_node).chain(int(&service["spec"], HEALTH)));
        let Some(spec) = value::map_mut(service, "spec") else { return Ok(()) };
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let number = int(port, &["port"]).unwrap_or(0);
            if int(port, &["nodePort"]).unwrap_or(0) != 0 {
                continue;
            }
            let Some(port) = port.as_object_mut() else { continue };
            let known = if old.is_some() { &own } else { &given };
            let kept = known.iter().find(|(of, _)| *of == number).map(|(_, on_node)| *on_node);
            let Some(free) = kept.or_else(|| (FIRST..=LAST).find(|p| !taken.contains(p))) else {
                return Err(Status::new(500, "InternalError", "failed to allocate a nodePort: range is full"));
            };
            taken.push(free);
            given.push((number, free));
            port.insert("nodePort", free.into());
        }
        if needs_one && int(&service["spec"], HEALTH).unwrap_or(0) == 0 {
            let Some(free) = (FIRST..=LAST).find(|p| !taken.contains(p)) else {
                return Err(Status::new(
                    500,
                    "InternalError",
                    "failed to allocate a HealthCheck NodePort: range is full",
                ));
            };
            if let Some(spec) = value::map_mut(service, "spec") {
                spec.insert(HEALTH[0], free.into());
            }
        }
        Ok(())
    }

    /// Refuses node ports outside the range, and those that another service has.
    pub(super) fn check_node_ports(&self, service: &Value, old: Option<&Value>) -> Result<(), Status> {
        let own: Vec<Pair> = old.map(ports_of).unwrap_or_default();
        let taken = self.node_ports();
        let mut seen: Vec<Pair> = Vec::new();
        for (i, port) in list(service, &["spec", "ports"]).iter().enumerate() {
            let number = int(port, &["port"]).unwrap_or(0);
            let Some(on_node) = int(port, &["nodePort"]).filter(|n| *n != 0) else { continue };
            let is_shared = seen.iter().any(|(of, n)| *n == on_node && (old.is_some() || *of == number));
            let is_kept = own.iter().any(|(_, n)| *n == on_node);
            let is_taken = taken.contains(&on_node) || seen.iter().any(|(_, n)| *n == on_node);
            seen.push((number, on_node));
            let why = if is_shared || is_kept {
                continue;
            } else if !(FIRST..=LAST).contains(&on_node) {
                format!("provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}")
            } else if is_taken {
                "provided port is already allocated".to_owned()
            } else {
                continue;
            };
            let error = FieldError::invalid(format!("spec.ports[{i}].nodePort"), &on_node.into(), why);
            return Err(Status::invalid(kinds::SERVICES, value::name(service), vec![error]));
        }
        let health = int(&service["spec"], HEALTH).filter(|port| *port != 0);
        let had = old.and_then(|old| int(&old["spec"], HEALTH));
        let Some(port) = health.filter(|port| needs_health_check(service) && Some(*port) != had) else { return Ok(()) };
        let why = if !(FIRST..=LAST).contains(&port) {
            format!("provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}")
        } else if taken.contains(&port) || seen.iter().any(|(_, on_node)| *on_node == port) {
            "provided port is already allocated".to_owned()
        } else {
            return Ok(());
        };
        let why = format!("failed to allocate requested HealthCheck NodePort {port}: {why}");
        let error = FieldError::invalid("spec.healthCheckNodePort", &port.into(), why);
        Err(Status::invalid(kinds::SERVICES, value::name(service), vec![error]))
    }

    /// Returns the allocated node ports, also those of health checks.
    fn node_ports(&self) -> Vec<i64> {
        let ports = |service: &Value| {
            let of_ports = ports_of(service).into_iter().map(|(_, on_node)| on_node);
            of_ports.chain(int(&service["spec"], HEALTH)).collect::<Vec<_>>()
        };
        self.all(kinds::SERVICES).flat_map(|service| ports(&service.value)).collect()
    }
}

/// Returns each port that has a node port, with that node port.
fn ports_of(service: &Value) -> Vec<Pair> {
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| Some((int(port, &["port"])?, int(port, &["nodePort"]).filter(|n| *n > 0)?)))
        .collect()
}
