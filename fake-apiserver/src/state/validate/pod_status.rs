//! Validation of the status of a pod (`ValidatePodStatusUpdate`), without the states of its containers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use substrate::json::{Value, json};

use super::{addresses, names, refuse, unchanged};
use crate::state::FieldError;
use crate::state::value::{has, int, list, text};

/// Types of conditions that are not checked further.
const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const NEGATIVE: &str = "must be a non-negative integer";

/// Validates an update of the status of a pod.
pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for (i, condition) in list(pod, &["status", "conditions"]).iter().enumerate() {
        let (at, of) = (format!("status.conditions[{i}]"), text(condition, &["type"]));
        generation(condition, &format!("{at}.observedGeneration"), errors);
        if !SYSTEM.contains(&of) {
            refuse(of, &format!("{at}.Type"), names::qualified(of), errors);
        }
    }
    nominated(pod, old, errors);
    generation(&pod["status"], "status.observedGeneration", errors);
    unchanged(pod, old, &["status", "qosClass"], errors);
    claims(pod, errors);
    all_addresses(pod, old, "podIPs", errors);
    if let Some(first) = list(pod, &["status", "hostIPs"]).first() {
        let address = text(first, &["ip"]);
        if text(pod, &["status", "hostIP"]) != address {
            let why = "must be equal to `hostIP`";
            errors.push(FieldError::invalid("status.hostIPs[0].ip", &address.into(), why));
        }
        all_addresses(pod, old, "hostIPs", errors);
    }
    for (i, container) in list(pod, &["status", "ephemeralContainerStatuses"]).iter().enumerate() {
        if !list(container, &["allocatedResourcesStatus"]).is_empty() {
            let at = format!("status.ephemeralContainerStatuses[{i}].allocatedResourcesStatus");
            errors.push(FieldError::forbidden(at, "must not be specified in container status"));
        }
    }
}

fn generation(of: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = int(of, &["observedGeneration"]).filter(|number| *number < 0) {
        errors.push(FieldError::invalid(at, &number.into(), NEGATIVE));
    }
}

fn nominated(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "status.nominatedNodeName";
    let [node, before] = [pod, old].map(|pod| text(pod, &["status", "nominatedNodeName"]));
    if node.is_empty() || node == before {
        return;
    }
    refuse(node, AT, names::subdomain(node), errors);
    if has(old, &["spec", "nodeName"]) {
        errors.push(FieldError::forbidden(AT, "may not be set on pods that are already bound to a node"));
    }
}

/// Checks that each claim in the status is one of the spec (`validatePodResourceClaimStatuses`).
fn claims(pod: &Value, errors: &mut Vec<FieldError>) {
    let (mut seen, of_spec) = (BTreeSet::new(), list(pod, &["spec", "resourceClaims"]));
    for (i, claim) in list(pod, &["status", "resourceClaimStatuses"]).iter().enumerate() {
        let (at, named) = (format!("status.resourceClaimStatuses[{i}]"), text(claim, &["name"]));
        if !of_spec.iter().any(|one| text(one, &["name"]) == named) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(format!("{at}.name"), &named.into(), why));
        }
        if !seen.insert(named) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &named.into()));
        }
        if let Some(object) = claim["resourceClaimName"].as_str() {
            refuse(object, &format!("{at}.resourceClaimName"), names::subdomain(object), errors);
        }
    }
}

/// Checks addresses: at most one of each family. Wrong ones that the pod has already stay.
fn all_addresses(pod: &Value, old: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let of = |pod: &Value| -> Vec<String> {
        list(pod, &["status", field]).iter().map(|one| text(one, &["ip"]).to_owned()).collect()
    };
    let (now, before) = (of(pod), of(old));
    for (i, address) in now.iter().enumerate().filter(|(_, address)| !before.contains(address)) {
        let why = addresses::address(address).map(str::to_owned);
        refuse(address, &format!("status.{field}[{i}]"), why.into_iter().collect(), errors);
    }
    let is_v6 = |address: &String| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
    let is_pair = now.len() == 2 && is_v6(&now[0]) != is_v6(&now[1]);
    if now.len() > 1 && !is_pair {
        let shown: Value = now.iter().map(|address| json!({"IP": address})).collect();
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(format!("status.{field}"), &shown, why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn refused(status: Value, old: Value) -> Vec<String> {
        let spec = json!({"nodeName": "n", "resourceClaims": [{"name": "chip"}]});
        let mut errors = Vec::new();
        update(&json!({"spec": spec, "status": status}), &json!({"spec": spec, "status": old}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::class(json!({"qosClass": "Burstable"}), json!({"qosClass": "BestEffort"}),
        &["status.qosClass: Invalid value: \"Burstable\": field is immutable"])]
    #[case::generations(json!({"observedGeneration": -1, "conditions": [{"type": "Ready", "observedGeneration": -2}]}), json!({}), &[
        "status.conditions[0].observedGeneration: Invalid value: -2: must be a non-negative integer",
        "status.observedGeneration: Invalid value: -1: must be a non-negative integer"])]
    #[case::nominated(json!({"nominatedNodeName": "m"}), json!({}),
        &["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"])]
    #[case::claims(json!({"resourceClaimStatuses": [{"name": "chip"}, {"name": "chip"}, {"name": "other"}]}), json!({}), &[
        "status.resourceClaimStatuses[1].name: Duplicate value: \"chip\"",
        "status.resourceClaimStatuses[2].name: Invalid value: \"other\": must match the name of an entry in \
         `spec.resourceClaims`"])]
    #[case::host(json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}), json!({}),
        &["status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`"])]
    #[case::families(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}), json!({}),
        &["status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for \
           each IP family"])]
    #[case::pair(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}), json!({}), &[])]
    #[case::kept(json!({"podIPs": [{"ip": "here"}]}), json!({"podIPs": [{"ip": "here"}]}), &[])]
    fn a_status_of_a_pod_is_checked(#[case] status: Value, #[case] old: Value, #[case] expected: &[&str]) {
        assert_eq!(refused(status, old), expected);
    }

    #[test]
    fn names_of_conditions_and_addresses_have_their_forms() {
        let found = refused(json!({"conditions": [{"type": "not so"}], "podIPs": [{"ip": "here"}]}), json!({}));
        assert!(found[0].starts_with("status.conditions[0].Type: Invalid value: \"not so\""), "{found:?}");
        assert!(
            found[1].starts_with("status.podIPs[0]: Invalid value: \"here\": must be a valid IP address"),
            "{found:?}"
        );
    }
}
