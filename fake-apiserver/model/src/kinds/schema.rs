//! Fields of every served kind: names, types, list topology and strategic-merge metadata.
//!
//! `schema.txt` has the facts about the Kubernetes 1.36 API types. A line without indentation names a type, followed by
//! `atomic` if server-side apply owns it as one value (structType of the type). Each indented line below it is a field:
//! its JSON name, its type (`[]` a list, `{}` a map with string keys) and flags: `required`, `patch=` (patchStrategy),
//! `key=` (patchMergeKey), `list=` (listType), `keys=` (listMapKey, joined by `+`), `map=` (mapType or structType),
//! `pb=` (the protobuf field numbers from the message down to the field: two if Go embeds a struct), `go=` (the Go
//! type, if the shape does not give it), `zero` (the zero value is a value: a pointer, or a field that Go always
//! writes), `written` and `null` (what Go writes for an unset field: its zero value, or the null of a pointer). OpenAPI
//! documents, field validation, patches and protobuf all use this table. A type is parsed on first use.
//!
//! `cargo run -p xtask -- kinds --types DIR` writes the file, from the tags and markers of the fields at v0.36.2:
//! kubernetes/api 2f4cefdb, apimachinery ae3f98eb, apiextensions-apiserver e4eb1594, kube-aggregator af2b3496.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use substrate::json::{Text, Value};

use super::Kind;
use crate::field_path::FieldPath;

/// A struct of the API.
#[derive(Debug)]
pub struct Type {
    /// Name of the type, such as `core/v1.Pod`.
    pub name: &'static str,
    /// True if server-side apply owns it as one value, unless a field overrides that.
    pub atomic: bool,
    /// True if unknown fields are kept, and server-side apply owns them one by one.
    pub open: bool,
    /// Its fields, in the order of the Go type.
    pub fields: Vec<Field>,
    /// Hash table of field positions by name; each entry is at or after its [`slot`].
    by_name: Box<[Option<u16>]>,
    /// Positions of the fields that Go writes when they are unset.
    unset: Box<[u16]>,
}

/// A field of a struct.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// JSON name.
    pub name: Text,
    /// Type of its value.
    pub shape: Shape,
    /// True if a valid object must have it.
    pub required: bool,
    /// True if a strategic merge patch merges the list (patchStrategy `merge`) instead of replacing it.
    pub merge: bool,
    /// True if kubectl sends `$retainKeys` for it (patchStrategy `retainKeys`).
    pub retain_keys: bool,
    /// Field of the elements that identifies them in a strategic merge patch.
    pub merge_key: Option<&'static str>,
    /// `atomic`, `set` or `map`.
    pub list_type: Option<&'static str>,
    /// Fields of the elements that identify them in a `map` list.
    pub list_keys: Vec<Text>,
    /// `atomic` if server-side apply owns the map or struct as one value, `granular` if it does not although the type
    /// says so.
    pub map_type: Option<&'static str>,
    /// Field numbers that lead to it in the protobuf message; empty if it is not in the message.
    pub numbers: Vec<u32>,
    /// Go's name of the type, if the shape does not give it (`v1.Protocol`).
    pub go: Option<&'static str>,
    /// True if a zero on the protobuf wire is a value instead of an unset field.
    pub zero: bool,
    /// Value that Go writes for the unset field; `None` for most.
    pub unset: Option<Unset>,
    /// Allowed values of the string, or of each string of the list, as in the table.
    choices: Option<&'static str>,
}

/// Value that Go writes for an unset field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// null.
    Null,
    /// The zero value of a string, a number, a bool or a struct.
    Zero,
}

/// Type of a field's value.
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
    /// A JSON schema, or a boolean (`JSONSchemaPropsOrBool`).
    SchemaOrBool,
    /// A JSON schema, or a list of them (`JSONSchemaPropsOrArray`).
    SchemaOrList,
    /// A JSON schema, or a list of names (`JSONSchemaPropsOrStringArray`).
    SchemaOrStrings,
    /// A struct.
    Ref(TypeRef),
    /// A struct of a custom kind.
    Custom(Arc<Type>),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

const TEXT: &str = include_str!("schema.txt");

/// Name of the JSON schema type, which the shapes above refer to.
const JSON_SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";

/// Position of a struct in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeRef(u16);

