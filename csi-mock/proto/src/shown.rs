//! How messages are shown as JSON: what is secret stays so.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde::{Serialize, Serializer};

use crate::csi::volume_capability::access_mode::Mode;

/// Stands for a value that is not shown.
const STRIPPED: &str = "***stripped***";
/// The entry of a volume context in which kubelet sends tokens of service accounts.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// A map whose values are secret.
pub(crate) fn secrets<S: Serializer>(map: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.keys().map(|key| (key, STRIPPED)))
}

/// A volume context, without the tokens in it.
pub(crate) fn context<S: Serializer>(map: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key, if key == TOKENS { STRIPPED } else { value })))
}

/// A time as RFC 3339 has it.
#[expect(clippy::ref_option, reason = "serde hands fields out so")]
pub(crate) fn time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_ref().map(ToString::to_string).serialize(serializer)
}

/// An access mode by its name.
pub(crate) fn access_mode<S: Serializer>(mode: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    match Mode::try_from(*mode) {
        Ok(mode) => serializer.serialize_str(mode.as_str_name()),
        Err(_) => serializer.serialize_i32(*mode),
    }
}
