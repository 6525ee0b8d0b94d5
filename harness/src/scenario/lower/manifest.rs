//! Manifests of objects.

use serde_json::{Map, Value};

use super::Checked;
use crate::scenario::custom::Customs;
use crate::scenario::diagnostic::{Mistake, suggest};
use crate::scenario::model::Manifest;
use crate::scenario::object::{Kind, ObjectRef, check_name};
use crate::scenario::place::Place;

/// Checks a manifest, and takes in the kinds that it defines.
pub(super) fn manifest(place: Place, map: Map<String, Value>, customs: &mut Customs) -> Checked<Manifest> {
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
