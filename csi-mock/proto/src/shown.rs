//! JSON form of messages, without secrets.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde::{Serialize, Serializer};

use crate::csi::volume_capability::access_mode::Mode;

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

/// Serializes a time as RFC 3339.
#[expect(clippy::ref_option, reason = "serde hands fields out so")]
pub(crate) fn time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Serializes an access mode by its name.
pub(crate) fn access_mode<S: Serializer>(mode: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    match Mode::try_from(*mode) {
        Ok(mode) => serializer.serialize_str(mode.as_str_name()),
        Err(_) => serializer.serialize_i32(*mode),
    }
}
