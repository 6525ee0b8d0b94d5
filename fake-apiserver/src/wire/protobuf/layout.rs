//! The messages of the table: fields by number, references resolved.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::kinds::schema::{self, Field, Shape};
use crate::kinds::{self};

/// A message type.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<(u32, Slot)>);

/// What a number of a message stands for.
#[derive(Debug)]
pub(super) enum Slot {
    /// A field.
    Field(Entry),
    /// A message whose fields stand in the outer object in JSON: a struct that Go embeds.
    Inline(Message),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Entry {
    /// The JSON name.
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Whether a zero on the wire is a value.
    pub(super) zero: bool,
    /// Whether an empty struct on the wire is nothing.
    pub(super) omit_zero: bool,
}

/// A [`Shape`] with resolved references.
#[derive(Debug)]
pub(super) enum Form {
    Scalar(&'static Shape),
    /// A position in the table.
    Struct(usize),
    List(Box<Form>),
    Map(Box<Form>),
}

struct Table {
    messages: Vec<Message>,
    by_name: BTreeMap<&'static str, usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let by_name: BTreeMap<&str, usize> = schema::types().enumerate().map(|(i, of)| (of.name, i)).collect();
    let messages = schema::types()
        .map(|of| {
            let mut message = Message::default();
            for field in &of.fields {
                message.place(&field.numbers, field, &by_name);
            }
            message
        })
        .collect();
    Table { messages, by_name }
});

/// Types that are no kind of the table of kinds, with the struct of each; an empty version stands for any.
const OTHERS: &[(&str, &str, &str)] = &[
    ("", "DeleteOptions", "meta/v1.DeleteOptions"),
    ("v1", "Status", "meta/v1.Status"),
    ("v1", "Binding", "core/v1.Binding"),
    ("policy/v1", "Eviction", "policy/v1.Eviction"),
    ("meta.k8s.io/v1", "PartialObjectMetadata", "meta/v1.PartialObjectMetadata"),
    ("authentication.k8s.io/v1", "TokenRequest", "authentication/v1.TokenRequest"),
];

/// The message of the objects that `apiVersion` and `kind` name.
pub(super) fn find(api_version: &str, kind: &str) -> Option<&'static Message> {
    let review = || kinds::reviews().iter().find(|k| k.kind == kind && k.api_version() == api_version);
    if let Some(kind) = kinds::find_kind(api_version, kind).or_else(review) {
        return named(schema::of(kind)?.name);
    }
    let (_, _, name) = OTHERS.iter().find(|(v, k, _)| *k == kind && (*v == api_version || v.is_empty()))?;
    named(name)
}

/// The message of a struct.
pub(super) fn named(name: &str) -> Option<&'static Message> {
    TABLE.by_name.get(name).map(|i| &TABLE.messages[*i])
}

/// The message at a position of the table.
pub(super) fn at(position: usize) -> &'static Message {
    &TABLE.messages[position]
}

impl Message {
    /// The fields and embedded messages, by number.
    pub(super) fn slots(&self) -> &[(u32, Slot)] {
        &self.0
    }

    /// What a number stands for.
    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
        let i = self.0.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        Some(&self.0[i].1)
    }

    fn place(&mut self, path: &[u32], field: &'static Field, by_name: &BTreeMap<&str, usize>) {
        let Some((number, rest)) = path.split_first() else { return };
        let (i, there) = match self.0.binary_search_by_key(number, |(n, _)| *n) {
            Ok(i) => (i, true),
            Err(i) => (i, false),
        };
        if rest.is_empty() {
            let form = form(&field.shape, by_name);
            let entry = Entry { name: field.name, form, zero: field.zero, omit_zero: field.omit_zero };
            self.0.insert(i, (*number, Slot::Field(entry)));
            return;
        }
        if !there {
            self.0.insert(i, (*number, Slot::Inline(Self::default())));
        }
        if let Slot::Inline(inner) = &mut self.0[i].1 {
            inner.place(rest, field, by_name);
        }
    }

    /// Whether `object` has any of the fields.
    pub(super) fn has_any(&self, object: &serde_json::Map<String, serde_json::Value>) -> bool {
        self.0.iter().any(|(_, slot)| match slot {
            Slot::Field(entry) => object.contains_key(entry.name),
            Slot::Inline(inner) => inner.has_any(object),
        })
    }
}

fn form(shape: &'static Shape, by_name: &BTreeMap<&str, usize>) -> Form {
    match shape {
        Shape::Ref(name) => by_name.get(name).map_or(Form::Scalar(&Shape::Any), |i| Form::Struct(*i)),
        Shape::List(element) => Form::List(Box::new(form(element, by_name))),
        Shape::Map(element) => Form::Map(Box::new(form(element, by_name))),
        scalar => Form::Scalar(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two fields with one number would be told apart by nothing.
    #[test]
    fn every_field_has_a_number_of_its_own() {
        for of in schema::types() {
            let mut paths: Vec<_> = of.fields.iter().map(|f| &f.numbers).filter(|n| !n.is_empty()).collect();
            let count = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), count, "{}", of.name);
            for field in &of.fields {
                let is_type_meta = matches!(field.name, "apiVersion" | "kind");
                assert!(is_type_meta || !field.numbers.is_empty(), "{} {}", of.name, field.name);
            }
        }
    }

    #[test]
    fn every_kind_and_every_other_type_has_its_message() {
        for kind in kinds::all() {
            assert!(find(&kind.api_version(), kind.kind).is_some_and(|m| !m.slots().is_empty()), "{kind:?}");
        }
        for (api_version, kind, _) in OTHERS {
            assert!(find(api_version, kind).is_some_and(|m| !m.slots().is_empty()), "{kind}");
        }
        assert!(find("storage.k8s.io/v1", "DeleteOptions").is_some());
        assert!(find("v1", "Nothing").is_none());
    }
}
