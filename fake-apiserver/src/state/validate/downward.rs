//! References to fields and resources of the pod, in variables and in volumes (`validateObjectFieldSelector`,
//! `validateContainerResourceFieldSelector`).

use substrate::json::Value;

use super::{names, refuse};
use crate::fields::FieldError;
use crate::state::quantity;
use crate::state::value::text;

/// Fields that the downward API knows.
const KNOWN: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
/// Fields of variables.
pub(super) const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of volumes.
pub(super) const OF_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates a reference to a field; `supported` are the fields that may be used there.
pub(super) fn field(reference: &Value, supported: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let (version, path) = (text(reference, &["apiVersion"]), text(reference, &["fieldPath"]));
    let place = format!("{at}.fieldPath");
    if version.is_empty() {
        errors.push(FieldError::required(format!("{at}.apiVersion"), ""));
        return;
    }
    if path.is_empty() {
        errors.push(FieldError::required(place, ""));
        return;
    }
    let subscript = subscript(path);
    let why = match subscript {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {path}")),
        None if path == "spec.host" || KNOWN.contains(&path) => None,
        None => Some(format!("field label not supported: {path}")),
    };
    if let Some(why) = why {
        errors.push(FieldError::invalid(place, &path.into(), format!("error converting fieldPath: {why}")));
        return;
    }
    match subscript {
        Some(("metadata.labels", key)) => refuse(key, at, names::qualified(key), errors),
        Some((_, key)) => {
            let key = key.to_lowercase();
            refuse(&key, at, names::qualified(&key), errors);
        }
        None => {
            let path = if path == "spec.host" { "spec.nodeName" } else { path };
            if !supported.contains(&path) {
                errors.push(FieldError::not_supported(place, &path.into(), supported));
            }
        }
    }
}

/// Splits a path such as `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// Validates a reference to a resource of a container. In a volume, it names the container.
pub(super) fn resource(reference: &Value, in_volume: bool, at: &str, errors: &mut Vec<FieldError>) {
    let name = text(reference, &["resource"]);
    let is_page = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && text(reference, &["containerName"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.containerName"), ""));
    } else if name.is_empty() {
        errors.push(FieldError::required(format!("{at}.resource"), ""));
    } else if !is_page && !RESOURCES.contains(&name) {
        errors.push(FieldError::not_supported(format!("{at}.resource"), &name.into(), RESOURCES));
    }
    let divisor = text(reference, &["divisor"]);
    if quantity::nanos(divisor).is_none_or(|nanos| nanos == 0) {
        return;
    }
    let many = DIVISORS.join(", ");
    let (fits, allowed, of) = match name {
        "limits.cpu" | "requests.cpu" => (matches!(divisor, "1m" | "1"), "1m and 1", "cpu"),
        "limits.memory" | "requests.memory" => (DIVISORS.contains(&divisor), many.as_str(), "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (DIVISORS.contains(&divisor), many.as_str(), "local ephemeral storage")
        }
        _ => (!is_page || DIVISORS.contains(&divisor), many.as_str(), "hugepages"),
    };
    if !fits {
        let why = format!("only divisor's values {allowed} are supported with the {of} resource");
        errors.push(FieldError::invalid(format!("{at}.divisor"), &name.into(), why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    /// Cases of upstream's `TestValidateEnv`.
    #[rstest]
    #[case("metadata.name", &[])]
    #[case("metadata.labels['key']", &[])]
    #[case("spec.host", &[])]
    #[case("", &["f.fieldPath: Required value"])]
    #[case("metadata.whoops", &["f.fieldPath: Invalid value: \"metadata.whoops\": error converting fieldPath: field label \
        not supported: metadata.whoops"])]
    #[case("metadata.name['key']", &["f.fieldPath: Invalid value: \"metadata.name['key']\": error converting fieldPath: \
        field label does not support subscript: metadata.name['key']"])]
    #[case("status.phase", &["f.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \
        \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \
        \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""])]
    #[case("metadata.labels['a b/c']", &["f: Invalid value: \"a b/c\": prefix part a lowercase RFC 1123 subdomain must \
        consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
        (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"])]
    fn a_field_of_a_variable_is_checked(#[case] path: &str, #[case] wanted: &[&str]) {
        let mut errors = Vec::new();
        field(&json!({"apiVersion": "v1", "fieldPath": path}), OF_VARIABLES, "f", &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_resource_has_a_known_divisor() {
        let of = |reference: Value, in_volume| {
            let mut errors = Vec::new();
            resource(&reference, in_volume, "r", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(of(json!({"resource": "limits.cpu", "divisor": "1m"}), false).is_empty());
        assert!(of(json!({"resource": "limits.hugepages-2Mi", "divisor": "0"}), false).is_empty());
        assert_eq!(of(json!({"resource": "limits.cpu"}), true), ["r.containerName: Required value"]);
        let why = "r.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu \
                   resource";
        assert_eq!(of(json!({"resource": "limits.cpu", "divisor": "2"}), false), [why]);
    }
}
