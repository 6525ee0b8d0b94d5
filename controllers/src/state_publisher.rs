//! Desired and actual state of a loop, for observers such as a debugger.

use parking_lot::Mutex;

use substrate::process::Ctx;

use crate::events::LoopState;

/// Publisher of one loop's state after each change.
#[derive(Debug, Default)]
pub(crate) struct LoopStatePublisher(Mutex<Option<LoopState>>);

impl LoopStatePublisher {
    /// Emits `state` if it has an observer and differs from the last.
    pub(crate) fn publish_state(&self, ctx: &Ctx, state: impl FnOnce() -> LoopState) {
        if !ctx.trace().is_subscribed::<LoopState>() {
            return;
        }
        let now = state();
        let mut last = self.0.lock();
        if last.as_ref() != Some(&now) {
            ctx.trace().emit_lazily(ctx.name(), || now.clone());
            *last = Some(now);
        }
    }
}
