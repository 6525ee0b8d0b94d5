//! What a failed CreateVolume means (external-provisioner `checkError`, lib `provisionVolumeErrorHandling`).

use tonic::Code;

/// What is known about the volume after a try (`ProvisioningState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is under way; the claim may be dropped when it is deleted.
    Finished,
    /// The driver may still be making the volume: the claim is retried even after its deletion, so that none leaks.
    InBackground,
    /// As it was before this try.
    NoChange,
    /// Nothing is under way, and another node may do better.
    Reschedule,
}

/// The class of an error of CreateVolume. Only a claim with a selected node and a driver with topology can hope for
/// another node.
pub fn classify(code: Code, may_reschedule: bool) -> State {
    match code {
        Code::ResourceExhausted if may_reschedule => State::Reschedule,
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => State::InBackground,
        _ => State::Finished,
    }
}

/// Whether trying again soon is pointless (`isInfeasibleError`).
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
