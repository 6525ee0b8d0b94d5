//! Sources of volumes, in pods and in PersistentVolumes (`validateVolumeSource`, `ValidatePersistentVolumeSpec`).

use substrate::json::Value;

use super::container::one_of;
use super::{claim, names, projected, refuse};
use crate::fields::FieldError;
use crate::state::quantity;
use crate::state::value::{int, list, text};

/// Modes of files.
const MODES: std::ops::RangeInclusive<i64> = 0..=0o777;
const PARTITION: &str = "must be between 1 and 255, inclusive";
const LUN: &str = "must be between 0 and 255, inclusive";
/// Maximum length of the name of a CSI driver.
const MAX_DRIVER_NAME: usize = 63;
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Required fields of each source.
const REQUIRED: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("configMap", &["name"]),
    ("flexVolume", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("hostPath", &["path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("local", &["path"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("secret", &["secretName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];
/// Secrets of a CSI volume that upstream validates, in its order.
const SECRETS: [&str; 4] =
    ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];

/// Object that has a volume source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum Holder {
    /// A pod, or a template of pods.
    Pod,
    /// A PersistentVolume.
    Volume,
}

/// Validates the source `named` of the volume at `at`.
pub(in crate::state) fn source(named: &str, source: &Value, at: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    // Upstream gives this source another name.
    let at = format!("{at}.{}", if named == "gcePersistentDisk" { "persistentDisk" } else { named });
    let required = REQUIRED.iter().find(|(source, _)| *source == named).map_or(&[] as &[&str], |(_, fields)| *fields);
    for &field in required {
        if text(source, &[field]).is_empty() && list(source, &[field]).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    }
    match named {
        "awsElasticBlockStore" | "gcePersistentDisk" => {
            range(source, "partition", PARTITION, &at, errors);
        }
        "azureDisk" => azure_disk(source, &at, errors),
        "cinder" => secret(&source["secretRef"], &format!("{at}.secretRef"), holder, errors),
        "configMap" | "secret" => {
            mode(source, "defaultMode", &at, errors);
            items(source, &at, errors);
        }
        "csi" => csi(source, &at, holder, errors),
        "downwardAPI" => projected::downward(source, &at, errors),
        "emptyDir" if quantity::nanos(text(source, &["sizeLimit"])).is_some_and(|nanos| nanos < 0) => {
            let why = "SizeLimit field must be a valid resource quantity";
            errors.push(FieldError::forbidden(format!("{at}.sizeLimit"), why));
        }
        "ephemeral" => ephemeral(source, &at, errors),
        "fc" => fibre_channel(source, &at, errors),
        "flexVolume" => options(&source["options"], &at, errors),
        "flocker" => flocker(source, &at, errors),
        "gitRepo" => descending(text(source, &["directory"]), &format!("{at}.directory"), errors),
        "hostPath" | "local" => host_path(source, &at, errors),
        "iscsi" => iscsi(source, &at, holder, errors),
        "image" => {
            one_of(&source["pullPolicy"], format!("{at}.pullPolicy"), &["Always", "IfNotPresent", "Never"], errors);
        }
        "nfs" => {
            let path = text(source, &["path"]);
            if !path.starts_with('/') {
                errors.push(FieldError::invalid(format!("{at}.path"), &path.into(), "must be an absolute path"));
            }
        }
        "projected" => projected::projected(source, &at, errors),
        "storageos" => storage_os(source, &at, holder, errors),
        _ => {}
    }
}

/// Validates the name of a CSI driver: a subdomain, short enough for a label.
pub(in crate::state) fn driver_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    if name.len() > MAX_DRIVER_NAME {
        errors.push(FieldError::too_long(field, MAX_DRIVER_NAME));
    }
    refuse(name, field, names::subdomain(&name.to_lowercase()), errors);
}

/// Validates the mode of files.
pub(super) fn mode(of: &Value, field: &str, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(mode) = int(of, &[field]).filter(|mode| !MODES.contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(format!("{at}.{field}"), &mode.into(), why));
    }
}

/// Validates the keys of a ConfigMap or a Secret with their paths.
pub(super) fn items(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, item) in list(source, &["items"]).iter().enumerate() {
        let at = format!("{at}.items[{i}]");
        for field in ["key", "path"] {
            if text(item, &[field]).is_empty() {
                errors.push(FieldError::required(format!("{at}.{field}"), ""));
            }
        }
        own_path(text(item, &["path"]), &format!("{at}.path"), errors);
        mode(item, "mode", &at, errors);
    }
}

/// Validates a relative path without steps upwards.
pub(super) fn descending(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field, &path.into(), "must be a relative path"));
    }
    no_backsteps(path, field, errors);
}

pub(super) fn no_backsteps(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, &path.into(), "must not contain '..'"));
    }
}

/// Validates the path of a file in a volume of the kubelet, which has its own files there
/// (`ValidateLocalNonReservedPath`).
pub(super) fn own_path(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    descending(path, field, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(field, &path.into(), "must not start with '..'"));
    }
}

/// Validates a number from 0 to 255.
fn range(source: &Value, field: &str, why: &str, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = int(source, &[field]).filter(|number| !(0..=255).contains(number)) {
        errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), why));
    }
}

