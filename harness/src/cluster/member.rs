//! A part of a cluster that can be crashed and started again: a process of the world, or one of the OS.

use std::sync::Arc;

use substrate::Process;
use substrate::host::Order;

use super::compose::Container;
use super::processes::OsProcess;
use crate::program::Program;

/// One component.
#[derive(Clone)]
pub(super) enum Member {
    /// In this OS process.
    Task(Process),
    /// An OS process of its own.
    Os(Arc<OsProcess>),
    /// A container that others have started.
    Container(Arc<Container>),
    /// A program of the user's.
    Program(Arc<Program>),
}

impl Member {
    /// The process' name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Task(process) => process.name(),
            Self::Os(process) => process.name(),
            Self::Container(container) => container.name(),
            Self::Program(program) => program.name(),
        }
    }

    /// Whether it runs, as far as whoever started it knows.
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

    /// Lets its next start come at once, however often it was started again.
    pub(super) fn forget_restarts(&self) {
        if let Self::Program(program) = self {
            program.forget_restarts();
        }
    }

    /// Tells it of a fault, where it has a book of its own.
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
    /// When an OS process does not start.
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
