//! Words of a pod that was active for too long.

/// Reason of the status and of the Event.
pub(super) const REASON: &str = "DeadlineExceeded";
/// Message of the status and of the Event.
pub(super) const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
