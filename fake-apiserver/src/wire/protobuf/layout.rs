//! Messages of the type table: fields by number, references resolved.

use std::sync::{LazyLock, OnceLock};

use crate::kinds::schema::{self, Field, Shape, Type, TypeRef};

/// A message type.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<(u32, Slot)>);

/// Meaning of a field number.
#[derive(Debug)]
pub(super) enum Slot {
    /// A field.
    Field(Entry),
    /// A message whose fields belong to the outer object in JSON: an embedded Go struct.
    Inline(Message),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Entry {
    /// JSON name.
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// True if a zero on the wire is a value.
    pub(super) zero: bool,
}

/// A [`Shape`] with resolved references.
#[derive(Debug)]
pub(super) enum Form {
    Scalar(&'static Shape),
    Struct(TypeRef),
    List(Box<Form>),
    Map(Box<Form>),
}

/// Messages by the position of their type, built on first use.
static MESSAGES: LazyLock<Vec<OnceLock<Message>>> =
    LazyLock::new(|| (0..schema::count()).map(|_| OnceLock::new()).collect());

/// Returns the message of the type of `apiVersion` and `kind`.
pub(super) fn find(api_version: &str, kind: &str) -> Option<&'static Message> {
    schema::place_of_object(api_version, kind).map(at)
}

/// Returns the message of a struct.
pub(super) fn named(name: &str) -> Option<&'static Message> {
    TypeRef::named(name).map(at)
}

/// Returns the message of the struct at a position of the table.
pub(super) fn at(place: TypeRef) -> &'static Message {
    MESSAGES[place.position()].get_or_init(|| Message::of(place.get()))
}

impl Message {
    fn of(of: &'static Type) -> Self {
        let mut message = Self::default();
        for field in &of.fields {
            message.place(&field.numbers, field);
        }
        message
    }

    /// Returns the fields and embedded messages, by number.
    pub(super) fn slots(&self) -> &[(u32, Slot)] {
        &self.0
    }

    /// Returns the meaning of a field number.
    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
        let i = self.0.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        Some(&self.0[i].1)
    }

    fn place(&mut self, path: &[u32], field: &'static Field) {
        let Some((number, rest)) = path.split_first() else { return };
        let (i, there) = match self.0.binary_search_by_key(number, |(n, _)| *n) {
            Ok(i) => (i, true),
            Err(i) => (i, false),
        };
        if rest.is_empty() {
            let entry = Entry { name: &field.name, form: form(&field.shape), zero: field.zero };
            self.0.insert(i, (*number, Slot::Field(entry)));
            return;
        }
        if !there {
            self.0.insert(i, (*number, Slot::Inline(Self::default())));
        }
        if let Slot::Inline(inner) = &mut self.0[i].1 {
            inner.place(rest, field);
        }
    }

    /// Returns true if `object` has any of the fields.
    pub(super) fn has_any(&self, object: &substrate::json::Map) -> bool {
        self.0.iter().any(|(_, slot)| match slot {
            Slot::Field(entry) => object.contains_key(entry.name),
            Slot::Inline(inner) => inner.has_any(object),
        })
    }
}

fn form(shape: &'static Shape) -> Form {
    match shape {
        Shape::Ref(place) => Form::Struct(*place),
        Shape::List(element) => Form::List(Box::new(form(element))),
        Shape::Map(element) => Form::Map(Box::new(form(element))),
        scalar => Form::Scalar(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    /// Two fields with the same number could not be told apart.
    #[test]
    fn every_field_has_a_number_of_its_own() {
        for of in schema::types() {
            let mut paths: Vec<_> = of.fields.iter().map(|f| &f.numbers).filter(|n| !n.is_empty()).collect();
            let count = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), count, "{}", of.name);
            for field in &of.fields {
                let is_type_meta = matches!(&*field.name, "apiVersion" | "kind");
                assert!(is_type_meta || !field.numbers.is_empty(), "{} {}", of.name, field.name);
            }
        }
    }

    #[test]
    fn every_kind_and_every_other_type_has_its_message() {
        for kind in kinds::discoverable() {
            assert!(find(&kind.api_version(), kind.kind).is_some_and(|m| !m.slots().is_empty()), "{kind:?}");
        }
        for (api_version, kind) in [("v1", "Status"), ("policy/v1", "Eviction"), ("autoscaling/v1", "Scale")] {
            assert!(find(api_version, kind).is_some_and(|m| !m.slots().is_empty()), "{kind}");
        }
        assert!(find("storage.k8s.io/v1", "DeleteOptions").is_some());
        assert!(find("v1", "Nothing").is_none());
    }
}
