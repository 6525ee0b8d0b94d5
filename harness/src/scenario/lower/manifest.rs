//! Checks manifests of objects.

use std::collections::BTreeMap;

use fake_apiserver::state::manifest::{self, ManifestError};
use serde_json::{Map, Value, json};

use super::checked::Checked;
use super::expand::plain;
use super::find;
use super::ids::placeholder;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::model::{Manifest, Remark};
use crate::scenario::saved;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::scenario::words::{self, Plain};
use crate::spec::custom::Customs;
use crate::spec::object::{Kind, ObjectRef, check_name};
use crate::suggestions::{nearest, suggest};

/// Placeholder for the uid of an object while a manifest is checked.
const SAMPLE_UID: &str = "00000000-0000-4000-8000-000000000000";

impl Steps<'_> {
    /// Checks that the API server would accept a manifest.
    pub fn manifest(&mut self, place: SourceSpan, mut map: Map<String, Value>) -> Checked<Manifest> {
        if self.depth > 0 {
            map.values_mut().for_each(plain);
        }
        let mut manifest = manifest(place, map, &mut self.customs)?;
        self.name_owners(place, &mut manifest.value)?;
        let mut sample = manifest.clone();
        let mut unknown = None;
        saved::replace(&mut sample.value, &mut |name| {
            let id = self.saved.get(name).map(|field| placeholder(field).to_owned());
            if id.is_none() {
                unknown.get_or_insert_with(|| name.to_owned());
            }
            id
        });
        if let Some(name) = unknown {
            let place = find::word(&self.origin.text, place, &name).unwrap_or(place);
            return Err(self.unknown_saved(&Spanned { value: name, place }));
        }
        saved::replace_uids(&mut sample.value, &|_| Some(SAMPLE_UID.into()));
        self.judge(place, &sample)?;
        self.remark(place, &manifest.object);
        Ok(manifest)
    }

    /// Replaces the objects in `{uid: KIND/NAME}` by their paths, so that the runner need not know custom kinds.
    fn name_owners(&self, place: SourceSpan, manifest: &mut Value) -> Checked<()> {
        let mut paths = BTreeMap::new();
        for name in saved::uids(manifest) {
            let place = find::word(&self.origin.text, place, &name).unwrap_or(place);
            let object = self.object(&Spanned { value: name.clone(), place })?;
            paths.insert(name, object.path());
        }
        saved::replace_uids(manifest, &|name| Some(json!({ "uid": paths.get(name)? })));
        Ok(())
    }

    /// Adds a remark if no control loop handles the object.
    fn remark(&self, place: SourceSpan, object: &ObjectRef) {
        let table = object.kind.table();
        let Some(message) = self.unserved.lack(table.group, table.kind) else { return };
        let at = find::field(&self.origin.text, place, "kind").unwrap_or(place);
        self.add_remark(&self.origin.source, at, message);
    }

    /// Adds a remark. Repetitions produce the same one several times.
    pub(super) fn add_remark(&self, source: &str, at: SourceSpan, message: String) {
        let remark = Remark { source: source.to_owned(), line: at.line, column: at.column, message };
        let mut all = self.remarks.borrow_mut();
        if !all.contains(&remark) {
            all.push(remark);
        }
    }

    /// Applies the API server's own schemas and validation rules.
    pub fn judge(&self, place: SourceSpan, manifest: &Manifest) -> Checked<()> {
        let ObjectRef { kind, namespace, .. } = &manifest.object;
        // An object that exists already is patched, so a part of it suffices. Nodes exist from the beginning.
        let whole = self.applied.borrow_mut().insert(manifest.object.clone()) && *kind != Kind::node();
        if kind.is_custom() {
            return Ok(());
        }
        let wrong = manifest::check(kind.table(), namespace.as_deref(), manifest.value.clone().into(), whole);
        let mut mistakes = wrong.into_iter().map(|ManifestError { field, message, known }| {
            if let Some(mistake) = self.quantity(place, &manifest.value, &field, &message) {
                return mistake;
            }
            let wording = if message.contains(&field) { message } else { format!("{field}: {message}") };
            let at = find::field(&self.origin.text, place, &field).unwrap_or(place);
            let mistake = Mistake::new(at, wording, "the API server would refuse this");
            let word = field.rsplit('.').next().unwrap_or_default();
            match nearest(word, known.iter().map(String::as_str)) {
                Some(near) => mistake.help(format!("did you mean `{near}`?")),
                None => mistake,
            }
        });
        let Some(first) = mistakes.next() else { return Ok(()) };
        self.heed(Err(first));
        mistakes.for_each(|mistake| self.heed(Err(mistake)));
        Ok(())
    }
}

impl Steps<'_> {
    /// Error for a value that is not a quantity, with the quantity that is probably meant.
    fn quantity(&self, place: SourceSpan, manifest: &Value, field: &str, message: &str) -> Option<Mistake> {
        let is_of_quantity = ["quantities must match", "unable to parse quantity"].iter().any(|w| message.contains(w));
        is_of_quantity.then_some(())?;
        let pointer = format!("/{}", field.replace('[', ".").replace(']', "").replace('.', "/"));
        let value = manifest.pointer(&pointer)?.as_str()?;
        let Plain { message, help } = words::quantity(value);
        let at = find::word(&self.origin.text, place, value).or_else(|| find::field(&self.origin.text, place, field));
        let mistake =
            Mistake::new(at.unwrap_or(place), format!("{field}: {message}"), "the API server would refuse this");
        Some(match help {
            Some(help) => mistake.help(help),
            None => mistake,
        })
    }
}

/// Checks a manifest, and learns the kinds that it defines.
pub(in crate::scenario) fn manifest(
    place: SourceSpan,
    map: Map<String, Value>,
    customs: &mut Customs,
) -> Checked<Manifest> {
    let bad = |message: String| Mistake::new(place, message, "this manifest");
    let text = |path: &[&str]| -> Checked<Option<String>> {
        let mut at = map.get(path[0]);
        for key in &path[1..] {
            at = at.and_then(|v| v.get(key));
        }
        match at {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.clone())),
            Some(_) => Err(bad(format!("the manifest's `{}` is not a string", path.join(".")))),
        }
    };
    let need = |path: &[&str]| text(path)?.ok_or_else(|| bad(format!("the manifest has no `{}`", path.join("."))));
    let (version, kind_name, name) = (need(&["apiVersion"])?, need(&["kind"])?, need(&["metadata", "name"])?);
    let custom = || customs.of_manifest(&version, &kind_name);
    let Some(kind) = Kind::of_manifest(&version, &kind_name).or_else(custom) else {
        let known = || Kind::kinds().chain(customs.all().map(|kind| (kind.kind(), kind.api_version())));
        let message = format!("this cluster has no kind {kind_name} in {version}");
        let help = match known().find(|(kind, _)| *kind == kind_name) {
            Some((_, right)) => format!("write `apiVersion: {right}`"),
            None => suggest(&kind_name, known().map(|(kind, _)| kind), "kinds"),
        };
        return Err(bad(message).help(help));
    };
    check_name(&name).map_err(bad)?;
    let namespace = text(&["metadata", "namespace"])?;
    let manifest = Manifest { object: ObjectRef::new(kind, namespace.as_deref(), &name), value: Value::Object(map) };
    customs.learn(&manifest.value);
    Ok(manifest)
}
