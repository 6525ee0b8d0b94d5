//! PUT and PATCH (apiserver `registry/rest/update.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use substrate::Now;
use substrate::json::Value;

use super::command::{Part, Reply, Target, WriteOptions};
use super::create::{check_named, identify, stored};
use super::flaw::FieldValidation;
use super::object::{Key, Object, key};
use super::status::Status;
use super::value::{self, resource_version, uid};
use super::write::Write;
use super::{FieldError, Store, managed, shape, strategy, view};
use crate::kinds::{self, Kind};
use crate::patch::{self, PatchError, PatchKind};

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
        check_named(&object, &target.name)?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        let (kind, object) = stored(served, object);
        let Some(old) = self.get(kind, &target.key()).map(Object::unfolded) else {
            let sent = uid(&object);
            if !sent.is_empty() {
                return Err(uid_mismatch(served, target, sent, ""));
            }
            // Leases and Events may be made by PUT (their strategies' AllowCreateOnUpdate).
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
            check_named(&as_sent, &target.name)?;
            managed::created(&writer, &mut applied, &as_sent);
            self.judge_applied(&options)?;
            shape::drop_empty(kind, &mut applied);
            return self.write(Write::new(served, target.namespace.as_deref(), applied, options, now));
        };
        let sent = uid(&applied);
        if !sent.is_empty() && sent != uid(&old.value) {
            return Err(uid_mismatch(served, target, sent, uid(&old.value)));
        }
        let mut object = managed::apply(&writer, &old.value, &applied, &as_sent, force)?;
        shape::drop_empty(kind, &mut object);
        self.judge_applied(&options)?;
        let write = Write::of(target, old, object, options, now);
        self.write(Write { applied: true, ..write })
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
        let mut object = patch::apply(served, patch_kind, patch, before).map_err(|error| refused(&error))?;
        let sent =
            (options.fields == FieldValidation::Strict && patch_kind != PatchKind::Strategic).then(|| object.clone());
        let refuse = |object: &Value, why: String| {
            let shown = match (patch_kind, serde_json::from_slice(&options.text)) {
                (PatchKind::Strategic, Ok(patch)) => patch::shown(&patch),
                _ => sent.as_ref().unwrap_or(object).to_string(),
            };
            Status::invalid_type("", "", "", vec![FieldError::invalid("patch", &shown.into(), &why)])
        };
        let mut unknown = shape::unmarshal(served, &mut object).map_err(|why| refuse(&object, why.message))?;
        if patch_kind == PatchKind::Strategic {
            unknown.sort_unstable();
        }
        self.judge_fields(&options, unknown).map_err(|why| refuse(&object, why))?;
        check_named(&object, &target.name)?;
        identify(served, target.namespace.as_deref(), Some(&target.name), &mut object)?;
        let (_, object) = stored(served, object);
        check_unconditional(served, target, &object)?;
        self.write(Write::of(target, old, object, options, now))
    }
}

/// A patch that cannot be applied, as a failure.
pub fn refused(error: &PatchError) -> Status {
    let message = error.to_string();
    match error {
        PatchError::Inapplicable => Status::generic(error.code(), error.reason(), &message),
        _ => Status::new(error.code(), error.reason(), message),
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
