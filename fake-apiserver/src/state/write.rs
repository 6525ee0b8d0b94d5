//! Stages of a write from the request to the store, which POST, PUT, PATCH and apply share (apiserver
//! `registry/rest/{create,update}.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use substrate::Now;
use substrate::json::Value;

use super::command::{Part, Reply, Stage, Target, WriteOptions};
use super::identify::{identify, names_no_revision};
use super::list::revision;
use super::matching::Attributes;
use super::object::{Key, Object, key};
use super::status::Status;
use super::value::{self, copy_meta, finalizers, int, is_terminating, name, resource_version, text};
use super::{FieldError, Store, identity, managed, shape, strategy};
use crate::kinds::{self, Kind};
use api_admission::quota::Charge;

/// Maximum length of generateName; the rest is cut before five characters are added (apiserver
/// `storage/names/generate.go`).
const MAX_GENERATED_BASE: usize = 58;

/// Maximum number of attempts to find a free generated name (KEP-4420).
const ATTEMPTS: usize = 8;
/// Fields of the metadata that only the server sets.
const SERVERS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "resourceVersion",
];

/// A write in progress.
pub(super) struct Write<'a> {
    /// The time of the request.
    pub now: Now,
    /// The kind as the client names it.
    pub served: &'a Kind,
    /// The kind under which the object is stored.
    pub kind: &'a Kind,
    /// The part to write.
    pub part: Part,
    /// The namespace of the URL.
    pub namespace: Option<&'a str>,
    /// The name of the URL; empty for a create.
    pub named: &'a str,
    /// The stored object; `None` for a create.
    pub old: Option<Arc<Object>>,
    /// The new object, as the stages so far have changed it.
    pub object: Value,
    /// Options of the write.
    pub options: WriteOptions,
    /// True for an apply, whose managers are set already.
    pub applied: bool,
    /// Errors so far.
    pub errors: Vec<FieldError>,
}

impl<'a> Write<'a> {
    /// Starts the create of an object in its stored form.
    pub fn new(served: &'a Kind, namespace: Option<&'a str>, object: Value, options: WriteOptions, now: Now) -> Self {
        let kind = kinds::stored(served);
        let (part, errors) = (Part::Main, Vec::new());
        Self { now, served, kind, part, namespace, named: "", old: None, object, options, applied: false, errors }
    }

    /// Starts the replacement of `old`.
    pub fn of(target: &'a Target, old: Arc<Object>, object: Value, options: WriteOptions, now: Now) -> Self {
        let (namespace, named) = (target.namespace.as_deref(), target.name.as_str());
        let (part, old) = (target.part, Some(old));
        Self { part, named, old, ..Self::new(&target.kind, namespace, object, options, now) }
    }

    /// Returns the stored object; null for a create.
    fn before(&self) -> &Value {
        self.old.as_ref().map_or(&Value::Null, |old| &old.value)
    }

    /// Returns the write as admission sees it.
    fn request(&self) -> Attributes<'_> {
        Attributes {
            kind: self.served,
            subresource: self.part.subresource(),
            named: self.named,
            operation: if self.old.is_some() { "UPDATE" } else { "CREATE" },
            namespace: self.namespace,
            object: &self.object,
            old: self.before(),
        }
    }

    fn writer(&self) -> managed::Writer<'_> {
        managed::Writer { kind: self.served, part: self.part, manager: &self.options.manager, now: self.now }
    }

    /// Fails with 422 if there are errors.
    fn judge(&mut self, named: &str) -> Result<(), Status> {
        let errors = std::mem::take(&mut self.errors);
        // Upstream names the stored kind in errors about a create.
        let kind = if self.old.is_some() { self.served } else { self.kind };
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(kind, named, errors)) }
    }

    /// Removes the fields that only the server sets from a new object.
    fn strip(&mut self) -> Result<(), Status> {
        // Upstream's storage ignores a resourceVersion that does not parse.
        if revision(resource_version(&self.object)).is_ok_and(|named| named != 0) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let metadata = value::metadata(&mut self.object);
        for field in SERVERS {
            metadata.remove(field);
        }
        shape::tidy_metadata(metadata);
        metadata.insert("creationTimestamp", value::time(self.now.wall).into());
        Ok(())
    }

    /// Records the managers of the fields of an updated object.
    fn note_managers(&mut self, sent: Option<Value>, sent_any: bool) {
        let Some(old) = self.old.clone().filter(|_| !self.applied) else { return };
        if managed::is_tracked(&old.value) || sent_any {
            copy_meta(&old.value, &mut self.object, "managedFields");
            let writer =
                managed::Writer { kind: self.served, part: self.part, manager: &self.options.manager, now: self.now };
            managed::update(&writer, &mut self.object, &old.value, sent);
        } else if managed::is_reset(&self.object) {
            value::metadata(&mut self.object).remove("managedFields");
        }
    }
}

