//! EC2's errors: code, HTTP status and text. Texts are exact if a public issue quotes them from AWS.

use std::fmt;

use super::code::Code;
use super::ids::{InstanceId, SnapshotId, VolumeId};

/// Requested ids that do not exist. Clients scrape ids from the text, so it names exactly these: the EBS driver avoids
/// each named id for an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<String>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, " '{one}' does"),
            many => write!(f, "s '{}' do", many.join(", ")),
        }
    }
}

/// Volumes that were never modified. The EBS driver scrapes ids from the text, so it names exactly these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverModified(pub Vec<VolumeId>);

impl fmt::Display for NeverModified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, " for volume '{one}' does"),
            many => {
                let ids: Vec<&str> = many.iter().map(VolumeId::as_str).collect();
                write!(f, "s for volumes '{}' do", ids.join(", "))
            }
        }
    }
}

/// Error of an EC2 request.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Ec2Error {
    /// The volume{0} not exist.
    VolumeNotFound(Missing),
    /// The instance ID{0} not exist
    InstanceNotFound(Missing),
    /// The snapshot{0} not exist.
    SnapshotNotFound(Missing),
    /// The ID '{0}' is not valid
    InvalidId(String),
    /// The zone{0} not exist.
    ZoneNotFound(Missing),
    /// The subnet ID '{0}' does not exist
    SubnetNotFound(String),
    /// The following supplied instance types do not exist: [{0}]
    InstanceTypeNotFound(String),
    /// Value ({value}) for parameter {parameter} is invalid. Expected: '{expected}-...'.
    MalformedVolumeId {
        /// The parameter, as EC2 spells it in texts.
        parameter: &'static str,
        /// Given value.
        value: String,
        /// Prefix of ids of this kind.
        expected: &'static str,
    },
    /// Invalid id: "{0}"
    MalformedInstanceId(String),
    /// {0} is already attached to an instance
    AlreadyAttached(VolumeId),
    /// Volume {volume} is currently attached to {instance}
    VolumeInUse {
        /// The volume to delete.
        volume: VolumeId,
        /// One of its instances.
        instance: InstanceId,
    },
    /// The volume '{volume}' is not in the same availability zone as instance '{instance}'
    ZoneMismatch {
        /// The volume.
        volume: VolumeId,
        /// The instance.
        instance: InstanceId,
    },
    /// Instance '{0}' is not 'running'.
    InstanceNotRunning(InstanceId),
    /// {0} is not 'available'.
    VolumeNotAvailable(VolumeId),
    /// Volume '{volume}' is in the '{state}' state.
    VolumeInState {
        /// The volume.
        volume: VolumeId,
        /// Its state.
        state: &'static str,
    },
    /// The volume '{volume}' is not attached to instance '{instance}'{device}.
    NotAttached {
        /// The volume.
        volume: VolumeId,
        /// Instance in the request.
        instance: String,
        /// Empty, or ` as device '…'`.
        device: String,
    },
    /// Snapshot '{snapshot}' is in the '{state}' state.
    SnapshotInState {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Its state.
        state: &'static str,
    },
    /// The snapshot '{0}' is locked and cannot be deleted.
    SnapshotLocked(SnapshotId),
    /// Volume {volume} cannot be modified in modification state {state}
    ModificationState {
        /// The volume.
        volume: VolumeId,
        /// The state of its latest modification, in capitals.
        state: String,
    },
    /// You've reached the maximum modification rate per volume limit. Wait at least 24 hours between the first and the fifth modification of volume {0}.
    ModificationRate(VolumeId),
    /// Modification{0} not exist.
    NeverModified(NeverModified),
    /// The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or variable sleep interval between requests.
    SnapshotRate,
    /// Maximum allowed in-progress snapshots for a single volume exceeded.
    ConcurrentSnapshots,
    /// You have exceeded your maximum {resource} limit of {limit} in this region.
    QuotaExceeded {
        /// `volume` or `snapshot`.
        resource: &'static str,
        /// The quota.
        limit: u64,
    },
    /// The instance '{instance}' is not in a state from which it can be {verb}.
    IncorrectInstanceState {
        /// The instance.
        instance: InstanceId,
        /// `started`, `stopped` or `rebooted`.
        verb: &'static str,
    },
    /// Instance '{0}' cannot be stopped as it has never reached the 'running' state.
    NeverRan(InstanceId),
    /// Request limit exceeded.
    RequestLimit,
    /// Unable to detach root volume '{volume}' from instance '{instance}'
    RootVolume {
        /// The root volume.
        volume: VolumeId,
        /// The running instance.
        instance: InstanceId,
    },
    /// You may attach up to {0} devices for this instance type. Detach a device and try again.
    AttachmentLimit(u32),
    /// Value ({0}) for parameter device is invalid. {0} is not a valid EBS device name.
    BadDevice(String),
    /// Invalid value '{0}' for unixDevice. Attachment point {0} is already in use
    DeviceInUse(String),
    /// Unsupported volume type '{0}' for volume creation.
    UnknownVolumeType(String),
    /// You may not use the same client token for requests with different parameters.
    TokenMismatch,
    /// The client token you have provided is associated with a resource that is already deleted. Please use a different client token.
    TokenOfDeleted,
    /// {text}
    Resource {
        /// The code.
        code: Code,
        /// The text.
        text: String,
    },
    /// The maximum number of {0} specified on a single call is {1}
    FilterLimit(&'static str, usize),
    /// The requested version ({version}) of service {service} does not exist
    NoSuchVersion {
        /// Requested version.
        version: String,
        /// The service's name.
        service: &'static str,
    },
    /// {0}
    InvalidParameterValue(String),
    /// {0}
    InvalidParameterCombination(String),
    /// {0}
    InvalidParameterDependency(String),
    /// The request must contain the parameter {0}
    MissingParameter(String),
    /// The parameter {0} is not recognized
    UnknownParameter(String),
    /// {0}
    UnsupportedOperation(String),
    /// The specified token is not valid.
    InvalidNextToken,
    /// You have reached the maximum number of tags allowed for this resource: {0}.
    TagLimit(usize),
    /// Request would have succeeded, but DryRun flag is set.
    DryRun,
    /// {0}
    InsufficientVolumeCapacity(String),
    /// The action {0} is not valid for this web service.
    InvalidAction(String),
    /// The action {action} of the service {service} is not served here. Served: {served}.
    ActionNotServed {
        /// The action.
        action: String,
        /// The service that the request is signed for.
        service: &'static str,
        /// The service with the actions that are served.
        served: String,
    },
    /// {0}
    InvalidRequest(String),
    /// AWS was not able to validate the provided access credentials
    AuthFailure,
    /// {0}
    SignatureDoesNotMatch(String),
    /// Request has expired.
    RequestExpired,
    /// Request is missing Authentication Token
    MissingAuthenticationToken,
    /// {0}
    IncompleteSignature(String),
    /// The request body is larger than {0} bytes.
    RequestTooLarge(usize),
    /// Credential should be scoped to a valid region, not '{region}'. Served here: {served}.
    RegionNotServed {
        /// The region that the request is signed for.
        region: String,
        /// Served regions.
        served: String,
    },
    /// The state file cannot be written: {0}. The request may or may not have taken effect; send it again.
    NotRecorded(String),
    /// The state file cannot be written: {0}. The request had no effect; send it again when the file can be written.
    CannotRecord(String),
    /// {message}
    Injected {
        /// The code given in the fault.
        code: String,
        /// The text.
        message: String,
    },
}

