//! The operations of a JSON patch (RFC 6902).

use substrate::json::{Value, json};

/// Operation. A path is a JSON pointer: `~` and `/` in a name are escaped as `~0` and `~1`.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Fails the patch unless the path has the value.
    Test {
        /// Path.
        path: String,
        /// The value.
        value: Value,
    },
    /// Sets a member, or inserts an item into a list.
    Add {
        /// Path.
        path: String,
        /// The value.
        value: Value,
    },
    /// Replaces an existing value.
    Replace {
        /// Path.
        path: String,
        /// The value.
        value: Value,
    },
    /// Removes a member or an item.
    Remove {
        /// Path.
        path: String,
    },
}

impl Operation {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Test { path, value } => json!({ "op": "test", "path": path, "value": value.clone() }),
            Self::Add { path, value } => json!({ "op": "add", "path": path, "value": value.clone() }),
            Self::Replace { path, value } => json!({ "op": "replace", "path": path, "value": value.clone() }),
            Self::Remove { path } => json!({ "op": "remove", "path": path }),
        }
    }
}
