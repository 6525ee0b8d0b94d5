//! Variables of containers (`ValidateEnv`, `ValidateEnvFrom`).

use substrate::json::Value;

use super::sources::no_backsteps;
use super::{downward, keys, names, refuse};
use crate::fields::FieldError;
use crate::state::value::{list, text};

/// Sources of the value of a variable.
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Validates the variables of the container at `at`.
pub(super) fn variables(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, variable) in list(container, &["env"]).iter().enumerate() {
        let (name, at) = (text(variable, &["name"]), format!("{at}.env[{i}]"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else {
            refuse(name, &format!("{at}.name"), keys::variable(name), errors);
        }
        if !variable["valueFrom"].is_null() {
            source(variable, &format!("{at}.valueFrom"), errors);
        }
    }
}

fn source(variable: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let of = &variable["valueFrom"];
    for named in SOURCES.iter().filter(|source| !of[**source].is_null()) {
        let (source, at) = (&of[*named], format!("{at}.{named}"));
        match *named {
            "fieldRef" => downward::field(source, downward::OF_VARIABLES, &at, errors),
            "resourceFieldRef" => downward::resource(source, false, &at, errors),
            "fileKeyRef" => file(source, &at, errors),
            _ => key(source, &at, errors),
        }
    }
    let count = SOURCES.iter().filter(|source| !of[**source].is_null()).count();
    let why = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !text(variable, &["value"]).is_empty() {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(FieldError::invalid(at, &"".into(), why));
}

/// Validates a key of a ConfigMap or a Secret.
fn key(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (name, key) = (text(source, &["name"]), text(source, &["key"]));
    refuse(name, &format!("{at}.name"), names::subdomain(name), errors);
    if key.is_empty() {
        errors.push(FieldError::required(format!("{at}.key"), ""));
    } else {
        refuse(key, &format!("{at}.key"), keys::key(key), errors);
    }
}

/// Validates a key of a file in a volume.
fn file(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["key", "volumeName", "path"] {
        let (value, place) = (text(source, &[field]), format!("{at}.{field}"));
        match field {
            _ if value.is_empty() => errors.push(FieldError::required(place, "")),
            "key" => refuse(value, &place, keys::variable(value), errors),
            "volumeName" => refuse(value, &place, names::label(value), errors),
            _ => no_backsteps(value, &place, errors),
        }
    }
}

/// Validates the sources of all variables. Upstream reports a wrong number of sources without its position.
pub(super) fn sources(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, from) in list(container, &["envFrom"]).iter().enumerate() {
        let place = format!("{at}.envFrom[{i}]");
        let prefix = text(from, &["prefix"]);
        if !prefix.is_empty() {
            refuse(prefix, &format!("{place}.prefix"), keys::variable(prefix), errors);
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let (source, place) = (&from[field], format!("{place}.{field}.name"));
            if source.is_null() {
                continue;
            }
            count += 1;
            let name = text(source, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(place, ""));
            } else {
                refuse(name, &place, names::subdomain(&names::masked(name)), errors);
            }
        }
        let why = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(format!("{at}.envFrom"), &"".into(), why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    /// Cases of upstream's `TestValidateEnv` and `TestValidateEnvFrom`.
    #[rstest]
    #[case(json!({"env": [{"name": "a.b"}, {"name": "1"}]}), &[])]
    #[case(json!({"env": [{"name": ""}]}), &["c.env[0].name: Required value"])]
    #[case(json!({"env": [{"name": "a=b"}]}), &["c.env[0].name: Invalid value: \"a=b\": a valid environment variable name \
        must consist only of printable ASCII characters other than '='"])]
    #[case(json!({"env": [{"name": "a", "valueFrom": {}}]}), &["c.env[0].valueFrom: Invalid value: \"\": must specify one \
        of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"])]
    #[case(json!({"env": [{"name": "a", "value": "v", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        &["c.env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"])]
    #[case(json!({"env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"},
        "configMapKeyRef": {"name": "m", "key": ""}}}]}), &["c.env[0].valueFrom.configMapKeyRef.key: Required value",
        "c.env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time"])]
    #[case(json!({"env": [{"name": "a", "valueFrom": {"fileKeyRef": {"key": "K", "path": "../a"}}}]}), &[
        "c.env[0].valueFrom.fileKeyRef.volumeName: Required value",
        "c.env[0].valueFrom.fileKeyRef.path: Invalid value: \"../a\": must not contain '..'"])]
    #[case(json!({"envFrom": [{"configMapRef": {"name": "m-"}}]}), &[])]
    #[case(json!({"envFrom": [{}]}), &["c.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"])]
    #[case(json!({"envFrom": [{"configMapRef": {"name": ""}, "secretRef": {"name": "s"}}]}), &[
        "c.envFrom[0].configMapRef.name: Required value",
        "c.envFrom: Invalid value: \"\": may not have more than one field specified at a time"])]
    fn variables_have_one_value(#[case] container: Value, #[case] wanted: &[&str]) {
        let mut errors = Vec::new();
        variables(&container, "c", &mut errors);
        sources(&container, "c", &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }
}
