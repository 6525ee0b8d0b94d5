//! Events of what every component shares: processes, links, faults.

use std::sync::Arc;

use crate::fault::Effect;
use crate::json::Text;

crate::events! {
    /// A process started.
    pub struct ProcessStarted = "process.started" {
        /// How often it was started, from 1.
        pub incarnation: u32,
    }

    /// A process ended at once, with all that it had started.
    pub struct ProcessCrashed = "process.crashed" {}

    /// A task of a process panicked, which ended the process.
    pub struct ProcessPanicked = "process.panicked" {
        /// What the panic says.
        pub error: String,
    }

    /// A process cannot do its work, and ended.
    pub struct ProcessFailed = "process.failed" {
        /// Why.
        pub error: String,
    }

    /// A fault fired.
    pub struct FaultFired = "fault.fired" {
        /// Its name.
        pub fault: String,
        /// The operation that it met.
        pub op: Text,
        /// What happens.
        pub effect: Effect,
    }

    /// A request sets out. Only at the trace level.
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
