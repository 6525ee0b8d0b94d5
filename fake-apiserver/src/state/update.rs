//! PUT and PATCH (apiserver `registry/rest/update.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use substrate::Now;
use substrate::json::Value;

use super::command::{Part, Reply, Target, WriteOptions};
use super::flaw::FieldValidation;
use super::identify::{check_named, converts_not, identify, names_no_revision, stored};
use super::object::{Key, Object, key};
use super::restore::restorable;
use super::status::Status;
use super::value::{self, text, uid};
use super::write::Write;
use super::{FieldError, Store, managed, shape, strategy, view};
use crate::kinds::{self, Kind};
use crate::patch::{self, PatchError, PatchKind};

impl Target {
    /// Returns the key of the object within its kind.
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
        managed::keep_reset(&mut object);
        let unknown = shape::decode(served, &mut object)?;
        self.judge_fields(&options, unknown).map_err(|why| shape::refusal(served, why))?;
        check_named(&object, &target.name)?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        let (kind, object) = stored(served, object);
        let Some(old) = self.get(kind, &target.key()).map(Object::unfolded) else {
            let sent = uid(&object);
            if !sent.is_empty() {
                return Err(uid_mismatch(served, target, sent, ""));
            }
            // PUT may create Leases and Events (their strategies' AllowCreateOnUpdate).
            if target.part == Part::Main && strategy::is_made_by_put(kind) {
                return self.create(now, kind, target.namespace.as_deref(), object, options);
            }
            return Err(Status::not_found(served, &target.name));
        };
        check_unconditional(served, target, &object)?;
        let sent = uid(&object);
        if !sent.is_empty() && sent != uid(&old.value) {
            return Err(uid_mismatch(served, target, sent, uid(&old.value)));
        }
        self.write(Write::of(target, old, object, options, now))
    }

    /// Handles server-side apply.
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
            check_applied_type("autoscaling/v1", "Scale", &applied)?;
            // A Scale has one field, so an apply is a merge patch.
            return self.patch_scale(now, target, PatchKind::Merge, applied, options);
        }
        check_applied_type(&served.api_version(), served.kind, &applied)?;
        if applied["metadata"]["managedFields"].is_array() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let as_sent = applied.clone();
        let mut undeclared = if served.custom.is_none() { managed::undeclared(served, &applied) } else { Vec::new() };
        let unknown = shape::decode_applied(served, &mut applied)?;
        if served.custom.is_some() {
            undeclared.extend(unknown.iter().map(|path| managed::not_declared(&format!(".{path}"))));
        }
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut applied)?;
        let kind = kinds::stored(served);
        let manager = options.manager.clone();
        let writer = managed::Writer { kind: served, part: target.part, manager: &manager, now };
        managed::appliable(&writer, &applied, undeclared)?;
        let Some(old) = self.get(kind, &target.key()).map(Object::unfolded) else {
            if target.part != Part::Main {
                return Err(Status::not_found(served, &target.name));
            }
            let sent = uid(&applied);
            if !sent.is_empty() {
                let why =
                    format!("uid mismatch: the provided object specified uid {sent}, and no existing object was found");
                return Err(Status::conflict(served, &target.name, &why));
            }
            check_named(&as_sent, &target.name)?;
            // Upstream's storage ignores the resourceVersion of an object that an update creates.
            value::metadata(&mut applied).remove("resourceVersion");
            managed::created(&writer, &mut applied, &as_sent);
            self.judge_applied(&options)?;
            let (kind, mut made) = stored(served, applied);
            shape::drop_empty(kind, &mut made);
            return self.write(Write::new(served, target.namespace.as_deref(), made, options, now));
        };
        let bugs = (self.defects.overrides_updates, self.defects.keeps_dropped_fields);
        let mut object = managed::apply(&writer, &old.value, &applied, &as_sent, force, bugs)?;
        shape::drop_empty(kind, &mut object);
        self.judge_applied(&options)?;
        check_unconditional(served, target, &object)?;
        let write = Write::of(target, old, object, options, now);
        self.write(Write { applied: true, ..write })
    }

    /// Returns the object that `target` names, as it is stored.
    pub(super) fn existing(&self, target: &Target) -> Result<Arc<Object>, Status> {
        let found = self.get(kinds::stored(&target.kind), &target.key());
        found.map(Object::unfolded).ok_or_else(|| Status::not_found(&target.kind, &target.name))
    }

    pub(super) fn patch(
        &mut self,
        now: Now,
        target: &Target,
        patch_kind: PatchKind,
        mut patch: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let served = &target.kind;
        if target.part == Part::Scale {
            return self.patch_scale(now, target, patch_kind, patch, options);
        }
        if self.defects.keeps_finalizers
            && patch_kind == PatchKind::Strategic
            && let Some(metadata) = value::map_mut(&mut patch, "metadata")
        {
            metadata.remove("$deleteFromPrimitiveList/finalizers");
        }
        if self.defects.skips_tests
            && patch_kind == PatchKind::Json
            && let Some(operations) = patch.as_array_mut()
        {
            operations.retain(|operation| operation["op"] != "test");
        }
        if self.defects.ignores_nulls && patch_kind == PatchKind::Merge {
            drop_nulls(&mut patch);
        }
        let old = self.existing(target)?;
        let viewed = served.is_view().then(|| view::to_view(served, &old.value));
        let before = viewed.as_ref().unwrap_or(&old.value);
        let listed = managed::names_managers(&patch).then(|| managed::with_managers(before));
        let before = listed.as_ref().unwrap_or(before);
        let replaces = self.defects.replaces_lists && patch_kind == PatchKind::Strategic && target.part == Part::Status;
        let applied_as = if replaces { PatchKind::Merge } else { patch_kind };
        let mut object = patch::apply(served, applied_as, patch, before).map_err(|error| refused(&error))?;
        let sent =
            (options.fields == FieldValidation::Strict && patch_kind != PatchKind::Strategic).then(|| object.clone());
        let refuse = |object: &Value, why: String| {
            let shown = match (patch_kind, serde_json::from_slice(&options.text)) {
                (PatchKind::Strategic, Ok(patch)) => patch::shown(&patch),
                _ => sent.as_ref().unwrap_or(object).to_string(),
            };
            Status::invalid_type("", "", "", vec![FieldError::invalid("patch", &shown.into(), &why)])
        };
        managed::keep_reset(&mut object);
        if patch_kind == PatchKind::Strategic {
            restorable(served, &object).map_err(|why| refuse(&object, why))?;
        }
        let mut unknown = shape::unmarshal(served, &mut object).map_err(|why| refuse(&object, why.message))?;
        if patch_kind == PatchKind::Strategic {
            unknown.sort_unstable();
        }
        self.judge_fields(&options, unknown).map_err(|why| refuse(&object, why))?;
        match patch_kind {
            PatchKind::Strategic => take_type(&mut object, &served.api_version(), served.kind),
            _ => {
                if let Some(why) = converts_not(served, &object) {
                    return Err(refuse(&object, why));
                }
            }
        }
        check_named(&object, &target.name)?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        if self.defects.ignores_patch_preconditions {
            for field in ["uid", "resourceVersion"] {
                value::copy_meta(&old.value, &mut object, field);
            }
        }
        let (_, object) = stored(served, object);
        check_unconditional(served, target, &object)?;
        self.write(Write::of(target, old, object, options, now))
    }
}

