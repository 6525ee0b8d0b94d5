//! Validation of containers (`validateContainerCommon`, `validateContainers`, `validateInitContainers`).

use substrate::json::Value;

use super::{environment, keys, mounts, names, probes, refuse, resources, security, sources};
use crate::state::value::{int, list, text};
use crate::state::{FieldError, FieldFault};

const PULL: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MESSAGES: &[&str] = &["File", "FallbackToLogsOnError"];
const RESTARTS: &[&str] = &["Always", "Never", "OnFailure"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const RESIZES: &[&str] = &["NotRequired", "RestartContainer"];
/// Maximum number of rules for restarts, and of exit codes of a rule.
const MOST_RULES: usize = 20;
const MOST_CODES: usize = 255;

/// Checks that a field, if set, has one of `values`.
pub(super) fn one_of(value: &Value, field: String, values: &[&str], errors: &mut Vec<FieldError>) {
    let named = value.as_str().unwrap_or_default();
    if !value.is_null() && !values.contains(&named) {
        errors.push(FieldError::not_supported(field, value, values));
    }
}

/// Creates the error of a list with too many elements.
pub(super) fn too_many(field: String, found: usize, most: usize) -> FieldError {
    let detail = format!("must have at most {most} items");
    FieldError { field, fault: FieldFault::TooMany(found.to_string()), detail }
}

/// Parts of a pod that its containers refer to.
pub(super) struct Setting<'a> {
    /// Names of the valid volumes; true for those of a claim.
    volumes: Vec<(&'a str, bool)>,
    /// Names of the resource claims.
    pub(super) claims: Vec<&'a str>,
    pub(super) restarts: &'a str,
    pub(super) os: &'a str,
    pub(super) has_host_users: bool,
    /// Seconds that the pod may take to stop.
    pub(super) grace: i64,
}

impl<'a> Setting<'a> {
    /// Validates the volumes of a pod's spec, and returns the setting of its containers. `added` are volumes that the
    /// owner of a template adds.
    pub(super) fn of(spec: &'a Value, added: &[&'a str], errors: &mut Vec<FieldError>) -> Self {
        let mut volumes: Vec<(&str, bool)> = Vec::new();
        for (i, volume) in list(spec, &["volumes"]).iter().enumerate() {
            let (at, name, before) = (format!("spec.volumes[{i}]"), text(volume, &["name"]), errors.len());
            self::volume(volume, &at, errors);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{at}.name"), ""));
            } else {
                refuse(name, &format!("{at}.name"), names::label(name), errors);
            }
            if volumes.iter().any(|(other, _)| *other == name) {
                errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
            }
            if errors.len() == before {
                let is_claim = ["persistentVolumeClaim", "ephemeral"].iter().any(|of| !volume[*of].is_null());
                volumes.push((name, is_claim));
            }
        }
        volumes.extend(added.iter().map(|name| (*name, true)));
        Self {
            volumes,
            claims: list(spec, &["resourceClaims"]).iter().map(|claim| text(claim, &["name"])).collect(),
            restarts: text(spec, &["restartPolicy"]),
            os: text(spec, &["os", "name"]),
            has_host_users: spec["hostUsers"] != false,
            grace: int(spec, &["terminationGracePeriodSeconds"]).unwrap_or(i64::MAX),
        }
    }

    /// Returns true if the volume of this name is a claim; `None` if there is no valid volume.
    pub(super) fn volume(&self, name: &str) -> Option<bool> {
        self.volumes.iter().find(|(other, _)| *other == name).map(|(_, is_claim)| *is_claim)
    }
}

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
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Validates the only source of a volume.
fn volume(volume: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut found = SOURCES.iter().filter(|source| !volume[**source].is_null());
    match found.next() {
        None => errors.push(FieldError::required(at, "must specify a volume type")),
        Some(first) => sources::source(first, &volume[*first], at, sources::Holder::Pod, errors),
    }
    for other in found {
        errors.push(FieldError::forbidden(format!("{at}.{other}"), "may not specify more than 1 volume type"));
    }
}

/// Validates the containers of a pod, at least one.
pub(super) fn containers(spec: &Value, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let containers = list(spec, &["containers"]);
    if containers.is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    for (i, container) in containers.iter().enumerate() {
        let (at, name) = (format!("spec.containers[{i}]"), text(container, &["name"]));
        common(container, &at, setting, errors);
        if containers[..i].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        probes::all(container, &at, setting, errors);
        restarts(container, &at, errors);
    }
    host_ports(containers, 0, "spec.containers", errors);
}

/// Validates the init containers of a pod.
pub(super) fn init_containers(spec: &Value, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let containers = list(spec, &["initContainers"]);
    let mut seen: Vec<&str> = list(spec, &["containers"]).iter().map(|other| text(other, &["name"])).collect();
    for (i, container) in containers.iter().enumerate() {
        let (at, name) = (format!("spec.initContainers[{i}]"), text(container, &["name"]));
        common(container, &at, setting, errors);
        restarts(container, &at, errors);
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        } else if !name.is_empty() {
            seen.push(name);
        }
        host_ports(&containers[i..=i], i, "spec.initContainers", errors);
        if text(container, &["restartPolicy"]) == "Always" {
            probes::all(container, &at, setting, errors);
            continue;
        }
        for field in ["lifecycle"].into_iter().chain(probes::PROBES) {
            if !container[field].is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{at}.{field}"), why));
            }
        }
        for (k, policy) in list(container, &["resizePolicy"]).iter().enumerate() {
            if policy["restartPolicy"] == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let field = format!("{at}.resizePolicy[{k}].restartPolicy");
                errors.push(FieldError::invalid(field, &policy["restartPolicy"], why));
            }
        }
    }
}

