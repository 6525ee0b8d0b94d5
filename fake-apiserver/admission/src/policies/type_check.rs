//! Type check of a policy against the kinds that it matches (kube-controller-manager
//! `validatingadmissionpolicy-status-controller`, apiserver `admission/plugin/policy/validating/typechecking.go`). The
//! status of the policy has the errors; the policy works regardless.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::json::{Value, json};

use super::check::types_with;
use crate::Cluster;
use api_model::cel::Expression;
use api_model::cel::check::Type;
use api_model::custom::declared;
use api_model::fields::value::{list, text};
use api_model::kinds::Kind;
use api_model::kinds::schema::{self, Shape, TypeRef};

/// Maximum number of kinds of a rule that are checked.
const MOST_KINDS: usize = 10;

/// Returns the type errors of the validations of a policy, by field.
pub fn type_warnings(cluster: &dyn Cluster, spec: &Value) -> Vec<Value> {
    let params = params_type(cluster, spec);
    let kinds = matched_types(cluster, spec);
    let scopes: Vec<_> = kinds.iter().map(|(name, of)| (name, types_with(spec, of, &params))).collect();
    let mut warnings = Vec::new();
    for (i, validation) in list(spec, &["validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = text(validation, &[field]);
            let Some(expression) = Expression::compile(source).ok().filter(|_| !source.is_empty()) else {
                continue;
            };
            let found: Vec<String> = scopes
                .iter()
                .filter_map(|(name, types)| Some(format!("{name}: {}\n", expression.check_types(types).err()?)))
                .collect();
            if !found.is_empty() {
                let place = format!("spec.validations[{i}].{field}");
                warnings.push(json!({"fieldRef": place, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

/// Returns the types of the objects that a policy matches, by kind. Rules with a wildcard are not checked.
fn matched_types(cluster: &dyn Cluster, spec: &Value) -> BTreeMap<String, Type> {
    let mut found = BTreeMap::new();
    for rule in list(spec, &["matchConstraints", "resourceRules"]) {
        let (groups, versions) = (words(rule, "apiGroups"), words(rule, "apiVersions"));
        if [&groups, &versions].iter().any(|words| words.iter().any(|word| word.contains('*'))) {
            continue;
        }
        let mut resources = words(rule, "resources");
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut left = MOST_KINDS;
        let places = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        for (group, version) in places {
            for resource in &resources {
                let Some(kind) = cluster.kind(group, version, resource).filter(|_| left > 0) else { continue };
                left -= 1;
                let name = format!("{group}/{version}, Kind={}", kind.kind);
                found.extend(of_kind(&kind).map(|of| (name, of)));
            }
        }
    }
    found
}

/// Returns the type of the parameters of a policy.
fn params_type(cluster: &dyn Cluster, spec: &Value) -> Type {
    let (version, kind) = (text(spec, &["paramKind", "apiVersion"]), text(spec, &["paramKind", "kind"]));
    cluster.kind_of(version, kind).and_then(|kind| of_kind(&kind)).unwrap_or(Type::Dyn)
}

/// Returns the texts of a list of a rule, sorted.
fn words<'r>(rule: &'r Value, field: &str) -> Vec<&'r str> {
    let mut words: Vec<&str> = list(rule, &[field]).iter().filter_map(Value::as_str).collect();
    words.sort_unstable();
    words
}

/// Returns the type of the objects of a kind.
fn of_kind(kind: &Kind) -> Option<Type> {
    let Some(custom) = &kind.custom else {
        return Some(of_struct(schema::place_of(kind)?, &mut Vec::new()));
    };
    let Type::Object(fields) = declared(&custom.schema, true)?.of else { return None };
    let mut fields = BTreeMap::clone(&fields);
    fields.insert("metadata".to_owned(), of_struct(TypeRef::named("meta/v1.ObjectMeta")?, &mut Vec::new()));
    Some(Type::Object(Arc::new(fields)))
}

/// Returns the type of a struct. A struct within itself, and one with unknown fields, has any type.
fn of_struct(of: TypeRef, within: &mut Vec<TypeRef>) -> Type {
    if within.contains(&of) || of.get().open {
        return Type::Dyn;
    }
    within.push(of);
    let fields = of.get().fields.iter().map(|field| (field.name.to_string(), of_shape(&field.shape, within))).collect();
    within.pop();
    Type::Object(Arc::new(fields))
}

fn of_shape(shape: &Shape, within: &mut Vec<TypeRef>) -> Type {
    match shape {
        Shape::String | Shape::Quantity => Type::String,
        Shape::Boolean => Type::Bool,
        Shape::Int32 | Shape::Int64 => Type::Int,
        Shape::Number => Type::Double,
        Shape::Ref(of) => of_struct(*of, within),
        Shape::List(of) => Type::list(of_shape(of, within)),
        Shape::Map(of) => Type::map(Type::String, of_shape(of, within)),
        // The evaluator treats times and bytes as strings.
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::IntOrString
        | Shape::Any
        | Shape::SchemaOrBool
        | Shape::SchemaOrList
        | Shape::SchemaOrStrings
        | Shape::Custom(_) => Type::Dyn,
    }
}
