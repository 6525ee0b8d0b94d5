//! Leader election by Lease (client-go's `tools/leaderelection`; csi-lib-utils' `leaderelection` for the sidecars).
//!
//! [`Elector`] decides what to do with a record, and does nothing; [`Candidate`] reads and writes the Lease. Who waits
//! believes its own clock only: a lease is over when its record has not changed for as long as it says.

mod candidate;
mod elector;
mod lock;
mod record;

pub use candidate::{Candidate, Post};
pub use elector::{Action, Elector};
pub use record::Record;

/// That a process is one replica of several, of which one works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The replica's name, as a host is named. kube-controller-manager and kube-scheduler add a uuid at each start; a
    /// sidecar is the same candidate when it comes back.
    pub identity: String,
    /// Where the Lease lives.
    pub namespace: String,
}

impl Election {
    /// The replica `identity`, with its Lease in `kube-system`.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), namespace: "kube-system".to_owned() }
    }
}

/// What csi-lib-utils makes of names: nothing but letters, digits and dashes, and no dash at the end.
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
