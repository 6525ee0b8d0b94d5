//! Waits for a future outside of any runtime.

use std::pin::Pin;

use tokio::runtime::Runtime;

/// Runs `work` on `runtime` until it is done.
///
/// It is boxed because both of tokio's schedulers are compiled for each type of future that they get.
pub(crate) fn block_on<T>(runtime: &Runtime, work: Pin<Box<dyn Future<Output = T> + '_>>) -> T {
    runtime.block_on(work)
}
