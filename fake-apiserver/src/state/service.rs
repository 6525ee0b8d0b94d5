//! Addresses and node ports of services (`registry/core/service/storage/alloc.go`).

use std::net::{IpAddr, Ipv4Addr};

use substrate::json::{Value, json};

use super::status::Status;
use super::value::{self, int, list, text};
use super::{FieldError, Store};
use crate::kinds;

/// Range of service addresses (`--service-cluster-ip-range`), IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    network: u32,
    bits: u8,
}

impl Default for ServiceRange {
    /// Kubeadm's range, 10.96.0.0/12.
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 }
    }
}

impl ServiceRange {
    /// Parses an IPv4 CIDR with at least eight addresses.
    ///
    /// # Errors
    /// The reason why the text is not such a range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("invalid CIDR address: {text}");
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = match address.parse::<IpAddr>().map_err(|_| invalid())? {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => return Err(format!("{text}: services have IPv4 addresses only here")),
        };
        let bits: u8 = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(invalid)?;
        if bits > 29 {
            return Err("the service cluster IP range must be at least 8 IP addresses".to_owned());
        }
        let mask = u32::MAX.checked_shl(u32::from(32 - bits)).unwrap_or(0);
        Ok(Self { network: u32::from(address) & mask, bits })
    }

    /// Returns the range as a CIDR.
    pub fn cidr(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.bits)
    }

    /// Returns the address of the API server's own service: the first of the range.
    pub fn own_address(self) -> String {
        Ipv4Addr::from(self.network.wrapping_add(1)).to_string()
    }

    /// Returns the number of addresses, at most as many as upstream allocates from.
    fn size(self) -> u32 {
        1_u32.checked_shl(u32::from(32 - self.bits)).unwrap_or(u32::MAX).min(1 << 16)
    }

    /// Returns the offsets of automatically allocated addresses. The lower ones are for services that request one
    /// (KEP-3070, `calculateRangeOffset`).
    fn dynamic(self) -> std::ops::Range<u32> {
        let lower = (self.size() / 16).clamp(16, 256);
        let lower = if self.size() <= 16 { 0 } else { lower };
        lower + 1..self.size() - 1
    }

    fn offset(self, address: &str) -> Option<u32> {
        let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
        address.checked_sub(self.network).filter(|offset| *offset < self.size())
    }
}

/// Range of node ports (`--service-node-port-range`).
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

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
            let error = FieldError::invalid("spec.clusterIPs[0]", &json!(sent), "may not change once set");
            return Err(Status::invalid(kind, &name, vec![error]));
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
        let own: Vec<(i64, i64)> = old.map(ports_of).unwrap_or_default();
        let mut taken = self.node_ports();
        let Some(spec) = value::map_mut(service, "spec") else { return Ok(()) };
        if !address.is_empty() {
            spec.insert("clusterIPs", json!([address]));
            spec.insert("clusterIP", address.into());
            value::default(spec, "ipFamilies", json!(["IPv4"]));
            value::default(spec, "ipFamilyPolicy", "SingleStack");
        }
        let on_nodes = matches!(of.as_str(), "NodePort" | "LoadBalancer");
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let number = int(port, &["port"]).unwrap_or(0);
            let Some(port) = port.as_object_mut().filter(|_| on_nodes) else { continue };
            if port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0 {
                continue;
            }
            let kept = own.iter().find(|(own, _)| *own == number).map(|(_, on_node)| *on_node);
            let Some(free) = kept.or_else(|| NODE_PORTS.clone().find(|p| !taken.contains(p))) else {
                return Err(Status::new(500, "InternalError", "failed to allocate a nodePort: range is full"));
            };
            taken.push(free);
            port.insert("nodePort", free.into());
        }
        Ok(())
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

    fn node_ports(&self) -> Vec<i64> {
        self.all(kinds::SERVICES).flat_map(|service| ports_of(&service.value)).map(|(_, on_node)| on_node).collect()
    }
}

/// Returns each port that has a node port, with that node port.
fn ports_of(service: &Value) -> Vec<(i64, i64)> {
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| Some((int(port, &["port"])?, int(port, &["nodePort"]).filter(|n| *n > 0)?)))
        .collect()
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

fn port_named(ports: &[Value], name: &str) -> Option<i64> {
    ports.iter().find(|port| text(port, &["name"]) == name).and_then(|port| int(port, &["port"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_an_ipv4_cidr_with_room() {
        let range = ServiceRange::parse("10.0.0.7/24").unwrap();
        assert_eq!(
            (range.cidr(), range.own_address(), range.dynamic()),
            ("10.0.0.0/24".into(), "10.0.0.1".into(), 17..255)
        );
        assert_eq!(ServiceRange::parse("10.96.0.0/12"), Ok(ServiceRange::default()));
        assert_eq!(ServiceRange::default().dynamic(), 257..65_535);
        assert_eq!(ServiceRange::parse("10.0.0.0/29").unwrap().dynamic(), 1..7);
        for (text, why) in [
            ("10.0.0.0", "invalid CIDR address: 10.0.0.0"),
            ("x/8", "invalid CIDR address: x/8"),
            ("10.0.0.0/33", "invalid CIDR address: 10.0.0.0/33"),
            ("10.0.0.0/30", "the service cluster IP range must be at least 8 IP addresses"),
            ("fd00::/108", "fd00::/108: services have IPv4 addresses only here"),
        ] {
            assert_eq!(ServiceRange::parse(text), Err(why.to_owned()));
        }
    }
}