impl Ec2Error {
    /// Returns the error code on the wire.
    pub fn code(&self) -> &str {
        let code = match self {
            Self::VolumeNotFound(_) => Code::InvalidVolumeNotFound,
            Self::InstanceNotFound(_) => Code::InvalidInstanceIDNotFound,
            Self::SnapshotNotFound(_) => Code::InvalidSnapshotNotFound,
            Self::InvalidId(_) => Code::InvalidID,
            Self::ZoneNotFound(_) => Code::InvalidZoneNotFound,
            Self::SubnetNotFound(_) => Code::InvalidSubnetIDNotFound,
            Self::InstanceTypeNotFound(_) => Code::InvalidInstanceType,
            Self::MalformedInstanceId(_) => Code::InvalidInstanceIDMalformed,
            Self::AlreadyAttached(_) | Self::VolumeInUse { .. } => Code::VolumeInUse,
            Self::SnapshotLocked(_) => Code::OperationNotPermitted,
            Self::ModificationState { .. } => Code::IncorrectModificationState,
            Self::ModificationRate(_) => Code::VolumeModificationRateExceeded,
            Self::NeverModified(_) => Code::InvalidVolumeModificationNotFound,
            Self::SnapshotRate => Code::SnapshotCreationPerVolumeRateExceeded,
            Self::ConcurrentSnapshots => Code::ConcurrentSnapshotLimitExceeded,
            Self::QuotaExceeded { resource: "snapshot", .. } => Code::SnapshotLimitExceeded,
            Self::QuotaExceeded { .. } => Code::VolumeLimitExceeded,
            Self::IncorrectInstanceState { .. } | Self::NeverRan(_) => Code::IncorrectInstanceState,
            Self::RequestLimit => Code::RequestLimitExceeded,
            Self::ZoneMismatch { .. } => Code::InvalidVolumeZoneMismatch,
            Self::InstanceNotRunning(_)
            | Self::VolumeNotAvailable(_)
            | Self::SnapshotInState { .. }
            | Self::VolumeInState { .. } => Code::IncorrectState,
            Self::NotAttached { .. } => Code::InvalidAttachmentNotFound,
            Self::RootVolume { .. } => Code::OperationNotPermitted,
            Self::AttachmentLimit(_) => Code::AttachmentLimitExceeded,
            Self::UnknownVolumeType(_) => Code::UnknownVolumeType,
            Self::TokenMismatch | Self::TokenOfDeleted => Code::IdempotentParameterMismatch,
            Self::MalformedVolumeId { .. }
            | Self::BadDevice(_)
            | Self::DeviceInUse(_)
            | Self::InvalidParameterValue(_) => Code::InvalidParameterValue,
            Self::Resource { code, .. } => *code,
            Self::FilterLimit(..) => Code::FilterLimitExceeded,
            Self::NoSuchVersion { .. } => Code::NoSuchVersion,
            Self::InvalidParameterCombination(_) => Code::InvalidParameterCombination,
            Self::InvalidParameterDependency(_) => Code::InvalidParameterDependency,
            Self::MissingParameter(_) => Code::MissingParameter,
            Self::UnknownParameter(_) => Code::UnknownParameter,
            Self::UnsupportedOperation(_) => Code::UnsupportedOperation,
            Self::InvalidNextToken => Code::InvalidNextToken,
            Self::TagLimit(_) => Code::TagLimitExceeded,
            Self::DryRun => Code::DryRunOperation,
            Self::InsufficientVolumeCapacity(_) => Code::InsufficientVolumeCapacity,
            Self::InvalidAction(_) | Self::ActionNotServed { .. } => Code::InvalidAction,
            Self::InvalidRequest(_) => Code::InvalidRequest,
            Self::AuthFailure => Code::AuthFailure,
            Self::SignatureDoesNotMatch(_) => Code::SignatureDoesNotMatch,
            Self::RequestExpired => Code::RequestExpired,
            Self::MissingAuthenticationToken => Code::MissingAuthenticationToken,
            Self::IncompleteSignature(_) => Code::IncompleteSignature,
            Self::RequestTooLarge(_) => Code::RequestEntityTooLarge,
            Self::RegionNotServed { .. } => Code::AuthFailure,
            Self::NotRecorded(_) => Code::InternalError,
            Self::CannotRecord(_) => Code::Unavailable,
            Self::Injected { code, .. } => return code,
        };
        code.as_str()
    }

