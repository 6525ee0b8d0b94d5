//! Validation of endpoints and their slices (`pkg/apis/core/validation`, `pkg/apis/discovery/validation`).

use substrate::json::Value;

use crate::state::FieldError;
use crate::state::validate::{addresses, keys, names, refuse, selector};
use crate::state::value::{int, list, name, text};

/// Validates endpoints. Subsets that an update leaves as they were stay valid.
pub(super) fn endpoints(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if !old.is_null() && object["subsets"] == old["subsets"] {
        return;
    }
    for (i, subset) in list(object, &["subsets"]).iter().enumerate() {
        let at = format!("subsets[{i}]");
        let groups = ["addresses", "notReadyAddresses"];
        if groups.iter().all(|group| list(subset, &[group]).is_empty()) {
            errors.push(FieldError::required(at.as_str(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for group in groups {
            for (k, address) in list(subset, &[group]).iter().enumerate() {
                check_address(address, is_own(object), &format!("{at}.{group}[{k}]"), errors);
            }
        }
        let ports = list(subset, &["ports"]);
        for (k, port) in ports.iter().enumerate() {
            let (at, number) = (format!("{at}.ports[{k}]"), int(port, &["port"]).unwrap_or(0));
            let name = text(port, &["name"]);
            if !name.is_empty() {
                refuse(name, &format!("{at}.name"), names::label(name), errors);
            } else if ports.len() > 1 {
                errors.push(FieldError::required(format!("{at}.name"), ""));
            }
            if let Some(why) = keys::port_number(number) {
                errors.push(FieldError::invalid(format!("{at}.port"), &number.into(), why));
            }
            protocols(port, &at, errors);
        }
    }
}

/// Returns true for the endpoints of the API server itself, which may be on a loopback address here.
fn is_own(object: &Value) -> bool {
    name(object) == "kubernetes"
}

fn check_address(address: &Value, is_own: bool, at: &str, errors: &mut Vec<FieldError>) {
    let (ip, field) = (text(address, &["ip"]), format!("{at}.ip"));
    if let Some(why) = addresses::address(ip) {
        errors.push(FieldError::invalid(field.as_str(), &ip.into(), why));
    }
    let host = text(address, &["hostname"]);
    if !host.is_empty() {
        refuse(host, &format!("{at}.hostname"), names::label(host), errors);
    }
    if let Some(node) = address["nodeName"].as_str() {
        refuse(node, &format!("{at}.nodeName"), names::subdomain(node), errors);
    }
    if !is_own {
        refuse(ip, &field, addresses::special(ip), errors);
    }
}

/// Validates the protocols of a port.
fn protocols(port: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (protocol, supported) = (text(port, &["protocol"]), ["SCTP", "TCP", "UDP"]);
    if !supported.contains(&protocol) {
        errors.push(FieldError::not_supported(format!("{at}.protocol"), &protocol.into(), &supported));
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        refuse(protocol, &format!("{at}.appProtocol"), names::qualified(protocol), errors);
    }
}

/// Validates a slice; the old one is null for a new one.
pub(super) fn slice(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (of, supported) = (text(object, &["addressType"]), ["FQDN", "IPv4", "IPv6"]);
    if of.is_empty() {
        errors.push(FieldError::required("addressType", ""));
    } else if !supported.contains(&of) {
        errors.push(FieldError::not_supported("addressType", &of.into(), &supported));
    }
    let mut seen = Vec::new();
    for (i, port) in list(object, &["ports"]).iter().enumerate() {
        let (at, name) = (format!("ports[{i}]"), text(port, &["name"]));
        if !name.is_empty() {
            refuse(name, &format!("{at}.name"), names::label(name), errors);
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        protocols(port, &at, errors);
    }
    if old.is_null() || object["endpoints"] != old["endpoints"] {
        for (i, endpoint) in list(object, &["endpoints"]).iter().enumerate() {
            check_endpoint(endpoint, of, is_own(object), &format!("endpoints[{i}]"), errors);
        }
    }
    if !old.is_null() && of != text(old, &["addressType"]) {
        errors.push(FieldError::immutable("addressType", &of.into()));
    }
}

fn check_endpoint(endpoint: &Value, of: &str, is_own: bool, at: &str, errors: &mut Vec<FieldError>) {
    let (all, field) = (list(endpoint, &["addresses"]), format!("{at}.addresses"));
    if all.is_empty() {
        errors.push(FieldError::required(field.as_str(), "must contain at least 1 address"));
    }
    for (i, value) in all.iter().enumerate() {
        let (address, each) = (value.as_str().unwrap_or_default(), format!("{field}[{i}]"));
        let why = match of {
            "IPv4" => addresses::address(address).map(str::to_owned),
            "IPv6" => addresses::canonical(address),
            _ => continue,
        };
        if let Some(why) = why {
            errors.push(FieldError::invalid(each, value, why));
            continue;
        }
        if address.contains(':') != (of == "IPv6") {
            errors.push(FieldError::invalid(field.as_str(), value, format!("must be an {of} address")));
        }
        if !is_own {
            refuse(address, &each, addresses::special(address), errors);
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        refuse(node, &format!("{at}.nodeName"), names::subdomain(node), errors);
    }
    selector::labels(&endpoint["deprecatedTopology"], &format!("{at}.deprecatedTopology"), errors);
    if let Some(host) = endpoint["hostname"].as_str() {
        refuse(host, &format!("{at}.hostname"), names::label(host), errors);
    }
    hints(endpoint, at, errors);
}

/// Validates the hints of an endpoint (`validateHints`). Their number is not limited.
fn hints(endpoint: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["forZones", "forNodes"] {
        let check = if field == "forZones" { names::label_value } else { names::subdomain };
        let all = list(endpoint, &["hints", field]);
        for (i, hint) in all.iter().enumerate() {
            let (of, at) = (text(hint, &["name"]), format!("{at}.hints.{field}[{i}].name"));
            if all[..i].iter().any(|other| text(other, &["name"]) == of) {
                errors.push(FieldError::duplicate(at.as_str(), &of.into()));
            }
            refuse(of, &at, check(of), errors);
        }
    }
}
