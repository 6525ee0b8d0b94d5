//! Copies this process: the only caller of `fork()`.
//!
//! A simulation has one thread and does no IO, so its whole state is in the memory of its process. The copy has only
//! the thread that called fork, and locks held by other threads would never be released in it. So a process with other
//! threads is not copied.

use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Result of a fork.
#[derive(Debug)]
pub enum Side {
    /// The original process, with a handle of the copy.
    Parent(Child),
    /// The copy.
    Child,
}

/// Reason why a process is not copied.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ForkError {
    /// this process has {0} threads, and a copy would have one of them
    Threads(usize),
    /// this system cannot tell how many threads a process has
    Unknown,
    /// the process cannot be copied: {0}
    Refused(std::io::Error),
}

/// A copy. Dropping the handle before the copy has ended kills it.
#[derive(Debug)]
pub struct Child(Option<Pid>);

/// End of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Exited with this code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// Wrote nothing within the limit and was killed.
    Silent,
}

/// Checks that this process may be copied.
///
/// # Errors
/// If it has other threads, or the number of threads is unknown.
pub fn check() -> Result<(), ForkError> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|_| ForkError::Unknown)?.count();
    if threads == 1 { Ok(()) } else { Err(ForkError::Threads(threads)) }
}

/// Copies this process. The kernel kills the copy when this process ends.
///
/// # Errors
/// See [`check`], or the error of the kernel.
pub fn fork() -> Result<Side, ForkError> {
    check()?;
    // SAFETY: this process has one thread, which `check` has just counted, and only that thread could start another. So
    // no lock is held by a thread that the copy lacks, and the copy may do everything that this process may.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    match pid {
        0 => {
            #[cfg(target_os = "linux")]
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            Ok(Side::Child)
        }
        pid if pid > 0 => Ok(Side::Parent(Child(Pid::from_raw(pid)))),
        _ => Err(ForkError::Refused(std::io::Error::last_os_error())),
    }
}

impl Child {
    /// Returns the output of the copy and its end. The copy must hold the only other end of `pipe`. It is killed if it
    /// has written nothing within `limit`.
    pub fn output(mut self, mut pipe: PipeReader, limit: Duration) -> (Vec<u8>, End) {
        let timeout = Timespec::try_from(limit).ok();
        let recorded = loop {
            match poll(&mut [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)], timeout.as_ref()) {
                Ok(ready) => break ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break false,
            }
        };
        let mut bytes = Vec::new();
        if !recorded {
            self.end();
            return (bytes, End::Silent);
        }
        // Keep what arrived before the pipe broke.
        let _ = pipe.read_to_end(&mut bytes);
        (bytes, self.wait())
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> End {
        let Some(pid) = self.0.take() else { return End::Silent };
        loop {
            match waitpid(Some(pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    return match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => End::Exited(code),
                        (None, signal) => End::Killed(signal.unwrap_or_default()),
                    };
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return End::Silent,
            }
        }
    }

    fn end(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::KILL);
            self.wait();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test runs on its own thread beside the main thread of the test program.
    #[test]
    fn a_process_with_other_threads_is_not_copied() {
        assert!(matches!(check(), Err(ForkError::Threads(2..))), "{:?}", check());
        assert!(matches!(fork(), Err(ForkError::Threads(2..))));
    }
}
