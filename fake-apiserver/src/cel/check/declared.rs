//! What is known of a value before there is one: its type, and how large it can be within a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Type;

/// The largest request, in bytes.
pub const LARGEST_REQUEST: u64 = 3 << 20;

/// A declared value.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its type.
    pub of: Type,
    /// How many characters, elements or entries it has at most.
    pub most: u64,
    /// How many bytes it takes in a request at least.
    pub least_bytes: u64,
    /// What its elements or values are.
    pub item: Option<Arc<Declared>>,
    /// What its keys are.
    pub key: Option<Arc<Declared>>,
    /// What its fields are.
    pub fields: BTreeMap<String, Arc<Declared>>,
}

impl Declared {
    /// A value without parts.
    pub fn simple(of: Type, most: u64, least_bytes: u64) -> Self {
        Self { of, most, least_bytes, item: None, key: None, fields: BTreeMap::new() }
    }

    /// A text, of at most so many bytes.
    pub fn text(most: Option<u64>) -> Self {
        Self::simple(Type::String, most.unwrap_or(LARGEST_REQUEST - 2), 2)
    }

    /// A list, of at most so many elements.
    pub fn list(item: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (item.least_bytes + 1));
        let of = Type::list(item.of.clone());
        Self { item: Some(Arc::new(item)), ..Self::simple(of, most, 2) }
    }

    /// A map, of at most so many entries.
    pub fn map(value: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (value.least_bytes + 6));
        let of = Type::map(Type::String, value.of.clone());
        // The size of a key is that of a type without one.
        let key = Self::simple(Type::String, 0, 2);
        Self { item: Some(Arc::new(value)), key: Some(Arc::new(key)), ..Self::simple(of, most, 2) }
    }

    /// An object with these fields, which takes so many bytes at least.
    pub fn object(fields: BTreeMap<String, Self>, least_bytes: u64) -> Self {
        let types = fields.iter().map(|(name, field)| (name.clone(), field.of.clone())).collect();
        let fields = fields.into_iter().map(|(name, field)| (name, Arc::new(field))).collect();
        Self { fields, ..Self::simple(Type::Object(Arc::new(types)), 0, least_bytes) }
    }

    /// The declaration of what is as one or as the other, with the larger sizes.
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

    /// How often a value that takes as many bytes fits into a request.
    pub fn times_in_request(&self) -> u64 {
        LARGEST_REQUEST / (self.least_bytes + 1)
    }
}
