//! `mooring up --detach`: starts the same command line in the background and returns once it is ready.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::day::state_directory::StateDirectory;
use crate::cli::refusal::{Refusal, lacking, late};

/// Set in the background process, which serves.
const DETACHED: &str = "MOORING_DETACHED";
/// Time limit for the background process to become ready.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// Returns true in the background process.
pub(super) fn is_background() -> bool {
    std::env::var_os(DETACHED).is_some()
}

/// Detaches from the terminal, so that its end does not end this process. Until then Ctrl-C ends both.
pub(super) fn leave() {
    // Fails if this process already leads a process group, as after an earlier call.
    let _ = rustix::process::setsid();
}

/// Starts this command line in the background and waits for its ready file. Returns its exit code if it does not become
/// ready.
///
/// # Errors
/// If it cannot be started, or if it takes too long.
pub(super) fn start(place: &StateDirectory) -> Result<Option<ExitCode>, Refusal> {
    if place.is_held() {
        // Reports the Mooring that is up. If that ends just now, it removes its directory.
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
            // Repeat its output as that of this command.
            let _ = std::io::stderr().lock().write_all(log_text(&log).as_bytes());
            forget(place);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(Some(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(3))));
        }
        if Timestamp::now().duration_since(since).unsigned_abs() > TIMEOUT {
            end(&mut child);
            return Err(late(format!("it is not ready after {TIMEOUT:?}; its output:\n{}", log_text(&log).trim_end())));
        }
        std::thread::sleep(LOOK);
    }
}

/// Content of the log, even if its file has been removed.
fn log_text(mut log: &File) -> String {
    let mut text = String::new();
    // If it cannot be read, the exit code still reports the failure.
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut text));
    text
}

/// Removes the directory of a Mooring that never started.
fn forget(place: &StateDirectory) {
    if !place.is_held() {
        // Another one may have started in it; then it is not empty and stays.
        let _ = std::fs::remove_file(place.log());
        let _ = std::fs::remove_dir(place.directory());
    }
}

fn end(child: &mut Child) {
    // It may have ended by now.
    let _ = child.kill();
    let _ = child.wait();
}
