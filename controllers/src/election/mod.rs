//! Leader election by Lease (client-go's `tools/leaderelection`; csi-lib-utils' `leaderelection` for the sidecars).
//!
//! [`Elector`] decides on a record, without IO; [`Candidate`] reads and writes the Lease. A waiting replica trusts only
//! its own clock: a lease expires when its record has not changed for the lease duration.

mod candidate;
mod elector;
mod lock;
mod record;

pub use candidate::{Candidate, Post};
pub use elector::{Action, Elector};
pub use record::Record;

/// Settings of one of several replicas of a process. Only the leader works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Name of the replica, such as a host name. kube-controller-manager and kube-scheduler add a uuid at each start; a
    /// restarted sidecar is the same candidate.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
}

impl Election {
    /// Creates the replica `identity`, with its Lease in `kube-system`.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), namespace: "kube-system".to_owned() }
    }
}

/// Sanitizes a name like csi-lib-utils: only letters, digits and dashes, and no dash at the end.
pub fn sanitized(name: &str) -> String {
    let mut clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if clean.ends_with('-') {
        clean.push('X');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_leases_hold_nothing_but_letters_digits_and_dashes() {
        assert_eq!(sanitized("external-attacher-leader-ebs.csi.aws.com"), "external-attacher-leader-ebs-csi-aws-com");
        assert_eq!(sanitized("a.b/c_"), "a-b-c-X");
    }
}
