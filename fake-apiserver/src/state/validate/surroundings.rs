//! Validation of a pod's spec beside its containers: volumes, users, names of hosts (`ValidatePodSpec`).

use std::net::IpAddr;

use substrate::json::Value;

use super::names;
use crate::state::FieldError;
use crate::state::value::{int, list, text};

/// Sources of a volume, in the order in which upstream counts them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flexVolume",
    "configMap",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];
const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;

/// Refuses a second source of a volume.
pub(super) fn volume(volume: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let sources = SOURCES.iter().filter(|source| !volume[**source].is_null());
    for source in sources.skip(1) {
        errors.push(FieldError::forbidden(format!("{at}.{source}"), "may not specify more than 1 volume type"));
    }
}

/// Validates the rest of the spec.
pub(super) fn pod(pod: &Value, errors: &mut Vec<FieldError>) {
    let spec = &pod["spec"];
    let account = text(spec, &["serviceAccountName"]);
    if let (false, Some(why)) = (account.is_empty(), names::subdomain(account)) {
        errors.push(FieldError::invalid("spec.serviceAccountName", &account.into(), why));
    }
    ids(&spec["securityContext"], "spec.securityContext", errors);
    for field in ["containers", "initContainers"] {
        for (i, container) in list(spec, &[field]).iter().enumerate() {
            ids(&container["securityContext"], &format!("spec.{field}[{i}].securityContext"), errors);
        }
    }
    if spec["hostNetwork"] == true {
        for (i, container) in list(spec, &["containers"]).iter().enumerate() {
            host_ports(container, &format!("spec.containers[{i}]"), errors);
        }
    }
    for (i, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        let address = text(alias, &["ip"]);
        if address.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(format!("spec.hostAliases[{i}].ip"), &address.into(), why));
        }
        for host in list(alias, &["hostnames"]) {
            if let Some(why) = names::subdomain(host.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(format!("spec.hostAliases[{i}].hostnames"), host, why));
            }
        }
    }
}

/// Checks that users and groups are in the range of Linux.
fn ids(context: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        if int(context, &[field]).is_some_and(|id| !IDS.contains(&id)) {
            let why = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{at}.{field}"), &context[field], why));
        }
    }
}

/// Checks that ports on the network of the host have one number.
fn host_ports(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, port) in list(container, &["ports"]).iter().enumerate() {
        let number = int(port, &["containerPort"]).unwrap_or(0);
        if int(port, &["hostPort"]).is_some_and(|on_host| on_host != 0 && on_host != number) {
            let why = "must match `hostPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(format!("{at}.ports[{i}].containerPort"), &number.into(), why));
        }
    }
}
