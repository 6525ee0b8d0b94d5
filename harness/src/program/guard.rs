//! The guard: a process between the runner and a user's program. It starts the program and adopts the processes that
//! the program leaves behind (`PR_SET_CHILD_SUBREAPER`). It ends all of them when the program ends, when the runner
//! orders it, and when its own input ends. The input ends even after `kill -9` of the runner.
//!
//! It reads [`TERMINATE`] on its standard input, and then sends SIGTERM or another signal to the program, as a container
//! runtime does to a container's first process. At the end of the input it sends SIGKILL to everything. It writes each [`GuardReport`]
//! as a line to its standard output. The output of the program goes to its standard error. The standard input of the
//! program is empty, or comes from a pipe. With a terminal the guard passes neither input nor output.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setsid, wait};
use serde::{Deserialize, Serialize};

use super::descend::descendants;

/// The hidden subcommand of `mooring` that runs the guard.
pub(crate) const COMMAND: &str = "program-guard";
/// The line that orders the guard to ask the program to stop.
pub(crate) const TERMINATE: &str = "terminate";

/// Maximum number of rounds that stop processes before they are killed: a process that forks all the time has new
/// children in each round.
const ROUNDS: u32 = 100;
/// Time limit for the end of everything. A process of another user can exceed it, because the guard may not end it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two rounds.
const LOOK: Duration = Duration::from_millis(5);

/// Arguments of the guard.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Named pipe that becomes the standard input of the program.
    #[arg(long, conflicts_with = "terminal")]
    stdin: Option<PathBuf>,
    /// Terminal that becomes the standard streams of the program. The program makes it its controlling terminal.
    #[arg(long)]
    terminal: Option<PathBuf>,
    /// Number of the signal that asks the program to stop.
    #[arg(long, default_value_t = Signal::TERM.as_raw())]
    stop_signal: i32,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// A message of the guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum GuardReport {
    /// The program runs.
    Started {
        /// Its process.
        pid: u32,
    },
    /// The program cannot be started.
    Failed {
        /// The system's reason.
        why: String,
    },
    /// The program has ended, and so have all processes that it had started.
    Ended {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Number of processes that it had left behind.
        left: usize,
        /// Those of them that the guard could not end.
        stay: Vec<i32>,
    },
}

enum GuardInput {
    Terminate,
    Kill,
    Ended(i32, ExitStatus),
}

/// Set in the `mooring` program, which can be the guard.
static IS_HERE: AtomicBool = AtomicBool::new(false);

/// Declares that this program has the guard's subcommand.
pub(crate) fn offer() {
    IS_HERE.store(true, Ordering::Relaxed);
}

/// Returns true if this program has the guard's subcommand.
pub(crate) fn is_here() -> bool {
    IS_HERE.load(Ordering::Relaxed)
}

/// Runs the guard.
pub(crate) fn main(args: &Args) -> ExitCode {
    // Ctrl-C in a terminal is for the runner, which ends the program in its own way. A session leader stays one.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        report(&GuardReport::Failed { why: format!("its children could not be ended: {error}") });
        return ExitCode::FAILURE;
    }
    let pid = match start(args) {
        Ok(pid) => pid,
        Err(error) => {
            report(&GuardReport::Failed { why: error.to_string() });
            return ExitCode::FAILURE;
        }
    };
    report(&GuardReport::Started { pid: pid.unsigned_abs() });
    let (input, inbox) = channel();
    let orders = input.clone();
    std::thread::spawn(move || read_orders(&orders));
    std::thread::spawn(move || ask_for_children(&input));
    watch(pid, args.stop_signal, &inbox)
}

fn start(args: &Args) -> std::io::Result<i32> {
    let [program, arguments @ ..] = &args.command[..] else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(path) = &args.terminal {
        // The guard must not take the terminal. The program leads a session, which the leader of a group cannot begin.
        let terminal = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    } else {
        let input = args.stdin.as_deref().map_or_else(|| Ok(Stdio::null()), |path| pipe(path).map(Stdio::from))?;
        let output = std::io::stderr().as_fd().try_clone_to_owned()?;
        command.stdin(input).stdout(output).stderr(Stdio::inherit()).process_group(0);
    }
    let child = command.spawn()?;
    i32::try_from(child.id()).map_err(std::io::Error::other)
}

