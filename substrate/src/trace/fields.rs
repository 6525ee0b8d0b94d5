//! What an event happened to. Events are many and kept for the whole run, and so is each of their fields: in one slice,
//! which takes a third of what a map does.

use std::ops::Index;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// Names and values, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Box<[(Box<str>, Value)]>);

impl Fields {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| &**own == name).map(|(_, value)| value)
    }

    /// All fields, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl Index<&str> for Fields {
    type Output = Value;

    /// The value of a field; null where there is none.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Self {
        Self(map.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields.0.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_those_of_the_map_that_they_were_made_of() {
        let value = json!({ "volume": "vol-1", "forced": true, "pv": { "phase": "Bound" } });
        let fields: Fields = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(fields.get("forced"), Some(&json!(true)));
        assert_eq!((fields.get("force"), &fields["force"]), (None, &Value::Null));
        assert_eq!(fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["forced", "pv", "volume"]);
        assert_eq!(serde_json::to_value(&fields).unwrap(), value);
        assert_eq!(Value::from(fields), value);
    }
}
