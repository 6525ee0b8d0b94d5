//! Addresses of services (`registry/core/service/storage/alloc.go`).

use std::net::Ipv4Addr;

use substrate::json::{Value, json};

use super::service_range::ServiceRange;
use super::status::Status;
use super::value::{self, int, list, text};
use super::{FieldError, Store};
use crate::kinds;

impl Store {
    /// Sets the range of service addresses.
    pub fn serve_range(&mut self, range: ServiceRange) {
        self.service_range = range;
    }

    /// Allocates the addresses and node ports of a service; those of `old` are kept.
    pub(super) fn give_addresses(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let kind = kinds::SERVICES;
        let name = value::name(service).to_owned();
        let of = text(service, &["spec", "type"]).to_owned();
        let had = old.map(|old| text(old, &["spec", "clusterIP"])).unwrap_or_default();
        let sent = text(service, &["spec", "clusterIP"]).to_owned();
        if !had.is_empty() && !sent.is_empty() && had != sent && of != "ExternalName" {
            let error = FieldError::invalid("spec.clusterIPs[0]", &json!([sent]), "may not change once set");
            return Err(Status::invalid(kind, &name, vec![error]));
        }
        // An allocated address would contradict such a family.
        if sent.is_empty() {
            check_families(service)?;
        }
        let address = match (of.as_str(), sent.as_str(), had) {
            ("ExternalName", _, _) => String::new(),
            (_, "", "") => self.free_address(),
            (_, "", had) => had.to_owned(),
            (_, sent, _) => sent.to_owned(),
        };
        if address.is_empty() && of != "ExternalName" {
            return Err(Status::new(500, "InternalError", "failed to allocate a serviceIP: range is full"));
        }
        let is_free = is_free(service, &address);
        let Some(spec) = value::map_mut(service, "spec") else { return Ok(()) };
        if !address.is_empty() {
            spec.insert("clusterIPs", json!([address]));
            let family = if address.contains(':') { "IPv6" } else { "IPv4" };
            spec.insert("clusterIP", address.into());
            let had = old.map(|old| text(old, &["spec", "ipFamilyPolicy"])).filter(|policy| !policy.is_empty());
            let usual = if is_free { "RequireDualStack" } else { "SingleStack" };
            value::default(spec, "ipFamilyPolicy", had.unwrap_or(usual));
            let both = is_free && spec.get("ipFamilyPolicy").is_some_and(|policy| policy != "SingleStack");
            value::default(spec, "ipFamilies", if both { json!(["IPv4", "IPv6"]) } else { json!([family]) });
        }
        self.give_node_ports(service, old)
    }

    /// Refuses an address that another service has or that is not in the range, and node ports that cannot be allocated.
    pub(super) fn check_addresses(&self, service: &Value, old: Option<&Value>) -> Result<(), Status> {
        check_families(service)?;
        let address = text(service, &["spec", "clusterIP"]);
        let had = old.map(|old| text(old, &["spec", "clusterIP"])).unwrap_or_default();
        let is_own = matches!(address, "" | "None") || address == had;
        let is_taken = || self.all(kinds::SERVICES).any(|other| text(&other.value, &["spec", "clusterIP"]) == address);
        let is_outside = || address.parse::<Ipv4Addr>().is_ok_and(|address| !self.service_range.holds(address));
        let why = if is_own {
            None
        } else if is_outside() {
            Some("the provided network does not match the current range")
        } else {
            is_taken().then_some("provided IP is already allocated")
        };
        if let Some(why) = why {
            let why = format!("failed to allocate IP {address}: {why}");
            let error = FieldError::invalid("spec.clusterIPs", &json!([address]), why);
            return Err(Status::invalid(kinds::SERVICES, value::name(service), vec![error]));
        }
        self.check_node_ports(service, old)
    }

    /// Returns the lowest free address; empty if there is none.
    fn free_address(&self) -> String {
        let range = self.service_range;
        let taken: std::collections::BTreeSet<u32> = self
            .all(kinds::SERVICES)
            .filter_map(|service| range.offset(text(&service.value, &["spec", "clusterIP"])))
            .collect();
        let free = range.dynamic().find(|offset| !taken.contains(offset));
        free.map_or_else(String::new, |offset| Ipv4Addr::from(range.network.wrapping_add(offset)).to_string())
    }
}

impl Store {
    /// Returns `ip:port` of the first ready endpoint behind a port of a service.
    pub fn service_endpoint(&self, namespace: &str, name: &str, port: i64) -> Option<String> {
        let service = self.get(kinds::SERVICES, &format!("{namespace}/{name}"))?;
        let ports = list(&service.value, &["spec", "ports"]);
        let named = ports.iter().find(|p| int(p, &["port"]) == Some(port)).map(|p| text(p, &["name"]))?;
        let endpoints = self.get(kinds::ENDPOINTS, &format!("{namespace}/{name}"));
        let subsets = endpoints.map(|e| list(&e.value, &["subsets"]).to_vec()).unwrap_or_default();
        let classic = subsets.iter().find_map(|subset| {
            let address = list(subset, &["addresses"]).first().map(|a| text(a, &["ip"]).to_owned())?;
            Some((address, port_named(list(subset, &["ports"]), named)?))
        });
        let sliced = || {
            self.all(kinds::ENDPOINT_SLICES)
                .filter(|slice| value::namespace(&slice.value) == namespace)
                .filter(|slice| text(&slice.value, &["metadata", "labels", "kubernetes.io/service-name"]) == name)
                .find_map(|slice| {
                    let ready = |e: &&Value| value::at(e, &["conditions", "ready"]) != Some(&Value::Bool(false));
                    let endpoint = list(&slice.value, &["endpoints"]).iter().find(ready)?;
                    let address = list(endpoint, &["addresses"]).first()?.as_str()?.to_owned();
                    Some((address, port_named(list(&slice.value, &["ports"]), named)?))
                })
        };
        let (address, port) = classic.or_else(sliced)?;
        Some(if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") })
    }
}

/// Returns true for a headless service without a selector, which may have addresses of any family.
fn is_free(service: &Value, address: &str) -> bool {
    let selector = service["spec"]["selector"].as_object();
    address == "None" && selector.is_none_or(|selector| selector.is_empty())
}

/// Refuses a family of addresses that the cluster does not have: it has IPv4.
fn check_families(service: &Value) -> Result<(), Status> {
    let spec = &service["spec"];
    let (policy, families) = (text(spec, &["ipFamilyPolicy"]), list(spec, &["ipFamilies"]));
    let mut errors = Vec::new();
    if policy == "SingleStack" && families.len() > 1 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy.into(), why));
    } else if text(spec, &["type"]) != "ExternalName" && !is_free(service, text(spec, &["clusterIP"])) {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy.into(), why));
        }
        for (i, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, family, "not configured on this cluster"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(kinds::SERVICES, value::name(service), errors)) }
}

fn port_named(ports: &[Value], name: &str) -> Option<i64> {
    ports.iter().find(|port| text(port, &["name"]) == name).and_then(|port| int(port, &["port"]))
}
