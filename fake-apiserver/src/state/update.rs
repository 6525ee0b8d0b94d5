//! PUT and PATCH (apiserver `registry/rest/update.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use substrate::Now;
use substrate::json::Value;

use super::command::{Part, Reply, Target, WriteOptions};
use super::create::{identify, stored};
use super::flaw::FieldValidation;
use super::matching::Attributes;
use super::object::{Key, Object, key};
use super::status::Status;
use super::value::{self, copy, copy_meta, finalizers, int, is_terminating, resource_version, text, uid};
use super::{FieldError, KNOWN, Store, certificate, default, initial, managed, shape, validate, view, warnings};
use crate::kinds::{self, Kind};
use crate::patch::{self, PatchKind};

impl Target {
    /// Where the object stands within its kind.
    pub fn key(&self) -> Key {
        key(self.namespace.as_deref(), &self.name)
    }
}

impl Store {
    pub(super) fn update(
        &mut self,
        now: Now,
        target: &Target,
        mut object: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let served = &target.kind;
        if target.part == Part::Scale {
            return self.update_scale(now, target, &object, options);
        }
        let unknown = shape::decode(served, &mut object)?;
        self.judge_fields(&options, unknown).map_err(|why| shape::refusal(served, why))?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        let (kind, object) = stored(served, object);
        let Some(old) = self.get(kind, &target.key()).map(Object::unfolded) else {
            let sent = uid(&object);
            if !sent.is_empty() {
                return Err(uid_mismatch(served, target, sent, ""));
            }
            // Leases and Events may be made by PUT (their strategies' AllowCreateOnUpdate).
            if target.part == Part::Main && matches!(kind.kind, "Lease" | "Event") {
                return self.create(now, kind, target.namespace.as_deref(), object, options);
            }
            return Err(Status::not_found(served, &target.name));
        };
        check_unconditional(served, target, &object)?;
        let sent = uid(&object);
        if !sent.is_empty() && sent != uid(&old.value) {
            return Err(uid_mismatch(served, target, sent, uid(&old.value)));
        }
        self.replace(now, served, target, &old, object, options, false)
    }

