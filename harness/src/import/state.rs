//! Imported states.

use serde_json::Value;

/// The imported state.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) nodes: Vec<Value>,
    pub(super) zones: Vec<String>,
    pub(super) volumes: Vec<Value>,
    pub(super) objects: Vec<Value>,
}
