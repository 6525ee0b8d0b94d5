//! The fields of every served kind: names, types, list topology and strategic-merge metadata.
//!
//! `schema.txt` holds the facts of the Kubernetes 1.36 API types. A line that starts at the margin names a type; each
//! indented line under it is a field: its JSON name, its type (`[]` a list, `{}` a map with string keys) and flags:
//! `required`, `patch=` (patchStrategy), `key=` (patchMergeKey), `list=` (listType), `keys=` (listMapKey, joined by `+`),
//! `map=` (mapType or structType), `pb=` (the protobuf field numbers from the message down to the field: two where Go
//! embeds a struct), `zero` (the zero value is a value: a pointer, or a field that Go always writes), `omitzero` (an
//! empty struct is left out). OpenAPI documents, strict field validation, patches and protobuf all read this one table.
//!
//! The numbers, `zero` and `omitzero` were derived from the field tags of `types.go` in kubernetes/api at `10b39a3` and
//! kubernetes/apimachinery at `eed236c`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;

use super::Kind;

/// A struct of the API.
#[derive(Debug)]
pub struct Type {
    /// `core/v1.Pod`.
    pub name: &'static str,
    /// Its fields, by JSON name in the order of the Go type.
    pub fields: Vec<Field>,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// Whether a valid object must have it.
    pub required: bool,
    /// Whether a strategic merge patch merges the list (patchStrategy `merge`) instead of replacing it.
    pub merge: bool,
    /// Whether kubectl sends `$retainKeys` for it (patchStrategy `retainKeys`).
    pub retain_keys: bool,
    /// The element field that identifies an element in a strategic merge patch.
    pub merge_key: Option<&'static str>,
    /// `atomic`, `set` or `map`.
    pub list_type: Option<&'static str>,
    /// The element fields that identify an element of a `map` list.
    pub list_keys: Vec<&'static str>,
    /// `atomic` when server-side apply owns the map or struct as one value.
    pub map_type: Option<&'static str>,
    /// The field numbers that lead to it in the protobuf message; empty for what is not in there.
    pub numbers: Vec<u32>,
    /// Whether a zero on the protobuf wire is a value, rather than nothing.
    pub zero: bool,
    /// Whether an empty struct on the protobuf wire is nothing, rather than `{}`.
    pub omit_zero: bool,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    String,
    /// A boolean.
    Boolean,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Number,
    /// An RFC 3339 time with seconds.
    Time,
    /// An RFC 3339 time with microseconds.
    MicroTime,
    /// A resource quantity.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// Base64 of bytes.
    Bytes,
    /// Any JSON value.
    Any,
    /// A struct, by name.
    Ref(&'static str),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

const TEXT: &str = include_str!("schema.txt");

static TYPES: LazyLock<BTreeMap<&'static str, Type>> = LazyLock::new(|| parse(TEXT));

/// The struct called `name` (`core/v1.PodSpec`).
pub fn find(name: &str) -> Option<&'static Type> {
    TYPES.get(name)
}

/// All structs, by name.
pub fn types() -> impl Iterator<Item = &'static Type> {
    TYPES.values()
}

/// The struct of a kind's objects.
pub fn of(kind: &Kind) -> Option<&'static Type> {
    find(&type_name(kind))
}

/// The name of a kind's struct: the group's first label stands for its Go package.
pub fn type_name(kind: &Kind) -> String {
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    format!("{package}/{}.{}", kind.version, kind.kind)
}

impl Type {
    /// The field with a JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// The paths of an object's fields that its kind does not have (`spec.foo`, `spec.containers[0].bar`), in document order.
pub fn unknown_fields(kind: &Kind, object: &Value) -> Vec<String> {
    let mut search = Search { path: String::new(), found: Vec::new() };
    if let Some(of) = of(kind) {
        search.fields(of, object);
    }
    search.found
}

/// One path is made longer and shorter as the search goes down and up; most objects have nothing to be found.
struct Search {
    path: String,
    found: Vec<String>,
}

impl Search {
    fn fields(&mut self, of: &'static Type, value: &Value) {
        let Some(map) = value.as_object() else { return };
        let length = self.path.len();
        for (key, value) in map {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
            match of.field(key) {
                Some(field) => self.shape(&field.shape, value),
                None => self.found.push(self.path.clone()),
            }
            self.path.truncate(length);
        }
    }