/// Validates a reference to a secret. That of a PersistentVolume has a namespace.
fn secret(reference: &Value, at: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    if reference.is_null() {
        return;
    }
    let fields: &[&str] = if holder == Holder::Volume { &["name", "namespace"] } else { &["name"] };
    for &field in fields {
        if text(reference, &[field]).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    }
}

fn csi(source: &Value, at: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    driver_name(text(source, &["driver"]), &format!("{at}.driver"), errors);
    if holder == Holder::Pod {
        let reference = &source["nodePublishSecretRef"];
        secret(reference, &format!("{at}.nodePublishSecretRef"), holder, errors);
        let name = text(reference, &["name"]);
        if !name.is_empty() {
            refuse(name, &format!("{at}.name"), names::subdomain(name), errors);
        }
        return;
    }
    if text(source, &["volumeHandle"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.volumeHandle"), ""));
    }
    for field in SECRETS {
        let (reference, at) = (&source[field], format!("{at}.{field}"));
        if reference.is_null() {
            continue;
        }
        for (part, check) in [("name", names::subdomain as fn(&str) -> Vec<String>), ("namespace", names::label)] {
            let (value, field) = (text(reference, &[part]), format!("{at}.{part}"));
            if value.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else {
                refuse(value, &field, check(value), errors);
            }
        }
    }
}

fn ephemeral(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (template, at) = (&source["volumeClaimTemplate"], format!("{at}.volumeClaimTemplate"));
    if template.is_null() {
        errors.push(FieldError::required(at, ""));
    } else {
        claim::template(template, &at, errors);
    }
}

fn host_path(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let path = text(source, &["path"]);
    if path.is_empty() {
        return;
    }
    no_backsteps(path, &format!("{at}.path"), errors);
    let of = &source["type"];
    if of.as_str().is_some_and(|of| !HOST_PATH_TYPES.contains(&of)) {
        errors.push(FieldError::not_supported(format!("{at}.type"), of, HOST_PATH_TYPES));
    }
}

fn iscsi(source: &Value, at: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    let name = text(source, &["iqn"]);
    if !name.is_empty() {
        initiator(name, &format!("{at}.iqn"), holder, errors);
    }
    range(source, "lun", LUN, at, errors);
    let is_on = |field: &str| source[field] == true;
    if (is_on("chapAuthDiscovery") || is_on("chapAuthSession")) && source["secretRef"].is_null() {
        errors.push(FieldError::required(format!("{at}.secretRef"), ""));
    }
    if holder == Holder::Volume {
        // Its namespace is optional.
        secret(&source["secretRef"], &format!("{at}.secretRef"), Holder::Pod, errors);
    }
    if let Some(name) = source["initiatorName"].as_str() {
        initiator(name, &format!("{at}.initiatorname"), holder, errors);
    }
}

/// Validates the name of an iSCSI node.
fn initiator(name: &str, field: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    let is_word = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let fits = match name.get(..3) {
        Some("iqn") => is_qualified(name),
        Some("eui") => name.get(4..).is_some_and(|rest| is_word(rest, 16)),
        Some("naa") => name.get(4..).is_some_and(|rest| is_word(rest, 32)),
        _ if holder == Holder::Pod => {
            let why = "must be valid format starting with iqn, eui, or naa";
            errors.push(FieldError::invalid(field, &name.into(), why));
            return;
        }
        _ => false,
    };
    if !fits {
        errors.push(FieldError::invalid(field, &name.into(), "must be valid format"));
    }
}

/// Returns true for a name such as `iqn.2001-04.com.example:storage`.
fn is_qualified(name: &str) -> bool {
    let Some((head, target)) = name.split_once(':') else { return false };
    let mut parts = head.splitn(3, '.');
    let (_, date, authority) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_date =
        date.len() == 7 && date.bytes().enumerate().all(|(i, b)| if i == 4 { b == b'-' } else { b.is_ascii_digit() });
    let is_authority = authority.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let is_target = target.chars().all(|c| !c.is_ascii_whitespace() && !",;*&$|".contains(c));
    is_date && is_authority && is_target && !authority.is_empty() && !target.is_empty()
}

fn fibre_channel(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (names, ids) = (list(source, &["targetWWNs"]), list(source, &["wwids"]));
    if names.is_empty() && ids.is_empty() {
        let why = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(format!("{at}.targetWWNs"), why));
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(format!("{at}.targetWWNs"), &source["targetWWNs"], why));
    }
    if source["lun"].is_null() {
        errors.push(FieldError::required(format!("{at}.lun"), "lun is required if targetWWNs is specified"));
    } else {
        range(source, "lun", LUN, at, errors);
    }
}

fn flocker(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let name = text(source, &["datasetName"]);
    match (name.is_empty(), text(source, &["datasetUUID"]).is_empty()) {
        (true, true) => errors.push(FieldError::required(at, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(at, &"resource".into(), why));
        }
        _ => {}
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(format!("{at}.datasetName"), &name.into(), "must not contain '/'"));
    }
}

