//! Division of a value into fields, as its schema says.

use substrate::json::{Map, Text, Value};

use crate::kinds::schema::{Field, Shape, Type};

/// Keys that a list's element may omit, with their default.
const KEY_DEFAULTS: &[(&str, &str)] = &[("protocol", "TCP")];

/// Division of a value into fields.
#[derive(Clone, Copy)]
pub enum Topology<'a> {
    /// A struct.
    Struct(&'a Type),
    /// A map with values of one shape.
    Map(&'a Shape),
    /// A list whose elements are identified by some of their fields.
    Keyed(&'a Field, &'a Shape),
    /// A list of distinct scalars.
    Set,
    /// A value of unknown type: the members of an object are separate fields, a list is one field
    /// (`__untyped_deduced_`).
    Deduced,
    /// One field.
    Atomic,
}

impl<'a> Topology<'a> {
    pub(super) fn of_field(field: &'a Field) -> Self {
        match &field.shape {
            _ if field.map_type == Some("atomic") => Self::Atomic,
            Shape::Ref(of) if field.map_type.is_some() => Self::Struct(of.get()),
            Shape::Ref(of) => Self::of_type(of.get()),
            Shape::Custom(of) => Self::Struct(of),
            Shape::Map(values) => Self::Map(values),
            Shape::List(element) if field.list_type == Some("map") => Self::Keyed(field, element),
            Shape::List(_) if field.list_type == Some("set") => Self::Set,
            Shape::Any => Self::Deduced,
            _ => Self::Atomic,
        }
    }

    fn of_type(of: &'a Type) -> Self {
        if of.atomic { Self::Atomic } else { Self::Struct(of) }
    }

    pub(super) fn of_shape(shape: &'a Shape) -> Self {
        match shape {
            Shape::Ref(of) => Self::of_type(of.get()),
            Shape::Custom(of) => Self::Struct(of),
            Shape::Map(values) => Self::Map(values),
            Shape::Any => Self::Deduced,
            _ => Self::Atomic,
        }
    }

    /// Returns the topology of the value that a path element leads to.
    pub(super) fn at(self, key: &str) -> Self {
        match key.strip_prefix("f:") {
            Some(name) => self.below(name),
            None => self.of_elements(),
        }
    }

    /// Returns true if a path element names a field of a struct.
    pub(super) fn declares(self, key: &str) -> bool {
        let name = key.strip_prefix("f:");
        matches!((self, name), (Self::Struct(of), Some(name)) if of.field(name).is_some())
    }

    /// Returns true if the schema has the type of the value that a path element leads to.
    pub(super) fn knows(self, key: &str) -> bool {
        match self {
            Self::Struct(_) => self.declares(key),
            Self::Map(_) | Self::Keyed(..) | Self::Set => true,
            Self::Deduced | Self::Atomic => false,
        }
    }

    /// Returns the topology of a list's elements.
    pub fn of_elements(self) -> Self {
        match self {
            Self::Keyed(_, element) => Self::of_shape(element),
            _ => Self::Atomic,
        }
    }

    /// Returns the topology of the value under a key of an object.
    pub fn below(self, name: &str) -> Self {
        match self {
            Self::Struct(of) => match of.field(name) {
                Some(field) => Self::of_field(field),
                None if of.open => Self::Deduced,
                None => Self::Atomic,
            },
            Self::Deduced => Self::Deduced,
            Self::Map(values) => Self::of_shape(values),
            _ => Self::Atomic,
        }
    }

    /// Returns the path element of a list's element.
    pub fn element(self, value: &Value) -> String {
        match self {
            Self::Keyed(field, _) => {
                let keys: Map = field
                    .list_keys
                    .iter()
                    .filter_map(|key| {
                        let default = || KEY_DEFAULTS.iter().find(|(k, _)| k == key).map(|(_, v)| Value::from(*v));
                        Some(((*key).to_owned(), value.get(key).cloned().or_else(default)?))
                    })
                    .collect();
                format!("k:{}", Value::Object(keys))
            }
            _ => format!("v:{value}"),
        }
    }

    /// Returns the children of a value by path element, with their topology; `None` if the value is one field.
    pub(super) fn children(self, value: &Value) -> Option<Vec<(Text, &Value, Self)>> {
        match (self, value) {
            (Self::Struct(_) | Self::Map(_) | Self::Deduced, Value::Object(map))
                if map.values().any(|v| !v.is_null()) =>
            {
                Some(
                    map.iter()
                        .filter(|(_, v)| !v.is_null())
                        .map(|(key, v)| (Text::from_iter(["f:", key]), v, self.below(key)))
                        .collect(),
                )
            }
            (Self::Keyed(_, element), Value::Array(list)) if !list.is_empty() => {
                Some(list.iter().map(|v| (self.element(v).into(), v, Self::of_shape(element))).collect())
            }
            (Self::Set, Value::Array(list)) if !list.is_empty() => {
                Some(list.iter().map(|v| (self.element(v).into(), v, Self::Atomic)).collect())
            }
            _ => None,
        }
    }
}
