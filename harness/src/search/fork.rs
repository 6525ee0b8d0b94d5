//! A copy of this process, from now on: the one door to `fork()`.
//!
//! A simulation is one thread and does no IO, so all that it is lies in the memory of its process. The copy has one
//! thread, the one that asked; what others held it would wait for for ever. So a process that has others is not copied.

use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Which of the two a process is.
#[derive(Debug)]
pub enum Side {
    /// The one that asked, and the other.
    Parent(Child),
    /// The copy.
    Child,
}

/// Why a process is not copied.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ForkError {
    /// this process has {0} threads, and a copy would have one of them
    Threads(usize),
    /// this system cannot tell how many threads a process has
    Unknown,
    /// the process cannot be copied: {0}
    Refused(std::io::Error),
}

/// A copy. Dropped before it has ended, it is ended.
#[derive(Debug)]
pub struct Child(Option<Pid>);

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// It said nothing for too long, and was ended.
    Silent,
}

/// Looks whether this process may be copied.
///
/// # Errors
/// That it has other threads, or that nobody knows.
pub fn check() -> Result<(), ForkError> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|_| ForkError::Unknown)?.count();
    if threads == 1 { Ok(()) } else { Err(ForkError::Threads(threads)) }
}

/// Copies this process. The copy ends when this one does.
///
/// # Errors
/// See [`check`], or what the kernel says.
pub fn fork() -> Result<Side, ForkError> {
    check()?;
    // SAFETY: this process has one thread, which `check` has just counted, and only a thread of it could start another.
    // So no lock is held by a thread that the copy lacks, and the copy may do whatever this process may.
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
    /// What it writes into `pipe`, whose other end it alone holds, and how it ends; it is ended when it has written
    /// nothing for `limit`.
    pub fn output(mut self, mut pipe: PipeReader, limit: Duration) -> (Vec<u8>, End) {
        let timeout = Timespec::try_from(limit).ok();
        let heard = loop {
            match poll(&mut [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)], timeout.as_ref()) {
                Ok(ready) => break ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break false,
            }
        };
        let mut bytes = Vec::new();
        if !heard {
            self.end();
            return (bytes, End::Silent);
        }
        // What came until the pipe broke is what there is.
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

    /// A test runs on a thread of its own beside that of the test program.
    #[test]
    fn a_process_with_other_threads_is_not_copied() {
        assert!(matches!(check(), Err(ForkError::Threads(2..))), "{:?}", check());
        assert!(matches!(fork(), Err(ForkError::Threads(2..))));
    }
}
