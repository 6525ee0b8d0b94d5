//! Node ports of services (`registry/core/service/storage/alloc.go`, `portallocator`).

use substrate::json::Value;

use super::value::{self, int, list, text};
use super::{FieldError, Status, Store};
use crate::kinds;

/// Lowest and highest node port (`--service-node-port-range`).
const FIRST: i64 = 30_000;
const LAST: i64 = 32_767;

/// A port of a service, and its node port.
type Pair = (i64, i64);

impl Store {
    /// Allocates the node ports that a service leaves open. Those of `old` are kept. In a new service, ports with the
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
        let mut given = ports_of(service);
        let mut taken = self.node_ports();
        taken.extend(given.iter().map(|(_, on_node)| *on_node));
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
        Ok(())
    }

    fn node_ports(&self) -> Vec<i64> {
        self.all(kinds::SERVICES).flat_map(|service| ports_of(&service.value)).map(|(_, on_node)| on_node).collect()
    }
}

/// Returns each port that has a node port, with that node port.
fn ports_of(service: &Value) -> Vec<Pair> {
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| Some((int(port, &["port"])?, int(port, &["nodePort"]).filter(|n| *n > 0)?)))
        .collect()
}
