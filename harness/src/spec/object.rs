//! Names of Kubernetes objects in scenario files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::custom::Customs;
pub use super::kind::{Kind, State};

/// A Kubernetes object by kind, namespace and name: `pod/web`, `pvc/team-a/data`, `node/node-a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Namespace; none for cluster-wide kinds, `default` if the file names none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// Name of an object of `kind`; `namespace` is used only for namespaced kinds, and is `default` if absent.
    pub fn new(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        let namespace = kind.namespaced().then(|| namespace.unwrap_or("default").to_owned());
        Self { kind, namespace, name: name.to_owned() }
    }

    /// URL path of its collection.
    pub fn collection_path(&self) -> String {
        let version = self.kind.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let resource = self.kind.resource();
        match &self.namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{resource}"),
            None => format!("/{root}/{version}/{resource}"),
        }
    }

    /// URL path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection_path(), self.name)
    }

    /// Key in trace events: `ns/name`, or `name` if the kind is cluster-wide.
    pub fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_deref() {
            None | Some("default") => write!(f, "{}/{}", self.kind.short(), self.name),
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind.short(), self.name),
        }
    }
}

impl ObjectRef {
    /// Parses a name, including custom kinds.
    ///
    /// # Errors
    /// Describes the error and suggests the nearest valid word.
    pub(crate) fn read(text: &str, customs: &Customs) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (word, namespace, name) = match parts[..] {
            [word, name] => (word, None, name),
            [word, namespace, name] => (word, Some(namespace), name),
            _ => {
                return Err(format!("`{text}` names no object: write kind/name or kind/namespace/name, as in pod/web"));
            }
        };
        let Some(kind) = customs.find(word) else {
            let words: Vec<String> = customs.words().collect();
            let near = crate::suggestions::nearest(word, words.iter().map(String::as_str));
            let hint = near.map(|w| format!(", did you mean `{w}`?")).unwrap_or_default();
            return Err(format!("`{word}` is not a kind of object{hint}"));
        };
        if namespace.is_some() && !kind.namespaced() {
            return Err(format!("a {} has no namespace: write {}/{name}", kind.kind(), kind.short()));
        }
        for part in namespace.iter().chain([&name]) {
            check_name(part)?;
        }
        Ok(Self::new(kind, namespace, name))
    }
}

impl FromStr for ObjectRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, &Customs::default())
    }
}

impl<'de> Deserialize<'de> for ObjectRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for ObjectRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Refuses names that are not DNS-1123 subdomains, as Kubernetes does.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = !name.is_empty()
        && name.len() <= 253
        && name.chars().all(inner)
        && name.starts_with(edge)
        && name.ends_with(edge);
    if good {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not an object name: lower-case letters, digits, `-` and `.`, at most 253, no `-` or `.` at the ends"
    ))
}

/// An object and a state: `pvc/data=Bound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The object.
    pub object: ObjectRef,
    /// Its state.
    pub is: State,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a condition: write kind/name=State, as in pvc/data=Bound");
        let (object, word) = text.split_once('=').ok_or_else(bad)?;
        let object: ObjectRef = object.parse()?;
        let states = object.kind.states();
        match states.iter().find(|state| state.to_string() == word) {
            Some(is) => Ok(Self { object, is: *is }),
            None => {
                let words: Vec<String> = states.iter().map(State::to_string).collect();
                let help = crate::suggestions::suggest(word, words.iter().map(String::as_str), "its states");
                Err(format!("a {} is never {word}; {help}", object.kind.kind()))
            }
        }
    }
}
