//! PersistentVolumeClaims (`pkg/registry/core/persistentvolumeclaim/strategy.go`).

use substrate::json::{Text, Value, json};

use super::{PLAIN, Strategy, keep_the_rest};
use crate::kinds::{self, Kind};
use crate::state::command::Part;
use crate::state::quantity::Quantity;
use crate::state::status::Status;
use crate::state::validate::{claim, names, refuse, resource_names};
use crate::state::value::{self, at, has, map_mut, name, text};
use crate::state::{FieldError, Store, internal, quantity, warnings};

pub(super) static CLAIM: Strategy = Strategy {
    default,
    admit_create,
    check_create: |store, kind, claim| store.check_limits(kind, claim),
    check_update: |store, part, kind, claim, old| match part {
        Part::Main => {
            if !value::is_terminating(old) && !store.defects.checks_limits_once {
                store.check_limits(kind, claim)?;
            }
            store.admit_resize(kind, claim, old)
        }
        _ => Ok(()),
    },
    finalizer: Some("kubernetes.io/pvc-protection"),
    begin: |claim, _| {
        settle_source(claim, &Value::Null);
        Some(json!({"phase": "Pending"}))
    },
    prepare: |kind, part, claim, old, now| {
        keep_the_rest(kind, part, claim, old, now);
        if part == Part::Main {
            settle_source(claim, old);
        }
    },
    validate,
    validate_update: |part, claim, old, errors| match part {
        Part::Main => validate_update(claim, old, errors),
        Part::Status => validate_status(claim, errors),
        _ => {}
    },
    warn,
    ..PLAIN
};

const CLAIM_IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
/// States of an expansion.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
/// Annotations that mark a storage class as the default.
const DEFAULT_CLASS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(in crate::state) fn default(claim: &mut Value) {
    if let Some(spec) = map_mut(claim, "spec") {
        value::default(spec, "volumeMode", "Filesystem");
    }
    if let Some(status) = map_mut(claim, "status") {
        value::default(status, "phase", "Pending");
    }
}

