//! Mutual exclusion of the two workers per volume.
//!
//! Both write the phase of a volume. Upstream, the worker of claims makes its next write as soon as it has the answer
//! to the previous one, before the watch event of its own write wakes the worker of volumes. Here an event can arrive
//! before the answer. Without turns the worker of claims would conflict with the worker of volumes in every second
//! binding, and leave the claim to the next resync.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;

use tokio::sync::Notify;

/// Turns of the two workers.
#[derive(Debug, Default)]
pub struct Turns {
    held: Mutex<Held>,
    /// Notified when the worker of volumes has finished a volume.
    through: Notify,
}

#[derive(Debug, Default)]
struct Held {
    by_claims: Option<String>,
    by_volumes: Option<String>,
    /// Volumes that were due while the worker of claims used them.
    postponed: BTreeSet<String>,
}

impl Turns {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    /// Reserves the volume `name` for a write of the worker of claims. Returns false if it had to wait for the worker
    /// of volumes: the claim's step must then be computed again.
    pub async fn claim_writes(&self, name: &str) -> bool {
        let mut at_once = true;
        loop {
            {
                let mut held = self.held();
                if held.by_volumes.as_deref() != Some(name) {
                    held.by_claims = Some(name.to_owned());
                    return at_once;
                }
            }
            at_once = false;
            self.through.notified().await;
        }
    }

    /// Ends the work on a claim. Returns the volumes that became due meanwhile.
    pub fn claim_done(&self) -> BTreeSet<String> {
        let mut held = self.held();
        held.by_claims = None;
        std::mem::take(&mut held.postponed)
    }

    /// Returns true if the worker of volumes may start with `name`; otherwise the volume is due after the worker of
    /// claims has finished.
    pub fn volume_begins(&self, name: &str) -> bool {
        let mut held = self.held();
        if held.by_claims.as_deref() == Some(name) {
            held.postponed.insert(name.to_owned());
            return false;
        }
        held.by_volumes = Some(name.to_owned());
        true
    }

    /// Ends the work on a volume.
    pub fn volume_done(&self) {
        self.held().by_volumes = None;
        self.through.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_volume_that_a_claim_is_bound_to_waits_until_that_is_done() {
        let turns = Turns::default();
        assert_eq!(turns.claim_writes("a").now_or_never(), Some(true));
        assert!(!turns.volume_begins("a"));
        assert!(turns.volume_begins("b"));
        turns.volume_done();
        assert_eq!(turns.claim_done(), BTreeSet::from(["a".to_owned()]));
        assert_eq!(turns.claim_done(), BTreeSet::new());
        assert!(turns.volume_begins("a"));
    }

    #[test]
    fn a_claim_waits_for_the_write_of_its_volume_and_reads_again() {
        let turns = Turns::default();
        assert!(turns.volume_begins("a"));
        let mut claim = Box::pin(turns.claim_writes("a"));
        assert_eq!((&mut claim).now_or_never(), None);
        turns.volume_done();
        assert_eq!(claim.now_or_never(), Some(false));
    }
}
