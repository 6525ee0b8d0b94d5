//! Operations of a fault: one pattern or a list.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One pattern or several: a name, a prefix and `*`, or a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<String>);

impl Ops {
    /// Returns the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl From<&str> for Ops {
    fn from(one: &str) -> Self {
        Self(vec![one.to_owned()])
    }
}

impl From<String> for Ops {
    fn from(one: String) -> Self {
        Self(vec![one])
    }
}

impl fmt::Display for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Serialize for Ops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ops {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an operation, or a list of operations")]
        enum Written {
            One(String),
            Many(Vec<String>),
        }
        let ops = match Written::deserialize(deserializer)? {
            Written::One(one) => vec![one],
            Written::Many(many) => many,
        };
        if ops.is_empty() {
            return Err(serde::de::Error::custom("a list of operations must not be empty"));
        }
        Ok(Self(ops))
    }
}
