//! Packs what only the history holds, after each load.

use std::sync::atomic::Ordering;
use std::time::Duration;

use substrate::Ctx;

use super::Apiserver;
use crate::state::Packing;

/// Time without a request after which the history is packed.
const QUIET: Duration = Duration::from_secs(2);
/// Events that are packed at a time.
const STEP: usize = 256;

impl Apiserver {
    /// Packs the history once after each load, for ever, within process `ctx`. A server whose objects have trees has no
    /// use for it.
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

    /// Packs all of the history. The lock is held for single steps only, and never while a text is compressed.
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
