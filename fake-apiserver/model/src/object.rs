//! One stored object: its tree and its bytes, made once per revision and shared by every reader and watcher.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use substrate::json::Value;

use super::cold::Text;
use super::event_type::EventType;
use super::fields::value;
use crate::kinds::{Kind, schema};
use crate::text;

/// An object at one revision.
#[derive(Debug)]
pub struct Object {
    /// The tree.
    pub value: Tree,
    /// The revision that wrote it.
    pub revision: u64,
    /// Type of the event of this revision.
    event_type: EventType,
    /// Line of that event, newline included; the object's own bytes are a slice of it. A packed object has none.
    line: Option<Bytes>,
    protobuf: OnceLock<Bytes>,
    folded: OnceLock<Arc<Object>>,
    facts: Facts,
}

/// Fields that lists and watches select by, readable without a tree. All forms of an object share them.
#[derive(Clone, Debug)]
struct Facts(Arc<str>, [u32; 2]);

impl Facts {
    /// Reads the node and the phase of a pod, and all labels, into one string.
    fn of(value: &Value) -> Self {
        let (node, phase) = (value::text(value, &["spec", "nodeName"]), value::text(value, &["status", "phase"]));
        let mut facts = String::with_capacity(64);
        facts.push_str(node);
        facts.push_str(phase);
        let ends = [node.len(), node.len() + phase.len()].map(|end| u32::try_from(end).unwrap_or(0));
        let labels = value::at(value, &["metadata", "labels"]).and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            for part in [key, value.as_str().unwrap_or_default()] {
                facts.push_str(part);
                facts.push('\0');
            }
        }
        Self(facts.into(), ends)
    }

    fn part(&self, from: u32, to: u32) -> &str {
        self.0.get(from as usize..to as usize).unwrap_or_default()
    }
}

impl Object {
    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let mut parts = self.facts.0.get(self.facts.1[1] as usize..)?.split('\0');
        while let (Some(label), Some(value)) = (parts.next(), parts.next()) {
            if label == key {
                return Some(value);
            }
        }
        None
    }

    /// Returns `spec.nodeName`; empty if unset.
    pub fn node(&self) -> &str {
        self.facts.part(0, self.facts.1[0])
    }

    /// Returns `status.phase`; empty if unset.
    pub fn phase(&self) -> &str {
        self.facts.part(self.facts.1[0], self.facts.1[1])
    }

    /// Returns the object with a tree, parsed if needed, for a reader who drops it afterwards.
    pub fn unfolded(self: &Arc<Self>) -> Arc<Self> {
        if self.value.parsed.get().is_some() {
            return self.clone();
        }
        Arc::new(Self {
            value: Tree { text: self.value.text.clone(), parsed: OnceLock::from(self.value.parse()) },
            revision: self.revision,
            event_type: self.event_type,
            line: self.line.clone(),
            protobuf: self.protobuf.clone(),
            folded: OnceLock::from(self.clone()),
            facts: self.facts.clone(),
        })
    }

    /// Encodes `value`, an object of `kind`, with `revision` as its resourceVersion, for a watch event of type `event_type`.
    pub fn new(kind: &Kind, mut value: Value, revision: u64, event_type: EventType) -> Arc<Self> {
        value::metadata(&mut value).insert("resourceVersion", revision.to_string().into());
        Self::encoded(value, revision, event_type, |value, line| text::object(schema::place_of(kind), value, line))
    }

    /// Encodes `value` as it is, under `revision`.
    pub fn at(value: Value, revision: u64) -> Arc<Self> {
        Self::encoded(value, revision, EventType::Modified, text::document)
    }

    /// Encodes the result of a dry run: it has no revision.
    pub fn transient(value: Value) -> Arc<Self> {
        Self::at(value, 0)
    }

    fn encoded(
        value: Value,
        revision: u64,
        event_type: EventType,
        write: impl FnOnce(&Value, &mut Vec<u8>),
    ) -> Arc<Self> {
        let (line, json) = line_of(event_type, |line| write(&value, line));
        let facts = Facts::of(&value);
        let value = Tree { text: Text::Plain(json), parsed: OnceLock::from(value) };
        Arc::new(Self {
            value,
            revision,
            event_type,
            line: Some(line),
            protobuf: OnceLock::new(),
            folded: OnceLock::new(),
            facts,
        })
    }

    /// Returns the object without its tree, which is by far the larger part. It is parsed again on demand.
    pub fn folded(&self) -> Arc<Self> {
        let fold = || Self {
            value: Tree { text: self.value.text.clone(), parsed: OnceLock::new() },
            revision: self.revision,
            event_type: self.event_type,
            line: self.line.clone(),
            protobuf: self.protobuf.clone(),
            folded: OnceLock::new(),
            facts: self.facts.clone(),
        };
        self.folded.get_or_init(|| Arc::new(fold())).clone()
    }

    /// Returns the object with its text compressed, to be decompressed on each read; `None` if it is packed already or
    /// too short.
    pub fn packed(&self) -> Option<Arc<Self>> {
        let text = self.value.text.packed()?;
        Some(Arc::new(Self {
            value: Tree { text, parsed: OnceLock::new() },
            revision: self.revision,
            event_type: self.event_type,
            line: None,
            protobuf: OnceLock::new(),
            folded: OnceLock::new(),
            facts: self.facts.clone(),
        }))
    }

    /// Returns true if [`packed`](Self::packed) returns an object.
    pub fn is_packable(&self) -> bool {
        self.value.text.is_packable()
    }

    /// Returns the object as JSON.
    pub fn json(&self) -> Bytes {
        self.value.text.bytes()
    }

    /// Returns the length of the object's JSON in bytes.
    pub fn size(&self) -> usize {
        self.value.text.len()
    }

    /// Returns the line of a watch event of type `event_type` about the object, newline included.
    pub fn line(&self, event_type: EventType) -> Bytes {
        match &self.line {
            Some(line) if event_type == self.event_type => line.clone(),
            _ => line(event_type.as_str(), &self.json()),
        }
    }

    /// Returns the object as a protobuf message, which the first call encodes.
    pub fn protobuf(&self, encode: impl FnOnce(&Value) -> Bytes) -> &Bytes {
        self.protobuf.get_or_init(|| encode(&self.value.read()))
    }
}

