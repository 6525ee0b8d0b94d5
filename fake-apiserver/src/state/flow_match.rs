//! Flows of requests.

use std::sync::Arc;

use substrate::json::Value;

/// A schema that requests are matched against.
pub(super) struct Flow {
    pub(super) rules: Vec<Value>,
    pub(super) matched: Matched,
}

/// The flow of a request: the uids of its flow schema and of its priority level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Uid of the flow schema.
    pub schema: Arc<str>,
    /// Uid of the priority level.
    pub level: Arc<str>,
}
