//! Mounts and block devices of containers (`ValidateVolumeMounts`, `ValidateVolumeDevices`).

use substrate::json::Value;

use super::container::Setting;
use super::sources::descending;
use crate::state::value::{list, text};
use crate::state::{FieldError, FieldFault};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const READ_ONLY: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Validates the mounts of the container at `at`. Upstream reports some errors without the position of the mount.
pub(super) fn mounts(container: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let devices = list(container, &["volumeDevices"]);
    let at = format!("{at}.volumeMounts");
    let mounts = list(container, &["volumeMounts"]);
    for (i, mount) in mounts.iter().enumerate() {
        let (name, path, place) = (text(mount, &["name"]), text(mount, &["mountPath"]), format!("{at}[{i}]"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{place}.name"), ""));
        }
        if setting.volume(name).is_none() {
            errors.push(not_found(format!("{place}.name"), name));
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{place}.mountPath"), ""));
        }
        if mounts[..i].iter().any(|other| text(other, &["mountPath"]) == path) {
            errors.push(FieldError::invalid(format!("{place}.mountPath"), &path.into(), "must be unique"));
        }
        if devices.iter().any(|device| text(device, &["name"]) == name) {
            let why = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid(format!("{place}.name"), &name.into(), why));
        }
        if devices.iter().any(|device| text(device, &["devicePath"]) == path) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(format!("{place}.mountPath"), &path.into(), why));
        }
        let (below, expression) = (text(mount, &["subPath"]), text(mount, &["subPathExpr"]));
        descending(below, &format!("{at}.subPath"), errors);
        if !below.is_empty() && !expression.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(format!("{place}.subPathExpr"), &expression.into(), why));
        }
        descending(expression, &format!("{at}.subPathExpr"), errors);
        propagation(&mount["mountPropagation"], container, &format!("{at}.mountPropagation"), errors);
        read_only(mount, &format!("{at}.recursiveReadOnly"), errors);
    }
}

/// Validates the block devices of the container at `at`.
pub(super) fn devices(container: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let mounts = list(container, &["volumeMounts"]);
    let at = format!("{at}.volumeDevices");
    let devices = list(container, &["volumeDevices"]);
    for (i, device) in devices.iter().enumerate() {
        let (name, path, place) = (text(device, &["name"]), text(device, &["devicePath"]), format!("{at}[{i}]"));
        let (of_name, of_path) = (format!("{place}.name"), format!("{place}.devicePath"));
        let wrong = |field: &str, value: &str, why| FieldError::invalid(field, &value.into(), why);
        if name.is_empty() {
            errors.push(FieldError::required(&of_name, ""));
        } else if devices[..i].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(wrong(&of_name, name, "must be unique"));
        }
        match setting.volume(name) {
            None => errors.push(not_found(of_name.clone(), name)),
            Some(false) => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(wrong(&of_name, name, why));
            }
            Some(true) => {}
        }
        if path.is_empty() {
            errors.push(FieldError::required(&of_path, ""));
        }
        if devices[..i].iter().any(|other| text(other, &["devicePath"]) == path) {
            errors.push(wrong(&of_path, path, "must be unique"));
        }
        if path.split('/').any(|part| part == "..") {
            errors.push(wrong(&of_path, path, "can not contain backsteps ('..')"));
        }
        if mounts.iter().any(|mount| text(mount, &["name"]) == name) {
            errors.push(wrong(&of_name, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| text(mount, &["mountPath"]) == path) {
            errors.push(wrong(&of_path, path, "must not already exist as a path in volumeMounts"));
        }
    }
}

fn not_found(field: String, name: &str) -> FieldError {
    FieldError { field, fault: FieldFault::NotFound(format!("{name:?}")), detail: String::new() }
}

fn propagation(of: &Value, container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let Some(named) = of.as_str() else { return };
    if !PROPAGATIONS.contains(&named) {
        errors.push(FieldError::not_supported(field, of, PROPAGATIONS));
    }
    if named == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(field, why));
    }
}

fn read_only(mount: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let of = &mount["recursiveReadOnly"];
    match of.as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                errors.push(FieldError::forbidden(field, "may only be specified when readOnly is true"));
            }
            if !matches!(text(mount, &["mountPropagation"]), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        Some(_) => errors.push(FieldError::not_supported(field, of, READ_ONLY)),
    }
}
