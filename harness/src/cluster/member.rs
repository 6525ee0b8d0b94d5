//! A part of a cluster that can be crashed and restarted: a process of the world, a container or a program of the user.

use std::sync::Arc;

use substrate::Process;

use super::compose::Container;
use crate::program::Program;

/// One component.
#[derive(Clone)]
pub(super) enum Member {
    /// A process of the world within this OS process.
    Task(Process),
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
            Self::Container(container) => container.name(),
            Self::Program(program) => program.name(),
        }
    }

    /// Returns true if it runs. Containers count as running.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Task(process) => process.ctx().is_some(),
            Self::Container(_) => true,
            Self::Program(program) => program.is_up(),
        }
    }

    /// Returns true if it is a container.
    pub(super) fn is_container(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Resets the restart backoff of a program, so that it starts at once.
    pub(super) fn forget_restarts(&self) {
        if let Self::Program(program) = self {
            program.forget_restarts();
        }
    }

    /// Ends it at once.
    pub(super) async fn crash(&self) {
        match self {
            Self::Task(process) => process.crash(),
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
    /// If a container does not start.
    pub(super) async fn restart(&self) -> Result<(), String> {
        match self {
            Self::Task(process) => process.restart(),
            Self::Container(container) => {
                container.kill().await;
                container.start().await?;
            }
            Self::Program(program) => program.restart(),
        }
        Ok(())
    }
}
