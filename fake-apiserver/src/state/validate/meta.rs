//! Names, labels, annotations, finalizers and owners (apimachinery `api/validation/objectmeta.go`).

use substrate::json::{Value, json};

use super::{names, refuse, selector};
use crate::kinds::{self, Kind};
use crate::state::FieldError;
use crate::state::value::{at, list, name, text};

/// Maximum size of all annotations in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Kubernetes' own finalizers without a domain.
pub(in crate::state) const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
/// Finalizers that exclude each other.
const OF_DEPENDENTS: [&str; 2] = ["orphan", "foregroundDeletion"];

pub(in crate::state) fn create(kind: &Kind, check_name: fn(&str) -> Vec<String>, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, base) = (name(object), text(object, &["metadata", "generateName"]));
    if !base.is_empty() && !checks_generated_only(kind) {
        refuse(base, "metadata.generateName", check_name(&names::masked(base)), &mut errors);
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        refuse(name, "metadata.name", check_name(name), &mut errors);
    }
    common(object, &mut errors);
    let finalizers = list(object, &["metadata", "finalizers"]);
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        refuse(finalizer, "metadata.finalizers", names::qualified(finalizer), &mut errors);
    }
    if OF_DEPENDENTS.iter().all(|one| finalizers.iter().any(|finalizer| finalizer == one)) {
        let why = format!("finalizer {} and {} cannot be both set", OF_DEPENDENTS[0], OF_DEPENDENTS[1]);
        errors.push(FieldError::invalid("metadata.finalizers", &object["metadata"]["finalizers"], why));
    }
    standard_finalizers(kind, finalizers, &mut errors);
    errors
}

/// Validates the metadata of an updated object.
pub(in crate::state) fn update(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    common(object, &mut errors);
    standard_finalizers(kind, list(object, &["metadata", "finalizers"]), &mut errors);
    errors
}

/// Returns true for a kind of which upstream validates only the generated name, not its base.
fn checks_generated_only(kind: &Kind) -> bool {
    kind == kinds::REPLICATION_CONTROLLERS || kind == kinds::DEVICE_CLASSES
}

/// Validates what new and updated objects have in common.
fn common(object: &Value, errors: &mut Vec<FieldError>) {
    selector::labels(&object["metadata"]["labels"], "metadata.labels", errors);
    annotations(&object["metadata"]["annotations"], "metadata.annotations", errors);
    owners(list(object, &["metadata", "ownerReferences"]), errors);
}

/// Validates annotations: their keys, and the size of all of them.
pub(in crate::state) fn annotations(annotations: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        refuse(key, field, names::qualified(&key.to_lowercase()), errors);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(field, ANNOTATIONS_LIMIT));
    }
}

fn standard_finalizers(kind: &Kind, finalizers: &[Value], errors: &mut Vec<FieldError>) {
    if takes_any_finalizer(kind) {
        return;
    }
    for (i, finalizer) in finalizers.iter().enumerate() {
        let shown = finalizer.as_str().unwrap_or_default();
        if !shown.contains('/') && !STANDARD_FINALIZERS.contains(&shown) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), finalizer, why));
        }
    }
}

/// Returns true if the kind uses the validation that all API servers share. That of `pkg/apis/core` is stricter about
/// finalizers.
fn takes_any_finalizer(kind: &Kind) -> bool {
    const GROUPS: [&str; 4] =
        ["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"];
    kind.custom.is_some() || GROUPS.contains(&kind.group)
}

fn owners(owners: &[Value], errors: &mut Vec<FieldError>) {
    const AT: &str = "metadata.ownerReferences";
    let mut controller = String::new();
    for owner in owners {
        let (version, kind) = (text(owner, &["apiVersion"]), text(owner, &["kind"]));
        // A text with two slashes has no version.
        if version.is_empty() || version.ends_with('/') || version.matches('/').count() > 1 {
            let why = "version must not be empty";
            errors.push(FieldError::invalid(format!("{AT}.apiVersion"), &version.into(), why));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, &[field]).is_empty() {
                errors.push(FieldError::invalid(format!("{AT}.{field}"), &"".into(), "must not be empty"));
            }
        }
        if (version, kind) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_text(AT, shown(owner), why));
        }
        if owner["controller"] != true {
            continue;
        }
        let this = format!("{kind}/{}", text(owner, &["name"]));
        if controller.is_empty() {
            controller = this;
        } else {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {controller} and \
                 {this}"
            );
            let all: Vec<String> = owners.iter().map(shown).collect();
            errors.push(FieldError::invalid_text(AT, format!("[{}]", all.join(",")), why));
        }
    }
}

/// Prints an owner with its fields in Go's order.
fn shown(owner: &Value) -> String {
    let needed = ["apiVersion", "kind", "name", "uid"].map(|field| (field, json!(text(owner, &[field]))));
    let rest = ["controller", "blockOwnerDeletion"]
        .into_iter()
        .filter_map(|field| Some((field, at(owner, &[field])?.clone())));
    let fields: Vec<String> =
        needed.into_iter().chain(rest).map(|(field, value)| format!("\"{field}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn of(metadata: Value) -> Vec<String> {
        texts(&create(kinds::STORAGE_CLASSES, names::subdomain, &json!({"metadata": metadata})))
    }

    #[test]
    fn a_base_of_a_name_may_end_with_a_dash() {
        assert_eq!(of(json!({"name": "a-x7b2k", "generateName": "a-"})), Vec::<String>::new());
        let wrong = of(json!({"name": "A-x7b2k", "generateName": "A-"}));
        assert_eq!(wrong.len(), 1, "the last letter before the dash is not looked at: {wrong:?}");
        let wrong = of(json!({"name": "A.b-x7b2k", "generateName": "A.b-"}));
        assert!(wrong[0].starts_with("metadata.generateName: Invalid value: \"A.b-\": a lowercase RFC 1123 subdomain"));
        assert_eq!(of(json!({})), ["metadata.name: Required value: name or generateName is required"]);
    }

    /// Cases of upstream's `TestValidateObjectMetaOwnerReferences`.
    #[rstest]
    #[case::no_version(json!([{"apiVersion": "g/", "kind": "K", "name": "n", "uid": "1"}]),
        &["metadata.ownerReferences.apiVersion: Invalid value: \"g/\": version must not be empty"])]
    #[case::empty(json!([{}]), &[
        "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
        "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
        "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
        "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"])]
    #[case::event(json!([{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "1"}]),
        &["metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"1\"}: \
           /v1, Kind=Event is disallowed from being an owner"])]
    #[case::two_controllers(json!([
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true}]),
        &["metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"1\",\
           \"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"2\",\"controller\":true}]: \
           Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Pod/b"])]
    fn owners_are_checked(#[case] owners: Value, #[case] wanted: &[&str]) {
        assert_eq!(of(json!({"name": "a", "ownerReferences": owners})), wanted);
    }

    #[test]
    fn finalizers_are_qualified_and_do_not_contradict() {
        assert_eq!(
            of(json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]})),
            ["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
              foregroundDeletion cannot be both set"]
        );
        assert_eq!(
            of(json!({"name": "a", "finalizers": ["mine"]})),
            [
                "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully \
              qualified"
            ]
        );
        let updated = update(kinds::STORAGE_CLASSES, &json!({"metadata": {"name": "a", "finalizers": ["a b/c"]}}));
        assert_eq!(texts(&updated), Vec::<String>::new(), "an update does not look at the form");
    }
}
