//! The log of one container, and those who wait for more of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use substrate::body::{Body, full};
use substrate::{Ctx, latest};

use super::container_log::{ContainerLog, LogOptions, LogReader};
use super::follow::follow;

/// What a container prints, and who reads along.
pub(super) struct LogFile {
    log: Mutex<ContainerLog>,
    grown: latest::Sender<()>,
}

impl LogFile {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { log: Mutex::default(), grown: latest::Sender::new(()) })
    }

    fn lock(&self) -> MutexGuard<'_, ContainerLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The container prints.
    pub fn print(&self, ctx: &Ctx, text: &str) {
        self.lock().write(ctx.now().wall, text);
        self.grown.send_replace(());
    }

    /// The container has stopped.
    pub fn close(&self) {
        self.lock().close();
        self.grown.send_replace(());
    }

    /// The log as it is, or line by line as it grows.
    pub fn read(self: &Arc<Self>, options: LogOptions) -> Body {
        // From before the first look on, so that nothing is missed between a look and the wait after it.
        let grown = self.grown.subscribe();
        let mut reader = LogReader::new(&self.lock(), &options);
        if !options.follow {
            return full(reader.read(&self.lock()).concat());
        }
        let file = self.clone();
        follow(grown, move || {
            let log = file.lock();
            (reader.read(&log), reader.is_done(&log))
        })
    }
}
