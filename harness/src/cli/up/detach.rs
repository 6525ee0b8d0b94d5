//! `mooring up --detach`: starts the same command line in the background and ends once it is ready.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::day::place::Place;
use crate::cli::refusal::{Refusal, lacking, late};

/// Set in the process in the background: it serves.
const DETACHED: &str = "MOORING_DETACHED";
/// How long the one in the background may take to become ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// Whether this process is the one in the background.
pub(super) fn is_background() -> bool {
    std::env::var_os(DETACHED).is_some()
}

/// Leaves the terminal, so that its end is not ours. Until it is called, Ctrl-C ends both.
pub(super) fn leave() {
    // A process that leads a group of its own has left already.
    let _ = rustix::process::setsid();
}

/// Starts this command line in the background and waits until its ready file is there; gives its exit code when it does
/// not become ready.
///
/// # Errors
/// When it cannot be started, and when it takes too long.
pub(super) fn start(place: &Place) -> Result<Option<ExitCode>, Refusal> {
    if place.is_held() {
        // Says what is up; one that ends just now takes its directory with it.
        drop(place.hold()?);
    }
    place.make()?;
    let path = place.log();
    let failed = |e: std::io::Error| lacking(format!("{}: {e}", path.display()));
    let log = File::options().create(true).truncate(true).read(true).write(true).open(&path).map_err(failed)?;
    let program = std::env::current_exe().map_err(|e| lacking(format!("this program is not found: {e}")))?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(DETACHED, "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log.try_clone().map_err(failed)?)
        .spawn()
        .map_err(|e| lacking(format!("the process in the background does not start: {e}")))?;
    let since = Timestamp::now();
    loop {
        if place.ready().is_some_and(|ready| ready["pid"] == child.id()) {
            return Ok(None);
        }
        if let Ok(Some(status)) = child.try_wait() {
            // What it said is what this command says.
            let _ = std::io::stderr().lock().write_all(said(&log).as_bytes());
            forget(place);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(Some(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(3))));
        }
        if Timestamp::now().duration_since(since).unsigned_abs() > PATIENCE {
            end(&mut child);
            return Err(late(format!("it is not ready after {PATIENCE:?}; it said:\n{}", said(&log).trim_end())));
        }
        std::thread::sleep(LOOK);
    }
}

/// What is written in the log, also when its file has been removed.
fn said(mut log: &File) -> String {
    let mut text = String::new();
    // What cannot be read is not shown; the exit code says that it failed.
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut text));
    text
}

/// Removes the directory of one that never was.
fn forget(place: &Place) {
    if !place.is_held() {
        // Another one may have begun in it; then it is not empty and stays.
        let _ = std::fs::remove_file(place.log());
        let _ = std::fs::remove_dir(place.directory());
    }
}

fn end(child: &mut Child) {
    // It may have ended by now.
    let _ = child.kill();
    let _ = child.wait();
}
