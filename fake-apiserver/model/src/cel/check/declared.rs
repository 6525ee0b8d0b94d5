//! Declaration of a value: its type, and its maximum size within a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::json::Value;

use super::Type;

/// Maximum size of a request in bytes.
pub const LARGEST_REQUEST: u64 = 3 << 20;

/// A declared value.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its type.
    pub of: Type,
    /// Maximum number of characters, elements or entries.
    pub most: u64,
    /// Minimum number of bytes in a request.
    pub least_bytes: u64,
    /// Declaration of its elements or values.
    pub item: Option<Arc<Declared>>,
    /// Declaration of its keys.
    pub key: Option<Arc<Declared>>,
    /// Declarations of its fields.
    pub fields: BTreeMap<String, Arc<Declared>>,
}

impl Declared {
    /// Declares a given value, with its own size and those of its parts. Its minimum number of bytes is its actual one.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::simple(Type::Null, 0, 4),
            Value::Bool(_) => Self::simple(Type::Bool, 1, 5),
            Value::Number(number) => {
                Self::simple(if number.as_i64().is_some() { Type::Int } else { Type::Double }, 1, 8)
            }
            Value::String(text) => Self::simple(Type::String, text.chars().count() as u64, text.len() as u64 + 2),
            Value::Array(list) => {
                let items: Vec<Self> = list.iter().map(Self::of).collect();
                let bytes = items.iter().fold(2, |sum, item| sum + 1 + item.least_bytes);
                let item = items.into_iter().reduce(Self::with);
                let of = Type::list(item.as_ref().map_or(Type::Dyn, |item| item.of.clone()));
                Self { item: item.map(Arc::new), ..Self::simple(of, list.len() as u64, bytes) }
            }
            Value::Object(map) => {
                let fields: BTreeMap<String, Arc<Self>> =
                    map.iter().map(|(name, field)| (name.to_string(), Arc::new(Self::of(field)))).collect();
                let item = fields.values().map(|field| (**field).clone()).reduce(Self::with);
                let longest = map.keys().map(|key| key.chars().count()).max().unwrap_or(0);
                let key = Self::simple(Type::String, longest as u64, 2);
                let bytes = fields.iter().fold(2, |sum, (name, field)| sum + name.len() as u64 + 4 + field.least_bytes);
                let types = fields.iter().map(|(name, field)| (name.clone(), field.of.clone())).collect();
                let whole = Self::simple(Type::Object(Arc::new(types)), map.len() as u64, bytes);
                Self { item: item.map(Arc::new), key: Some(Arc::new(key)), fields, ..whole }
            }
        }
    }

    /// Declares an object with these fields.
    pub fn fields(fields: BTreeMap<String, Self>) -> Self {
        let bytes = fields.values().fold(0, |sum, field| sum + field.least_bytes);
        Self::object(fields, bytes)
    }

    /// Merges two declarations, with the fields and the larger sizes of both.
    fn with(self, other: Self) -> Self {
        let both = |a: Option<Arc<Self>>, b: Option<Arc<Self>>| match (a, b) {
            (Some(a), Some(b)) => Some(Arc::new(Self::clone(&a).with(Self::clone(&b)))),
            (a, b) => a.or(b),
        };
        let mut fields = self.fields;
        for (name, field) in other.fields {
            let known = fields.remove(&name);
            fields.extend(both(known, Some(field)).map(|field| (name, field)));
        }
        let (item, key) = (both(self.item, other.item), both(self.key, other.key));
        let of = match (self.of, other.of) {
            (Type::Object(_), Type::Object(_)) => {
                Type::Object(Arc::new(fields.iter().map(|(name, field)| (name.clone(), field.of.clone())).collect()))
            }
            (Type::List(_), Type::List(_)) => Type::list(item.as_ref().map_or(Type::Dyn, |item| item.of.clone())),
            (a, b) if a == b => a,
            _ => Type::Dyn,
        };
        Self {
            of,
            most: self.most.max(other.most),
            least_bytes: self.least_bytes.max(other.least_bytes),
            item,
            key,
            fields,
        }
    }

    /// Declares a value without parts.
    pub fn simple(of: Type, most: u64, least_bytes: u64) -> Self {
        Self { of, most, least_bytes, item: None, key: None, fields: BTreeMap::new() }
    }

    /// Declares a string with a maximum number of bytes.
    pub fn text(most: Option<u64>) -> Self {
        Self::simple(Type::String, most.unwrap_or(LARGEST_REQUEST - 2), 2)
    }

    /// Declares a list with a maximum number of elements.
    pub fn list(item: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (item.least_bytes + 1));
        let of = Type::list(item.of.clone());
        Self { item: Some(Arc::new(item)), ..Self::simple(of, most, 2) }
    }

    /// Declares a map with a maximum number of entries.
    pub fn map(value: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (value.least_bytes + 6));
        let of = Type::map(Type::String, value.of.clone());
        // Upstream gives keys the size of an unsized type.
        let key = Self::simple(Type::String, 0, 2);
        Self { item: Some(Arc::new(value)), key: Some(Arc::new(key)), ..Self::simple(of, most, 2) }
    }

    /// Declares an object with these fields and a minimum number of bytes.
    pub fn object(fields: BTreeMap<String, Self>, least_bytes: u64) -> Self {
        let types = fields.iter().map(|(name, field)| (name.clone(), field.of.clone())).collect();
        let fields = fields.into_iter().map(|(name, field)| (name, Arc::new(field))).collect();
        Self { fields, ..Self::simple(Type::Object(Arc::new(types)), 0, least_bytes) }
    }

    /// Returns this declaration with the larger sizes of both.
    pub fn or(&self, other: &Self) -> Self {
        let both = |a: &Option<Arc<Self>>, b: &Option<Arc<Self>>| match (a, b) {
            (Some(a), Some(b)) => Some(Arc::new(a.or(b))),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let field = |(name, a): (&String, &Arc<Self>)| {
            let both = other.fields.get(name).map_or_else(|| a.clone(), |b| Arc::new(a.or(b)));
            (name.clone(), both)
        };
        Self {
            of: self.of.clone(),
            most: self.most.max(other.most),
            least_bytes: self.least_bytes,
            item: both(&self.item, &other.item),
            key: both(&self.key, &other.key),
            fields: self.fields.iter().map(field).collect(),
        }
    }

    /// Returns how many such values fit into a request.
    pub fn times_in_request(&self) -> u64 {
        LARGEST_REQUEST / (self.least_bytes + 1)
    }
}
