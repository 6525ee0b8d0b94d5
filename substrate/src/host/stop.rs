//! Requests to end a process: signals, and the end of its starter.

use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::orders::{Orders, lock, watch_starter};
use super::{PARENT_PIPE, exit};
use crate::world::World;

/// The requests to end a process: SIGINT, SIGTERM, the end of its starter.
///
/// Install it before the process is announced as ready: a signal that comes before its handler kills without clean-up.
#[derive(Debug)]
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
    starter: Option<oneshot::Receiver<()>>,
    orders: Arc<Mutex<Orders>>,
}

impl Stop {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub fn install() -> std::io::Result<Self> {
        let orders = Arc::<Mutex<Orders>>::default();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            starter: std::env::var_os(PARENT_PIPE).map(|_| watch_starter(orders.clone())),
            orders,
        })
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
            _ = self.interrupt.recv() => ExitCode::from(exit::INTERRUPTED),
            _ = self.terminate.recv() => ExitCode::SUCCESS,
            () = starter_gone => ExitCode::SUCCESS,
        }
    }
}
