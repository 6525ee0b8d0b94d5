//! The admission step `PodSecurity`: the Pod Security Standards that the labels of a namespace require
//! (`k8s.io/pod-security-admission`).
//!
//! A pod that violates the `enforce` level is refused. Violations of the `warn` level become warnings of the answer,
//! for pods and for workloads with a pod template. The `audit` level has no effect here.

mod checks;

use std::collections::BTreeMap;
use std::fmt;

use substrate::json::Value;

use self::checks::{BASELINE, Forbidden, Pod, RESTRICTED};
use crate::matching::Attributes;
use api_model::fields::FieldError;
use api_model::fields::value::{at, list, name, template_of, text};
use api_model::status::Status;

use crate::Cluster;
use api_model::kinds;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// Maximum number of existing pods that are checked when the `enforce` level becomes stricter.
const MOST_PODS: usize = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level and the minor version of its policy; `None` for the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standard {
    level: Level,
    minor: Option<u32>,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        })?;
        match self.minor {
            None => f.write_str(":latest"),
            Some(minor) => write!(f, ":v1.{minor}"),
        }
    }
}

impl Standard {
    fn judge(self, pod: &Pod<'_>) -> Vec<Forbidden> {
        let minor = self.minor.unwrap_or(u32::MAX);
        let restricted = RESTRICTED.iter().filter(|check| self.level == Level::Restricted && check.since <= minor);
        let overridden = |id: &str| restricted.clone().any(|check| check.overrides == id);
        let baseline =
            BASELINE.iter().filter(|c| self.level > Level::Privileged && c.since <= minor && !overridden(c.id));
        baseline.chain(restricted.clone()).filter_map(|check| (check.judge)(pod, minor)).collect()
    }
}

/// The levels that the labels of a namespace set.
struct Policy {
    enforce: Standard,
    warn: Standard,
    errors: Vec<FieldError>,
}

fn parse(labels: Option<&Value>) -> Policy {
    let mut errors = Vec::new();
    let mut read = |mode: &str, otherwise: Level| {
        let label = |part: &str| format!("{PREFIX}{mode}{part}");
        let of = |label: &str| labels.and_then(|l| l.get(label)).and_then(Value::as_str);
        let mut wrong = |label: &str, value: &str, why: &str| {
            errors.push(FieldError::invalid(format!("metadata.labels[{label}]"), &value.into(), why));
        };
        let level = of(&label("")).map(|level| match level {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            other => {
                wrong(&label(""), other, "must be one of privileged, baseline, restricted");
                None
            }
        });
        let place = label("-version");
        let minor = of(&place).map(|version| {
            let number = version.strip_prefix("v1.").filter(|n| *n == "0" || !n.starts_with(['0', '+']));
            match number.and_then(|n| n.parse::<u32>().ok()) {
                Some(minor) => Some(minor),
                None => {
                    if version != "latest" {
                        wrong(&place, version, "must be \"latest\" or \"v1.x\"");
                    }
                    None
                }
            }
        });
        let shown = level.map(|level| level.unwrap_or(otherwise));
        (Standard { level: shown.unwrap_or(Level::Privileged), minor: minor.flatten() }, level, minor.is_some())
    };
    // An invalid level counts as restricted for `enforce`, and as privileged for `warn`.
    let (enforce, enforce_level, _) = read("enforce", Level::Restricted);
    read("audit", Level::Privileged);
    let (mut warn, warn_level, warn_version) = read("warn", Level::Privileged);
    if warn_level.is_none() && enforce_level.flatten().is_some_and(|level| level > warn.level) {
        warn.level = enforce.level;
        if !warn_version {
            warn.minor = enforce.minor;
        }
    }
    Policy { enforce, warn, errors }
}

fn describe(forbidden: &[Forbidden]) -> String {
    let each = forbidden
        .iter()
        .map(|f| if f.detail.is_empty() { f.reason.clone() } else { format!("{} ({})", f.reason, f.detail) });
    each.collect::<Vec<_>>().join(", ")
}

