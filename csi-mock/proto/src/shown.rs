//! JSON form of messages. Secrets are not written.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde::Serializer;

/// Replaces a hidden value.
const STRIPPED: &str = "***stripped***";
/// Key in a volume context under which kubelet sends service account tokens.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Serializes a map with hidden values.
pub(crate) fn secrets<S: Serializer>(map: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.keys().map(|key| (key, STRIPPED)))
}

/// Serializes a volume context without its tokens.
pub(crate) fn context<S: Serializer>(map: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key, if key == TOKENS { STRIPPED } else { value })))
}

/// Times in the form of RFC 3339.
pub(crate) mod time {
    use super::Timestamp;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands fields out so")]
    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Access modes by their names.
pub(crate) mod access_mode {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::csi::volume_capability::access_mode::Mode;

    pub(crate) fn serialize<S: Serializer>(mode: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match Mode::try_from(*mode) {
            Ok(mode) => serializer.serialize_str(mode.as_str_name()),
            Err(_) => serializer.serialize_i32(*mode),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        let name = String::deserialize(deserializer)?;
        let mode = Mode::from_str_name(&name);
        mode.map(Into::into).ok_or_else(|| D::Error::custom(format_args!("`{name}` is not an access mode")))
    }
}
