//! Outcome of the faults at one moment of an operation: the same type for each server, link and disk.

use super::{Effect, Point};

/// Outcome of the faults at one moment of an operation, for the operation to carry out. Delays, hangs and crashes of the
/// own process are over when it is returned ([`Ctx::meet`](crate::Ctx::meet)).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum FaultOutcome {
    /// The operation continues.
    Proceed,
    /// The operation ends, and a failure is its answer.
    Fail {
        /// Name of the fault.
        fault: String,
        /// The failure.
        failure: Failure,
    },
    /// The operation ends without an answer: the caller sees a broken connection.
    Break {
        /// Name of the fault.
        fault: String,
    },
    /// The operation continues, and its answer is lost.
    LoseReply {
        /// Name of the fault.
        fault: String,
    },
    /// The operation continues with this effect, which only some operations have. The catalogue lists them.
    Alter {
        /// Name of the fault.
        fault: String,
        /// The effect.
        effect: Effect,
    },
}

/// Answer of an operation that a fault ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of the operation's own protocol, by name: an EC2 code, a reason of Kubernetes, or an errno.
    Named(String),
    /// An HTTP status.
    Http(u16),
    /// A gRPC code, by name.
    Grpc(String),
}

impl FaultOutcome {
    /// Returns the outcome of an effect that is not over after a wait.
    pub(crate) fn of(fault: String, effect: Effect) -> Self {
        match effect {
            Effect::Error(name) | Effect::IoError(name) => Self::Fail { fault, failure: Failure::Named(name) },
            Effect::Http(status) => Self::Fail { fault, failure: Failure::Http(status) },
            Effect::Grpc(code) => Self::Fail { fault, failure: Failure::Grpc(code) },
            Effect::DropRequest(_) | Effect::Crash(_) | Effect::Reboot(_) => Self::Break { fault },
            Effect::DropReply(_) => Self::LoseReply { fault },
            Effect::Delay(_) | Effect::Hang(_) | Effect::Count(_) => Self::Proceed,
            Effect::Duplicate(_)
            | Effect::StaleRead(_)
            | Effect::Stick(_)
            | Effect::Vanish(_)
            | Effect::Watch(_)
            | Effect::Partition(_)
            | Effect::PartitionOneWay(_)
            | Effect::ResetStream(_)
            | Effect::StallStream(_)
            | Effect::PauseIo(_)
            | Effect::LoseUnsynced(_)
            | Effect::TornWrite(_)
            | Effect::WrongDevice(_)
            | Effect::OmitEntry(_)
            | Effect::RepeatEntry(_)
            | Effect::NoContext(_)
            | Effect::WrongCapacity(_)
            | Effect::WrongNode(_)
            | Effect::WrongZone(_)
            | Effect::Skew(_) => Self::Alter { fault, effect },
        }
    }
}

impl Point<'_> {
    /// Panics: an operation has an outcome that its server cannot carry out. The catalogue lists the effects of each
    /// operation, and refuses a fault with another one when it is added.
    #[track_caller]
    pub fn unlisted(&self, outcome: &FaultOutcome) -> ! {
        panic!("the catalogue allows {outcome:?} at `{}` {:?}, and the operation cannot do that", self.op, self.moment)
    }
}
