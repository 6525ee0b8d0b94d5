//! Warnings about pods and pod templates (upstream `pkg/api/pod/warnings.go`).

use std::collections::BTreeMap;

use substrate::json::Value;

use super::{fractional, of_claim_spec, of_node_term, of_volume_source, old_node_label, volume_paths};
use crate::state::validate::names;
use crate::state::value::{has, int, list, text};

/// Annotations without effect, with their replacements.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const OLD_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const NO_POD: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings about a pod, or about a template; `at` is its path with a dot at the end.
pub(super) fn of(at: &str, pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    of_node_labels(at, spec, &mut found);
    for (key, why) in OLD_ANNOTATIONS {
        if has(pod, &["metadata", "annotations", key]) {
            found.push(format!("{at}metadata.annotations[{key}]: {why}"));
        }
    }
    for (i, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let at = format!("{at}spec.volumes[{i}]");
        if has(volume, &["gitRepo"]) {
            found.push(format!("{at}.gitRepo: deprecated in v1.11, and disabled by default in v1.33+"));
        }
        of_volume_source(&at, volume, &mut found);
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        of_claim_spec(&format!("{at}.ephemeral.volumeClaimTemplate.spec"), &template["spec"], &mut found);
    }
    found.extend(volume_paths::overlaps(list(spec, &["volumes"])));
    for (of, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = Vec::new();
        for (i, item) in list(spec, &[of]).iter().enumerate() {
            let value = text(item, &[field]);
            if seen.contains(&value) {
                found.push(format!("{at}spec.{of}[{i}].{field}: duplicate {field} \"{value}\""));
            }
            seen.push(value);
        }
    }
    for (i, secret) in list(spec, &["imagePullSecrets"]).iter().enumerate() {
        if text(secret, &["name"]).is_empty() {
            found.push(format!("{at}spec.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    for resource in ["memory", "ephemeral-storage"] {
        fractional(&format!("{at}spec.overhead"), &spec["overhead"], resource, &mut found);
    }
    of_containers(at, pod, &mut found);
    if int(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        found.push(format!(
            "{at}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for (when, below) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm."),
        ] {
            for (i, term) in list(spec, &["affinity", affinity, when]).iter().enumerate() {
                let term = if below.is_empty() { term } else { &term["podAffinityTerm"] };
                if !has(term, &["labelSelector"]) {
                    found.push(format!("{at}spec.affinity.{affinity}.{when}[{i}].{below}labelSelector: {NO_POD}"));
                }
            }
        }
    }
    found
}

/// Warns of deprecated node labels.
fn of_node_labels(at: &str, spec: &Value, found: &mut Vec<String>) {
    for key in spec["nodeSelector"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some(why) = old_node_label(key) {
            found.push(format!("{at}spec.nodeSelector[{key}]: {why}"));
        }
    }
    let nodes = &spec["affinity"]["nodeAffinity"];
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in list(nodes, &[required, "nodeSelectorTerms"]).iter().enumerate() {
        of_node_term(&format!("{at}spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[{i}]"), term, found);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in list(nodes, &[preferred]).iter().enumerate() {
        let at = format!("{at}spec.affinity.nodeAffinity.{preferred}[{i}].preference");
        of_node_term(&at, &term["preference"], found);
        for (j, expression) in list(&term["preference"], &["matchExpressions"]).iter().enumerate() {
            for (k, value) in list(expression, &["values"]).iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                for why in names::label_value(value) {
                    found.push(format!("{at}.matchExpressions[{j}].values[{k}]: {value} is invalid, {why}"));
                }
            }
        }
    }
    for (i, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let at = format!("{at}spec.topologySpreadConstraints[{i}]");
        let key = text(constraint, &["topologyKey"]);
        if let Some(why) = old_node_label(key) {
            found.push(format!("{at}.topologyKey: {key} is {why}"));
        }
        if !has(constraint, &["labelSelector"]) {
            found.push(format!("{at}.labelSelector: {NO_POD}"));
        }
    }
}

fn of_containers(at: &str, pod: &Value, found: &mut Vec<String>) {
    const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    let spec = &pod["spec"];
    let annotated = |key: &str| has(pod, &["metadata", "annotations", key]);
    if !has(spec, &["securityContext", "seccompProfile"]) && annotated(POD_SECCOMP) {
        found.push(format!("{at}metadata.annotations[{POD_SECCOMP}]: {OLD_SECCOMP}"));
    }
    let all: Vec<(String, &Value)> = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|of| list(spec, &[of]).iter().enumerate().map(move |(i, c)| (format!("{at}spec.{of}[{i}]"), c)))
        .collect();
    for (place, container) in &all {
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, &["name"]));
        if !has(container, &["securityContext", "seccompProfile"]) && annotated(&key) {
            found.push(format!("{at}metadata.annotations[{key}]: {OLD_SECCOMP}"));
        }
        for resource in ["memory", "ephemeral-storage"] {
            for part in ["limits", "requests"] {
                fractional(&format!("{place}.resources.{part}"), &container["resources"][part], resource, found);
            }
        }
        of_environment(place, container, found);
    }
    of_ports(&all, found);
}

/// Warns of a variable that is set again without using its former value.
fn of_environment(at: &str, container: &Value, found: &mut Vec<String>) {
    let mut seen = Vec::new();
    for (i, variable) in list(container, &["env"]).iter().enumerate() {
        let name = text(variable, &["name"]);
        let value = text(variable, &["value"]);
        let former = format!("$({name})");
        if seen.contains(&name) && (has(variable, &["valueFrom"]) || value == former || !value.contains(&former)) {
            found.push(format!(
                "{at}.env[{i}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
        seen.push(name);
    }
}

/// Warns of ports that conflict with those of another container.
fn of_ports(containers: &[(String, &Value)], found: &mut Vec<String>) {
    let ports = || {
        let of = |(at, container): &(String, &'_ Value)| -> Vec<(String, Value)> {
            let all = list(container, &["ports"]).iter().enumerate();
            all.map(|(i, port)| (format!("{at}.ports[{i}]"), port.clone())).collect()
        };
        containers.iter().flat_map(of)
    };
    let mut taken: BTreeMap<(i64, String), Vec<(String, Value)>> = BTreeMap::new();
    for (at, port) in ports() {
        let host = |port: &Value| (text(port, &["hostIP"]).to_owned(), int(port, &["hostPort"]).unwrap_or(0));
        let (ip, number) = host(&port);
        let protocol = text(&port, &["protocol"]).to_owned();
        let others = taken.entry((int(&port, &["containerPort"]).unwrap_or(0), protocol)).or_default();
        for (place, other) in others.iter() {
            let (other_ip, other_number) = host(other);
            let what = if (&ip, number) == (&other_ip, other_number) {
                "duplicate"
            } else if number == 0 || other_number == 0 {
                "overlapping"
            } else if number == other_number && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            found.push(format!("{at}: {what} port definition with {place}"));
        }
        others.push((at, port));
    }
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for (at, port) in ports() {
        let name = text(&port, &["name"]);
        if name.is_empty() {
            continue;
        }
        match named.get(name) {
            Some(first) => found.push(format!(
                "{at}: duplicate port name \"{name}\" with {first}, services and probes that select ports by name will \
                 use {first}"
            )),
            None => drop(named.insert(name.to_owned(), at)),
        }
    }
}