/// Settles the source of a claim: drops one that upstream ignores, and copies the field that is set into the other
/// (`DropDisabledFields`, `EnforceDataSourceBackwardsCompatibility`, `NormalizeDataSources`). A claim that had a source
/// keeps it.
fn settle_source(claim: &mut Value, old: &Value) {
    let had_reference = has(old, &["spec", "dataSourceRef"]);
    let had_source = had_reference || has(old, &["spec", "dataSource"]);
    let elsewhere = !text(claim, &["spec", "dataSourceRef", "namespace"]).is_empty();
    let kind = (text(claim, &["spec", "dataSource", "apiGroup"]), text(claim, &["spec", "dataSource", "kind"]));
    let is_usual = matches!(kind, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"));
    let Some(spec) = map_mut(claim, "spec") else { return };
    // CrossNamespaceVolumeDataSource is off.
    if elsewhere && !had_reference {
        spec.remove("dataSourceRef");
    }
    if !is_usual && !had_source && spec.get("dataSourceRef").is_none() {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => drop(spec.insert("dataSourceRef", source)),
        // The deprecated field cannot refer to another namespace.
        (None, Some(reference)) if !elsewhere => drop(spec.insert("dataSource", reference)),
        _ => {}
    }
}

fn admit_create(store: &Store, _: &Kind, claim: &mut Value) -> Result<(), Status> {
    if !store.defects.leaves_class_out {
        store.default_class(claim);
    }
    Ok(())
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    claim::spec(&object["spec"], "spec", errors);
}

/// Validates an update. The spec is immutable except for the volume (once), the class (if unset), and the size and the
/// attributes class (both if bound).
fn validate_update(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    validate(claim, errors);
    let (mut new, mut was) = (claim["spec"].clone(), old["spec"].clone());
    let bound = text(claim, &["status", "phase"]) == "Bound";
    if text(old, &["spec", "volumeName"]).is_empty() {
        value::set(&mut was, "volumeName", new.get("volumeName").cloned());
    }
    let (annotation, class) = (class_annotation(old), at(claim, &["spec", "storageClassName"]).and_then(Value::as_str));
    let had_class = has(old, &["spec", "storageClassName"]);
    // The class of the annotation may become that of the spec.
    let moves = annotation.is_some()
        && !had_class
        && class == annotation
        && class_annotation(claim).is_none_or(|new| Some(new) == annotation);
    if !moves && class_annotation(claim).unwrap_or_default() != annotation.unwrap_or_default() {
        let shown = class_annotation(claim).unwrap_or_default().into();
        errors.push(FieldError::immutable(format!("metadata.annotations.{}", warnings::OLD_CLASS), &shown));
    }
    if moves || class.is_some() && !had_class && annotation.is_none_or(|annotation| class == Some(annotation)) {
        value::set(&mut new, "storageClassName", None);
    }
    if bound {
        value::set(&mut new, "volumeAttributesClassName", was.get("volumeAttributesClassName").cloned());
        if let Some(requests) = new.pointer_mut("/resources/requests").and_then(Value::as_object_mut)
            && let Some(size) = at(&was, &["resources", "requests", "storage"])
        {
            requests.insert("storage", size.clone());
        }
    }
    if new != was {
        let difference = internal::diff(&was, &new, internal::CLAIM_SPEC);
        errors.push(FieldError::forbidden("spec", format!("{CLAIM_IMMUTABLE}\n{difference}")));
    }
    size_update(claim, old, errors);
    // Upstream names the field without its path.
    if claim["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        errors.push(FieldError::immutable("volumeMode", &claim["spec"]["volumeMode"]));
    }
    attributes_update(claim, old, errors);
}

/// Checks that a claim keeps an attributes class once it has had one.
fn attributes_update(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let class = |of: &Value| at(of, &["spec", "volumeAttributesClassName"]).and_then(Value::as_str).map(str::to_owned);
    let (new, was) = (class(claim), class(old));
    if new == was || !has(old, &["status", "currentVolumeAttributesClassName"]) {
        return;
    }
    let what = match new.as_deref() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden("spec.volumeAttributesClassName", why));
}

/// Validates the amounts in a status, and the states of expansions.
fn validate_status(claim: &Value, errors: &mut Vec<FieldError>) {
    const STATES: &str = "status.allocatedResourceStatuses";
    let map = |field: &str| claim["status"][field].as_object().into_iter().flatten();
    amounts(map("capacity"), "status.capacity", errors);
    for (resource, state) in map("allocatedResourceStatuses") {
        resource_key(resource, STATES, errors);
        if !state.as_str().is_some_and(|state| RESIZES.contains(&state)) {
            // Upstream shows the resource.
            errors.push(FieldError::not_supported(STATES, &resource.into(), RESIZES));
        }
    }
    let (valid, wrong): (Vec<_>, Vec<_>) = map("allocatedResources").partition(|(resource, _)| {
        let mut found = Vec::new();
        resource_key(resource, "", &mut found);
        found.is_empty()
    });
    for (resource, _) in wrong {
        resource_key(resource, "status.allocatedResources", errors);
    }
    amounts(valid.into_iter(), "status.allocatedResources", errors);
}

/// Refuses negative amounts.
fn amounts<'a>(amounts: impl Iterator<Item = (&'a Text, &'a Value)>, at: &str, errors: &mut Vec<FieldError>) {
    for (resource, amount) in amounts {
        let units = amount.as_str().and_then(Quantity::parse).map(Quantity::whole);
        if let Some(units) = units.filter(|units| *units < 0) {
            let why = "must be a valid resource quantity";
            errors.push(FieldError::invalid_text(format!("{at}[{resource}]"), units.to_string(), why));
        }
    }
}

/// Validates the name of a resource of a claim. The only one of Kubernetes is its storage.
fn resource_key(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let why = names::qualified(name);
    if why.is_empty() && resource_names::is_native(name) && name != "storage" {
        errors.push(FieldError::not_supported(field, &name.into(), &["storage"]));
    }
    refuse(name, field, why, errors);
}