/// Opens a named pipe to read. Does not wait for its writer, which may be gone with the runner.
fn pipe(path: &Path) -> std::io::Result<OwnedFd> {
    let pipe = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    // The program waits for its input.
    rustix::fs::fcntl_setfl(&pipe, OFlags::RDONLY)?;
    Ok(pipe)
}

fn read_orders(orders: &Sender<GuardInput>) {
    for line in std::io::stdin().lock().lines() {
        match line {
            Ok(line) if line == TERMINATE => {
                if orders.send(GuardInput::Terminate).is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    // An error means that the guard has already ended.
    let _ = orders.send(GuardInput::Kill);
}

/// Waits for each child that ends, including adopted ones, until there are no children.
fn ask_for_children(input: &Sender<GuardInput>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                if input.send(GuardInput::Ended(pid.as_raw_nonzero().get(), status)).is_err() {
                    return;
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn watch(program: i32, stop_signal: i32, inbox: &Receiver<GuardInput>) -> ExitCode {
    loop {
        match inbox.recv() {
            Ok(GuardInput::Terminate) => ask_to_stop(program, stop_signal),
            Ok(GuardInput::Kill) => {
                let Ending { program: ended, left, stay } = end_all(inbox, program);
                match ended {
                    Some(status) => report_ended(status, left.saturating_sub(1), stay),
                    // The pid may belong to another process by now, so it must not be killed.
                    None => report(&GuardReport::Ended { code: None, signal: None, left, stay }),
                }
                return ExitCode::SUCCESS;
            }
            Ok(GuardInput::Ended(pid, status)) if pid == program => {
                let Ending { left, stay, .. } = end_all(inbox, program);
                report_ended(status, left, stay);
                return ExitCode::SUCCESS;
            }
            Ok(GuardInput::Ended(..)) => {}
            // Both threads have ended, which does not happen while there are children.
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

fn report_ended(status: ExitStatus, left: usize, stay: Vec<i32>) {
    report(&GuardReport::Ended { code: status.code(), signal: status.signal(), left, stay });
}

/// Result of ending everything.
#[derive(Debug, Default)]
struct Ending {
    /// Exit status of the program, if it ended now.
    program: Option<ExitStatus>,
    /// Number of processes.
    left: usize,
    /// Those that could not be ended.
    stay: Vec<i32>,
}

/// Ends all descendants. Stops them first, so that none of them starts another process meanwhile.
fn end_all(inbox: &Receiver<GuardInput>, program: i32) -> Ending {
    let own = std::process::id().cast_signed();
    let mut all = BTreeSet::new();
    for _ in 0..ROUNDS {
        let found: Vec<i32> = descendants(own).into_iter().filter(|pid| all.insert(*pid)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            signal(pid, Signal::STOP);
        }
    }
    let mut ending = Ending { left: all.len(), ..Ending::default() };
    let looks = TIMEOUT.as_millis() / LOOK.as_millis();
    for _ in 0..looks {
        let found = descendants(own);
        ending.stay = found.iter().copied().collect();
        for pid in found {
            signal(pid, Signal::KILL);
        }
        // The thread that waits for children drops its sender when there are none.
        while let Ok(input) = inbox.recv_timeout(LOOK) {
            if let GuardInput::Ended(pid, status) = input
                && pid == program
            {
                ending.program = Some(status);
            }
        }
        if ending.stay.is_empty() {
            break;
        }
    }
    ending
}

/// Sends a signal by its number: rustix does not name the real-time signals.
#[expect(unsafe_code, reason = "kill is a foreign function")]
fn ask_to_stop(program: i32, number: i32) {
    // SAFETY: kill takes two numbers and touches no memory. The program is a child that has not been waited for, or its
    // end is the next input.
    let _ = unsafe { libc::kill(program, number) };
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have just ended; one that the guard may not end is found again.
        let _ = kill_process(pid, signal);
    }
}

/// Sends a report to the runner, which may be gone.
fn report(reported: &GuardReport) {
    let line = substrate::encode::text(reported);
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
