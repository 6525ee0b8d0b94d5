//! CertificateSigningRequests (`registry/certificates`, `pkg/apis/certificates/validation`). The server fills in the
//! requester, the spec never changes, and each part of the status has its own subresource.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::Now;
use substrate::json::Value;

use super::FieldError;
use super::command::Part;
use super::user::Identity;
use super::value::{self, list, text};

/// Condition types that only `/approval` sets.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Fills in the requester and ignores what the client wrote there.
pub(super) fn note_requester(request: &mut Value, requester: Option<&Identity>) {
    let (Some(spec), Some(requester)) = (value::map_mut(request, "spec"), requester) else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    if let Value::Object(info) = requester.user_info() {
        spec.extend(info);
    }
}

/// Copies from the old request the parts that this subresource does not write, and fills in the times of conditions.
pub(super) fn prepare(part: Part, request: &mut Value, old: &Value, now: Now) {
    value::copy(old, request, "spec");
    let sent = list(request, &["status", "conditions"]).to_vec();
    let was = list(old, &["status", "conditions"]);
    let decides = |condition: &Value| DECISIONS.contains(&text(condition, &["type"]));
    let mut conditions: Vec<Value> = match part {
        // Decisions stay as they were.
        Part::Status => was.iter().filter(|c| decides(c)).chain(sent.iter().filter(|c| !decides(c))).cloned().collect(),
        Part::Approval => sent,
        _ => was.to_vec(),
    };
    for condition in &mut conditions {
        let before = was.iter().find(|b| b["type"] == condition["type"]);
        let since = before
            .filter(|before| before["status"] == condition["status"])
            .map(|before| text(before, &["lastTransitionTime"]))
            .unwrap_or_default();
        let now = value::time(now.wall);
        let since = if since.is_empty() { now.as_str() } else { since };
        if let Some(fields) = condition.as_object_mut() {
            value::default(fields, "lastUpdateTime", now.as_str());
            value::default(fields, "lastTransitionTime", since);
        }
    }
    if part != Part::Status {
        value::copy(old, request, "status");
    }
    if let Some(status) = value::map_mut(request, "status") {
        status.remove("conditions");
        if !conditions.is_empty() {
            status.insert("conditions", conditions.into());
        }
    }
}

/// Validates a new request.
pub(super) fn check(request: &Value, errors: &mut Vec<FieldError>) {
    let spec = &request["spec"];
    let pem = STANDARD.decode(text(spec, &["request"])).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let is_one = pem.is_some_and(|pem| {
        pem.contains("-----BEGIN CERTIFICATE REQUEST-----") && pem.contains("-----END CERTIFICATE REQUEST-----")
    });
    if !is_one {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid("spec.request", &spec["request"], why));
    }
    if list(spec, &["usages"]).is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let signer = text(spec, &["signerName"]);
    if signer.is_empty() {
        errors.push(FieldError::required("spec.signerName", ""));
    } else if signer.split_once('/').is_none_or(|(domain, path)| !domain.contains('.') || path.is_empty()) {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid("spec.signerName", &spec["signerName"], why));
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", &spec["expirationSeconds"], why));
    }
}

/// Validates an update: a request is not both approved and denied, decisions are not removed, the certificate does not
/// change.
pub(super) fn check_update(part: Part, request: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let has = |of: &Value, wanted: &str| list(of, &["status", "conditions"]).iter().any(|c| c["type"] == wanted);
    if DECISIONS.iter().all(|decision| has(request, decision)) {
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid("status.conditions", &request["status"]["conditions"], why));
    }
    if part == Part::Approval {
        for decision in DECISIONS.iter().filter(|d| has(old, d) && !has(request, d)) {
            let why = format!("updates may not remove a condition of type \"{decision}\"");
            errors.push(FieldError::forbidden("status.conditions", why));
        }
    }
    let (was, now) = (text(old, &["status", "certificate"]), text(request, &["status", "certificate"]));
    if !was.is_empty() && was != now {
        errors.push(FieldError::forbidden(
            "status.certificate",
            "updates may not set or modify existing certificate data",
        ));
    }
}