    /// Server-side apply.
    pub(super) fn apply_configuration(
        &mut self,
        now: Now,
        target: &Target,
        mut applied: Value,
        force: bool,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let served = &target.kind;
        if target.part == Part::Scale {
            // A Scale has one field: to apply it is to set it.
            return self.patch_scale(now, target, PatchKind::Merge, applied, options);
        }
        let as_sent = applied.clone();
        let mut undeclared = if served.custom.is_none() { managed::undeclared(served, &applied) } else { Vec::new() };
        let unknown = shape::decode_applied(served, &mut applied)?;
        if served.custom.is_some() {
            undeclared.extend(unknown.iter().map(|path| managed::not_declared(&format!(".{path}"))));
        }
        if !value::list(&applied, &["metadata", "managedFields"]).is_empty() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut applied)?;
        let (kind, mut applied) = stored(served, applied);
        let manager = options.manager.clone();
        let writer = managed::Writer { kind, part: target.part, manager: &manager, now };
        managed::appliable(&writer, &applied, undeclared)?;
        let Some(old) = self.get(kind, &target.key()).map(Object::unfolded) else {
            let sent = uid(&applied);
            if !sent.is_empty() {
                return Err(uid_mismatch(served, target, sent, ""));
            }
            if target.part != Part::Main {
                return Err(Status::not_found(served, &target.name));
            }
            managed::created(&writer, &mut applied, &as_sent);
            self.judge_applied(&options)?;
            shape::drop_empty(kind, &mut applied);
            return self.create_stored(now, served, target.namespace.as_deref(), applied, &options);
        };
        let sent = uid(&applied);
        if !sent.is_empty() && sent != uid(&old.value) {
            return Err(uid_mismatch(served, target, sent, uid(&old.value)));
        }
        let mut object = managed::apply(&writer, &old.value, &applied, &as_sent, force)?;
        shape::drop_empty(kind, &mut object);
        self.judge_applied(&options)?;
        self.replace(now, served, target, &old, object, options, true)
    }

    /// The object that `target` names, as it is stored.
    pub(super) fn existing(&self, target: &Target) -> Result<Arc<Object>, Status> {
        let found = self.get(kinds::stored(&target.kind), &target.key());
        found.map(Object::unfolded).ok_or_else(|| Status::not_found(&target.kind, &target.name))
    }

    pub(super) fn patch(
        &mut self,
        now: Now,
        target: &Target,
        patch_kind: PatchKind,
        patch: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let served = &target.kind;
        if target.part == Part::Scale {
            return self.patch_scale(now, target, patch_kind, patch, options);
        }
        let old = self.existing(target)?;
        let viewed = served.is_view().then(|| view::to_view(served, &old.value));
        let before = viewed.as_ref().unwrap_or(&old.value);
        let listed = managed::names_managers(&patch).then(|| managed::with_managers(before));
        let before = listed.as_ref().unwrap_or(before);
        let mut object = patch::apply(served, patch_kind, patch, before)
            .map_err(|error| Status::new(error.code(), error.reason(), error.to_string()))?;
        let sent =
            (options.fields == FieldValidation::Strict && patch_kind != PatchKind::Strategic).then(|| object.clone());
        let refuse = |object: &Value, why: String| {
            let shown = match (patch_kind, serde_json::from_slice(&options.text)) {
                (PatchKind::Strategic, Ok(patch)) => patch::shown(&patch),
                _ => sent.as_ref().unwrap_or(object).to_string(),
            };
            Status::invalid_type("", "", "", vec![FieldError::invalid("patch", &shown.into(), &why)])
        };
        let mut unknown = shape::unmarshal(served, &mut object).map_err(|why| refuse(&object, why))?;
        if patch_kind == PatchKind::Strategic {
            unknown.sort_unstable();
        }
        self.judge_fields(&options, unknown).map_err(|why| refuse(&object, why))?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        let (_, object) = stored(served, object);
        check_unconditional(served, target, &object)?;
        self.replace(now, served, target, &old, object, options, false)
    }

    /// Puts `object` in the place of `old`, as far as the part that is written allows. The managers of an object that
    /// is `applied` are known already.
    #[expect(clippy::too_many_arguments, reason = "each is another fact about one write")]
    pub(super) fn replace(
        &mut self,
        now: Now,
        served: &Kind,
        target: &Target,
        old: &Arc<Object>,
        mut object: Value,
        options: WriteOptions,
        applied: bool,
    ) -> Result<Reply, Status> {
        let kind = kinds::stored(served);
        let managed_as_sent = object.get("metadata").and_then(|m| m.get("managedFields")).cloned();
        let sent_managers = managed::are_written(target.part, &object);
        let is_stale = !names_no_revision(&object) && resource_version(&object) != resource_version(&old.value);
        if is_stale && !self.defects.takes_stale_writes {
            return Err(Status::modified(served, &target.name));
        }
        default::apply(kind, &mut object);
        let request = Attributes {
            kind: served,
            subresource: target.part.subresource(),
            named: &target.name,
            operation: "UPDATE",
            namespace: target.namespace.as_deref(),
            object: &object,
            old: &old.value,
        };
        // Of a scale they have seen the Scale.
        let changed = if target.part == Part::Scale { None } else { self.mutated(&request, options.mutated)? };
        if let Some(changed) = changed {
            object = changed;
        }
        // A status of a pod may come from before its deletion began (`podStatusStrategy`).
        if kind.kind == "Pod" && target.part == Part::Status {
            value::metadata(&mut object).remove("deletionTimestamp");
        }
        let mut errors = keep_system_fields(&mut object, &old.value);
        prepare(kind, target.part, &mut object, &old.value, now);
        match target.part {
            Part::Main => self.admit_update(kind, &mut object, &old.value)?,
            Part::Resize if !is_terminating(&old.value) => self.check_limits(kind, &object)?,
            _ => {}
        }
        if kind == KNOWN.definitions && self.turns_storage(&object, &old.value) {
            let why = "this server does not convert stored objects: delete them first, or keep the storage version";
            errors.push(FieldError::forbidden("spec.versions", why));
        }
        // The old object has it, too, and the two are compared from here on.
        self.complete(kind, &mut object);
        initial::count_generation(kind, &mut object, &old.value);
        initial::count_template(kind, &mut object, &old.value);
        // A scale changes the object itself.
        let written = if target.part == Part::Scale { Part::Main } else { target.part };
        errors.extend(validate::update(kind, written, &object, &old.value));
        if !errors.is_empty() {
            return Err(Status::invalid(served, &target.name, errors));
        }
        if target.part == Part::Main {
            self.warnings.extend(warnings::of(kind, &object, &old.value));
        }
        let request = Attributes {
            kind: served,
            subresource: target.part.subresource(),
            named: &target.name,
            operation: "UPDATE",
            namespace: target.namespace.as_deref(),
            object: &object,
            old: &old.value,
        };
        // Of a scale they have been asked, with the Scale.
        if target.part != Part::Scale {
            self.check_pod_security(&request)?;
            self.check_policies(&request)?;
        }
        let charges = match target.part {
            Part::Main | Part::Resize => self.charge(now, kind, &object, Some(&old.value))?,
            _ => Vec::new(),
        };
        let is_tracked = managed::is_tracked(&old.value) || sent_managers;
        if is_tracked && !applied {
            copy_meta(&old.value, &mut object, "managedFields");
            let writer = managed::Writer { kind, part: target.part, manager: &options.manager, now };
            managed::update(&writer, &mut object, &old.value, managed_as_sent);
        } else if !applied && managed::is_reset(&object) {
            value::metadata(&mut object).remove("managedFields");
        }
        if is_terminating(&old.value) && may_go(kind, &object) {
            let gone = Object::at(object, old.revision);
            if !options.dry_run {
                self.remove(kind, &target.key());
            }
            return Ok(Reply::Object(gone));
        }
        // A write that changes nothing is none: no revision, no event (R3).
        if same(&object, &old.value) {
            return Ok(Reply::Object(old.clone()));
        }
        if options.dry_run {
            return Ok(Reply::Object(Object::at(object, old.revision)));
        }
        self.settle_charges(now, charges);
        Ok(Reply::Object(self.put(now, kind, target.key(), object)))
    }
}

