//! CustomResourceDefinitions: their validation, and the kinds that they declare (apiextensions
//! `pkg/apis/apiextensions/validation`).

use substrate::json::Value;

use super::path::Path;
use super::schema::{Of, Schema};
use super::{Column, Description, Scale};
use crate::fields::FieldError;
use crate::fields::value::{list, name, text};
use crate::kinds;
use crate::kinds::priority;

/// Parts of a definition's version other than names.
pub struct Parts {
    pub(super) schema: Schema,
    pub(super) columns: Vec<Column>,
    pub(super) scale: Option<Scale>,
    pub(super) selectable: Vec<String>,
}

/// Maximum number of selectable fields of a kind.
const MAX_SELECTABLE: usize = 8;

/// Validates a definition.
pub fn check(definition: &Value) -> Vec<FieldError> {
    parse(definition).1
}

/// Returns the versions of a definition, each with its `served` flag, the stored one first, and the errors in them.
pub(super) fn parse(definition: &Value) -> (Vec<(Description, Parts, bool)>, Vec<FieldError>) {
    let mut errors = names(definition);
    let mut versions = list(&definition["spec"], &["versions"]).to_vec();
    let stored = versions.iter().filter(|v| v["storage"] == true).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &Value::from(versions.len()), why));
    }
    if is_converted(definition) {
        check_webhook(&definition["spec"]["conversion"]["webhook"], &mut errors);
    }
    // Errors have the indices of the definition.
    let mut parsed: Vec<(usize, Description, Parts)> = Vec::new();
    for (i, version) in versions.iter_mut().enumerate() {
        let at = format!("spec.versions[{i}]");
        if text(version, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        let source = &version["schema"]["openAPIV3Schema"];
        if source.is_null() {
            errors.push(FieldError::required(format!("{at}.schema.openAPIV3Schema"), "schemas are required"));
            continue;
        }
        let at_schema = format!("{at}.schema.openAPIV3Schema");
        let schema = Schema::parse(source, &at_schema, &mut errors);
        if schema.of != Some(Of::Object) {
            let why = "must be object at the root";
            errors.push(FieldError::invalid(format!("{at_schema}.type"), &source["type"], why));
        }
        let parts = Parts {
            schema,
            columns: columns(version, &at, &mut errors),
            scale: scale(version, &at, &mut errors),
            selectable: selectable(version, &at, &mut errors),
        };
        parsed.push((i, describe(definition, version), parts));
    }
    // The stored version comes first: the others are views of it.
    parsed.sort_by_key(|(i, ..)| versions[*i]["storage"] != true);
    let parsed = parsed.into_iter().map(|(i, of, parts)| (of, parts, versions[i]["served"] == true)).collect();
    (parsed, errors)
}

/// Returns true if a definition serves a version.
pub fn serves(definition: &Value, version: &str) -> bool {
    list(&definition["spec"], &["versions"]).iter().any(|v| v["name"] == version && v["served"] == true)
}

fn names(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    let (group, plural) = (text(spec, &["group"]), text(spec, &["names", "plural"]));
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", text(spec, &["names", "kind"])),
        ("spec.scope", text(spec, &["scope"])),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    let wanted = format!("{plural}.{group}");
    if errors.is_empty() && name(definition) != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &name(definition).into(), why));
    }
    let scope = text(spec, &["scope"]);
    if !scope.is_empty() && !["Cluster", "Namespaced"].contains(&scope) {
        errors.push(FieldError::not_supported("spec.scope", &scope.into(), &["Cluster", "Namespaced"]));
    }
    if kinds::all().iter().any(|kind| kind.group == group) {
        let why = "is a group of the server itself";
        errors.push(FieldError::invalid("spec.group", &group.into(), why));
    }
    errors
}

/// Returns the warning about a deprecated version: the definition's, or upstream's default
/// (`defaultDeprecationWarning`).
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(message) = version["deprecationWarning"].as_str() {
        return Some(message.to_owned());
    }
    let spec = &definition["spec"];
    let (group, kind) = (text(spec, &["group"]), text(spec, &["names", "kind"]));
    let named = |version: &str| format!("{group}/{version} {kind}");
    let old = text(version, &["name"]);
    let better = list(spec, &["versions"])
        .iter()
        .filter(|v| v["served"] == true && v["deprecated"] != true)
        .map(|v| text(v, &["name"]))
        .filter(|name| priority(name) > priority(old))
        .max_by_key(|name| priority(name));
    let instead = better.map(|better| format!("; use {}", named(better))).unwrap_or_default();
    Some(format!("{} is deprecated{instead}", named(old)))
}