    fn shape(&mut self, shape: &Shape, value: &Value) {
        let length = self.path.len();
        match (shape, value) {
            (Shape::Ref(name), _) => {
                if let Some(of) = find(name) {
                    self.fields(of, value);
                }
            }
            (Shape::List(element), Value::Array(list)) => {
                for (i, value) in list.iter().enumerate() {
                    // Writing into a string cannot fail.
                    let _ = write!(self.path, "[{i}]");
                    self.shape(element, value);
                    self.path.truncate(length);
                }
            }
            (Shape::Map(element), Value::Object(map)) => {
                for (key, value) in map {
                    self.path.push('.');
                    self.path.push_str(key);
                    self.shape(element, value);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

fn parse(text: &'static str) -> BTreeMap<&'static str, Type> {
    let mut types = BTreeMap::new();
    let mut current: Option<Type> = None;
    for line in text.lines() {
        if let Some(row) = line.strip_prefix('\t') {
            if let (Some(of), Some(field)) = (&mut current, field(row)) {
                of.fields.push(field);
            }
        } else {
            types.extend(current.replace(Type { name: line, fields: Vec::new() }).map(|t| (t.name, t)));
        }
    }
    types.extend(current.map(|t| (t.name, t)));
    types
}

fn field(row: &'static str) -> Option<Field> {
    let mut words = row.split(' ');
    let (name, shape) = (words.next()?, shape(words.next()?));
    let mut field = Field {
        name,
        shape,
        required: false,
        merge: false,
        retain_keys: false,
        merge_key: None,
        list_type: None,
        list_keys: Vec::new(),
        map_type: None,
        numbers: Vec::new(),
        zero: false,
        omit_zero: false,
    };
    for word in words {
        match word.split_once('=') {
            None => match word {
                "required" => field.required = true,
                "zero" => field.zero = true,
                "omitzero" => field.omit_zero = true,
                _ => {}
            },
            Some(("pb", path)) => field.numbers = path.split('.').filter_map(|number| number.parse().ok()).collect(),
            Some(("patch", strategies)) => {
                field.merge = strategies.split(',').any(|s| s == "merge");
                field.retain_keys = strategies.split(',').any(|s| s == "retainKeys");
            }
            Some(("key", key)) => field.merge_key = Some(key),
            Some(("list", of)) => field.list_type = Some(of),
            Some(("keys", keys)) => field.list_keys = keys.split('+').collect(),
            Some(("map", of)) => field.map_type = Some(of),
            Some(_) => {}
        }
    }
    Some(field)
}

fn shape(text: &'static str) -> Shape {
    if let Some(element) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape(element)));
    }
    if let Some(element) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape(element)));
    }
    match text {
        "string" => Shape::String,
        "bool" => Shape::Boolean,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "number" => Shape::Number,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "quantity" => Shape::Quantity,
        "intstr" => Shape::IntOrString,
        "bytes" => Shape::Bytes,
        "any" => Shape::Any,
        name => Shape::Ref(name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn every_kind_and_every_referenced_struct_is_in_the_table() {
        for kind in kinds::all() {
            assert!(of(kind).is_some(), "{kind:?}");
        }
        fn check(shape: &Shape) {
            match shape {
                Shape::Ref(name) => assert!(find(name).is_some(), "{name}"),
                Shape::List(element) | Shape::Map(element) => check(element),
                _ => {}
            }
        }
        TYPES.values().flat_map(|t| &t.fields).for_each(|f| check(&f.shape));
    }

    #[test]
    fn a_line_of_the_table_gives_all_that_it_says() {
        let volumes = find("core/v1.PodSpec").unwrap().field("volumes").unwrap();
        assert!(volumes.merge && volumes.retain_keys && !volumes.required);
        assert_eq!(volumes.merge_key, Some("name"));
        let ports = find("core/v1.Container").unwrap().field("ports").unwrap();
        assert_eq!((ports.merge_key, ports.list_type), (Some("containerPort"), Some("map")));
        assert_eq!(ports.list_keys, ["containerPort", "protocol"]);
        assert!(find("core/v1.PodSpec").unwrap().field("containers").unwrap().required);
    }

    #[test]
    fn fields_that_the_type_lacks_are_named_by_path() {
        let pvc = kinds::find("", "v1", "persistentvolumeclaims").unwrap();
        let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "labels": {"any": "x"}},
            "spec": {"storageclass": "x", "resources": {"requests": {"storage": "1Gi"}}}, "extra": 1});
        assert_eq!(unknown_fields(pvc, &object), ["extra", "spec.storageclass"]);
        let pod = kinds::find("", "v1", "pods").unwrap();
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "imagee": "x"}]}});
        assert_eq!(unknown_fields(pod, &object), ["spec.containers[1].imagee"]);
    }

    /// Objects of a real server have no field that the table lacks; reads `../shared/data/protobuf-vectors.jsonl`.
    #[test]
    fn recorded_objects_have_only_known_fields() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/protobuf-vectors.jsonl");
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("skipped: {path} is not there");
            return;
        };
        for line in text.lines() {
            let vector: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| vector[name].as_str().unwrap().to_owned();
            if let Some(kind) = kinds::find_kind(&text("groupVersion"), &text("kind")) {
                assert_eq!(unknown_fields(kind, &vector["json"]), Vec::<String>::new(), "{kind:?}");
            }
        }
    }
}
