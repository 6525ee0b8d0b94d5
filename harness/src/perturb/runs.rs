//! Several parallel runs, each on its own thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use substrate::host::{Signals, Stop};
use substrate::latest;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Carries out runs until the user interrupts them.
pub(crate) struct Runs {
    runtime: Runtime,
    stop: Stop,
    halt: latest::Sender<bool>,
}

impl Runs {
    /// Gets ready.
    ///
    /// # Errors
    /// If the runtime does not start.
    pub fn new(signals: Signals) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("the runtime does not start: {e}"))?;
        let stop = runtime.block_on(async { Stop::of(signals) });
        Ok(Self { runtime, stop, halt: latest::Sender::new(false) })
    }

    /// Returns true if the user has interrupted the runs.
    pub fn is_halted(&self) -> bool {
        *self.halt.borrow()
    }

    /// Carries out `count` runs, `jobs` in parallel. `on_result` gets the result of each, and returns false if no more
    /// runs are needed.
    pub fn all<T: Send>(
        &mut self,
        jobs: usize,
        count: usize,
        run: impl Fn(usize, latest::Receiver<bool>) -> T + Sync,
        mut on_result: impl FnMut(usize, T) -> bool,
    ) {
        let (next, enough, run) = (AtomicUsize::new(0), AtomicBool::new(false), &run);
        let (results, mut inbox) = mpsc::unbounded_channel();
        let Self { runtime, stop, halt } = self;
        let halt = &*halt;
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, count.max(1)) {
                let (results, next, enough) = (results.clone(), &next, &enough);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= count || *halt.borrow() || enough.load(Ordering::Relaxed) {
                            return;
                        }
                        if results.send((at, run(at, halt.subscribe()))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(results);
            crate::block_on(
                runtime,
                Box::pin(async {
                    loop {
                        tokio::select! { biased;
                            result = inbox.recv() => match result {
                                Some((at, result)) => {
                                    if !on_result(at, result) {
                                        enough.store(true, Ordering::Relaxed);
                                    }
                                }
                                None => return,
                            },
                            _ = stop.wait(), if !*halt.borrow() => {
                                halt.send_replace(true);
                            }
                        }
                    }
                }),
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_run_is_done_and_reported_once() {
        let mut runs = Runs::new(Signals::install().unwrap()).unwrap();
        let mut on_result = BTreeSet::new();
        runs.all(3, 50, |at, _| at * 2, |at, result| on_result.insert(at) && result == at * 2);
        assert_eq!(on_result.len(), 50);
        // No run starts before the result of the previous one was reported.
        let few = AtomicUsize::new(0);
        let waits = |at: usize, _: latest::Receiver<bool>| {
            while few.load(Ordering::Relaxed) < at {
                std::thread::yield_now();
            }
        };
        runs.all(1, 50, waits, |_, ()| {
            few.fetch_add(1, Ordering::Relaxed);
            false
        });
        assert!(few.into_inner() < 50, "the rest is left");
        runs.all(2, 0, |_, _| (), |_, ()| panic!("there is none"));
        assert!(!runs.is_halted());
    }
}