    /// Returns the HTTP status: 400, except 412 for DryRun, 401 or 403 for signature errors, 413 for a large body, and
    /// 500 or 503 for server errors and throttling.
    pub fn status(&self) -> u16 {
        match self {
            Self::DryRun => 412,
            Self::AuthFailure | Self::RegionNotServed { .. } => 401,
            Self::MissingAuthenticationToken | Self::SignatureDoesNotMatch(_) => 403,
            Self::RequestLimit => 503,
            Self::RequestTooLarge(_) => 413,
            Self::NotRecorded(_) => 500,
            Self::CannotRecord(_) => 503,
            Self::Injected { code, .. } => match code.as_str() {
                "RequestLimitExceeded" | "Unavailable" | "ServiceUnavailable" | "SlowDown" => 503,
                "InternalError" | "InternalFailure" | "InsufficientVolumeCapacity" => 500,
                "DryRunOperation" => 412,
                "UnauthorizedOperation" => 403,
                "AuthFailure" => 401,
                _ => 400,
            },
            _ => 400,
        }
    }

    /// Returns the error of a fault, by code.
    pub fn injected(code: &str, fault: &str) -> Self {
        let message = match code {
            "RequestLimitExceeded" => "Request limit exceeded.".to_owned(),
            "InternalError" => "An internal error has occurred".to_owned(),
            "Unavailable" => "The service is unavailable. Please try again shortly.".to_owned(),
            _ => format!("Injected by the fault `{fault}`."),
        };
        Self::Injected { code: code.to_owned(), message }
    }
}