impl Store {
    /// Runs a write through all stages.
    ///
    /// # Errors
    /// The first stage that refuses it.
    pub(super) fn write(&mut self, write: Write<'_>) -> Result<Reply, Status> {
        match write.old.clone() {
            None => self.make(write),
            Some(old) => self.replace(write, &old),
        }
    }

    /// Creates an object.
    fn make(&mut self, mut write: Write<'_>) -> Result<Reply, Status> {
        let (kind, now) = (write.kind, write.now);
        self.admit_namespace(write.namespace, kind, name(&write.object))?;
        self.fill(kind, &mut write.object);
        // Objects that the server itself creates have no managers.
        if self.tracks && !write.options.manager.is_empty() && !managed::is_tracked(&write.object) {
            let mut object = std::mem::take(&mut write.object);
            managed::first(&write.writer(), &mut object);
            write.object = object;
        }
        write.strip()?;
        self.admit_service_account(kind, &mut write.object)?;
        strategy::admit_create(self, kind, &mut write.object)?;
        self.mutate(&mut write)?;
        if write.options.stage == Stage::Mutated {
            return Ok(Reply::Created(Object::transient(write.object)));
        }
        strategy::begin(kind, &mut write.object, write.options.requester.as_deref(), now);
        let key = self.choose_key(kind, write.namespace, &mut write.object)?;
        write.errors.extend(strategy::validate(kind, &write.object));
        write.errors.extend(self.check_privileged(kind, &write.object));
        let named = name(&write.object).to_owned();
        write.judge(&named)?;
        self.warnings.extend(strategy::warn(kind, &write.object, &Value::Null));
        strategy::check_create(self, kind, &write.object)?;
        self.check(&write)?;
        let mut charges = Vec::new();
        if write.options.stage == Stage::Kept {
            charges = self.charge(now, kind, &write.object, None)?;
            if self.get(kind, &key).is_some() {
                return Err(Status::already_exists(write.served, &named));
            }
        }
        let uid = if self.defects.derives_uids { derived_uid(kind, &key) } else { self.new_uid() };
        strategy::finish(kind, &mut write.object, &uid);
        value::metadata(&mut write.object).insert("uid", uid.into());
        if write.options.dry_run {
            self.complete(kind, &mut write.object);
            return Ok(Reply::Created(Object::transient(write.object)));
        }
        self.settle_charges(now, charges);
        Ok(Reply::Created(self.put(now, kind, key, write.object)))
    }

