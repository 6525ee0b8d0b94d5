//! Validation of ingresses and their classes (`pkg/apis/networking/validation`).

use std::net::IpAddr;

use substrate::json::Value;

use crate::state::FieldError;
use crate::state::validate::{keys, names, refuse};
use crate::state::value::{has, int, list, text};

const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
    '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
/// Longest controller of a class, in bytes.
const LONGEST_CONTROLLER: usize = 250;

/// Validates the spec of an ingress.
pub(super) fn validate(ingress: &Value, errors: &mut Vec<FieldError>) {
    let spec = &ingress["spec"];
    let rules = list(spec, &["rules"]);
    if rules.is_empty() && spec["defaultBackend"].is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", &Value::Null, why));
    }
    if has(spec, &["defaultBackend"]) {
        backend(&spec["defaultBackend"], "spec.defaultBackend", errors);
    }
    for (i, rule) in rules.iter().enumerate() {
        check_rule(rule, &format!("spec.rules[{i}]"), errors);
    }
    for (i, tls) in list(spec, &["tls"]).iter().enumerate() {
        for (k, host) in list(tls, &["hosts"]).iter().filter_map(Value::as_str).enumerate() {
            refuse(host, &format!("spec.tls[{i}].hosts[{k}]"), wrong_host(host), errors);
        }
        let secret = text(tls, &["secretName"]);
        if !secret.is_empty() {
            refuse(secret, &format!("spec.tls[{i}].secretName"), names::subdomain(secret), errors);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        refuse(class, "spec.ingressClassName", names::subdomain(class), errors);
    }
}

/// Validates the class that an annotation of a new ingress names.
pub(super) fn annotation(ingress: &Value, errors: &mut Vec<FieldError>) {
    let key = "kubernetes.io/ingress.class";
    let (annotated, class) = (&ingress["metadata"]["annotations"][key], &ingress["spec"]["ingressClassName"]);
    if !annotated.is_null() && !class.is_null() && annotated != class {
        let why = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{key}"), annotated, why));
    }
}

/// Returns the reasons why a text is not the name of a host, of which the first label may be `*`.
fn wrong_host(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return names::subdomain(host);
    }
    let fits = host.strip_prefix("*.").is_some_and(|rest| names::subdomain(rest).is_empty());
    if fits { Vec::new() } else { vec![WILDCARD.to_owned()] }
}

fn check_rule(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let host = text(rule, &["host"]);
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            let why = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(format!("{at}.host"), &host.into(), why));
        }
        refuse(host, &format!("{at}.host"), wrong_host(host), errors);
    }
    if !has(rule, &["http"]) {
        return;
    }
    let paths = list(rule, &["http", "paths"]);
    if paths.is_empty() {
        errors.push(FieldError::required(format!("{at}.http.paths"), ""));
    }
    for (i, path) in paths.iter().enumerate() {
        check_path(path, &format!("{at}.http.paths[{i}]"), errors);
    }
}

fn check_path(path: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (of, place) = (text(path, &["pathType"]), text(path, &["path"]));
    if path["pathType"].is_null() {
        errors.push(FieldError::required(format!("{at}.pathType"), "pathType must be specified"));
        return;
    }
    let mut wrong = |why: String| errors.push(FieldError::invalid(format!("{at}.path"), &place.into(), why));
    let is_free = of == "ImplementationSpecific";
    if !place.starts_with('/')
        && (!is_free || !place.is_empty())
        && matches!(of, "Exact" | "Prefix" | "ImplementationSpecific")
    {
        wrong("must be an absolute path".to_owned());
    }
    match of {
        "Exact" | "Prefix" => {
            for bad in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|bad| place.contains(bad)) {
                wrong(format!("must not contain '{bad}'"));
            }
            for bad in ["/..", "/."].into_iter().filter(|bad| place.ends_with(bad)) {
                wrong(format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {}
        _ => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(format!("{at}.pathType"), &of.into(), &supported));
        }
    }
    backend(&path["backend"], &format!("{at}.backend"), errors);
}

fn backend(backend: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let invalid = |why: &str| FieldError::invalid(at, &"".into(), why);
    match (has(backend, &["resource"]), has(backend, &["service"])) {
        (true, true) => errors.push(invalid("cannot set both resource and service backends")),
        (true, false) => reference(&backend["resource"], &format!("{at}.resource"), errors),
        (false, false) => errors.push(invalid("resource or service backend is required")),
        (false, true) => {
            let (service, field) = (text(backend, &["service", "name"]), format!("{at}.service.name"));
            if service.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else {
                refuse(service, &field, names::label(service), errors);
            }
            let port = &backend["service"]["port"];
            let (name, number) = (text(port, &["name"]), int(port, &["number"]).unwrap_or(0));
            if !name.is_empty() && number != 0 {
                errors.push(invalid("cannot set both port name & port number"));
            } else if !name.is_empty() {
                refuse(name, &format!("{at}.service.port.name"), keys::port_name(name), errors);
            } else if number == 0 {
                errors.push(FieldError::required(at, "port name or number is required"));
            } else if let Some(why) = keys::port_number(number) {
                errors.push(FieldError::invalid(format!("{at}.service.port.number"), &number.into(), why));
            }
        }
    }
}

/// Validates a reference to an object of any kind.
fn reference(reference: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(group) = reference["apiGroup"].as_str() {
        refuse(group, &format!("{at}.apiGroup"), names::subdomain(group), errors);
    }
    for field in ["kind", "name"] {
        let (value, at) = (text(reference, &[field]), format!("{at}.{field}"));
        if value.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else {
            refuse(value, &at, names::path_segment(value), errors);
        }
    }
}

/// Validates a class of ingresses; the old one is null for a new one.
pub(super) fn class(class: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (controller, field) = (text(class, &["spec", "controller"]), "spec.controller");
    if !old.is_null() && controller != text(old, &["spec", "controller"]) {
        errors.push(FieldError::immutable(field, &controller.into()));
    }
    if controller.len() > LONGEST_CONTROLLER {
        errors.push(FieldError::too_long(field, LONGEST_CONTROLLER));
    }
    check_controller(controller, field, errors);
    let parameters = &class["spec"]["parameters"];
    if parameters.is_null() {
        return;
    }
    reference(parameters, "spec.parameters", errors);
    let (scope, namespace) = (text(parameters, &["scope"]), &parameters["namespace"]);
    let field = "spec.parameters.namespace";
    match (scope, namespace.as_str()) {
        ("Namespace", None) => {
            errors.push(FieldError::required(field, "`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", Some(namespace)) => refuse(namespace, field, names::label(namespace), errors),
        ("Cluster", Some(_)) => {
            errors.push(FieldError::forbidden(field, "`parameters.scope` is set to 'Cluster'"));
        }
        ("Cluster", None) => {}
        _ => {
            let supported = ["Cluster", "Namespace"];
            errors.push(FieldError::not_supported("spec.parameters.scope", &scope.into(), &supported));
        }
    }
}

/// Validates a path behind a domain (`IsDomainPrefixedPath`).
fn check_controller(controller: &str, field: &str, errors: &mut Vec<FieldError>) {
    let (host, path) = match controller.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ if controller.is_empty() => return errors.push(FieldError::required(field, "")),
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return errors.push(FieldError::invalid(field, &controller.into(), why));
        }
    };
    refuse(host, field, names::subdomain(host), errors);
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.push(FieldError::invalid(field, &path.into(), PATH));
    }
}
