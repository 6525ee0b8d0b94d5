//! One step of the binder: at most one write, so that a crash between any two steps is an ordinary state.
//!
//! Upstream's `bind` makes four writes in a row. Here each write ends the step; the answer goes into the cache and the
//! same rule is asked again. Since every rule looks at what is already written, it comes to the next write, in the same
//! order, and to the same end from any prefix.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::object::{ClaimKey, name};

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// A claim.
    Claim(Arc<PersistentVolumeClaim>),
    /// A volume.
    Volume(Arc<PersistentVolume>),
}

/// An event to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The object.
    pub about: About,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}

/// A call of the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// PUT of a volume.
    ReplaceVolume(Box<PersistentVolume>),
    /// PUT of a volume's status.
    ReplaceVolumeStatus(Box<PersistentVolume>),
    /// PUT of a claim.
    ReplaceClaim(Box<PersistentVolumeClaim>),
    /// PUT of a claim's status.
    ReplaceClaimStatus(Box<PersistentVolumeClaim>),
    /// GET of a claim: the cache is not trusted where believing it would release a volume (k#105131).
    ReadClaim(ClaimKey),
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Events to record at once.
    pub before: Vec<Notice>,
    /// The one call.
    pub call: Option<Call>,
    /// Events to record when the call succeeded.
    pub after: Vec<Notice>,
    /// Whether to ask again when the call succeeded.
    pub again: bool,
    /// A claim to put into the queue.
    pub enqueue: Option<ClaimKey>,
    /// Why nothing can be done; the next resync tries again.
    pub error: Option<SyncError>,
}

/// A state that should never happen; the next resync looks again.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum SyncError {
    /// invalid binding of claim {claim:?} to volume {volume:?}: volume already claimed by {by:?}
    InvalidBinding {
        /// The claim.
        claim: String,
        /// The volume that it names.
        volume: String,
        /// Who has the volume.
        by: String,
    },
    /// PersistentVolume {0:?} is without a storage capacity
    NoCapacity(String),
    /// VolumeBindingMode not set for StorageClass {0:?}
    NoBindingMode(String),
}

impl Step {
    /// Nothing to do.
    pub fn done() -> Self {
        Self::default()
    }

    /// One write, then ask again.
    pub fn then_again(call: Call) -> Self {
        Self { call: Some(call), again: true, ..Self::default() }
    }

    /// A failure.
    pub fn failed(error: SyncError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// The volume that the step writes.
    pub fn written_volume(&self) -> Option<&str> {
        match &self.call {
            Some(Call::ReplaceVolume(volume) | Call::ReplaceVolumeStatus(volume)) => Some(name(&volume.metadata)),
            _ => None,
        }
    }

    /// Adds an event about a claim that is recorded at once.
    pub fn notice_claim(
        mut self,
        claim: &Arc<PersistentVolumeClaim>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        self.before.push(Notice { about: About::Claim(claim.clone()), kind, reason, message: message.into() });
        self
    }

    /// Adds an event about a volume that is recorded at once.
    pub fn notice_volume(
        mut self,
        volume: &Arc<PersistentVolume>,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        self.before.push(Notice { about: About::Volume(volume.clone()), kind, reason, message: message.into() });
        self
    }
}