    /// Replaces `old`, as far as the written part allows.
    fn replace(&mut self, mut write: Write<'_>, old: &Arc<Object>) -> Result<Reply, Status> {
        let (kind, part, now) = (write.kind, write.part, write.now);
        let managed_as_sent = write.object.get("metadata").and_then(|m| m.get("managedFields")).cloned();
        let sent_managers = managed::are_written(part, &write.object);
        self.check_revision(&write, old)?;
        self.fill(kind, &mut write.object);
        // For a scale, mutating policies have already seen the Scale.
        if part != Part::Scale {
            self.mutate(&mut write)?;
            if write.options.stage == Stage::Mutated {
                return Ok(Reply::Object(Object::at(write.object, old.revision)));
            }
        }
        if part == Part::Status && strategy::takes_late_status(kind) {
            value::metadata(&mut write.object).remove("deletionTimestamp");
        }
        let mut errors = keep_system_fields(&mut write.object, &old.value);
        errors.retain(|error| !self.defects.takes_late_finalizers || error.field != "metadata.finalizers");
        write.errors.extend(errors);
        let sent_status = write.object.get("status").cloned().filter(|_| self.defects.takes_status);
        strategy::prepare(kind, part, &mut write.object, &old.value, now);
        if let (Some(status), Part::Main, Some(object)) = (sent_status, part, write.object.as_object_mut()) {
            object.insert("status", status);
        }
        strategy::admit_update(self, kind, part, &mut write.object, &old.value)?;
        if kind == kinds::CUSTOM_RESOURCE_DEFINITIONS && self.turns_storage(&write.object, &old.value) {
            let why = "this server does not convert stored objects: delete them first, or keep the storage version";
            write.errors.push(FieldError::forbidden("spec.versions", why));
        }
        // The old object has its zero values, too; from here on the two are compared.
        self.complete(kind, &mut write.object);
        if !self.defects.keeps_generation {
            strategy::count(kind, &mut write.object, &old.value);
        }
        // A scale changes the object itself.
        let written = if part == Part::Scale { Part::Main } else { part };
        write.errors.extend(strategy::validate_update(kind, written, &write.object, &old.value));
        // The containers of a pod were checked when it was created.
        if part == Part::Main && kind != kinds::PODS {
            write.errors.extend(self.check_privileged(kind, &write.object));
        }
        write.judge(write.named)?;
        if part == Part::Main {
            self.warnings.extend(strategy::warn(kind, &write.object, &old.value));
        }
        strategy::check_update(self, kind, part, &write.object, &old.value)?;
        // For a scale, the policies have already seen the Scale.
        if part != Part::Scale {
            self.check(&write)?;
        }
        let charges = match part {
            _ if self.defects.grows_beyond_quota && kind == kinds::PERSISTENT_VOLUME_CLAIMS => Vec::new(),
            Part::Main | Part::Resize if write.options.stage == Stage::Kept => {
                self.charge(now, kind, &write.object, Some(&old.value))?
            }
            _ => Vec::new(),
        };
        write.note_managers(managed_as_sent, sent_managers);
        self.spoil(kind, part, &mut write.object, &old.value);
        if let Some(field) = identity::changed(&old.value, &write.object) {
            let why = format!("Internal error occurred: the write would change {field} of a stored object");
            return Err(Status::new(500, "InternalError", why));
        }
        Ok(self.commit(write, old, charges))
    }

    /// Fills in defaults. A seeded bug takes zero replicas of a StatefulSet for an unset number.
    fn fill(&self, kind: &Kind, object: &mut Value) {
        strategy::default(kind, object);
        if self.defects.defaults_zero
            && kind == kinds::STATEFUL_SETS
            && let Some(spec) = value::map_mut(object, "spec")
            && spec.get("replicas").and_then(Value::as_i64) == Some(0)
        {
            spec.insert("replicas", 1.into());
        }
    }

    /// Refuses, with 409, a write that names another revision than the stored one.
    fn check_revision(&self, write: &Write<'_>, old: &Object) -> Result<(), Status> {
        let named = resource_version(&write.object);
        if !named.is_empty() {
            revision(named).map_err(|why| Status::new(500, "", why))?;
        }
        let is_stale = !names_no_revision(&write.object) && named != resource_version(&old.value);
        if is_stale && !self.defects.takes_stale_writes {
            return Err(Status::modified(write.served, write.named));
        }
        Ok(())
    }

    /// Runs the mutating policies, or takes the object as webhooks changed it after them.
    fn mutate(&self, write: &mut Write<'_>) -> Result<(), Status> {
        let before = write.options.mutated.take();
        if let Some(mutated) = &before {
            // The webhooks saw another revision of the object.
            if mutated.revision != write.old.as_ref().map_or(0, |old| old.revision) {
                return Err(Status::modified(write.served, write.named));
            }
            let mut object = mutated.object.clone();
            shape::decode(write.kind, &mut object)?;
            let named = write.old.is_some().then_some(write.named);
            identify(write.kind, write.namespace, named, &mut object)?;
            strategy::default(write.kind, &mut object);
            write.object = object;
        }
        if let Some(changed) = self.mutated(&write.request(), before.is_some())? {
            write.object = changed;
        }
        Ok(())
    }

    /// Checks Pod Security and the validating policies.
    fn check(&mut self, write: &Write<'_>) -> Result<(), Status> {
        self.check_pod_security(&write.request())?;
        self.check_policies(&write.request())
    }

