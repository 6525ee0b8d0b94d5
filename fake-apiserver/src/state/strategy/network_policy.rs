//! Validation of network policies (`pkg/apis/networking/validation`).

use std::net::IpAddr;

use substrate::json::Value;

use crate::state::FieldError;
use crate::state::validate::selector::label_selector;
use crate::state::value::{list, text};

pub(super) fn validate(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    label_selector(&spec["podSelector"], "spec.podSelector", errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in list(spec, &[direction]).iter().enumerate() {
            for (k, port) in list(rule, &["ports"]).iter().enumerate() {
                self::port(port, &format!("spec.{direction}[{i}].ports[{k}]"), errors);
            }
            for (k, peer) in list(rule, &[peers]).iter().enumerate() {
                self::peer(peer, &format!("spec.{direction}[{i}].{peers}[{k}]"), errors);
            }
        }
    }
    let types = list(spec, &["policyTypes"]);
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid("spec.policyTypes", &spec["policyTypes"], why));
        return;
    }
    let supported = ["Egress", "Ingress"];
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
    let first = port["port"].as_i64();
    if first.is_some_and(|number| !(1..=65_535).contains(&number)) {
        let why = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{at}.port"), &port["port"], why));
    }
    if let Some(last) = port["endPort"].as_i64() {
        if port["port"].is_null() {
            errors.push(FieldError::required(format!("{at}.port"), "must be specified when `endPort` is specified"));
        } else if first.is_some_and(|first| last < first) {
            let why = "must be greater than or equal to `port`";
            errors.push(FieldError::invalid(format!("{at}.endPort"), &port["endPort"], why));
        }
    }
}

fn peer(peer: &Value, at: &str, errors: &mut Vec<FieldError>) {
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
    let cidr = text(block, &["cidr"]);
    if cidr.is_empty() {
        errors.push(FieldError::required(format!("{at}.ipBlock.cidr"), ""));
    } else if !is_cidr(cidr) {
        let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(format!("{at}.ipBlock.cidr"), &cidr.into(), why));
    }
    if selects {
        errors.push(FieldError::forbidden(at, "may not specify both ipBlock and another peer"));
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}
