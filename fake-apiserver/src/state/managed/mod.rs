//! Field managers (`metadata.managedFields`) and server-side apply (KEP-555).
//!
//! With [`super::Store::track_managers`] every object is tracked from its creation on, as on a real server. Without it,
//! as in a simulation, where the loops do not read managers, an object is tracked from its first apply on. That apply
//! gives the existing fields to the manager `before-first-apply` (upstream's `SkipNonAppliedManager`).

mod compare;
mod fields;
mod last_applied;
#[cfg(test)]
mod model;
mod prune;
mod versions;

use substrate::Now;
use substrate::json::{Map, Value, json};

use self::compare::compare;
use self::fields::{Fields, Topology, fields_of, merge, repeated};
pub(super) use self::fields::{not_declared, undeclared};
use self::prune::prune_versions;
use self::versions::{Differences, named, shown, topology};
use super::command::Part;
use super::identify::stored;
use super::status::{Cause, Status};
use super::value::{self, text};
use crate::kinds::Kind;

/// Manager of the fields that an object had before its first apply.
const BEFORE: &str = "before-first-apply";

/// Top-level fields without a manager (`stripMetaManager`).
const NOBODYS: &[&str] = &["apiVersion", "kind"];
/// Fields of the metadata without a manager.
const NOBODYS_METADATA: &[&str] =
    &["name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"];

/// One entry of managedFields.
#[derive(Clone, Debug)]
struct Manager {
    name: String,
    /// `Apply` or `Update`.
    operation: String,
    subresource: String,
    api_version: String,
    time: String,
    fields: Fields,
}

impl Manager {
    fn parse(entry: &Value) -> Self {
        let word = |name: &str| text(entry, &[name]).to_owned();
        Self {
            name: word("manager"),
            operation: word("operation"),
            subresource: word("subresource"),
            api_version: word("apiVersion"),
            time: word("time"),
            fields: Fields::parse(&entry["fieldsV1"]),
        }
    }

    fn to_value(&self) -> Value {
        let mut entry = json!({
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if !self.time.is_empty() {
            entry["time"] = self.time.as_str().into();
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.as_str().into();
        }
        entry
    }

    fn is(&self, other: &Self) -> bool {
        (&self.name, &self.operation, &self.subresource) == (&other.name, &other.operation, &other.subresource)
    }
}

/// Manager of a write, with the version and part of the object that it writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    /// The kind in the version of the request.
    pub(super) kind: &'a Kind,
    pub(super) part: Part,
    pub(super) manager: &'a str,
    pub(super) now: Now,
}

impl Writer<'_> {
    fn entry(&self, operation: &str, fields: Fields) -> Manager {
        let subresource = self.part.subresource();
        Manager {
            name: self.manager.to_owned(),
            operation: operation.to_owned(),
            subresource: subresource.to_owned(),
            api_version: self.kind.api_version(),
            time: value::time(self.now.wall),
            fields,
        }
    }

    fn topology(&self) -> Topology<'_> {
        topology(self.kind)
    }

    /// Removes the fields that never have a manager.
    fn managed(&self, fields: Fields) -> Fields {
        let mut fields = fields;
        for name in NOBODYS {
            fields.remove(&[name]);
        }
        for name in NOBODYS_METADATA {
            fields.remove(&["metadata", name]);
        }
        fields.release(&["metadata"]);
        fields
    }
}

/// Returns true if the object has managedFields.
pub(super) fn is_tracked(object: &Value) -> bool {
    !value::list(object, &["metadata", "managedFields"]).is_empty()
}

/// Replaces an empty list of managers by a list of one empty entry, which asks for the same reset
/// (`isResetManagedFields`), because decoding drops empty lists.
pub(super) fn keep_reset(object: &mut Value) {
    if let Some(managers) = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"))
        && managers.as_array().is_some_and(Vec::is_empty)
    {
        *managers = json!([{}]);
    }
}