/// Whether `metadata.resourceVersion` is missing or `"0"`: storage reads both as no revision.
pub(super) fn names_no_revision(object: &Value) -> bool {
    let sent = resource_version(object);
    sent.is_empty() || sent.parse() == Ok(0_u64)
}

/// 422 for a write without a revision, where the kind wants one.
fn check_unconditional(kind: &Kind, target: &Target, object: &Value) -> Result<(), Status> {
    if kind.allow_unconditional_update || !names_no_revision(object) {
        return Ok(());
    }
    let error = FieldError::invalid_text("metadata.resourceVersion", "0x0", "must be specified for an update");
    // Upstream names the resource here, not the kind.
    Err(Status::invalid_type(kind.plural, kind.group, &target.name, vec![error]))
}

/// 409 as storage words it; upstream shows the key under `/registry`.
fn uid_mismatch(kind: &Kind, target: &Target, sent: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {sent}, UID in object meta: {found}",
        kind.plural,
        target.key()
    );
    Status::conflict(kind, &target.name, &why)
}

/// Whether a terminating object has nothing left that holds it.
pub(super) fn may_go(kind: &Kind, object: &Value) -> bool {
    finalizers(object).is_empty()
        && int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && (kind.kind != "Namespace" || value::list(object, &["spec", "finalizers"]).is_empty())
}

/// Brings back what a client cannot change and says where it tried (`BeforeUpdate`, `ValidateObjectMetaUpdate`; R5).
fn keep_system_fields(object: &mut Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = value::metadata(object);
    let before = old.get("metadata").and_then(Value::as_object);
    let before = |field: &str| before.and_then(|m| m.get(field));
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let Some(sent) = metadata.get(field).filter(|sent| !sent.is_null() && *sent != "") else { continue };
        if before(field) != Some(sent) {
            let why = match field {
                "uid" | "creationTimestamp" => "field is immutable",
                _ => "field is immutable; may only be changed via deletion",
            };
            errors.push(FieldError::invalid(format!("metadata.{field}"), sent, why));
        }
    }
    shape::tidy_metadata(metadata);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        // Equal for every update that goes on, and needed to compare the two.
        "resourceVersion",
    ] {
        value::put(metadata, field, before(field));
    }
    if is_terminating(old) {
        let before = finalizers(old);
        let added: Vec<String> =
            finalizers(object).iter().filter(|f| !before.contains(f)).map(ToString::to_string).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", why));
        }
    }
    errors
}

