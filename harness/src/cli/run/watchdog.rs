//! Ends the process of a simulation that takes too long, and reports the current step and the last events.
//!
//! A simulation is one thread that never waits for the wall clock, so it cannot do this itself.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use substrate::Trace;

use crate::output::{self, Envelope, Exit, Format, Style};
use crate::report::Report;
use crate::runner::Outcome;
use crate::scenario::model::Scenario;

/// Watches one run.
pub(super) struct Watchdog {
    trace: Arc<OnceLock<Trace>>,
    alive: Sender<()>,
}

impl Watchdog {
    /// Sets the trace of the run.
    pub fn looks_at(&self, trace: &Trace) {
        // A run has one world.
        let _ = self.trace.set(trace.clone());
    }

    /// Stops the watchdog, because the run has ended.
    pub fn call_off(&self) {
        // It may have fired already: then the process is ending.
        let _ = self.alive.send(());
    }
}

/// Starts a watchdog that ends the process unless it is called off within `limit`.
pub(super) fn start(limit: Duration, scenario: &Scenario, format: Format) -> Watchdog {
    let (alive, done) = channel();
    let (trace, scenario) = (Arc::<OnceLock<Trace>>::default(), scenario.clone());
    let watched = trace.clone();
    std::thread::spawn(move || {
        if done.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if let Some(trace) = watched.get() {
            // Even an incomplete trace file helps.
            let _ = trace.flush();
        }
        let events = watched.get().map(Trace::events).unwrap_or_default();
        let failure = Report::of(&scenario, &Outcome::given_up(events, limit)).failure();
        let exit = output::finish(format, &Envelope::failed("run", Exit::Timeout, failure), "", Style::stderr());
        std::process::exit(exit.code().into());
    });
    Watchdog { trace, alive }
}
