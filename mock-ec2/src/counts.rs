//! Request counters: request ids, and the number of requests by action and outcome.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::Rng;
use substrate::{Seed, ids as make_id};

/// Counters outside the cloud's lock.
pub(crate) struct Counts {
    requests: AtomicU64,
    /// Start values of the two halves of request ids.
    ids: [u64; 2],
    calls: Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>,
}

impl Counts {
    /// Creates counters whose request ids follow from `seed`.
    pub(crate) fn new(seed: &Seed) -> Self {
        let mut rng = seed.child("request").rng();
        let ids = [rng.next_u64(), rng.next_u64()];
        Self { requests: AtomicU64::new(0), ids, calls: Mutex::default() }
    }

    /// Returns a new request id, unique in the run.
    pub(crate) fn request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let [high, low] = self.ids.map(|base| mixed(base.wrapping_add(number)).to_be_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low);
        make_id::uuid_of(bytes).to_string()
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts a request.
    pub(crate) fn count(&self, action: &'static str, outcome: &str) {
        let mut calls = self.calls.lock();
        let outcomes = calls.entry(action).or_default();
        match outcomes.get_mut(outcome) {
            Some(count) => *count += 1,
            None => {
                outcomes.insert(outcome.to_owned(), 1);
            }
        }
    }

    /// Returns all counts with their Prometheus labels.
    pub(crate) fn samples(&self) -> Vec<(String, u64)> {
        let calls = self.calls.lock();
        let all = calls.iter().flat_map(|(action, outcomes)| outcomes.iter().map(move |(o, n)| (action, o, n)));
        all.map(|(action, outcome, count)| (format!("action=\"{action}\",outcome=\"{outcome}\""), *count)).collect()
    }
}

/// Mixes `n` into a different number that looks random (splitmix64's finalizer).
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn request_ids_are_uuids_and_never_repeat() {
        let (counts, again) = (Counts::new(&Seed::root(1)), Counts::new(&Seed::root(1)));
        let ids: BTreeSet<String> = (0..1_000).map(|_| counts.request_id()).collect();
        assert!(ids.len() == 1_000 && ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'4'));
        assert!(ids.contains(&again.request_id()), "the same seed gives the same ids");
    }
}
