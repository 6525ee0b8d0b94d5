//! Random seeds for many runs, and parallel runs.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns `count` pseudo-random seeds, derived from `from` (splitmix64).
pub fn random(count: usize, from: u64) -> Vec<u64> {
    let mut state = from;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Returns the default number of jobs: one per processor.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on every item, `jobs` at a time; the results are in the order of the items.
///
/// # Errors
/// The error of the first item that fails.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, anyhow::Error> + Sync,
) -> Result<Vec<R>, anyhow::Error> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    thread::scope(|threads| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            threads.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = work(item);
                    if result.is_err() {
                        // The remaining results are not needed.
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    done.lock().push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn random_seeds_follow_from_where_they_begin_and_differ() {
        let (one, other) = (random(100, 1), random(100, 2));
        assert_eq!((one.len(), &one[..50]), (100, &random(50, 1)[..]));
        let all: std::collections::BTreeSet<u64> = one.iter().chain(&other).copied().collect();
        assert_eq!(all.len(), 200);
    }

    #[test]
    fn results_keep_the_order_and_the_first_error_is_returned() {
        let items: Vec<u64> = (0..50).collect();
        assert_eq!(each(&items, 4, |i| Ok(i * 2)).unwrap(), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        let error = each(&items, 1, |i| if *i >= 7 { bail!("no {i}") } else { Ok(()) }).unwrap_err();
        assert_eq!(error.to_string(), "no 7");
        assert!(each(&[] as &[u64], 4, |_| Ok(())).unwrap().is_empty());
    }
}
