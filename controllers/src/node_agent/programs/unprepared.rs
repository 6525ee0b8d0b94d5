//! Errors of containers that cannot be prepared.

/// Reason why the programs of a pod cannot be prepared, as kubelet reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unprepared {
    /// Reason of the Event.
    pub reason: &'static str,
    /// Message of the Event.
    pub message: String,
}

impl Unprepared {
    /// Error in the configuration of a container (`CreateContainerConfigError`).
    pub fn config(message: impl std::fmt::Display) -> Self {
        Self { reason: "Failed", message: format!("Error: {message}") }
    }

    /// Returns the message of the container's status. None for an error in a volume, which only an Event reports.
    pub fn of_container(&self) -> Option<String> {
        self.message.strip_prefix("Error: ").map(str::to_owned)
    }

    /// Error in a volume.
    pub fn volume(name: &str, why: impl std::fmt::Display) -> Self {
        Self { reason: "FailedMount", message: format!("MountVolume.SetUp failed for volume \"{name}\" : {why}") }
    }
}
