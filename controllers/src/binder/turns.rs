//! Which of the two workers is at which volume.
//!
//! Both write the phase of a volume. Upstream, the worker of claims makes its next write as soon as the answer to the one
//! before is there, and so is ahead of the news of its own write that wake the worker of volumes. Here news may arrive
//! before the answer does: without turns the worker of claims would meet a conflict of the binder's own making in every
//! second binding, and leave the claim to the next resync.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The turns of the two workers.
#[derive(Debug, Default)]
pub struct Turns {
    held: Mutex<Held>,
    /// The worker of volumes is through with one.
    through: Notify,
}

#[derive(Debug, Default)]
struct Held {
    by_claims: Option<String>,
    by_volumes: Option<String>,
    /// Volumes that were due while the worker of claims was at them.
    postponed: BTreeSet<String>,
}

impl Turns {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker of claims wants to write the volume `name`. False when the worker of volumes was at it: then it is not
    /// any more, and what the claim needs must be looked at anew.
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

    /// The worker of claims is through with a claim. Answers the volumes that are due because of that.
    pub fn claim_done(&self) -> BTreeSet<String> {
        let mut held = self.held();
        held.by_claims = None;
        std::mem::take(&mut held.postponed)
    }

    /// Whether the worker of volumes may begin with `name`; otherwise it is due once the worker of claims is through.
    pub fn volume_begins(&self, name: &str) -> bool {
        let mut held = self.held();
        if held.by_claims.as_deref() == Some(name) {
            held.postponed.insert(name.to_owned());
            return false;
        }
        held.by_volumes = Some(name.to_owned());
        true
    }

    /// The worker of volumes is through with its volume.
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
    fn a_claim_waits_for_the_write_of_its_volume_and_looks_anew() {
        let turns = Turns::default();
        assert!(turns.volume_begins("a"));
        let mut claim = Box::pin(turns.claim_writes("a"));
        assert_eq!((&mut claim).now_or_never(), None);
        turns.volume_done();
        assert_eq!(claim.now_or_never(), Some(false));
    }
}
