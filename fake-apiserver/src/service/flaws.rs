//! Flaws of a request's text that its tree does not show: duplicate keys, and the order of unknown and duplicate ones
//! (KEP-2885; sigs.k8s.io/json and sigs.k8s.io/yaml in their strict modes).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use granit_parser::{Event, Parser};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use substrate::json::Value;

use super::body::SentText;
use crate::field_path::FieldPath;
use crate::kinds::Kind;
use crate::kinds::schema::{self, Shape, Type, TypeRef};
use crate::patch::PatchKind;
use crate::state::{Flaw, MOST_FLAWS};

/// Returns the flaws of an object of a kind.
pub(super) fn of_object(kind: &Kind, object: &Value, text: &SentText) -> Vec<Flaw> {
    match text {
        SentText::None => Vec::new(),
        SentText::Yaml(text) => lines(text),
        SentText::Json { text, repeats } => match schema::built_in(kind) {
            // Unknown and duplicate fields are reported together, in the order of the text.
            Some(of) if *repeats || !schema::unknown_fields(kind, object).is_empty() => scan(text, Known::Struct(of)),
            None if *repeats => scan(text, Known::Nothing),
            _ => Vec::new(),
        },
    }
}

/// Returns the flaws of a patch. Unknown fields are found when it is applied.
pub(super) fn of_patch(text: &SentText, kind: Option<PatchKind>) -> Vec<Flaw> {
    let SentText::Json { text, repeats } = text else { return Vec::new() };
    if kind == Some(PatchKind::Json) {
        let flaws = scan(text, Known::Operations).into_iter();
        return flaws.map(|flaw| Flaw::Field(format!("json patch {flaw}"))).collect();
    }
    if *repeats { scan(text, Known::Nothing) } else { Vec::new() }
}

/// Returns the flaws of a configuration to apply, which is parsed as YAML even if it is JSON.
pub(super) fn of_configuration(text: &SentText) -> Vec<Flaw> {
    match text {
        SentText::None | SentText::Json { repeats: false, .. } => Vec::new(),
        SentText::Json { text, .. } | SentText::Yaml(text) => lines(text),
    }
}

/// Knowledge about the fields of a value.
#[derive(Clone, Copy)]
enum Known {
    /// A struct.
    Struct(&'static Type),
    /// A value of this shape.
    Shape(&'static Shape),
    /// A JSON patch.
    Operations,
    /// An operation of a JSON patch.
    Operation,
    /// Any field is allowed.
    Nothing,
    /// The value is not checked.
    Opaque,
}

impl Known {
    /// Returns what is known of a field; `None` if the field is unknown.
    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Struct(of) => of.field(name).map(|field| Self::Shape(&field.shape)),
            Self::Shape(Shape::Ref(of)) => Self::Struct(of.get()).field(name),
            Self::Shape(Shape::Custom(of)) => Self::Struct(of).field(name),
            Self::Shape(Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings) => {
                Self::Struct(TypeRef::json_schema().get()).field(name)
            }
            Self::Shape(Shape::Map(values)) => Some(Self::Shape(values)),
            Self::Operation => matches!(name, "op" | "path" | "from" | "value").then_some(Self::Nothing),
            Self::Nothing => Some(Self::Nothing),
            Self::Shape(_) | Self::Operations | Self::Opaque => Some(Self::Opaque),
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Shape(Shape::List(element)) => Self::Shape(element),
            Self::Shape(Shape::SchemaOrList) => Self::Struct(TypeRef::json_schema().get()),
            Self::Operations => Self::Operation,
            Self::Nothing => Self::Nothing,
            _ => Self::Opaque,
        }
    }

    /// Returns true if the text of the value is taken as it is (`RawExtension`, `FieldsV1`).
    fn is_opaque(self) -> bool {
        matches!(self, Self::Opaque | Self::Shape(Shape::Any))
    }
}

fn scan(text: &[u8], known: Known) -> Vec<Flaw> {
    let found = RefCell::new(Vec::new());
    // The text was parsed before, so it is JSON.
    let _ = Look { known, at: &FieldPath::OBJECT, found: &found }
        .deserialize(&mut serde_json::Deserializer::from_slice(text));
    found.into_inner()
}

/// Collects each flaw once.
struct Look<'a> {
    known: Known,
    at: &'a FieldPath<'a>,
    found: &'a RefCell<Vec<Flaw>>,
}

impl Look<'_> {
    fn note(&self, flaw: Flaw) {
        let mut found = self.found.borrow_mut();
        if found.len() < MOST_FLAWS && !found.contains(&flaw) {
            found.push(flaw);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.known.is_opaque() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let known = self.known.item();
        for i in 0.. {
            let at = self.at.item(i);
            if items.next_element_seed(Look { known, at: &at, found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = entries.next_key::<String>()? {
            let at = self.at.field(&name);
            match self.known.field(&name) {
                None => {
                    self.note(Flaw::unknown(at));
                    entries.next_value::<IgnoredAny>()?;
                }
                Some(known) => {
                    if seen.contains(&name) {
                        self.note(Flaw::duplicate(at));
                    }
                    entries.next_value_seed(Look { known, at: &at, found: self.found })?;
                    seen.insert(name);
                }
            }
        }
        Ok(())
    }
}

/// A collection that contains the parser's position.
#[derive(Default)]
struct Level {
    /// The keys so far; `None` for a list.
    keys: Option<BTreeSet<String>>,
    /// The key whose value comes next; `Some(None)` if the key is not a scalar.
    key: Option<Option<String>>,
    /// Flaw of this collection, reported at its end: it is the value of a duplicate key.
    again: Option<String>,
}

/// Returns the messages of strict YAML about duplicate keys, with the lines of their values.
fn lines(text: &[u8]) -> Vec<Flaw> {
    let (mut found, mut levels) = (Vec::new(), Vec::<Level>::new());
    for step in Parser::new_from_str(&String::from_utf8_lossy(text)) {
        // The text was parsed before, so it is YAML.
        let Ok((event, span)) = step else { break };
        let scalar = match &event {
            Event::Scalar(text, ..) => Some(text.to_string()),
            Event::Alias(_) | Event::SequenceStart(..) | Event::MappingStart(..) => None,
            Event::SequenceEnd | Event::MappingEnd => {
                found.extend(levels.pop().and_then(|level| level.again));
                continue;
            }
            _ => continue,
        };
        let mut again = None;
        if let Some(Level { keys: Some(keys), key, .. }) = levels.last_mut() {
            match key.take() {
                None => *key = Some(scalar),
                Some(Some(name)) if keys.contains(&name) => {
                    again = Some(format!("line {}: key {name:?} already set in map", span.start.line()));
                }
                Some(name) => keys.extend(name),
            }
        }
        match event {
            Event::MappingStart(..) => levels.push(Level { keys: Some(BTreeSet::new()), key: None, again }),
            Event::SequenceStart(..) => levels.push(Level { again, ..Level::default() }),
            _ => found.extend(again),
        }
    }
    if found.is_empty() { Vec::new() } else { vec![Flaw::Lines(found)] }
}