/// Takes from the old object what this part of the API does not write (the strategies' PrepareForUpdate; §3).
fn prepare(kind: &Kind, part: Part, object: &mut Value, old: &Value, now: Now) {
    if kind.custom.is_some() && part == Part::Status {
        // Everything but the status is that of the old object (`customResourceStrategy`).
        let status = object.get("status").cloned();
        let managed = object["metadata"].get("managedFields").cloned();
        object.clone_from(old);
        value::set(object, "status", status);
        if let Some(managed) = managed {
            value::metadata(object).insert("managedFields", managed);
        }
        return;
    }
    if certificate::is_request(kind) {
        return certificate::prepare(part, object, old, now);
    }
    match part {
        Part::Main => {
            if kind.has_status {
                copy(old, object, "status");
            }
            if kind.kind == "Namespace" {
                let held = old["spec"].get("finalizers").cloned();
                if let (Some(spec), Some(held)) = (value::map_mut(object, "spec"), held) {
                    spec.insert("finalizers", held);
                }
            }
        }
        Part::Status => {
            copy(old, object, "spec");
            match kind.kind {
                "Pod" => prepare_pod_status(object, old),
                "VolumeAttachment" => reset_metadata(object, old),
                "PersistentVolume" => stamp_phase(object, old, now),
                _ => {}
            }
        }
        Part::Finalize => copy(old, object, "status"),
        Part::EphemeralContainers => {
            let sent = object["spec"].get("ephemeralContainers").cloned();
            copy(old, object, "spec");
            copy(old, object, "status");
            if let (Some(spec), Some(sent)) = (value::map_mut(object, "spec"), sent) {
                spec.insert("ephemeralContainers", sent);
            }
        }
        Part::Resize => {
            let sent = std::mem::take(&mut object["spec"]);
            copy(old, object, "spec");
            copy(old, object, "status");
            take_resources(object, &sent);
        }
        // Only requests for certificates have the one; the other is written as the main part, after the replicas were
        // set.
        Part::Approval | Part::Scale => {}
    }
}

/// Takes the resources and resize policies of the containers from what was sent (`podResizeStrategy`).
fn take_resources(pod: &mut Value, sent: &Value) {
    for field in ["containers", "initContainers"] {
        let Some(containers) = pod["spec"].get_mut(field).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let name = text(container, &["name"]).to_owned();
            if let Some(wanted) = value::list(sent, &[field]).iter().find(|c| text(c, &["name"]) == name) {
                copy(wanted, container, "resources");
                copy(wanted, container, "resizePolicy");
            }
        }
    }
}

/// pods/status keeps owner references and the QoS class (`podStatusStrategy`).
fn prepare_pod_status(object: &mut Value, old: &Value) {
    copy_meta(old, object, "ownerReferences");
    let class = text(old, &["status", "qosClass"]).to_owned();
    if text(object, &["status", "qosClass"]).is_empty()
        && !class.is_empty()
        && let Some(status) = value::map_mut(object, "status")
    {
        status.insert("qosClass", class.into());
    }
}

/// What `ResetObjectMetaForStatus` takes from the old object.
fn reset_metadata(object: &mut Value, old: &Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
        copy_meta(old, object, field);
    }
}

/// lastPhaseTransitionTime follows the phase unless the client sets it (R24).
fn stamp_phase(object: &mut Value, old: &Value, now: Now) {
    let path = ["status", "lastPhaseTransitionTime"];
    let (sent, was) = (text(object, &path).to_owned(), text(old, &path).to_owned());
    let moved = text(object, &["status", "phase"]) != text(old, &["status", "phase"]);
    let stamp = if moved && (sent.is_empty() || sent == was) {
        value::time(now.wall)
    } else if sent.is_empty() {
        was
    } else {
        sent
    };
    if let (Some(status), false) = (value::map_mut(object, "status"), stamp.is_empty()) {
        status.insert("lastPhaseTransitionTime", stamp.into());
    }
}

/// Whether the same fields have the same managers, whenever they got them.
fn same_managers(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b || managed::timeless(a) == managed::timeless(b)
}

/// Whether two objects are equal but for the times in managedFields.
fn same(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return false };
    let rest_equal = a.len() == b.len() && a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v));
    let metadata = |o: &substrate::json::Map| {
        o.get("metadata").and_then(Value::as_object).map(|m| m.iter().filter(|(k, _)| *k != "managedFields").count())
    };
    rest_equal
        && metadata(a) == metadata(b)
        && a.get("metadata").and_then(Value::as_object).is_some_and(|m| {
            let other = b.get("metadata");
            m.iter().all(|(k, v)| k == "managedFields" || other.and_then(|n| n.get(k)) == Some(v))
                && same_managers(m.get("managedFields"), other.and_then(|n| n.get("managedFields")))
        })
}
