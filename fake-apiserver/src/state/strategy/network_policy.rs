//! Validation of network policies (`pkg/apis/networking/validation`).

use substrate::json::Value;

use crate::state::FieldError;
use crate::state::validate::selector::label_selector;
use crate::state::validate::{addresses, keys, refuse};
use crate::state::value::{list, text};

/// Directions of traffic, and the field for the peers of each.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Validates a policy; the old one is null for a new one.
pub(super) fn validate(policy: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let old = blocks(old);
    let spec = &policy["spec"];
    label_selector(&spec["podSelector"], "spec.podSelector", errors);
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in list(spec, &[direction]).iter().enumerate() {
            for (k, port) in list(rule, &["ports"]).iter().enumerate() {
                self::port(port, &format!("spec.{direction}[{i}].ports[{k}]"), errors);
            }
            for (k, peer) in list(rule, &[peers]).iter().enumerate() {
                self::peer(peer, &old, &format!("spec.{direction}[{i}].{peers}[{k}]"), errors);
            }
        }
    }
    let types = list(spec, &["policyTypes"]);
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid("spec.policyTypes", &spec["policyTypes"], why));
        return;
    }
    let supported = ["Ingress", "Egress"];
    for (i, of) in types.iter().enumerate() {
        if !of.as_str().is_some_and(|of| supported.contains(&of)) {
            errors.push(FieldError::not_supported(format!("spec.policyTypes[{i}]"), of, &supported));
        }
    }
}

fn port(port: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let protocols = ["TCP", "UDP", "SCTP"];
    let protocol = &port["protocol"];
    if !protocol.is_null() && !protocol.as_str().is_some_and(|of| protocols.contains(&of)) {
        errors.push(FieldError::not_supported(format!("{at}.protocol"), protocol, &protocols));
    }
    let (first, last) = (&port["port"], port["endPort"].as_i64());
    let end = format!("{at}.endPort");
    if let Some(number) = first.as_i64() {
        if let Some(why) = keys::port_number(number) {
            errors.push(FieldError::invalid(format!("{at}.port"), first, why));
        }
        if last.is_some_and(|last| last < number) {
            errors.push(FieldError::invalid(end.as_str(), first, "must be greater than or equal to `port`"));
        }
        if let Some(why) = last.and_then(keys::port_number) {
            errors.push(FieldError::invalid(end, &port["endPort"], why));
        }
        return;
    }
    if last.is_some() {
        let state = if first.is_null() { "not specified" } else { "non-numeric" };
        let why = format!("may not be specified when `port` is {state}");
        errors.push(FieldError::invalid(end, &port["endPort"], why));
    }
    if let Some(name) = first.as_str() {
        refuse(name, &format!("{at}.port"), keys::port_name(name), errors);
    }
}

fn peer(peer: &Value, old: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let selectors = ["podSelector", "namespaceSelector"];
    for field in selectors {
        label_selector(&peer[field], &format!("{at}.{field}"), errors);
    }
    let selects = selectors.iter().any(|field| !peer[*field].is_null());
    let block = &peer["ipBlock"];
    if block.is_null() {
        if !selects {
            errors.push(FieldError::required(at, "must specify a peer"));
        }
        return;
    }
    check_block(block, old, &format!("{at}.ipBlock"), errors);
    if selects {
        errors.push(FieldError::forbidden(at, "may not specify both ipBlock and another peer"));
    }
}

/// Validates a block of addresses and its exceptions (`ValidateIPBlock`). Those of the old policy stay valid.
fn check_block(block: &Value, old: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let whole = text(block, &["cidr"]);
    if whole.is_empty() {
        errors.push(FieldError::required(format!("{at}.cidr"), ""));
        return;
    }
    let refusal = |range: &str| addresses::block(range).filter(|_| !old.contains(&range));
    if let Some(why) = refusal(whole) {
        errors.push(FieldError::invalid(format!("{at}.cidr"), &whole.into(), why));
    }
    let Some(bounds) = addresses::bounds(whole) else { return };
    for (i, value) in list(block, &["except"]).iter().enumerate() {
        let (field, except) = (format!("{at}.except[{i}]"), value.as_str().unwrap_or_default());
        if let Some(why) = refusal(except) {
            errors.push(FieldError::invalid(field.as_str(), value, why));
        }
        let Some(inner) = addresses::bounds(except) else { continue };
        let is_inside = bounds.is_ipv4 == inner.is_ipv4 && bounds.first <= inner.first && inner.first <= bounds.last;
        if !is_inside || bounds.length >= inner.length {
            errors.push(FieldError::invalid(field, value, "must be a strict subset of `cidr`"));
        }
    }
}

/// Returns the blocks of a policy and their exceptions.
fn blocks(policy: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for rule in list(policy, &["spec", direction]) {
            for peer in list(rule, &[peers]) {
                found.push(text(peer, &["ipBlock", "cidr"]));
                found.extend(list(peer, &["ipBlock", "except"]).iter().filter_map(Value::as_str));
            }
        }
    }
    found
}