    /// Stores an object that has passed all stages. Removes a terminating object that has no finalizers left.
    fn commit(&mut self, write: Write<'_>, old: &Arc<Object>, charges: Vec<Charge>) -> Reply {
        let Write { now, kind, object, .. } = write;
        let (key, dry_run) = (key(write.namespace, write.named), write.options.dry_run);
        let ends_grace = self.defects.ends_grace && kind == kinds::PODS;
        let is_released = !finalizers(&old.value).is_empty() && finalizers(&object).is_empty();
        let loses_one = kind != kinds::PODS && finalizers(&object).len() < finalizers(&old.value).len();
        let goes = may_go(kind, &object) || ends_grace && is_released || self.defects.goes_with_first && loses_one;
        if is_terminating(&old.value) && goes && !self.defects.keeps_released {
            let gone = Object::at(object, old.revision);
            if !dry_run {
                self.remove(kind, &key);
            }
            return Reply::Object(gone);
        }
        // A no-op write: no revision, no event.
        if same(&object, &old.value) && !self.defects.stores_no_ops {
            return Reply::Object(old.clone());
        }
        if dry_run {
            return Reply::Object(Object::at(object, old.revision));
        }
        self.settle_charges(now, charges);
        let written = self.put(now, kind, key, object);
        Reply::Object(if self.defects.answers_former { old.clone() } else { written })
    }

    /// Changes what a write must not change, if a seeded bug is on.
    fn spoil(&self, kind: &Kind, part: Part, object: &mut Value, old: &Value) {
        let is_status = part == Part::Status;
        if self.defects.counts_statuses
            && is_status
            && let Some(generation) = int(old, &["metadata", "generation"])
        {
            value::metadata(object).insert("generation", (generation + 1).into());
        }
        if self.defects.ends_deletions && is_status && kind == kinds::PODS {
            value::metadata(object).remove("deletionTimestamp");
        }
        if self.defects.drops_volume_mode
            && kind == kinds::PERSISTENT_VOLUME_CLAIMS
            && let Some(spec) = value::map_mut(object, "spec")
        {
            spec.remove("volumeMode");
        }
    }

    /// Returns the key of a new object. Generates its name from generateName if needed.
    fn choose_key(&mut self, kind: &Kind, namespace: Option<&str>, object: &mut Value) -> Result<Key, Status> {
        let named = name(object).to_owned();
        if !named.is_empty() {
            return Ok(key(namespace, &named));
        }
        let base = text(object, &["metadata", "generateName"]).to_owned();
        if base.is_empty() {
            // Validation reports the missing name.
            return Ok(key(namespace, ""));
        }
        let mut end = base.len().min(MAX_GENERATED_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let mut drawn = String::new();
        for _ in 0..ATTEMPTS {
            drawn = format!("{}{}", &base[..end], self.new_suffix());
            if self.get(kind, &key(namespace, &drawn)).is_none() {
                break;
            }
        }
        value::metadata(object).insert("name", drawn.as_str().into());
        Ok(key(namespace, &drawn))
    }
}

/// Returns a uid that depends only on the kind and the key of an object, for a seeded bug.
fn derived_uid(kind: &Kind, key: &Key) -> String {
    let bytes = kind.plural.bytes().chain(key.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:08x}-{:04x}-4000-8000-{:012x}", hash >> 32, (hash >> 16) & 0xffff, hash & 0xffff_ffff_ffff)
}

/// Returns true if a terminating object can be removed.
fn may_go(kind: &Kind, object: &Value) -> bool {
    finalizers(object).is_empty()
        && int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && !strategy::holds(kind, object)
}

/// Restores the fields that a client cannot change, and reports attempts to change them (`BeforeUpdate`,
/// `ValidateObjectMetaUpdate`).
fn keep_system_fields(object: &mut Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = value::metadata(object);
    let before = old.get("metadata").and_then(Value::as_object);
    let before = |field: &str| before.and_then(|m| m.get(field));
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let Some(sent) = metadata.get(field).filter(|sent| !sent.is_null() && *sent != "") else { continue };
        // The deletionTimestamp of a terminating object is kept without an error.
        let is_kept = field == "deletionTimestamp" && before(field).is_some();
        if before(field) != Some(sent) && !is_kept {
            errors.push(FieldError::invalid(format!("metadata.{field}"), sent, "field is immutable"));
        }
    }
    shape::tidy_metadata(metadata);
    // The revision was checked before; the two objects are compared with it.
    for field in SERVERS {
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

/// Returns true if two managedFields are equal apart from their times.
fn same_managers(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b || managed::timeless(a) == managed::timeless(b)
}

/// Returns true if two objects are equal apart from the times in managedFields.
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