fn describe(definition: &Value, version: &Value) -> Description {
    let names = &definition["spec"]["names"];
    let word = |of: &Value, field: &str| text(of, &[field]).to_owned();
    let words = |field: &str| list(names, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut singular = word(names, "singular");
    if singular.is_empty() {
        singular = word(names, "kind").to_lowercase();
    }
    let mut source = version.clone();
    if let Some(map) = source.as_object_mut() {
        // `served` and `storage` may change without changing the kind.
        map.retain(|field, _| {
            matches!(
                field.as_str(),
                "name" | "schema" | "subresources" | "additionalPrinterColumns" | "selectableFields"
            )
        });
    }
    if let Some(message) = deprecation(definition, version) {
        source["deprecation"] = message.into();
    }
    if is_converted(definition) {
        source["conversion"] = definition["spec"]["conversion"]["webhook"].clone();
    }
    Description {
        group: word(&definition["spec"], "group"),
        version: word(version, "name"),
        kind: word(names, "kind"),
        plural: word(names, "plural"),
        singular,
        short_names: words("shortNames"),
        categories: words("categories"),
        namespaced: text(definition, &["spec", "scope"]) != "Cluster",
        has_status: version["subresources"]["status"].is_object(),
        source,
    }
}

fn columns(version: &Value, at: &str, errors: &mut Vec<FieldError>) -> Vec<Column> {
    let mut columns = Vec::new();
    for (i, column) in list(version, &["additionalPrinterColumns"]).iter().enumerate() {
        let word = |field: &str| text(column, &[field]).to_owned();
        match Path::parse(&word("jsonPath")) {
            Ok(path) => columns.push(Column {
                name: word("name"),
                kind: word("type"),
                format: word("format"),
                description: word("description"),
                priority: column["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
                path,
            }),
            Err(why) => {
                let field = format!("{at}.additionalPrinterColumns[{i}].jsonPath");
                errors.push(FieldError::invalid(field, &column["jsonPath"], why));
            }
        }
    }
    if columns.is_empty()
        && let Ok(path) = Path::parse(".metadata.creationTimestamp")
    {
        columns.push(Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path,
        });
    }
    columns
}

fn scale(version: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Scale> {
    let scale = version["subresources"].get("scale").filter(|s| s.is_object())?;
    let mut path = |field: &str, root: &str| {
        let sent = text(scale, &[field]);
        let steps: Vec<String> = sent.trim_start_matches('.').split('.').map(str::to_owned).collect();
        if !sent.starts_with(&format!(".{root}.")) {
            let why = format!("should be a json path under .{root}");
            errors.push(FieldError::invalid(format!("{at}.subresources.scale.{field}"), &sent.into(), why));
        }
        steps
    };
    let (spec, status) = (path("specReplicasPath", "spec"), path("statusReplicasPath", "status"));
    let selector = text(scale, &["labelSelectorPath"]);
    let selector =
        (!selector.is_empty()).then(|| selector.trim_start_matches('.').split('.').map(str::to_owned).collect());
    Some(Scale { spec, status, selector })
}

/// Returns the selectable fields: of a scalar type, and outside the metadata
/// (`ValidateCustomResourceSelectableFields`).
fn selectable(version: &Value, at: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
    let sent = list(version, &["selectableFields"]);
    let mut fields: Vec<String> = Vec::new();
    for (i, field) in sent.iter().enumerate() {
        let place = format!("{at}.selectableFields[{i}].jsonPath");
        let path = text(field, &["jsonPath"]);
        if path.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let steps = path.strip_prefix('.').map(|rest| rest.split('.').collect::<Vec<_>>()).unwrap_or_default();
        let root = &version["schema"]["openAPIV3Schema"];
        let found = steps.iter().try_fold(root, |schema, step| schema.get("properties")?.get(*step));
        let Some(schema) = found.filter(|_| !steps.is_empty()) else {
            let why = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(place, &path.into(), why));
            continue;
        };
        if steps[0] == "metadata" {
            errors.push(FieldError::invalid(place, &path.into(), "must not point to fields in metadata"));
        } else if !matches!(text(schema, &["type"]), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            errors.push(FieldError::invalid(place, &path.into(), why));
        } else if fields.iter().any(|known| *known == path[1..]) {
            errors.push(FieldError::duplicate(place, &path.into()));
        } else {
            fields.push(path[1..].to_owned());
        }
    }
    if fields.len() > MAX_SELECTABLE {
        let why = format!("must have at most {MAX_SELECTABLE} items");
        errors.push(FieldError::invalid(format!("{at}.selectableFields"), &Value::from(fields.len()), why));
    }
    fields
}

/// Returns true if a webhook converts between the versions of a definition.
pub fn is_converted(definition: &Value) -> bool {
    text(definition, &["spec", "conversion", "strategy"]) == "Webhook"
}

/// Returns the name of the version in which objects are stored.
pub fn stored_version(definition: &Value) -> &str {
    let versions = list(&definition["spec"], &["versions"]);
    versions.iter().find(|version| version["storage"] == true).map_or("", |version| text(version, &["name"]))
}

fn check_webhook(webhook: &Value, errors: &mut Vec<FieldError>) {
    let at = "spec.conversion.webhook";
    let client = &webhook["clientConfig"];
    if client.is_null() {
        let why = "required when strategy is set to Webhook";
        errors.push(FieldError::required(format!("{at}.clientConfig"), why));
    } else if text(client, &["url"]).is_empty() == client["service"].is_null() {
        let why = "exactly one of url or service is required";
        errors.push(FieldError::required(format!("{at}.clientConfig"), why));
    }
    let versions = list(webhook, &["conversionReviewVersions"]);
    if !versions.iter().any(|version| version == "v1") {
        let why = "must include v1, which is what this server sends";
        errors.push(FieldError::invalid(format!("{at}.conversionReviewVersions"), &Value::from(versions), why));
    }
}
