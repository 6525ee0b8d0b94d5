//! Waits for a future outside of any runtime.

use std::pin::Pin;

use tokio::runtime::Runtime;

/// Runs `work` on `runtime` until it is done.
///
/// It is boxed because tokio compiles both of its schedulers for each type of future.
pub(crate) fn block_on<T>(runtime: &Runtime, work: Pin<Box<dyn Future<Output = T> + '_>>) -> T {
    runtime.block_on(work)
}
