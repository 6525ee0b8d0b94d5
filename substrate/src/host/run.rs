//! The life of a server: runtime, live world, trace, ready file, signals, end.

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use super::args::HostOptions;
use super::exit::Failure;
use super::sink::sink;
use super::{EVERY_MESSAGE, PARENT_PIPE, PROCESS_NAME, Stop, end_on_crash_fault};
use crate::clock::TimeScale;
use crate::ready;
use crate::trace::Level;
use crate::world::{Options, World};

/// Number of events that a server keeps in memory.
const KEPT_EVENTS: usize = 20_000;

type AtEnd = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Handle by which a server talks to its OS process. Cheap to clone.
#[derive(Clone)]
pub struct Host(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    ready_file: Option<PathBuf>,
    announced: bool,
    end: Option<AtEnd>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("announced", &self.state().announced).finish_non_exhaustive()
    }
}

impl Host {
    /// Removes the ready file of an earlier run, which would announce this one too early.
    fn new(ready_file: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(path) = &ready_file {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(named(path, error).into()),
                _ => {}
            }
        }
        Ok(Self(Arc::new(Mutex::new(State { ready_file, ..State::default() }))))
    }

    /// Writes the ready file, if there is to be one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn ready(&self, content: &impl Serialize) -> std::io::Result<()> {
        let mut state = self.state();
        if let Some(path) = &state.ready_file {
            ready::write(path, content).map_err(|e| named(path, e))?;
            state.announced = true;
        }
        Ok(())
    }

    /// Runs `work` once the server has been asked to end, or has failed.
    pub fn at_end(&self, work: impl Future<Output = Result<(), Failure>> + Send + 'static) {
        self.state().end = Some(Box::pin(work));
    }

    /// Removes the ready file.
    fn withdraw(&self) {
        let state = self.state();
        if let Some(path) = state.ready_file.as_ref().filter(|_| state.announced) {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

fn named(path: &Path, error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("--ready-file {}: {error}", path.display()))
}

/// Runs `main` in a live world until it returns, a signal arrives, or the starter is gone.
///
/// `main` starts its processes, calls [`Host::ready`], and returns an error if it cannot serve. Exit codes: an error of
/// `main` is printed and has its own; SIGINT gives 130, SIGTERM and the starter's end 0. The work at the end may still
/// fail, and then its code counts.
pub fn run<'a, F, E>(name: &str, options: &HostOptions, main: impl FnOnce(World, Host) -> F + 'a) -> ExitCode
where
    F: Future<Output = Result<(), E>> + 'a,
    E: Into<Failure>,
{
    // Boxed, so that the runtime is not compiled for each server.
    let main: Main<'_> = Box::new(|world, host| {
        let served = main(world, host);
        Box::pin(async move { served.await.map_err(Into::into) })
    });
    run_boxed(name, options, main)
}

type Main<'a> = Box<dyn FnOnce(World, Host) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>> + 'a>;

fn run_boxed(name: &str, options: &HostOptions, main: Main<'_>) -> ExitCode {
    let host = match Host::new(options.ready_file.clone()) {
        Ok(host) => host,
        Err(failure) => return failure.report(name),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return Failure::environment(format!("cannot start the runtime: {e}")).report(name),
    };
    let served: Pin<Box<dyn Future<Output = Result<ExitCode, Failure>> + '_>> =
        Box::pin(serve(name, options, &host, main));
    let code = runtime.block_on(served).unwrap_or_else(|failure| failure.report(name));
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    host.withdraw();
    code
}

async fn serve(name: &str, options: &HostOptions, host: &Host, main: Main<'_>) -> Result<ExitCode, Failure> {
    // Before the server can be announced as ready: an earlier signal would kill it without clean-up.
    let mut stop =
        Stop::install().map_err(|e| Failure::environment(format!("cannot install the signal handlers: {e}")))?;
    // A starter chooses what it needs; a trace file has everything.
    let every = match std::env::var_os(EVERY_MESSAGE) {
        Some(value) => value != "0",
        None => options.trace.is_some() && std::env::var_os(PARENT_PIPE).is_none(),
    };
    let level = if every { Level::Trace } else { Level::Info };
    let world = World::live(Options {
        seed: options.seed,
        scale: TimeScale::new(options.time_scale),
        level,
        watchdog: None,
        process: std::env::var(PROCESS_NAME).ok(),
        mutants: options.mutants.clone(),
        ..Options::default()
    });
    stop.obey(&world);
    world.trace().keep(KEPT_EVENTS);
    end_on_crash_fault(name, &world);
    if let Some(path) = &options.trace {
        let sink = sink(path).map_err(|e| Failure::environment(format!("--trace {}: {e}", path.display())))?;
        world.trace().write_to(sink);
    }
    let ended = tokio::select! { biased;
        result = main(world.clone(), host.clone()) => result.map(|()| ExitCode::SUCCESS),
        code = stop.wait() => Ok(code),
    };
    let end = host.state().end.take();
    let cleaned = match end {
        Some(work) => work.await,
        None => Ok(()),
    };
    // An incomplete trace is reported, but does not change the result of the run.
    if let Err(e) = world.trace().flush() {
        eprintln!("{name}: the trace is not complete: {e}");
    }
    let code = ended?;
    cleaned.map(|()| code)
}
