//! Manifests of objects.

use serde_json::{Map, Value};

use super::Checked;
use super::expand::plain;
use super::steps::Steps;
use crate::scenario::diagnostic::{Mistake, suggest};
use crate::scenario::model::Manifest;
use crate::scenario::object::{Kind, ObjectRef, check_name};
use crate::scenario::place::Place;

impl Steps<'_> {
    /// A manifest as it is written here.
    pub(super) fn manifest(&self, place: Place, mut map: Map<String, Value>) -> Checked<Manifest> {
        if self.depth > 0 {
            map.values_mut().for_each(plain);
        }
        manifest(place, map)
    }
}

pub(super) fn manifest(place: Place, map: Map<String, Value>) -> Checked<Manifest> {
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
    let Some(kind) = Kind::of_manifest(&version, &kind_name) else {
        let message = format!("this cluster has no kind {kind_name} in {version}");
        let help = match Kind::kinds().find(|(kind, _)| *kind == kind_name) {
            Some((_, right)) => format!("write `apiVersion: {right}`"),
            None => suggest(&kind_name, Kind::kinds().map(|(kind, _)| kind), "kinds"),
        };
        return Err(bad(message).help(help));
    };
    check_name(&name).map_err(bad)?;
    let namespace = text(&["metadata", "namespace"])?;
    Ok(Manifest { object: ObjectRef::new(kind, namespace.as_deref(), &name), value: Value::Object(map) })
}