/// Returns true if a list of managers asks for a reset: its only entry is empty.
pub(super) fn is_reset(object: &Value) -> bool {
    matches!(value::list(object, &["metadata", "managedFields"]), [entry] if entry.as_object().is_some_and(Map::is_empty))
}

/// Returns true if a JSON patch changes managedFields, as kubectl's does when it migrates to server-side apply.
pub(super) fn names_managers(patch: &Value) -> bool {
    let operations = patch.as_array().into_iter().flatten();
    operations.map(|operation| text(operation, &["path"])).any(|path| path.starts_with("/metadata/managedFields"))
}

/// Returns an object as a server that tracks every object has it: with a list of managers, which may be empty.
pub(super) fn with_managers(object: &Value) -> Value {
    let mut object = object.clone();
    value::default(value::metadata(&mut object), "managedFields", json!([]));
    object
}

fn managers(object: &Value) -> Vec<Manager> {
    value::list(object, &["metadata", "managedFields"]).iter().map(Manager::parse).collect()
}

fn store(object: &mut Value, mut managers: Vec<Manager>) {
    // Applied entries come first, each group by time (`sortEncodedManagedFields`).
    managers.sort_by(|a, b| {
        (&a.operation, &a.time, &a.name, &a.subresource).cmp(&(&b.operation, &b.time, &b.name, &b.subresource))
    });
    let list: Vec<Value> = managers.iter().map(Manager::to_value).collect();
    value::metadata(object).insert("managedFields", list.into());
}

/// Returns the managers that a client sent; empty if there are none or they cannot be decoded (`DecodeManagedFields`).
fn written(sent: &Value) -> Vec<Manager> {
    let list = sent.as_array().map_or(&[][..], Vec::as_slice);
    let is_readable = |entry: &Value| {
        matches!(text(entry, &["operation"]), "Apply" | "Update")
            && !text(entry, &["apiVersion"]).is_empty()
            && text(entry, &["fieldsType"]) == "FieldsV1"
    };
    if list.iter().all(is_readable) { list.iter().map(Manager::parse).collect() } else { Vec::new() }
}

/// Returns true if the managers that a client sent are used. Subresources ignore them.
pub(super) fn are_written(part: Part, object: &Value) -> bool {
    part.subresource().is_empty() && !written(&object["metadata"]["managedFields"]).is_empty()
}

/// Makes the writer the only manager of the fields that an update or patch changed. Both objects are stored ones.
pub(super) fn update(writer: &Writer<'_>, object: &mut Value, old: &Value, sent: Option<Value>) {
    let is_main = writer.part.subresource().is_empty();
    let sent = sent.filter(|_| is_main);
    // An empty list, or one empty entry, ends the tracking.
    let strips = sent.as_ref().and_then(Value::as_array).is_some_and(|l| l.iter().all(|e| *e == json!({})));
    if strips {
        value::metadata(object).remove("managedFields");
        return;
    }
    let mut differences = Differences::new(old, object);
    // The managers that a client sent replace the stored ones, so that a client can correct them.
    let mut all = sent.as_ref().map(written).filter(|all| !all.is_empty()).unwrap_or_else(|| managers(old));
    let mut mine = writer.entry("Update", writer.managed(differences.shown(writer.kind).written.clone()));
    for manager in &mut all {
        let kind = named(writer.kind, &manager.api_version);
        let fields = std::mem::take(&mut manager.fields).reconciled(topology(kind));
        let difference = differences.shown(kind);
        manager.fields = fields.without(&difference.written).without(&difference.removed);
    }
    if !mine.fields.is_empty() {
        if let Some(at) = all.iter().position(|m| m.is(&mine)) {
            mine.fields = all.remove(at).fields.union(&mine.fields);
        }
        all.push(mine);
    }
    all.retain(|m| !m.fields.is_empty());
    store(object, all);
}

