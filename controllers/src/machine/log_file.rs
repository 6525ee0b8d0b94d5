//! Log of one container, with notifications for readers.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use substrate::body::{Body, full};
use substrate::{Ctx, latest};

use super::container_log::{ContainerLog, LogOptions, LogReader};
use super::follow::follow;

/// Output of a container, and its readers.
pub(super) struct LogFile {
    log: Mutex<ContainerLog>,
    grown: latest::Sender<()>,
}

impl LogFile {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { log: Mutex::default(), grown: latest::Sender::new(()) })
    }

    fn lock(&self) -> MutexGuard<'_, ContainerLog> {
        self.log.lock()
    }

    /// Appends output of the container.
    pub fn print(&self, ctx: &Ctx, text: &str) {
        self.lock().write(ctx.now().wall, text);
        self.grown.send_replace(());
    }

    /// Appends the end of the container's output, which does not end with a line feed.
    pub fn print_rest(&self, ctx: &Ctx, text: &str) {
        self.lock().write_rest(ctx.now().wall, text);
        self.grown.send_replace(());
    }

    /// Returns the last lines.
    pub fn end(&self, lines: u64) -> String {
        let log = self.lock();
        LogReader::new(&log, &LogOptions { tail: Some(lines), ..LogOptions::default() }).read(&log).concat()
    }

    /// Closes the log: the container has stopped.
    pub fn close(&self) {
        self.lock().close();
        self.grown.send_replace(());
    }

    /// Returns the current log, or a stream of its lines as it grows.
    pub fn read(self: &Arc<Self>, options: LogOptions) -> Body {
        // Subscribed before the first read, so that no line is missed.
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
