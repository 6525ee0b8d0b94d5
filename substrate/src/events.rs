//! Events that all components share: processes, links, faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fault::Effect;
use crate::json::Text;

impl FaultFired {
    /// Returns the event of a fault at an operation without attributes.
    pub fn new(fault: impl Into<String>, op: impl Into<Text>, effect: Effect) -> Self {
        Self { fault: fault.into(), op: op.into(), effect, attributes: BTreeMap::new() }
    }

    /// Returns an attribute of the operation.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

crate::events! {
    /// A process started.
    pub struct ProcessStarted = "process.started" {
        /// The number of this start, from 1.
        pub incarnation: u32,
    }

    /// A process crashed, with all its tasks.
    pub struct ProcessCrashed = "process.crashed" {}

    /// A task of a process panicked, and the process ended.
    pub struct ProcessPanicked = "process.panicked" {
        /// The message of the panic.
        pub error: String,
    }

    /// A process failed and ended.
    pub struct ProcessFailed = "process.failed" {
        /// The reason.
        pub error: String,
    }

    /// A fault fired.
    pub struct FaultFired = "fault.fired" {
        /// Its name.
        pub fault: String,
        /// The operation at which it fired.
        pub op: Text,
        /// The effect.
        pub effect: Effect,
        /// Attributes of the operation, without empty ones.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub attributes: BTreeMap<String, String>,
    }

    /// A request was sent. Only at the trace level.
    pub struct LinkRequest = "link.request" {
        /// The peer.
        pub to: Arc<str>,
        /// The HTTP method.
        pub method: Text,
        /// Path and query.
        pub path: Text,
    }

    /// An answer arrived. Only at the trace level.
    pub struct LinkReply = "link.reply" {
        /// The peer.
        pub to: Arc<str>,
        /// The HTTP method of the request.
        pub method: Text,
        /// Path and query of the request.
        pub path: Text,
        /// The HTTP status.
        pub status: u16,
    }
}