/// Validates the fields that containers of all types have.
pub(super) fn common(container: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let name = text(container, &["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    } else {
        refuse(name, &format!("{at}.name"), names::label(name), errors);
    }
    if text(container, &["image"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    let field = format!("{at}.terminationMessagePolicy");
    one_of(&container["terminationMessagePolicy"], field, MESSAGES, errors);
    ports(container, at, errors);
    environment::variables(container, at, errors);
    environment::sources(container, at, errors);
    mounts::mounts(container, at, setting, errors);
    mounts::devices(container, at, setting, errors);
    one_of(&container["imagePullPolicy"], format!("{at}.imagePullPolicy"), PULL, errors);
    resources::of_container(&container["resources"], &format!("{at}.resources"), setting, errors);
    resizes(container, &format!("{at}.resizePolicy"), setting.restarts == "Never", errors);
    security::of_container(&container["securityContext"], &format!("{at}.securityContext"), setting, errors);
}

/// Refuses spaces around the image of a container. Upstream allows them in templates.
pub(super) fn image(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let image = text(container, &["image"]);
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{at}.image"), &image.into(), why));
    }
}

fn ports(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in list(container, &["ports"]).iter().enumerate() {
        let (at, name) = (format!("{at}.ports[{i}]"), text(port, &["name"]));
        let wrong = if name.is_empty() { Vec::new() } else { keys::port_name(name) };
        if wrong.is_empty() && seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        } else if wrong.is_empty() && !name.is_empty() {
            seen.push(name);
        }
        refuse(name, &format!("{at}.name"), wrong, errors);
        let inside = int(port, &["containerPort"]).unwrap_or(0);
        if inside == 0 {
            errors.push(FieldError::required(format!("{at}.containerPort"), ""));
        }
        let mut number = |field: &str, number: i64| {
            if let Some(why) = keys::port_number(number) {
                errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), why));
            }
        };
        if inside != 0 {
            number("containerPort", inside);
        }
        if let Some(on_host) = int(port, &["hostPort"]).filter(|on_host| *on_host != 0) {
            number("hostPort", on_host);
        }
        one_of(&port["protocol"], format!("{at}.protocol"), PROTOCOLS, errors);
    }
}

/// Reports ports of the host that are used twice; `from` is the index of the first container.
fn host_ports(containers: &[Value], from: usize, at: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        for (k, port) in list(container, &["ports"]).iter().enumerate() {
            let Some(number) = int(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
            let this = format!("{}/{}/{number}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if seen.contains(&this) {
                let field = format!("{at}[{}].ports[{k}].hostPort", from + i);
                errors.push(FieldError::duplicate(field, &this.as_str().into()));
            } else {
                seen.push(this);
            }
        }
    }
}

/// Validates the policy of a container's restarts, and its rules (`validateContainerRestartPolicy`).
fn restarts(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let rules = list(container, &["restartPolicyRules"]);
    if container["restartPolicy"].is_null() && !rules.is_empty() {
        let why = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(format!("{at}.restartPolicy"), why));
    }
    one_of(&container["restartPolicy"], format!("{at}.restartPolicy"), RESTARTS, errors);
    if rules.len() > MOST_RULES {
        errors.push(too_many(format!("{at}.restartPolicyRules"), rules.len(), MOST_RULES));
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = format!("{at}.restartPolicyRules[{i}]");
        let action = text(rule, &["action"]);
        one_of(&action.into(), format!("{at}.action"), ACTIONS, errors);
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            errors.push(FieldError::required(format!("{at}.exitCodes"), "must be specified"));
            continue;
        }
        one_of(&text(codes, &["operator"]).into(), format!("{at}.exitCodes.operator"), OPERATORS, errors);
        let count = list(codes, &["values"]).len();
        if count > MOST_CODES {
            errors.push(too_many(format!("{at}.exitCodes.values"), count, MOST_CODES));
        }
    }
}

fn resizes(container: &Value, at: &str, is_final: bool, errors: &mut Vec<FieldError>) {
    let policies = list(container, &["resizePolicy"]);
    for (i, policy) in policies.iter().enumerate() {
        let (resource, restart) = (text(policy, &["resourceName"]), text(policy, &["restartPolicy"]));
        if policies[..i].iter().any(|other| text(other, &["resourceName"]) == resource) {
            errors.push(FieldError::duplicate(format!("{at}[{i}]"), &resource.into()));
        }
        for (value, values) in [(resource, &["cpu", "memory"][..]), (restart, RESIZES)] {
            if value.is_empty() {
                errors.push(FieldError::required(at, ""));
            } else {
                one_of(&value.into(), at.to_owned(), values, errors);
            }
        }
        if is_final && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(at, &restart.into(), why));
        }
    }
}