/// The tree of an object: a [`Value`], parsed from its text on demand.
pub struct Tree {
    text: Text,
    parsed: OnceLock<Value>,
}

impl Tree {
    /// Returns true if the tree is parsed already.
    pub fn is_parsed(&self) -> bool {
        self.parsed.get().is_some()
    }

    fn parse(&self) -> Value {
        serde_json::from_slice(&self.text.bytes()).expect("this program wrote the stored text")
    }

    /// Returns the tree for one read. A tree that was not there before is not kept.
    pub fn read(&self) -> Cow<'_, Value> {
        self.parsed.get().map_or_else(|| Cow::Owned(self.parse()), Cow::Borrowed)
    }
}

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.parsed.get_or_init(|| self.parse())
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::fmt(self, f)
    }
}

impl PartialEq<Value> for Tree {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

const BEFORE_TYPE: &[u8] = b"{\"type\":\"";
const BEFORE_OBJECT: &[u8] = b"\",\"object\":";
const AFTER_OBJECT: &[u8] = b"}\n";

/// Builds a watch event as a JSON line around the encoded object, newline included (`{"type":…,"object":…}`).
pub fn line(event_type: &str, object: &[u8]) -> Bytes {
    [BEFORE_TYPE, event_type.as_bytes(), BEFORE_OBJECT, object, AFTER_OBJECT].concat().into()
}

/// Builds the event line of an object, and the slice of it that is the object itself.
fn line_of(event_type: EventType, write: impl FnOnce(&mut Vec<u8>)) -> (Bytes, Bytes) {
    let mut place = 0..0;
    let line = text::bytes(|line| {
        for part in [BEFORE_TYPE, event_type.as_str().as_bytes(), BEFORE_OBJECT] {
            line.extend_from_slice(part);
        }
        let start = line.len();
        write(line);
        place = start..line.len();
        line.extend_from_slice(AFTER_OBJECT);
    });
    let json = line.slice(place);
    (line, json)
}

/// Encodes a tree as JSON, with the fields in the order of its Go struct if it has apiVersion and kind of one.
pub fn encode(value: &Value) -> Bytes {
    text::bytes(|bytes| text::document(value, bytes))
}

/// Key of an object within its kind: `namespace/name`, or `name`. Lists are in the byte order of the keys.
pub type Key = Arc<str>;

/// Returns the key of an object.
pub fn key(namespace: Option<&str>, name: &str) -> Key {
    match namespace {
        Some(namespace) => [namespace, "/", name].concat().into(),
        None => name.into(),
    }
}

/// Returns the name in a key.
pub fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}
