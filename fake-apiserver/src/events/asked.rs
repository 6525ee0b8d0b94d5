//! Requests of writes.

use serde::{Deserialize, Serialize};
use substrate::json::Text;

/// The request in [`ObjectStored`](super::ObjectStored).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The resourceVersion that the object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv: Option<u64>,
    /// The subresource; empty for none.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub subresource: Text,
    /// The uid that the object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Text>,
}
