//! API approval of kinds in the community's groups (apiextensions `pkg/apihelpers`, KEP-1111).

use substrate::json::Value;

use crate::fields::FieldError;
use crate::fields::value::text;

/// Annotation of a definition that refers to its approval.
const ANNOTATION: &str = "api-approved.kubernetes.io";
/// Reference in messages.
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
/// Path of the annotation in errors.
const FIELD: &str = "metadata.annotations[api-approved.kubernetes.io]";
/// Condition of definitions in protected groups.
pub const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";

/// State of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// Returns true if a group is one of the community's.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn annotation(definition: &Value) -> &str {
    text(definition, &["metadata", "annotations", ANNOTATION])
}

/// Returns true if a text is a URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let mut letters = scheme.chars();
    let named = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    named && !host.is_empty() && !text.chars().any(|c| c.is_ascii_control() || c == ' ')
}

/// Returns the state of the approval and its reason; `None` outside protected groups.
fn state(definition: &Value) -> Option<(State, String)> {
    if !is_protected(text(definition, &["spec", "group"])) {
        return None;
    }
    let message = annotation(definition);
    Some(if message.is_empty() {
        (State::Missing, format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}"))
    } else if message.starts_with("unapproved") {
        (State::Bypassed, format!("not approved: {message:?}"))
    } else if is_url(message) {
        (State::Approved, format!("approved in {message}"))
    } else {
        let why = "with either a URL or a reason starting with \"unapproved\"";
        (State::Invalid, format!("protected groups must have approval annotation {ANNOTATION:?} {why}, {SEE}"))
    })
}

/// Validates the approval of a definition. A state that did not change is not refused.
pub fn check(definition: &Value, old: Option<&Value>) -> Option<FieldError> {
    let (now, why) = state(definition)?;
    if old.and_then(state).is_some_and(|(before, _)| before == now) {
        return None;
    }
    match now {
        State::Missing => Some(FieldError::required(FIELD, why)),
        State::Invalid => Some(FieldError::invalid(FIELD, &annotation(definition).into(), why)),
        State::Bypassed | State::Approved => None,
    }
}

/// Returns the status of the condition, its reason and its message; `None` outside protected groups.
pub fn condition(definition: &Value) -> Option<(bool, &'static str, String)> {
    let (state, why) = state(definition)?;
    let reason = match state {
        State::Missing => "MissingAnnotation",
        State::Bypassed => "UnapprovedAnnotation",
        State::Approved => "ApprovedAnnotation",
        State::Invalid => "InvalidAnnotation",
    };
    Some((state == State::Approved, reason, why))
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn state_of(group: &str, message: &str) -> Option<State> {
        let definition = json!({"metadata": {"annotations": {ANNOTATION: message}}, "spec": {"group": group}});
        state(&definition).map(|(state, _)| state)
    }

    #[test]
    fn an_approval_is_a_url_or_a_reason_for_none() {
        assert_eq!(state_of("example.com", ""), None);
        assert_eq!(state_of("ask8s.io", ""), None);
        for group in ["k8s.io", "snapshot.storage.k8s.io", "kubernetes.io", "x.kubernetes.io"] {
            assert_eq!(state_of(group, ""), Some(State::Missing), "{group}");
        }
        assert_eq!(state_of("x.k8s.io", "unapproved, experimental-only"), Some(State::Bypassed));
        assert_eq!(state_of("x.k8s.io", "https://github.com/kubernetes/kubernetes/pull/78458"), Some(State::Approved));
        for bad in ["yes", "https://", "/pull/1", "1x://host"] {
            assert_eq!(state_of("x.k8s.io", bad), Some(State::Invalid), "{bad}");
        }
    }
}