/// Checks a write by the standards of its namespace.
///
/// # Errors
/// 403 if the pod violates the enforced level.
pub fn check(cluster: &dyn Cluster, request: &Attributes<'_>, warnings: &mut Vec<String>) -> Result<(), Status> {
    let kind = request.kind;
    if *kind == *kinds::NAMESPACES && request.subresource.is_empty() {
        return check_namespace_labels(cluster, request, warnings);
    }
    let Some(template) = template_of(request.kind.group, request.kind.kind) else { return Ok(()) };
    if request.subresource == "status" {
        return Ok(());
    }
    let Some(namespace) = request.namespace.and_then(|n| cluster.object(kinds::NAMESPACES, n)) else { return Ok(()) };
    let labels = at(&namespace.value, &["metadata", "labels"]);
    let labelled = labels.and_then(Value::as_object).is_some_and(|l| l.keys().any(|key| key.starts_with(PREFIX)));
    if !labelled {
        return Ok(());
    }
    let policy = parse(labels);
    let Some(template) = at(request.object, template) else { return Ok(()) };
    let pod = Pod { metadata: &template["metadata"], spec: &template["spec"] };
    let is_pod = *kind == *kinds::PODS;
    if is_pod && !request.old.is_null() && !is_significant(request.object, request.old) {
        return Ok(());
    }
    if is_pod {
        let forbidden = policy.enforce.judge(&pod);
        if !forbidden.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, describe(&forbidden));
            return Err(Status::forbidden(kind, request.name(), &why));
        }
    }
    let warned = policy.warn.judge(&pod);
    if !warned.is_empty() {
        warnings.push(format!("would violate PodSecurity \"{}\": {}", policy.warn, describe(&warned)));
    }
    Ok(())
}

/// Refuses invalid labels unless they were invalid before. If the labels become stricter, warns of existing pods
/// that violate them.
fn check_namespace_labels(
    cluster: &dyn Cluster,
    request: &Attributes<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let labels = |object| at(object, &["metadata", "labels"]);
    let new = parse(labels(request.object));
    let old = (!request.old.is_null()).then(|| parse(labels(request.old)));
    if !new.errors.is_empty() && old.as_ref().is_none_or(|old| old.errors != new.errors) {
        return Err(Status::invalid(request.kind, request.name(), new.errors));
    }
    let Some(old) = old else { return Ok(()) };
    let looser = new.enforce.minor == old.enforce.minor && new.enforce.level <= old.enforce.level;
    if new.enforce == old.enforce || new.enforce.level == Level::Privileged || looser {
        return Ok(());
    }
    warnings.extend(violations(cluster, request.name(), new.enforce));
    Ok(())
}

/// Returns warnings about the existing pods of a namespace that violate a standard.
fn violations(cluster: &dyn Cluster, namespace: &str, standard: Standard) -> Vec<String> {
    let prefix = api_model::key_range::prefix(Some(namespace));
    let pods = api_model::key_range::within(cluster.objects(kinds::PODS), &prefix, &prefix);
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (_, object) in pods.take(MOST_PODS) {
        let pod = Pod { metadata: &object.value["metadata"], spec: &object.value["spec"] };
        let forbidden = standard.judge(&pod);
        if forbidden.is_empty() {
            continue;
        }
        let reasons = forbidden.iter().map(|f| f.reason.as_str()).collect::<Vec<_>>().join(", ");
        let slot = found.entry(reasons).or_insert_with(|| (name(&object.value).to_owned(), 0));
        slot.1 += 1;
    }
    if found.is_empty() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = found
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            more => format!("{pod} (and {} other pods): {reasons}", more - 1),
        })
        .collect();
    warnings.sort();
    let first =
        format!("existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\"");
    std::iter::once(first).chain(warnings).collect()
}