/// Validates the options of a flex volume: the domains of Kubernetes are reserved.
fn options(options: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, _) in options.as_object().into_iter().flatten() {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(format!("{at}.options[{key}]"), &key.into(), why));
        }
    }
}

fn storage_os(source: &Value, at: &str, holder: Holder, errors: &mut Vec<FieldError>) {
    for field in ["volumeName", "volumeNamespace"] {
        let name = text(source, &[field]);
        if !name.is_empty() {
            refuse(name, &format!("{at}.{field}"), names::label(name), errors);
        }
    }
    secret(&source["secretRef"], &format!("{at}.secretRef"), holder, errors);
}

fn azure_disk(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (field, supported) in
        [("cachingMode", &["None", "ReadOnly", "ReadWrite"]), ("kind", &["Dedicated", "Managed", "Shared"])]
    {
        let value = &source[field];
        if value.as_str().is_some_and(|value| !supported.contains(&value)) {
            errors.push(FieldError::not_supported(format!("{at}.{field}"), value, supported));
        }
    }
    let (uri, kind) = (text(source, &["diskURI"]), text(source, &["kind"]));
    let (start, form) = if kind == "Managed" {
        let form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        ("/subscriptions/", form)
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !kind.is_empty() && !uri.starts_with(start) {
        errors.push(FieldError::not_supported(format!("{at}.diskURI"), &uri.into(), &[form]));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn texts(named: &str, of: &Value, holder: Holder) -> Vec<String> {
        let mut errors = Vec::new();
        source(named, of, "v", holder, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Cases of upstream's `TestValidateVolumes` and `TestValidatePersistentVolumes`.
    #[rstest]
    #[case("hostPath", json!({}), &["v.hostPath.path: Required value"])]
    #[case("hostPath", json!({"path": "/a/../b", "type": "Dir"}), &[
        "v.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
        "v.hostPath.type: Unsupported value: \"Dir\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \
         \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\""])]
    #[case("gcePersistentDisk", json!({"partition": 256}), &["v.persistentDisk.pdName: Required value",
        "v.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"])]
    #[case("nfs", json!({"server": "s", "path": "data"}), &["v.nfs.path: Invalid value: \"data\": must be an absolute path"])]
    #[case("iscsi", json!({"targetPortal": "t", "iqn": "iqn.2015-02.example.com:test"}), &[])]
    #[case("iscsi", json!({"targetPortal": "t", "iqn": "iqn.2015-02.example.com", "lun": 256}), &[
        "v.iscsi.iqn: Invalid value: \"iqn.2015-02.example.com\": must be valid format",
        "v.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"])]
    #[case("iscsi", json!({"targetPortal": "t", "iqn": "other", "initiatorName": "eui.01234567890abcde"}),
        &["v.iscsi.iqn: Invalid value: \"other\": must be valid format starting with iqn, eui, or naa"])]
    #[case("fc", json!({"targetWWNs": ["w"]}), &["v.fc.lun: Required value: lun is required if targetWWNs is specified"])]
    #[case("secret", json!({"defaultMode": 512, "items": [{"key": "", "path": "../a"}]}), &[
        "v.secret.secretName: Required value",
        "v.secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
        "v.secret.items[0].key: Required value",
        "v.secret.items[0].path: Invalid value: \"../a\": must not contain '..'"])]
    #[case("configMap", json!({"name": "m", "items": [{"key": "k", "path": "..a"}]}),
        &["v.configMap.items[0].path: Invalid value: \"..a\": must not start with '..'"])]
    #[case("csi", json!({"driver": "d", "nodePublishSecretRef": {"name": ""}}),
        &["v.csi.nodePublishSecretRef.name: Required value"])]
    #[case("flexVolume", json!({"driver": "d", "options": {"example.K8s.io/a": ""}}),
        &["v.flexVolume.options[example.K8s.io/a]: Invalid value: \"example.K8s.io/a\": kubernetes.io and k8s.io \
           namespaces are reserved"])]
    #[case("ephemeral", json!({}), &["v.ephemeral.volumeClaimTemplate: Required value"])]
    #[case("ephemeral", json!({"volumeClaimTemplate": {"metadata": {"name": "c"}, "spec": {}}}), &[
        "v.ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
        "v.ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required",
        "v.ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"])]
    fn a_source_of_a_pod_is_checked(#[case] named: &str, #[case] of: Value, #[case] wanted: &[&str]) {
        assert_eq!(texts(named, &of, Holder::Pod), wanted);
    }

    #[test]
    fn secrets_of_a_volume_have_a_namespace() {
        let of = json!({"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "A"}});
        let found = texts("csi", &of, Holder::Volume);
        assert!(found[0].starts_with("v.csi.nodePublishSecretRef.name: Invalid value: \"A\": a lowercase RFC 1123"));
        assert_eq!(found[1..], ["v.csi.nodePublishSecretRef.namespace: Required value"]);
        let of = json!({"volumeID": "i", "secretRef": {}});
        let wanted = ["v.cinder.secretRef.name: Required value", "v.cinder.secretRef.namespace: Required value"];
        assert_eq!(texts("cinder", &of, Holder::Volume), wanted);
    }
}
