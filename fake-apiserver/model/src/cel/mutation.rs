//! Expressions that create objects: `Object{…}` and `JSONPatch{…}` of MutatingAdmissionPolicies (apiserver
//! `pkg/cel/mutation`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use cel::common::types::{CelString, CelStruct, Type};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, IdedExpr, StructType, extensions};
use substrate::json::{Map, Value};

/// Type of a whole object; nested objects are `Object.spec`, `Object.spec.template` and so on.
const OBJECT: &str = "Object";
/// Type of an operation of a JSON patch.
const JSON_PATCH: &str = "JSONPatch";

/// Returns the types of the values that an expression creates.
///
/// # Errors
/// An unknown type, or a feature that this server does not have.
pub(super) fn types_made(expression: &IdedExpr) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    collect(expression, &mut found)?;
    let known = |name: &&String| *name == OBJECT || *name == JSON_PATCH || name.starts_with("Object.");
    match found.iter().find(|name| !known(name)) {
        Some(name) => Err(format!("compilation failed: undeclared reference to '{name}': there is no such type")),
        None => Ok(found),
    }
}

fn collect(expression: &IdedExpr, found: &mut BTreeSet<String>) -> Result<(), String> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        Expr::Call(call) => {
            call.target.iter().map(|target| &**target).chain(&call.args).try_for_each(|e| collect(e, found))
        }
        Expr::Comprehension(of) => {
            let parts = [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
            parts.into_iter().try_for_each(|e| collect(e, found))
        }
        Expr::List(list) if list.optional_indices.is_empty() => {
            list.elements.iter().try_for_each(|e| collect(e, found))
        }
        Expr::List(_) => Err(no_optionals()),
        Expr::Select(select) => collect(&select.operand, found),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| collect_entry(entry, found)),
        Expr::Struct(made) => {
            found.insert(made.type_name.clone());
            made.entries.iter().try_for_each(|entry| collect_entry(entry, found))
        }
    }
}

fn collect_entry(entry: &IdedEntryExpr, found: &mut BTreeSet<String>) -> Result<(), String> {
    match &entry.expr {
        EntryExpr::StructField(field) if !field.optional => collect(&field.value, found),
        EntryExpr::MapEntry(entry) if !entry.optional => {
            collect(&entry.key, found)?;
            collect(&entry.value, found)
        }
        _ => Err(no_optionals()),
    }
}

fn no_optionals() -> String {
    "compilation failed: this server has no optional fields and elements".to_owned()
}

/// A type that accepts any field: the fields are checked when the object is merged.
struct Open(Type);

impl StructType for Open {
    fn get_type(&self) -> &Type {
        &self.0
    }

    fn new_value<'b, 'v>(&self, fields: BTreeMap<String, CowVal<'b, 'v>>) -> Result<Box<dyn Val + 'v>, ExecutionError> {
        let mut made = CelStruct::new(self.0.name().to_owned());
        for (name, value) in fields {
            made.add_field_value(name, value);
        }
        Ok(Box::new(made))
    }
}

/// Returns CEL with these types and `jsonpatch.escapeKey`.
pub(super) fn env(types: BTreeSet<String>) -> Arc<Env> {
    let mut env = Env::stdlib();
    // Each fails only if a function or type exists already, and that one is used then.
    let _ = env.add_extension(extensions::strings);
    let _ = env.add_extension(super::library::extension);
    let _ = env.add_extension(
        |env: &mut Env| cel::add_overload!(env, fn escape_key: (CelString) -> CelString, name = "jsonpatch.escapeKey"),
    );
    for name in types {
        let _ = env.add_type(cel::TypeDecl::Struct(Box::new(Open(Type::new_struct(name)))));
    }
    Arc::new(env)
}

/// Escapes a key for a JSON pointer (RFC 6901, section 3).
fn escape_key(key: &CelString<'_>) -> CelString<'static> {
    key.inner().replace('~', "~0").replace('/', "~1").into()
}

/// Converts an `Object` to a tree.
///
/// # Errors
/// The type that it has instead, or the first value of a wrong type.
pub(super) fn object(value: &cel::Value) -> Result<Value, String> {
    match value {
        cel::Value::Struct(made) if made.name() == OBJECT => tree(value, OBJECT),
        _ => Err(format!("must evaluate to Object but got {}", kind(value))),
    }
}

/// Converts the operations of a JSON patch.
///
/// # Errors
/// The type that they have instead.
pub(super) fn json_patch(value: &cel::Value) -> Result<Value, String> {
    let wrong = |value: &cel::Value| format!("must evaluate to list(JSONPatch) but got {}", kind(value));
    let cel::Value::List(operations) = value else { return Err(wrong(value)) };
    operations
        .iter()
        .map(|operation| match operation {
            cel::Value::Struct(made) if made.name() == JSON_PATCH => patch_operation(made),
            other => Err(wrong(other)),
        })
        .collect()
}

fn patch_operation(made: &CelStruct<'_>) -> Result<Value, String> {
    let mut operation = Map::new();
    for (name, value) in made.field_values() {
        let value = cel::Value::try_from(value.as_ref()).map_err(|error| error.to_string())?;
        let shown = match (name.as_str(), &value) {
            ("op" | "path" | "from", cel::Value::String(text)) => text.as_str().into(),
            // The value may be an object of any path.
            ("value", cel::Value::Struct(made)) => tree(&value, made.name())?,
            ("value", _) => tree(&value, OBJECT)?,
            ("op" | "path" | "from", _) => return Err(format!("JSONPatch.{name}: must be a string")),
            _ => return Err(format!("no such field '{name}' in JSONPatch")),
        };
        operation.insert(name, shown);
    }
    Ok(Value::Object(operation))
}

fn kind(value: &cel::Value) -> String {
    match value {
        cel::Value::Struct(made) => made.name().to_owned(),
        other => other.type_of().to_string(),
    }
}

/// Converts a value to a tree. Nested objects must have the type of their path `at`.
fn tree(value: &cel::Value, at: &str) -> Result<Value, String> {
    match value {
        cel::Value::Struct(made) if made.name() == at => {
            let fields = made.field_values().into_iter().map(|(name, value)| {
                let value = cel::Value::try_from(value.as_ref()).map_err(|error| error.to_string())?;
                let value = tree(&value, &format!("{at}.{name}"))?;
                Ok::<_, String>((name, value))
            });
            Ok(Value::Object(fields.collect::<Result<_, _>>()?))
        }
        cel::Value::Struct(made) => Err(format!(
            "type mismatch: unexpected type name {:?}, expected {at:?}, which matches field name path from root Object type",
            made.name()
        )),
        cel::Value::List(items) => items.iter().map(|item| tree(item, at)).collect(),
        cel::Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| Ok::<_, String>((key.to_string(), tree(value, at)?)));
            Ok(Value::Object(entries.collect::<Result<_, _>>()?))
        }
        other => other.json().map(Value::from).map_err(|error| error.to_string()),
    }
}
