//! Notes about an import.

use std::fmt;

/// An omission or a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Note {
    /// The object, as in `Secret default/tls`, or the volume or instance.
    pub object: String,
    /// Description and reason of the omission or change.
    #[serde(rename = "said")]
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}