impl fmt::Debug for TypeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TypeRef {
    /// Returns the struct.
    pub fn get(self) -> &'static Type {
        let row = &ROWS[self.position()];
        row.parsed.get_or_init(|| parse(row))
    }

    /// Returns its name, without parsing its fields.
    pub fn name(self) -> &'static str {
        ROWS[self.position()].name
    }

    /// Returns its position among [`types`].
    pub fn position(self) -> usize {
        self.0.into()
    }

    /// Returns the struct named `name`.
    pub fn named(name: &str) -> Option<Self> {
        let i = ROWS.binary_search_by_key(&name, |row| row.name).ok()?;
        u16::try_from(i).ok().map(Self)
    }

    /// Returns the JSON schema type.
    pub fn json_schema() -> Self {
        // It is in the table, as a test of the shapes checks.
        Self::named(JSON_SCHEMA).unwrap_or(Self(0))
    }
}

/// Shape of an element of `SchemaOrList`.
pub static JSON_SCHEMA_SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::Ref(TypeRef::json_schema()));

/// A type in the text of the table.
struct Row {
    name: &'static str,
    atomic: bool,
    fields: &'static str,
    parsed: OnceLock<Type>,
}

/// Types, sorted by name as in the file.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    let mut rest = TEXT;
    while let Some((name, after)) = rest.split_once('\n') {
        // The fields end at a line that does not begin with a tab.
        let mut end = 0;
        while after[end..].starts_with('\t') {
            end += after[end..].find('\n').map_or(after.len() - end, |n| n + 1);
        }
        let (name, atomic) = name.strip_suffix(" atomic").map_or((name, false), |name| (name, true));
        rows.push(Row { name, atomic, fields: &after[..end], parsed: OnceLock::new() });
        rest = &after[end..];
    }
    rows
});

/// Struct of each kind of the kind table.
static OF_KIND: LazyLock<Vec<Option<TypeRef>>> = LazyLock::new(|| {
    let mut of_kind: Vec<(usize, Option<TypeRef>)> =
        super::discoverable().map(|kind| (kind.index, TypeRef::named(&type_name(kind)))).collect();
    of_kind.sort_by_key(|(index, _)| *index);
    of_kind.into_iter().map(|(_, of)| of).collect()
});

/// Returns the struct named `name` (`core/v1.PodSpec`).
pub fn find(name: &str) -> Option<&'static Type> {
    TypeRef::named(name).map(TypeRef::get)
}

/// Returns all structs, sorted by name.
pub fn types() -> impl Iterator<Item = &'static Type> {
    (0..ROWS.len()).filter_map(|i| u16::try_from(i).ok()).map(|i| TypeRef(i).get())
}

/// Returns the number of structs.
pub fn count() -> usize {
    ROWS.len()
}

/// Returns the struct of a kind's objects.
pub fn of(kind: &Kind) -> Option<&Type> {
    match &kind.custom {
        Some(custom) => Some(&custom.fields),
        None => built_in(kind),
    }
}

/// Returns the struct of a built-in kind's objects.
pub fn built_in(kind: &Kind) -> Option<&'static Type> {
    place_of(kind).map(TypeRef::get)
}

/// Returns the position of the struct of a kind's objects; `None` for a custom kind.
pub fn place_of(kind: &Kind) -> Option<TypeRef> {
    OF_KIND.get(kind.index).copied().flatten()
}

/// Types that are not in the kind table, with the struct of each; an empty version matches any.
const OTHERS: &[(&str, &str, &str)] = &[
    ("", "DeleteOptions", "meta/v1.DeleteOptions"),
    ("v1", "Status", "meta/v1.Status"),
    ("policy/v1", "Eviction", "policy/v1.Eviction"),
    ("meta.k8s.io/v1", "PartialObjectMetadata", "meta/v1.PartialObjectMetadata"),
    ("authentication.k8s.io/v1", "TokenRequest", "authentication/v1.TokenRequest"),
    ("autoscaling/v1", "Scale", "autoscaling/v1.Scale"),
];

/// Returns the position of the struct of the objects with this `apiVersion` and `kind`; `None` for custom kinds and
/// lists.
pub fn place_of_object(api_version: &str, kind: &str) -> Option<TypeRef> {
    if let Some(kind) = super::find_kind(api_version, kind) {
        return place_of(kind);
    }
    let (_, _, name) = OTHERS.iter().find(|(v, k, _)| *k == kind && (*v == api_version || v.is_empty()))?;
    TypeRef::named(name)
}

