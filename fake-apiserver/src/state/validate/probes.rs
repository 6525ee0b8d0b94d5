//! Probes and hooks of containers (`validateProbe`, `validateLifecycle`).

use substrate::json::Value;

use super::container::{Setting, one_of};
use super::{keys, refuse};
use crate::fields::FieldError;
use crate::state::value::{int, list, text};

/// Handlers of probes and hooks, in upstream's order.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
/// Numbers of a probe, in upstream's order.
const NUMBERS: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
const GRACE: &str = "terminationGracePeriodSeconds";
/// Probes, in upstream's order.
pub(super) const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Validates the hooks and probes of the container at `at`.
pub(super) fn all(container: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    for hook in ["postStart", "preStop"] {
        let (of, at) = (&container["lifecycle"][hook], format!("{at}.lifecycle.{hook}"));
        if !of.is_null() {
            handler(of, &at, setting, errors);
        }
    }
    let signal = &container["lifecycle"]["stopSignal"];
    if !signal.is_null() && setting.os.is_empty() {
        let why = "may not be set for containers with empty `spec.os.name`";
        errors.push(FieldError::forbidden(format!("{at}.lifecycle.stopSignal"), why));
    }
    for named in PROBES {
        if !container[named].is_null() {
            probe(&container[named], named, &format!("{at}.{named}"), setting, errors);
        }
    }
}

fn probe(probe: &Value, named: &str, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    handler(probe, at, setting, errors);
    for field in NUMBERS {
        if let Some(number) = int(probe, &[field]).filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), why));
        }
    }
    let grace = &probe[GRACE];
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.push(FieldError::invalid(format!("{at}.{GRACE}"), grace, "must be greater than 0"));
    }
    let successes = &probe["successThreshold"];
    if named != "readinessProbe" && *successes != 1 {
        errors.push(FieldError::invalid(format!("{at}.successThreshold"), successes, "must be 1"));
    }
    if named == "readinessProbe" && !grace.is_null() {
        errors.push(FieldError::invalid(format!("{at}.{GRACE}"), grace, "must not be set for readinessProbes"));
    }
}

/// Validates the only handler of a probe or a hook.
fn handler(of: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let mut handlers = HANDLERS.iter().filter(|handler| !of[**handler].is_null());
    let Some(first) = handlers.next() else {
        errors.push(FieldError::required(at, "must specify a handler type"));
        return;
    };
    let (action, place) = (&of[*first], format!("{at}.{first}"));
    match *first {
        "exec" if list(action, &["command"]).is_empty() => {
            errors.push(FieldError::required(format!("{place}.command"), ""));
        }
        "httpGet" => http(action, &place, errors),
        "tcpSocket" => port(&action["port"], &format!("{place}.port"), errors),
        "grpc" => port(&int(action, &["port"]).unwrap_or(0).into(), &format!("{place}.port"), errors),
        "sleep" => {
            let (seconds, grace) = (int(action, &["seconds"]).unwrap_or(0), setting.grace);
            if seconds < 0 || seconds > grace {
                let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.push(FieldError::invalid(&place, &seconds.into(), why));
            }
        }
        _ => {}
    }
    for other in handlers {
        errors.push(FieldError::forbidden(format!("{at}.{other}"), "may not specify more than 1 handler type"));
    }
}

fn http(action: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if text(action, &["path"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.path"), ""));
    }
    port(&action["port"], &format!("{at}.port"), errors);
    one_of(&action["scheme"], format!("{at}.scheme"), &["HTTP", "HTTPS"], errors);
    for header in list(action, &["httpHeaders"]) {
        let name = text(header, &["name"]);
        if let Some(why) = keys::header(name) {
            errors.push(FieldError::invalid(format!("{at}.httpHeaders"), &name.into(), why));
        }
    }
}

/// Validates the number or the name of a port.
fn port(port: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match port.as_str() {
        Some(name) => refuse(name, field, keys::port_name(name), errors),
        None => {
            let number = port.as_i64().unwrap_or(0);
            if let Some(why) = keys::port_number(number) {
                errors.push(FieldError::invalid(field, &number.into(), why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    /// Cases of upstream's `TestValidateProbe`, `TestValidateHandler` and `TestValidateLifecycle`.
    #[rstest]
    #[case(json!({"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 1}}), &[])]
    #[case(json!({"livenessProbe": {"successThreshold": 1}}), &["c.livenessProbe: Required value: must specify a handler type"])]
    #[case(json!({"startupProbe": {"exec": {"command": []}, "successThreshold": 2}}), &[
        "c.startupProbe.exec.command: Required value", "c.startupProbe.successThreshold: Invalid value: 2: must be 1"])]
    #[case(json!({"readinessProbe": {"exec": {"command": ["a"]}, "httpGet": {"path": "/", "port": 80},
        "periodSeconds": -1, "terminationGracePeriodSeconds": 1}}), &[
        "c.readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
        "c.readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        "c.readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes"])]
    #[case(json!({"readinessProbe": {"httpGet": {"path": "", "port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}}}), &[
        "c.readinessProbe.httpGet.path: Required value",
        "c.readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "c.readinessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
        "c.readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric \
         characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"])]
    #[case(json!({"readinessProbe": {"tcpSocket": {"port": "80"}}}),
        &["c.readinessProbe.tcpSocket.port: Invalid value: \"80\": must contain at least one letter (a-z)"])]
    #[case(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}), &["c.lifecycle.preStop.sleep: Invalid value: 31: \
        must be non-negative and less than terminationGracePeriodSeconds (30)"])]
    #[case(json!({"lifecycle": {"postStart": {}}}), &["c.lifecycle.postStart: Required value: must specify a handler type"])]
    #[case(json!({"lifecycle": {"stopSignal": "SIGUSR1"}}),
        &["c.lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"])]
    fn probes_and_hooks_are_checked(#[case] container: Value, #[case] wanted: &[&str]) {
        let mut errors = Vec::new();
        let spec = json!({"terminationGracePeriodSeconds": 30});
        all(&container, "c", &Setting::of(&spec, &[], &mut errors), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }
}
