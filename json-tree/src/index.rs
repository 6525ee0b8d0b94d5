//! `value["name"]` and `value[0]`.

use std::ops;

use crate::{Map, Text, Value};

/// An index of a value: the name of a member, or the position of an item.
pub trait Index {
    /// Returns the member or item.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns the member or item, mutable.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// Returns the member or item, mutable. Adds a missing member as null, after turning null into an object.
    ///
    /// # Panics
    /// If `value` is not an object (or list), or the list has no such item. For values that the caller has built.
    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(map) => map.entry(self).or_insert(Value::Null),
            other => panic!("{other} is not an object and has no member {self:?}"),
        }
    }
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        match value {
            Value::Array(list) => &mut list[*self],
            other => panic!("{other} is not a list and has no item {self}"),
        }
    }
}

macro_rules! as_str {
    ($($of:ty),*) => {$(
        impl Index for $of {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                self.as_str().of(value)
            }

            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                self.as_str().of_mut(value)
            }

            fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                self.as_str().of_or_insert(value)
            }
        }
    )*};
}

as_str!(String, Text);

impl<I: Index + ?Sized> Index for &I {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).of_or_insert(value)
    }
}

/// A missing member or item is null.
impl<I: Index> ops::Index<I> for Value {
    type Output = Self;

    fn index(&self, index: I) -> &Self {
        const NULL: &Value = &Value::Null;
        index.of(self).unwrap_or(NULL)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Self {
        index.of_or_insert(self)
    }
}

impl ops::Index<&str> for Map {
    type Output = Value;

    /// # Panics
    /// If there is no such member.
    fn index(&self, name: &str) -> &Value {
        match self.get(name) {
            Some(value) => value,
            None => panic!("the object has no member {name:?}"),
        }
    }
}
