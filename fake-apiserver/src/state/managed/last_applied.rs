//! Migration of kubectl from client-side to server-side apply. The annotation last-applied-configuration lets kubectl
//! take the fields that it applied before and that still have that value. Each apply keeps the annotation up to date
//! (`lastAppliedManager`, `lastAppliedUpdater`).

use substrate::json::{Map, Value};

use super::Writer;
use super::compare::compare;
use super::fields::{Fields, fields_of};
use crate::state::value::{self, text};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager that migrates.
const MANAGER: &str = "kubectl";
/// Maximum size of an object's annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Returns the fields of other managers that an apply may take: the annotation has them with their present value.
pub(super) fn allowed(writer: &Writer<'_>, live: &Value) -> Fields {
    let reported = text(live, &["metadata", "annotations", ANNOTATION]);
    if writer.manager != MANAGER || reported.is_empty() {
        return Fields::default();
    }
    match serde_json::from_str::<Value>(reported) {
        Ok(reported) if text(&reported, &["apiVersion"]) == writer.kind.api_version() => {
            let topology = writer.topology();
            let differs = compare(Some(&reported), Some(live), topology);
            fields_of(&reported, topology).without(&differs.written).without(&differs.removed)
        }
        _ => Fields::default(),
    }
}

/// Updates the annotation, if the object has it, with the applied configuration.
pub(super) fn refresh(writer: &Writer<'_>, object: &mut Value, sent: &Value) {
    if writer.manager != MANAGER || text(object, &["metadata", "annotations", ANNOTATION]).is_empty() {
        return;
    }
    let mut sent = sent.clone();
    if let Some(annotations) = annotations(&mut sent) {
        annotations.remove(ANNOTATION);
    }
    let reported = as_go_writes(&sent);
    let Some(annotations) = annotations(object) else { return };
    annotations.insert(ANNOTATION, reported.into());
    let length: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if length > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotations(object: &mut Value) -> Option<&mut Map> {
    value::metadata(object).get_mut("annotations")?.as_object_mut()
}

/// Encodes JSON as Go's encoder does: escaped for HTML, with a newline at the end.
fn as_go_writes(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('\n');
    text
}
