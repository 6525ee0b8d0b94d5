//! Security contexts of pods and containers (`validatePodSpecSecurityContext`, `ValidateSecurityContext`).

use substrate::json::Value;

use super::container::{Setting, one_of};
use super::sources::descending;
use crate::fields::FieldError;
use crate::state::value::{int, list, text};

/// Users and groups of Linux.
const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;
const ID: &str = "must be between 0 and 2147483647, inclusive";
/// Maximum length of the name of a kernel parameter.
const LONGEST_SYSCTL: usize = 253;
/// Form of the name of a kernel parameter.
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Prefixes of kernel parameters with a namespace of their own, and the field that shares it with the host.
const SHARED: [(&str, &str); 5] = [
    ("net.", "hostNetwork"),
    ("kernel.sem", "hostIPC"),
    ("kernel.shm", "hostIPC"),
    ("kernel.msg", "hostIPC"),
    ("fs.mqueue.", "hostIPC"),
];
const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates the context of a pod.
pub(super) fn of_pod(spec: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.securityContext";
    let context = &spec["securityContext"];
    ids(context, &["fsGroup", "runAsUser", "runAsGroup"], AT, errors);
    for (i, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        if group.as_i64().is_some_and(|id| !IDS.contains(&id)) {
            errors.push(FieldError::invalid(format!("{AT}.supplementalGroups[{i}]"), group, ID));
        }
    }
    if spec["hostPID"] == true && spec["shareProcessNamespace"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(format!("{AT}.shareProcessNamespace"), &true.into(), why));
    }
    sysctls(list(context, &["sysctls"]), spec, errors);
    let policies = ["Always", "OnRootMismatch"];
    one_of(&context["fsGroupChangePolicy"], format!("{AT}.fsGroupChangePolicy"), &policies, errors);
    seccomp(&context["seccompProfile"], &format!("{AT}.seccompProfile"), errors);
    app_armor(&context["appArmorProfile"], &format!("{AT}.appArmorProfile"), errors);
    for (field, values) in
        [("supplementalGroupsPolicy", ["Merge", "Strict"]), ("seLinuxChangePolicy", ["MountOption", "Recursive"])]
    {
        one_of(&context[field], format!("{AT}.{field}"), &values, errors);
    }
}

/// Validates the context of a container.
pub(super) fn of_container(context: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    ids(context, &["runAsUser", "runAsGroup"], at, errors);
    let mount = &context["procMount"];
    one_of(mount, format!("{at}.procMount"), &["Default", "Unmasked"], errors);
    if setting.has_host_users && *mount == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(format!("{at}.procMount"), mount, why));
    }
    seccomp(&context["seccompProfile"], &format!("{at}.seccompProfile"), errors);
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(at, context, why));
        }
        if list(context, &["capabilities", "add"]).iter().any(|added| added == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(at, context, why));
        }
    }
    app_armor(&context["appArmorProfile"], &format!("{at}.appArmorProfile"), errors);
}

fn ids(context: &Value, fields: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    for &field in fields {
        if int(context, &[field]).is_some_and(|id| !IDS.contains(&id)) {
            errors.push(FieldError::invalid(format!("{at}.{field}"), &context[field], ID));
        }
    }
}

/// Validates the names of kernel parameters.
fn sysctls(sysctls: &[Value], spec: &Value, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let (field, name) = (format!("spec.securityContext.sysctls[{i}].name"), text(sysctl, &["name"]));
        if name.is_empty() {
            errors.push(FieldError::required(&field, ""));
        } else if name.len() > LONGEST_SYSCTL || !name.split(['.', '/']).all(is_sysctl_part) {
            let why = format!("must have at most {LONGEST_SYSCTL} characters and match regex {SYSCTL}");
            errors.push(FieldError::invalid(&field, &name.into(), why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(&field, &name.into()));
        }
        let dotted = name.replace('/', ".");
        let shares = SHARED.iter().find(|(prefix, shared)| dotted.starts_with(prefix) && spec[*shared] == true);
        if let Some((_, shared)) = shares {
            let why = format!("may not be specified when '{shared}' is true");
            errors.push(FieldError::invalid(&field, &name.into(), why));
        }
        seen.push(name);
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().last()];
    ends.iter().all(|end| end.is_some_and(edge)) && part.bytes().all(|b| edge(b) || matches!(b, b'-' | b'_'))
}

fn seccomp(profile: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if profile.is_null() {
        return;
    }
    let (of, local) = (text(profile, &["type"]), &profile["localhostProfile"]);
    if of.is_empty() {
        errors.push(FieldError::required(format!("{at}.type"), "type is required when seccompProfile is set"));
    } else {
        one_of(&profile["type"], format!("{at}.type"), PROFILES, errors);
    }
    let field = format!("{at}.localhostProfile");
    match local.as_str() {
        None if of == "Localhost" => {
            errors.push(FieldError::required(field, "must be set when seccomp type is Localhost"));
        }
        Some(path) if of == "Localhost" => descending(path, &field, errors),
        Some(path) => {
            // Upstream shows the profile in Go's form.
            let shown = format!("{{\"Type\":{of:?},\"LocalhostProfile\":{path:?}}}");
            errors.push(FieldError::invalid_text(field, shown, "can only be set when seccomp type is Localhost"));
        }
        None => {}
    }
}

fn app_armor(profile: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if profile.is_null() {
        return;
    }
    let (of, local, field) = (text(profile, &["type"]), &profile["localhostProfile"], format!("{at}.localhostProfile"));
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    match (of, local.as_str()) {
        ("Localhost", None | Some("")) => errors.push(FieldError::required(field, NEEDED)),
        ("Localhost", Some(path)) => {
            if path.trim() != path {
                errors.push(FieldError::invalid(field, local, "must not be padded with whitespace"));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(_)) => {
            errors.push(FieldError::invalid(field, local, "can only be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            errors.push(FieldError::required(format!("{at}.type"), "type is required when appArmorProfile is set"));
        }
        _ => one_of(&profile["type"], format!("{at}.type"), PROFILES, errors),
    }
}