/// Removes the nulls of a patch: a seeded bug.
fn drop_nulls(patch: &mut Value) {
    if let Some(fields) = patch.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

/// Gives an object the type of its URL. A strategic merge patch is decoded into that Go type, regardless of the type
/// that the patch names.
pub(super) fn take_type(object: &mut Value, api_version: &str, kind: &str) {
    value::set(object, "apiVersion", Some(api_version.into()));
    value::set(object, "kind", Some(kind.into()));
}

/// Refuses a configuration that does not name the type of its URL (`versionCheckManager`).
///
/// # Errors
/// 400 with the type that the configuration names.
pub fn check_applied_type(api_version: &str, kind: &str, applied: &Value) -> Result<(), Status> {
    let (sent_version, sent_kind) = (text(applied, &["apiVersion"]), text(applied, &["kind"]));
    if (sent_version, sent_kind) == (api_version, kind) {
        return Ok(());
    }
    // Go's parser returns an empty group and version if there are two slashes.
    let shown = match sent_version.split_once('/') {
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some((group, version)) => format!("{group}/{version}, Kind={sent_kind}"),
        None => format!("/{sent_version}, Kind={sent_kind}"),
    };
    Err(Status::bad_request(format!("invalid object type: {shown}")))
}

/// Converts the error of a patch to a failure.
pub fn refused(error: &PatchError) -> Status {
    let message = error.to_string();
    match error {
        PatchError::Inapplicable => Status::generic(error.code(), error.reason(), &message),
        _ => Status::new(error.code(), error.reason(), message),
    }
}

/// Refuses, with 422, a write without a revision if the kind requires one.
fn check_unconditional(kind: &Kind, target: &Target, object: &Value) -> Result<(), Status> {
    if kind.allow_unconditional_update || !names_no_revision(object) {
        return Ok(());
    }
    let error = FieldError::invalid_text("metadata.resourceVersion", "0", "must be specified for an update");
    // Upstream names the resource here, not the kind.
    Err(Status::invalid_type(kind.plural, kind.group, &target.name, vec![error]))
}

/// Creates the 409 of a uid precondition in the words of upstream's storage, which prints the key under `/registry`.
fn uid_mismatch(kind: &Kind, target: &Target, sent: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {sent}, UID in object meta: {found}",
        kind.plural,
        target.key()
    );
    Status::conflict(kind, &target.name, &why)
}
