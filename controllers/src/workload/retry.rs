//! Retries of conflicting writes (client-go `util/retry`).

use std::time::Duration;

use substrate::process::Ctx;
use substrate::seed::between;

/// Attempts, the first wait, and the factor of the next ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    attempts: u32,
    wait_ms: u64,
    factor: u64,
}

/// Few writers of the object (`DefaultRetry`).
pub(crate) const DEFAULT_RETRY: Steps = Steps { attempts: 5, wait_ms: 10, factor: 1 };
/// Active writers of the object (`DefaultBackoff`).
pub(crate) const DEFAULT_BACKOFF: Steps = Steps { attempts: 4, wait_ms: 10, factor: 5 };

/// Attempts at one write.
pub(crate) struct Retry<'a> {
    ctx: &'a Ctx,
    steps: Steps,
    tried: u32,
    wait_ms: u64,
}

impl<'a> Retry<'a> {
    /// Begins with the first attempt.
    pub(crate) fn new(ctx: &'a Ctx, steps: Steps) -> Self {
        Self { ctx, steps, tried: 1, wait_ms: steps.wait_ms }
    }

    /// Waits, plus up to a tenth, and returns true; returns false at once if no attempt is left.
    pub(crate) async fn again(&mut self, what: &str) -> bool {
        if self.tried == self.steps.attempts {
            return false;
        }
        let jitter = between(&mut self.ctx.rng(&format!("retry of {what} {}", self.tried)), 0, self.wait_ms / 10);
        let wait = Duration::from_millis(self.wait_ms + jitter);
        self.tried += 1;
        self.wait_ms *= self.steps.factor;
        self.ctx.sleep(wait).await;
        true
    }
}