/// Returns the name of a kind's struct: the first label of the group is its Go package.
pub fn type_name(kind: &Kind) -> String {
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    format!("{package}/{}.{}", kind.version, kind.kind)
}

/// Types of the table are equal if they have the same name; those of custom kinds, if they have the same fields.
impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (!self.name.is_empty() || self.fields == other.fields)
    }
}

impl Eq for Type {}

impl Type {
    /// Creates a struct that is not in the table.
    pub fn custom(fields: Vec<Field>, open: bool) -> Self {
        Self { open, ..Self::new("", fields) }
    }

    fn new(name: &'static str, fields: Vec<Field>) -> Self {
        // Half of it stays empty, so that a lookup needs one or two steps.
        let mut by_name = vec![None; (2 * fields.len()).next_power_of_two()].into_boxed_slice();
        for (i, field) in (0u16..).zip(&fields) {
            let mut at = slot(&field.name, by_name.len());
            while by_name[at].is_some() {
                at = (at + 1) & (by_name.len() - 1);
            }
            by_name[at] = Some(i);
        }
        let unset = (0u16..).zip(&fields).filter(|(_, field)| field.unset.is_some()).map(|(i, _)| i).collect();
        Self { name, atomic: false, open: false, fields, by_name, unset }
    }

    /// Returns the fields that Go writes when they are unset, with the value.
    pub fn unset(&self) -> impl Iterator<Item = (&Field, Unset)> {
        self.unset.iter().filter_map(|i| {
            let field = &self.fields[usize::from(*i)];
            Some((field, field.unset?))
        })
    }

    /// Returns the field with a JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.place(name).map(|i| &self.fields[i])
    }

    /// Returns the position of the field with a JSON name.
    pub fn place(&self, name: &str) -> Option<usize> {
        let mut at = slot(name, self.by_name.len());
        while let Some(i) = self.by_name[at].map(usize::from) {
            if self.fields[i].name == name {
                return Some(i);
            }
            at = (at + 1) & (self.by_name.len() - 1);
        }
        None
    }
}

impl Unset {
    /// Returns the value of an unset field that is not a pointer.
    fn of(shape: &Shape) -> Self {
        match shape {
            Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Any => Self::Null,
            _ => Self::Zero,
        }
    }
}

/// Returns the first position of a name in a hash table of `size`, a power of two: length and three letters distinguish
/// most names of a struct.
fn slot(name: &str, size: usize) -> usize {
    let bytes = name.as_bytes();
    let letter = |i: usize| bytes.get(i).copied().map_or(0, usize::from);
    let sum = bytes.len() + 3 * letter(0) + 7 * letter(bytes.len() / 2) + 13 * letter(bytes.len().wrapping_sub(1));
    sum & (size - 1)
}

/// Returns the paths of an object's unknown fields (`spec.foo`, `spec.containers[0].bar`), in document order.
pub fn unknown_fields(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(custom) = &kind.custom {
        let mut pruned = object.clone();
        crate::custom::prune(&custom.schema, &mut pruned, true, &mut String::new(), &mut found);
    } else if let Some(of) = of(kind) {
        unknown_in_fields(of, object, &FieldPath::OBJECT, &mut found);
    }
    found
}

fn unknown_in_fields(of: &Type, value: &Value, at: &FieldPath<'_>, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = at.field(key);
        match of.field(key) {
            Some(field) => unknown_in_shape(&field.shape, value, &at, found),
            None => found.push(at.to_string()),
        }
    }
}

fn unknown_in_shape(shape: &Shape, value: &Value, at: &FieldPath<'_>, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Ref(of), _) => unknown_in_fields(of.get(), value, at, found),
        (Shape::Custom(of), _) => unknown_in_fields(of, value, at, found),
        (Shape::SchemaOrBool | Shape::SchemaOrStrings | Shape::SchemaOrList, Value::Object(_)) => {
            unknown_in_fields(TypeRef::json_schema().get(), value, at, found);
        }
        (Shape::List(element), Value::Array(list)) => {
            for (i, value) in list.iter().enumerate() {
                unknown_in_shape(element, value, &at.item(i), found);
            }
        }
        (Shape::Map(element), Value::Object(map)) => {
            for (key, value) in map {
                unknown_in_shape(element, value, &at.field(key), found);
            }
        }
        _ => {}
    }
}

fn parse(of: &Row) -> Type {
    let fields: Vec<Field> = of.fields.lines().filter_map(|row| field(row.strip_prefix('\t')?)).collect();
    Type { atomic: of.atomic, ..Type::new(of.name, fields) }
}

