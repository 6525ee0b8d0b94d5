//! Parameters of operations: places, types and descriptions.

use substrate::json::{Value, json};

use super::schemas::Dialect;

/// A parameter: its name, type and description.
type Row = (&'static str, &'static str, &'static str);

const DRY_RUN: Row = ("dryRun", "string", "Value All: the request is processed and answered, and nothing is stored.");
const FIELD_MANAGER: Row = (
    "fieldManager",
    "string",
    "Name of the writer in metadata.managedFields, at most 128 printable characters. Required for an apply.",
);
const FIELD_VALIDATION: Row = (
    "fieldValidation",
    "string",
    "Treatment of unknown and repeated fields: Ignore drops them, Warn (the default) drops them with a warning, Strict refuses the request.",
);
const FORCE: Row =
    ("force", "boolean", "If set, an apply takes fields from other managers instead of failing with a conflict.");
const PRETTY: Row = ("pretty", "string", "If true, the answer is indented.");

/// Parameters of lists, and of watches on the same path.
const LIST: &[Row] = &[
    ("allowWatchBookmarks", "boolean", "If set, a watch has events of type BOOKMARK."),
    ("continue", "string", "Token of the page before, as metadata.continue of its answer had it."),
    ("fieldSelector", "string", "Selector by fields, to restrict the list of returned objects; all by default."),
    ("labelSelector", "string", "Selector by labels, to restrict the list of returned objects; all by default."),
    ("limit", "integer", "Most objects in an answer; the rest follows by continue."),
    ("resourceVersion", "string", "Revision that the answer is of, or that a watch begins after."),
    ("resourceVersionMatch", "string", "Meaning of resourceVersion for a list: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "If set, a watch begins with the objects that exist, and a bookmark after them."),
    ("timeoutSeconds", "integer", "Seconds after which a list or watch ends."),
    (
        "watch",
        "boolean",
        "Watch for changes to the described resources: the answer is a stream of events instead of a list.",
    ),
];

const DELETE: &[Row] = &[
    DRY_RUN,
    (
        "gracePeriodSeconds",
        "integer",
        "Seconds until the object is removed; 0 removes it at once. The kind's own time by default.",
    ),
    ("orphanDependents", "boolean", "Deprecated, see propagationPolicy. If set, dependents stay."),
    ("propagationPolicy", "string", "Treatment of dependents: Orphan, Background or Foreground."),
];

const WRITE: &[Row] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];

/// Returns the query parameters of an operation.
pub(super) fn of_query(action: &str, dialect: Dialect) -> Vec<Value> {
    let parts: &[&[Row]] = match action {
        "list" => &[LIST],
        "deletecollection" => &[LIST, DELETE],
        "post" | "put" => &[WRITE],
        "patch" => &[WRITE, &[FORCE]],
        "delete" => &[DELETE],
        _ => &[],
    };
    // Collections can be deleted, but not watched, with these parameters.
    let is_of = |name: &str| action == "list" || !matches!(name, "allowWatchBookmarks" | "watch");
    let rows = parts.iter().flat_map(|rows| rows.iter()).chain([&PRETTY]).filter(|(name, ..)| is_of(name));
    rows.map(|(name, of, text)| parameter(name, "query", of, text, dialect)).collect()
}

/// Returns a path parameter.
pub(super) fn of_path(name: &str, kind: &str, dialect: Dialect) -> Value {
    let text = match name {
        "namespace" => format!("Namespace of the {kind}."),
        _ => format!("Name of the {kind}."),
    };
    let mut parameter = parameter(name, "path", "string", &text, dialect);
    parameter["required"] = true.into();
    parameter
}

fn parameter(name: &str, place: &str, of: &str, text: &str, dialect: Dialect) -> Value {
    let mut parameter = json!({ "name": name, "in": place, "description": text });
    match dialect {
        Dialect::V2 => {
            parameter["type"] = of.into();
            parameter["uniqueItems"] = true.into();
        }
        Dialect::V3 => parameter["schema"] = json!({ "type": of, "uniqueItems": true }),
    }
    parameter
}
