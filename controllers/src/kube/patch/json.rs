//! The operations of a JSON patch (RFC 6902).

use substrate::json::{Value, json};

/// One operation. A path is a JSON pointer: a name in it has its `~` and `/` written as `~0` and `~1`.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Fails the patch unless the path has the value.
    Test {
        /// Where.
        path: String,
        /// The value.
        value: Value,
    },
    /// Sets a member, or puts an item into a list.
    Add {
        /// Where.
        path: String,
        /// The value.
        value: Value,
    },
    /// Sets what is there already.
    Replace {
        /// Where.
        path: String,
        /// The value.
        value: Value,
    },
    /// Takes a member or an item away.
    Remove {
        /// Where.
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
