//! One step of the binder: at most one write, so that a crash between any two steps leaves an ordinary state.
//!
//! Upstream's `bind` makes four writes in a row. Here each write ends the step; the answer goes into the cache and the
//! same rule is applied again. Every rule checks the existing state, so it continues with the next write, in the same
//! order, and reaches the same end from any prefix.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::object::{ClaimKey, name};

/// Object of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// A claim.
    Claim(Arc<PersistentVolumeClaim>),
    /// A volume.
    Volume(Arc<PersistentVolume>),
}

/// Event to record.
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
    /// DELETE of a volume.
    DeleteVolume(String),
    /// PUT of a volume's status.
    ReplaceVolumeStatus(Box<PersistentVolume>),
    /// PUT of a claim.
    ReplaceClaim(Box<PersistentVolumeClaim>),
    /// PUT of a claim's status.
    ReplaceClaimStatus(Box<PersistentVolumeClaim>),
    /// GET of a claim: the cache must not be trusted before a volume is released (kubernetes#105131).
    ReadClaim(ClaimKey),
}

/// Next action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Events to record at once.
    pub before: Vec<Notice>,
    /// The call.
    pub call: Option<Call>,
    /// Events to record after the call succeeded.
    pub after: Vec<Notice>,
    /// If set, apply the rule again after the call succeeded.
    pub again: bool,
    /// Claim to enqueue.
    pub enqueue: Option<ClaimKey>,
    /// Reason of a failure; the next resync retries.
    pub error: Option<SyncError>,
}

/// State that should never occur; the next resync retries.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum SyncError {
    /// invalid binding of claim {claim:?} to volume {volume:?}: volume already claimed by {by:?}
    InvalidBinding {
        /// The claim.
        claim: String,
        /// The volume that it names.
        volume: String,
        /// Current owner of the volume.
        by: String,
    },
    /// PersistentVolume {0:?} is without a storage capacity
    NoCapacity(String),
    /// VolumeBindingMode not set for StorageClass {0:?}
    NoBindingMode(String),
}

impl Step {
    /// Returns a step without an action.
    pub fn done() -> Self {
        Self::default()
    }

    /// Returns a step with one write, after which the rule applies again.
    pub fn then_again(call: Call) -> Self {
        Self { call: Some(call), again: true, ..Self::default() }
    }

    /// Returns a failed step.
    pub fn failed(error: SyncError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Returns the volume that the step writes.
    pub fn written_volume(&self) -> Option<&str> {
        match &self.call {
            Some(Call::ReplaceVolume(volume) | Call::ReplaceVolumeStatus(volume)) => Some(name(&volume.metadata)),
            _ => None,
        }
    }

    /// Adds an event of a claim that is recorded at once.
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

    /// Adds an event of a volume that is recorded at once.
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
