//! Failed calls, as grpc-go reports them.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

use substrate::link::LinkError;
use tonic::{Code, Status};

/// Failed call to a driver, with grpc-go's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcError {
    /// The call has a gRPC status: from the driver, or for a transport failure.
    Grpc {
        /// The code.
        code: Code,
        /// The text.
        message: String,
    },
    /// Failed before a call was made.
    Other(String),
}

impl RpcError {
    /// Returns the gRPC code; None if no call was made.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Grpc { code, .. } => Some(*code),
            Self::Other(_) => None,
        }
    }

    /// Returns the code's name as Go prints it; that of Unknown if no call was made.
    pub fn code_name(&self) -> &'static str {
        go_name(self.code().unwrap_or(Code::Unknown))
    }

    /// Returns the text without the code.
    pub fn message(&self) -> &str {
        match self {
            Self::Grpc { message, .. } | Self::Other(message) => message,
        }
    }

    /// Returns true if the driver has certainly stopped working on the call (`IsFinalError`, kubelet's `isFinalError`).
    /// A failure before the call does not settle an earlier call.
    pub fn is_final(&self) -> bool {
        self.code().is_some_and(|code| {
            !matches!(
                code,
                Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::ResourceExhausted | Code::Aborted
            )
        })
    }

    /// Returns the error of an expired deadline.
    pub fn deadline_exceeded() -> Self {
        Self::Grpc { code: Code::DeadlineExceeded, message: "context deadline exceeded".to_owned() }
    }

    /// Converts a failed call; `overdue` if its deadline has passed. The deadline is then the reason, whatever the peer
    /// did: a server of grpc-go resets the stream at the deadline.
    pub fn new(status: &Status, overdue: bool) -> Self {
        if overdue {
            return Self::deadline_exceeded();
        }
        // tonic keeps the source of an error that did not come from the peer.
        let Some(source) = status.source() else {
            return Self::Grpc { code: status.code(), message: status.message().to_owned() };
        };
        if let Some(reason) = chain(source).find_map(|error| error.downcast_ref::<h2::Error>().and_then(reset)) {
            let message = format!("stream terminated by RST_STREAM with error code: {reason:?}");
            return Self::Grpc { code: code_of_reset(reason), message };
        }
        let root = chain(source).last().unwrap_or(source);
        let message = if chain(source).any(is_refusal) {
            format!("connection error: desc = \"transport: Error while dialing: {root}\"")
        } else {
            format!("error reading from server: {root}")
        };
        Self::Grpc { code: Code::Unavailable, message }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc { code, message } => write!(f, "rpc error: code = {} desc = {message}", go_name(*code)),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Error for RpcError {}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        Self::new(&status, false)
    }
}

impl From<String> for RpcError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&RpcError> for Status {
    fn from(error: &RpcError) -> Self {
        // An error without a status is Unknown (`status.FromError`).
        Self::new(error.code().unwrap_or(Code::Unknown), error.message())
    }
}

/// Iterates over an error and its sources.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Returns the reason of a stream reset; None if the whole connection is gone.
fn reset(error: &h2::Error) -> Option<h2::Reason> {
    error.reason().filter(|_| error.is_reset())
}

/// Returns true if the connection was refused.
fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(LinkError::Refused(_)))
        || error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound))
}

/// Converts a reset reason, like grpc-go's `http2ErrConvTab`.
fn code_of_reset(reason: h2::Reason) -> Code {
    match reason {
        h2::Reason::CANCEL => Code::Cancelled,
        h2::Reason::REFUSED_STREAM => Code::Unavailable,
        h2::Reason::FLOW_CONTROL_ERROR | h2::Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        h2::Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        reason if u32::from(reason) <= u32::from(h2::Reason::HTTP_1_1_REQUIRED) => Code::Internal,
        _ => Code::Unknown,
    }
}

/// Returns a code's name as Go prints it.
fn go_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