/// Checks that a configuration can be applied: its fields are declared, and its lists have no duplicates.
///
/// # Errors
/// 500, as upstream for a configuration that its typed objects cannot hold.
pub(super) fn appliable(writer: &Writer<'_>, applied: &Value, undeclared: Vec<String>) -> Result<(), Status> {
    let mut all = undeclared;
    all.extend(repeated(applied, writer.topology()));
    let why = match all.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        all => format!("errors:\n  {}", all.join("\n  ")),
    };
    let Kind { group, version, kind, .. } = writer.kind;
    let (namespace, name) = (value::namespace(applied), value::name(applied));
    let message =
        format!("failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {why}");
    Err(Status::new(500, "", message))
}

/// Sets the managers of an object that an apply of `sent` creates.
pub(super) fn created(writer: &Writer<'_>, applied: &mut Value, sent: &Value) {
    let fields = writer.managed(configured(writer, applied));
    last_applied::refresh(writer, applied, sent);
    store(applied, vec![writer.entry("Apply", fields)]);
}

/// Sets the managers of a stored object that a plain create makes.
pub(super) fn first(writer: &Writer<'_>, object: &mut Value) {
    let made = shown(writer.kind, object);
    let fields = writer.managed(compare(Some(&blank(writer)), Some(&made), writer.topology()).written);
    store(object, vec![writer.entry("Update", without_reset(writer, fields))]);
}

/// Returns an empty object of the writer's kind.
fn blank(writer: &Writer<'_>) -> Value {
    json!({"apiVersion": writer.kind.api_version(), "kind": writer.kind.kind, "metadata": {}})
}

/// Returns the fields that a configuration sets, including its name and type.
fn configured(writer: &Writer<'_>, applied: &Value) -> Fields {
    without_reset(writer, fields_of(applied, writer.topology()))
}

fn without_reset(writer: &Writer<'_>, mut fields: Fields) -> Fields {
    // Fields that this subresource does not write are reset (`GetResetFields` of the strategies).
    match writer.part {
        Part::Main if writer.kind.has_status => fields.remove(&["status"]),
        Part::Status => fields.remove(&["spec"]),
        _ => {}
    }
    fields
}

/// Merges the result of a mutating policy into an object by the topology of its kind, like an apply, but leaves the
/// managers alone.
///
/// # Errors
/// The fields that can only be set as a whole.
pub(super) fn overlay(kind: &Kind, live: &mut Value, made: &Value) -> Result<(), String> {
    let topology = topology(kind);
    let mut whole = Vec::new();
    fields::wholes(made, topology, "", &mut whole);
    if !whole.is_empty() {
        let whole = whole.join(", ");
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {whole}"
        ));
    }
    merge(live, made, topology);
    Ok(())
}

