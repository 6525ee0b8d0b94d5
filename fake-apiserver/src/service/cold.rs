//! Compression of objects that only the history holds, after each load.

use std::sync::atomic::Ordering;
use std::time::Duration;

use substrate::Ctx;

use super::Apiserver;
use crate::state::Packing;

/// Time without a request after which the history is packed.
const QUIET: Duration = Duration::from_secs(2);
/// Number of events that are packed at a time.
const STEP: usize = 256;

impl Apiserver {
    /// Packs the history after each load, forever, within process `ctx`. Useful only if objects are kept without their
    /// trees.
    pub async fn pack_history(self, ctx: Ctx) {
        let (mut known, mut packed) = (0, 0);
        loop {
            tokio::time::sleep(QUIET).await;
            let seen = self.0.requests.load(Ordering::Relaxed);
            if seen == known && seen != packed {
                packed = seen;
                let server = self.clone();
                ctx.blocking(move || server.pack_once()).await;
            }
            known = seen;
        }
    }

    /// Packs the whole history. Holds the lock for single steps only, and never while it compresses.
    fn pack_once(&self) {
        let mut pass = Packing::default();
        loop {
            let events = self.0.lock().store.unpacked(&mut pass, STEP);
            if events.is_empty() {
                break;
            }
            let events = pass.pack(events);
            self.0.lock().store.repack(&mut pass, events);
        }
        self.0.packed.fetch_add(pass.packed(), Ordering::Relaxed);
    }
}
