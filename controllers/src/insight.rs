//! What a loop wants and what it takes for true, told to whoever asks: a debugger, a look at a moment.

use std::sync::{Mutex, PoisonError};

use substrate::process::Ctx;

use crate::events::LoopState;

/// Tells of the state of one loop whenever that has changed.
#[derive(Debug, Default)]
pub(crate) struct Insight(Mutex<Option<LoopState>>);

impl Insight {
    /// Tells of `state` if somebody hears it and it is another one than the last.
    pub(crate) fn tell(&self, ctx: &Ctx, state: impl FnOnce() -> LoopState) {
        if !ctx.trace().hears::<LoopState>() {
            return;
        }
        let now = state();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&now) {
            ctx.trace().mention(ctx.name(), || now.clone());
            *last = Some(now);
        }
    }
}
