//! Requests to end a process: signals, and the end of its starter.

use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::orders::{Orders, lock, watch_starter};
use super::{PARENT_PIPE, exit};
use crate::world::World;

/// Handlers of SIGINT and SIGTERM in a process that has no runtime yet and starts no thread for them.
///
/// Install them before the process creates what it must remove at its end: a signal that comes before its handler kills
/// without clean-up. A signal that comes before [`Stop::of`] ends the wait of that one.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If the system refuses them.
    pub fn install() -> std::io::Result<Self> {
        // Only to register: the runtime of the wait passes the signals on.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _entered = runtime.enter();
        Self::register()
    }

    fn register() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }
}

/// The requests to end a process: SIGINT, SIGTERM, the end of its starter.
///
/// Install it before the process is announced as ready, as [`Signals`] says.
#[derive(Debug)]
pub struct Stop {
    signals: Signals,
    starter: Option<oneshot::Receiver<()>>,
    orders: Arc<Mutex<Orders>>,
}

impl Stop {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub fn install() -> std::io::Result<Self> {
        Signals::register().map(Self::of)
    }

    /// Waits for `signals`, and for the end of the starter. Call it within a runtime.
    pub fn of(signals: Signals) -> Self {
        let orders = Arc::<Mutex<Orders>>::default();
        let starter = std::env::var_os(PARENT_PIPE).map(|_| watch_starter(orders.clone()));
        Self { signals, starter, orders }
    }

    /// Carries out the starter's orders about faults in `world`, including earlier ones.
    pub fn obey(&self, world: &World) {
        lock(&self.orders).obey(world);
    }

    /// Completes when the process is asked to end, with its exit code: 130 for SIGINT, otherwise 0.
    pub async fn wait(&mut self) -> ExitCode {
        let starter_gone = async {
            match &mut self.starter {
                // The sender is dropped when the input ends; both outcomes mean the same.
                Some(gone) => drop(gone.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            _ = self.signals.interrupt.recv() => ExitCode::from(exit::INTERRUPTED),
            _ = self.signals.terminate.recv() => ExitCode::SUCCESS,
            () = starter_gone => ExitCode::SUCCESS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_before_the_runtime_ends_the_wait() {
        let signals = Signals::install().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let code = runtime.block_on(async { Stop::of(signals).wait().await });
        assert_eq!(code, ExitCode::SUCCESS);
    }
}
