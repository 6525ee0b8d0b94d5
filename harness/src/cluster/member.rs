//! A part of a cluster that can be crashed and started again: a simulated process, an OS process, a container or a
//! program of the user.

use std::sync::Arc;

use substrate::Process;
use substrate::host::Order;

use super::compose::Container;
use super::processes::OsProcess;
use crate::program::Program;

/// One component.
#[derive(Clone)]
pub(super) enum Member {
    /// A process of the world within this OS process.
    Task(Process),
    /// An OS process of its own.
    Os(Arc<OsProcess>),
    /// A container that was started beforehand.
    Container(Arc<Container>),
    /// A program of the user.
    Program(Arc<Program>),
}

impl Member {
    /// Name of the process.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Task(process) => process.name(),
            Self::Os(process) => process.name(),
            Self::Container(container) => container.name(),
            Self::Program(program) => program.name(),
        }
    }

    /// Returns true if it runs. OS processes and containers count as running.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Task(process) => process.ctx().is_some(),
            Self::Os(_) | Self::Container(_) => true,
            Self::Program(program) => program.is_up(),
        }
    }

    /// Returns true if it is not in this OS process: an OS process of ours, or a container.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Os(_) | Self::Container(_))
    }

    /// Resets the restart backoff of a program, so that it starts at once.
    pub(super) fn forget_restarts(&self) {
        if let Self::Program(program) = self {
            program.forget_restarts();
        }
    }

    /// Sends a fault order to a process that keeps a fault book of its own.
    pub(super) async fn order(&self, order: &Order) {
        if let Self::Os(process) = self {
            process.order(order).await;
        }
    }

    /// Ends it at once.
    pub(super) async fn crash(&self) {
        match self {
            Self::Task(process) => process.crash(),
            Self::Os(process) => process.kill().await,
            Self::Container(container) => container.kill().await,
            Self::Program(program) => {
                program.crash_now();
                program.is_buried().await;
            }
        }
    }

    /// Starts it again.
    ///
    /// # Errors
    /// If an OS process or a container does not start.
    pub(super) async fn restart(&self) -> Result<(), String> {
        match self {
            Self::Task(process) => process.restart(),
            Self::Os(process) => {
                process.kill().await;
                process.start().await?;
            }
            Self::Container(container) => {
                container.kill().await;
                container.start().await?;
            }
            Self::Program(program) => program.restart(),
        }
        Ok(())
    }
}