impl Field {
    /// Creates a field with a type and no further properties.
    pub fn plain(name: Text, shape: Shape) -> Self {
        Self {
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
            go: None,
            zero: false,
            unset: None,
            choices: None,
        }
    }

    /// Returns Go's name of the type.
    pub fn go_type(&self) -> String {
        self.go.map_or_else(|| self.shape.go_type(), str::to_owned)
    }

    /// Returns the allowed values of the string, or of each string of the list; `None` without such an enumeration.
    /// kube-apiserver shows them in OpenAPI (`+enum` of the Go type).
    pub fn choices(&self) -> Option<Vec<String>> {
        Some(self.choices?.split('|').map(|value| value.replace("%20", " ")).collect())
    }
}

impl Shape {
    /// Returns Go's name of the type, if it has no other name.
    pub fn go_type(&self) -> String {
        let named = match self {
            Self::List(element) => return format!("[]{}", element.go_type()),
            Self::Map(values) => return format!("map[string]{}", values.go_type()),
            Self::Ref(of) => of.name().rsplit('/').next().unwrap_or_default(),
            Self::Custom(_) => "map[string]interface {}",
            Self::String => "string",
            Self::Boolean => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Number => "float64",
            Self::Time => "v1.Time",
            Self::MicroTime => "v1.MicroTime",
            Self::Quantity => "resource.Quantity",
            Self::IntOrString => "intstr.IntOrString",
            Self::Bytes => "[]uint8",
            Self::Any => "interface {}",
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
            Self::SchemaOrList => "v1.JSONSchemaPropsOrArray",
            Self::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
        };
        named.to_owned()
    }
}

fn field(row: &'static str) -> Option<Field> {
    let mut words = row.split(' ');
    let (name, shape) = (words.next()?, shape(words.next()?));
    let mut field = Field::plain(Text::new_static(name), shape);
    for word in words {
        match word.split_once('=') {
            None => match word {
                "required" => field.required = true,
                "zero" => field.zero = true,
                "null" => field.unset = Some(Unset::Null),
                "written" => field.unset = Some(Unset::of(&field.shape)),
                _ => {}
            },
            Some(("pb", path)) => field.numbers = path.split('.').filter_map(|number| number.parse().ok()).collect(),
            Some(("patch", strategies)) => {
                field.merge = strategies.split(',').any(|s| s == "merge");
                field.retain_keys = strategies.split(',').any(|s| s == "retainKeys");
            }
            Some(("key", key)) => field.merge_key = Some(key),
            Some(("list", of)) => field.list_type = Some(of),
            Some(("keys", keys)) => field.list_keys = keys.split('+').map(Text::new_static).collect(),
            Some(("map", of)) => field.map_type = Some(of),
            Some(("go", of)) => field.go = Some(of),
            Some(("enum", values)) => field.choices = Some(values),
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
        "schemaorbool" => Shape::SchemaOrBool,
        "schemaorlist" => Shape::SchemaOrList,
        "schemaorstrings" => Shape::SchemaOrStrings,
        // Every name in the file is defined there, as a test checks.
        name => TypeRef::named(name).map_or(Shape::Any, Shape::Ref),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn every_kind_and_every_referenced_struct_is_in_the_table() {
        for kind in kinds::discoverable() {
            assert!(of(kind).is_some(), "{kind:?}");
        }
        for row in TEXT.lines().filter_map(|row| row.strip_prefix('\t')) {
            let shape = row.split(' ').nth(1).unwrap().trim_start_matches("[]").trim_start_matches("{}");
            let shape = shape.trim_start_matches("[]");
            assert!(!shape.contains('/') || TypeRef::named(shape).is_some(), "{row}");
        }
        assert_eq!(TypeRef::json_schema().name(), JSON_SCHEMA);
        assert!(ROWS.is_sorted_by_key(|row| row.name));
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

    /// The table has all fields of recorded objects of a real server.
    #[test]
    fn recorded_objects_have_only_known_fields() {
        for line in include_str!("../../../testdata/protobuf-vectors.jsonl").lines() {
            let vector: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| vector[name].as_str().unwrap().to_owned();
            if let Some(kind) = kinds::find_kind(&text("groupVersion"), &text("kind")) {
                assert_eq!(unknown_fields(kind, &vector["json"]), Vec::<String>::new(), "{kind:?}");
            }
        }
    }
}
