//! Meaning of a failed CreateVolume (external-provisioner `checkError`, lib `provisionVolumeErrorHandling`).

use tonic::Code;

/// State of the volume after an attempt (`ProvisioningState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No operation is under way; a deleted claim may be dropped.
    Finished,
    /// The driver may still be creating the volume: the claim is retried even after its deletion, so that no volume
    /// leaks.
    InBackground,
    /// Unchanged by this attempt.
    NoChange,
    /// No operation is under way, and another node may succeed.
    Reschedule,
}

/// Classifies an error of CreateVolume. Rescheduling needs a claim with a selected node and a driver with topology.
pub fn classify(code: Code, may_reschedule: bool) -> State {
    match code {
        Code::ResourceExhausted if may_reschedule => State::Reschedule,
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => State::InBackground,
        _ => State::Finished,
    }
}

/// Returns true if an early retry is pointless (`isInfeasibleError`).
pub fn infeasible(code: Code) -> bool {
    code == Code::InvalidArgument
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Code::ResourceExhausted, true, State::Reschedule)]
    #[case(Code::ResourceExhausted, false, State::Finished)]
    #[case(Code::DeadlineExceeded, true, State::InBackground)]
    #[case(Code::Aborted, false, State::InBackground)]
    #[case(Code::Unavailable, false, State::InBackground)]
    #[case(Code::Cancelled, false, State::InBackground)]
    #[case(Code::InvalidArgument, true, State::Finished)]
    #[case(Code::Internal, true, State::Finished)]
    fn codes(#[case] code: Code, #[case] may_reschedule: bool, #[case] expected: State) {
        assert_eq!(classify(code, may_reschedule), expected);
    }
}