/// Returns true if an update must be checked again: it changes an image or the number of containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, of: &str| -> Vec<String> {
        list(pod, &["spec", of]).iter().map(|container| text(container, &["image"]).to_owned()).collect()
    };
    if ["containers", "initContainers"].iter().any(|of| images(pod, of) != images(old, of)) {
        return true;
    }
    let before = list(old, &["spec", "ephemeralContainers"]);
    list(pod, &["spec", "ephemeralContainers"]).iter().any(|container| {
        let known = before.iter().find(|old| old["name"] == container["name"]);
        known.is_none_or(|old| old["image"] != container["image"])
    })
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn describe_failures(level: Level, minor: Option<u32>, spec: &Value) -> String {
        let pod = Pod { metadata: &Value::Null, spec };
        describe(&Standard { level, minor }.judge(&pod))
    }

    #[test]
    fn a_plain_pod_meets_the_baseline_and_not_the_restricted_standard() {
        let spec = json!({"containers": [{"name": "c"}]});
        assert_eq!(describe_failures(Level::Privileged, None, &spec), "");
        assert_eq!(describe_failures(Level::Baseline, None, &spec), "");
        assert_eq!(
            describe_failures(Level::Restricted, None, &spec),
            "allowPrivilegeEscalation != false (container \"c\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
             securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
             securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
    }

    #[test]
    fn a_pod_that_is_careful_meets_all() {
        let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let spec = json!({"containers": [{"name": "c", "securityContext": context}],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}});
        assert_eq!(describe_failures(Level::Restricted, None, &spec), "");
    }

    #[test]
    fn each_check_of_the_baseline_says_what_is_wrong() {
        let container = |more: Value| {
            let mut container = json!({"name": "c"});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"containers": [container]})
        };
        for (spec, wanted) in [
            (
                container(json!({"securityContext": {"privileged": true}})),
                "privileged (container \"c\" must not set securityContext.privileged=true)",
            ),
            (json!({"hostNetwork": true, "hostPID": true}), "host namespaces (hostNetwork=true, hostPID=true)"),
            (json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "hostPath volumes (volume \"v\")"),
            (
                container(json!({"ports": [{"hostPort": 80}, {"hostPort": 443}]})),
                "hostPort (container \"c\" uses hostPorts 443, 80)",
            ),
            (
                container(json!({"securityContext": {"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}})),
                "non-default capabilities (container \"c\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)",
            ),
            (
                container(json!({"securityContext": {"procMount": "Unmasked"}})),
                "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
            ),
            (
                json!({"securityContext": {"seLinuxOptions": {"type": "t", "user": "u"}}}),
                "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be set)",
            ),
            (
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
                "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
            ),
            (json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}), "forbidden sysctls (kernel.msgmax)"),
            (
                container(json!({"livenessProbe": {"httpGet": {"host": "h"}}})),
                "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")",
            ),
            (
                json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
                "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
            ),
            (
                json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}),
                "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
            ),
        ] {
            assert_eq!(describe_failures(Level::Baseline, None, &spec), wanted);
        }
    }

    #[test]
    fn the_version_of_a_policy_decides_which_checks_there_are() {
        let sysctl = json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}});
        assert_eq!(describe_failures(Level::Baseline, Some(31), &sysctl), "forbidden sysctls (net.ipv4.tcp_rmem)");
        assert_eq!(describe_failures(Level::Baseline, Some(32), &sysctl), "");
        let host = json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}], "containers": []});
        // The restricted check replaces that of the baseline.
        assert_eq!(
            describe_failures(Level::Restricted, Some(0), &host),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
        );
    }

    #[test]
    fn labels_are_read_with_their_defaults() {
        let policy = parse(Some(
            &json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30"}),
        ));
        assert_eq!((policy.enforce.to_string(), policy.warn), ("baseline:v1.30".to_owned(), policy.enforce));
        let policy = parse(Some(
            &json!({"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "1.2"}),
        ));
        assert_eq!(
            (policy.enforce.level, policy.warn, policy.errors.len()),
            (Level::Restricted, Standard { level: Level::Privileged, minor: None }, 2)
        );
    }
}
