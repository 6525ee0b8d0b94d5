//! Fields of an event in text form. Traces have many events that are kept for the whole run, so the fields are an
//! object of the JSON tree, whose names and short strings need no allocation.

use std::ops::Index;

use serde::{Deserialize, Serialize};

use crate::json::{Map, Value};

/// Names and values, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(Map);

impl Fields {
    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns all fields, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Index<&str> for Fields {
    type Output = Value;

    /// Returns the value of a field; null if there is none.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

impl From<Map> for Fields {
    fn from(mut map: Map) -> Self {
        map.shrink_to_fit();
        Self(map)
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn fields_are_those_of_the_map_that_they_were_made_of() {
        let value = json!({ "volume": "vol-1", "forced": true, "pv": { "phase": "Bound" } });
        let fields: Fields = from_value(value.clone()).unwrap();
        assert_eq!(fields.get("forced"), Some(&json!(true)));
        assert_eq!((fields.get("force"), &fields["force"]), (None, &Value::Null));
        assert_eq!(fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["forced", "pv", "volume"]);
        assert_eq!(to_value(&fields).unwrap(), value);
        assert_eq!(Value::from(fields), value);
    }
}