/// Validates a size change. A claim may grow; it may shrink only to recover from an expansion, and must stay above its
/// present capacity.
fn size_update(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = ["spec", "resources", "requests", "storage"];
    let field = "spec.resources.requests.storage";
    let (new, was) = (quantity::nanos(text(claim, &path)), quantity::nanos(text(old, &path)));
    // An unbound claim has no capacity.
    let has_now = quantity::nanos(text(old, &["status", "capacity", "storage"])).unwrap_or(0);
    if let (Some(new), Some(was)) = (new, was)
        && new < was
        && new <= has_now
    {
        errors.push(FieldError::forbidden(field, "field can not be less than status.capacity"));
    }
}

fn class_annotation(object: &Value) -> Option<&str> {
    at(object, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]).and_then(Value::as_str)
}

fn warn(claim: &Value, _: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let old_class = warnings::OLD_CLASS;
    if has(claim, &["metadata", "annotations", old_class]) {
        found.push(format!("metadata.annotations[{old_class}]: {}", warnings::OLD_CLASS_TEXT));
    }
    warnings::of_claim_spec("spec", &claim["spec"], &mut found);
    found
}

impl Store {
    /// Gives a claim without a class the default one: the newest, and of several of the same second the first by name.
    fn default_class(&self, claim: &mut Value) {
        let annotated = has(claim, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
        let class = ["spec", "storageClassName"];
        let is_spoilt = self.defects.defaults_empty_class && text(claim, &class).is_empty();
        // A class of "" is a choice: no class.
        if annotated || has(claim, &class) && !is_spoilt {
            return;
        }
        let is_default =
            |class: &Value| DEFAULT_CLASS.iter().any(|a| text(class, &["metadata", "annotations", a]) == "true");
        let created = |class: &Value| text(class, &["metadata", "creationTimestamp"]).to_owned();
        let marked = self.all(kinds::STORAGE_CLASSES).filter(|class| is_default(&class.value));
        let chosen = match self.defects.takes_oldest_class {
            true => marked.min_by_key(|class| created(&class.value)),
            // `max_by_key` returns the last of equal elements, but the first by name is needed.
            false => marked.rev_max_by(|class| created(&class.value)),
        };
        if let (Some(class), Some(spec)) = (chosen, value::map_mut(claim, "spec")) {
            spec.insert("storageClassName", name(&class.value).into());
        }
    }

    /// Refuses a larger size unless the claim is bound and its class allows expansion (`PersistentVolumeClaimResize`).
    fn admit_resize(&self, kind: &Kind, claim: &Value, old: &Value) -> Result<(), Status> {
        let path = ["spec", "resources", "requests", "storage"];
        let (new, was) = (quantity::nanos(text(claim, &path)), quantity::nanos(text(old, &path)));
        if self.defects.refuses_recovery && matches!((new, was), (Some(new), Some(was)) if new < was) {
            return Err(Status::forbidden(kind, name(claim), "field can not be less than previous value"));
        }
        if !matches!((new, was), (Some(new), Some(was)) if new > was) {
            return Ok(());
        }
        if text(old, &["status", "phase"]) != "Bound" {
            return Err(Status::forbidden(kind, name(claim), "Only bound persistent volume claims can be expanded"));
        }
        let class = text(claim, &["spec", "storageClassName"]);
        let allows =
            self.get(kinds::STORAGE_CLASSES, class).is_some_and(|class| class.value["allowVolumeExpansion"] == true);
        if allows || self.defects.expands_any_class {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
        Err(Status::forbidden(kind, name(claim), why))
    }
}

/// Returns the first maximum in iteration order.
trait RevMax: Iterator + Sized {
    fn rev_max_by<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        self.fold(None, |best: Option<Self::Item>, item| match best {
            Some(best) if key(&best) >= key(&item) => Some(best),
            _ => Some(item),
        })
    }
}

impl<I: Iterator> RevMax for I {}