/// Applies a configuration of the writer's version to a stored object; `sent` is the text's tree, `applied` its decoded
/// form. Returns the new object in its stored form, with its managers.
///
/// # Errors
/// 409 with a cause for each field that would change and that another manager has, unless `force` is set. There are two
/// seeded bugs: with `overrides_updates`, fields of updates do not count; with `keeps_dropped`, fields that the manager
/// no longer applies stay.
pub(super) fn apply(
    writer: &Writer<'_>,
    live: &Value,
    applied: &Value,
    sent: &Value,
    force: bool,
    (overrides_updates, keeps_dropped): (bool, bool),
) -> Result<Value, Status> {
    let before = shown(writer.kind, live);
    let mut all = managers(live);
    if all.is_empty() {
        let first = Writer { manager: BEFORE, part: Part::Main, ..*writer };
        let fields = compare(Some(&blank(writer)), Some(&before), writer.topology()).written;
        all.push(first.entry("Update", first.managed(fields)));
    }
    for manager in &mut all {
        let topology = topology(named(writer.kind, &manager.api_version));
        manager.fields = std::mem::take(&mut manager.fields).reconciled(topology);
    }
    let configured = configured(writer, applied);
    let mut mine = writer.entry("Apply", writer.managed(configured.clone()));
    let last = all.iter().position(|m| m.is(&mine)).map(|at| all.remove(at));
    let mut object = before.into_owned();
    merge(&mut object, applied, writer.topology());
    if let Some(last) = last.as_ref().filter(|_| !keeps_dropped) {
        // Fields that the manager no longer applies are removed, unless another manager has them. The name counts as
        // applied here, because upstream's `stripMetaManager` runs after the pruning. Without it, the whole metadata
        // would be removed with the manager's last label.
        let others = all.iter().map(|other| (named(writer.kind, &other.api_version), &other.fields));
        let owned: Vec<(&Kind, &Fields)> = std::iter::once((writer.kind, &configured)).chain(others).collect();
        let last = (named(writer.kind, &last.api_version), &last.fields);
        prune_versions(&mut object, writer.kind, last, &owned);
    }
    let (_, mut object) = stored(writer.kind, object);
    let mut differences = Differences::new(live, &object);
    let mut contested = Vec::with_capacity(all.len());
    for other in &all {
        let difference = differences.shown(named(writer.kind, &other.api_version));
        contested.push((other.fields.common(&difference.written), difference.removed.clone()));
    }
    if !force {
        let allowed = last_applied::allowed(writer, live);
        let contested = contested.iter().map(|(fields, _)| fields.without(&allowed));
        let contested = all.iter().zip(contested);
        let contested = contested.filter(|(other, _)| !overrides_updates || other.operation == "Apply");
        let causes = contested.flat_map(|(other, fields)| {
            let paths = fields.paths().into_iter();
            paths.map(|path| conflict(other, path)).collect::<Vec<_>>()
        });
        let causes: Vec<Cause> = causes.collect();
        if !causes.is_empty() {
            return Err(refuse(causes));
        }
    }
    for (other, (taken, removed)) in all.iter_mut().zip(contested) {
        other.fields = other.fields.without(&taken).without(&removed);
    }
    if let Some(last) = last
        && object == *live
        && last.fields == mine.fields
        && last.api_version == mine.api_version
    {
        mine.time = last.time;
    }
    all.retain(|m| !m.fields.is_empty());
    // A manager that applies no fields stays a manager.
    all.push(mine);
    last_applied::refresh(writer, &mut object, sent);
    store(&mut object, all);
    Ok(object)
}

fn conflict(with: &Manager, path: String) -> Cause {
    let mut message = format!("conflict with {:?}", with.name);
    if !with.subresource.is_empty() {
        message.push_str(&format!(" with subresource {:?}", with.subresource));
    }
    if with.operation == "Update" {
        message.push_str(&format!(" using {}", with.api_version));
        if !with.time.is_empty() {
            message.push_str(&format!(" at {}", with.time));
        }
    }
    Cause { reason: "FieldManagerConflict", message, field: path }
}

fn refuse(causes: Vec<Cause>) -> Status {
    let count = causes.len();
    let (noun, lines) = if count == 1 {
        ("conflict", format!("{}: {}", causes[0].message, causes[0].field))
    } else {
        // Grouped by manager, each with its fields.
        let mut by_manager: Vec<(&str, Vec<&str>)> = Vec::new();
        for cause in &causes {
            match by_manager.iter_mut().find(|(message, _)| *message == cause.message) {
                Some((_, paths)) => paths.push(&cause.field),
                None => by_manager.push((&cause.message, vec![&cause.field])),
            }
        }
        let lines: Vec<String> =
            by_manager.iter().map(|(message, paths)| format!("{message}:\n- {}", paths.join("\n- "))).collect();
        ("conflicts", lines.join("\n"))
    };
    let mut status = Status::new(409, "Conflict", format!("Apply failed with {count} {noun}: {lines}"));
    status.details.causes = causes;
    status
}

/// Returns managedFields without their times. A write that changes only these is a no-op.
pub(super) fn timeless(managed: Option<&Value>) -> Vec<Map> {
    let entries = managed.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let mut entries: Vec<Map> = entries
        .map(|e| e.iter().filter(|(k, _)| *k != "time").map(|(k, v)| (k.clone(), v.clone())).collect())
        .collect();
    entries.sort_by_cached_key(|entry| Value::Object(entry.clone()).to_string());
    entries
}
