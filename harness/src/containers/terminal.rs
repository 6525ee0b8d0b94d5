//! Terminal of a program. Its reader and its writers do not block a thread.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// Master side of a pseudoterminal. It closes with its last clone.
#[derive(Clone, Debug)]
pub(super) struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    /// Creates a terminal for programs of `user`. Returns it and the path of their side.
    pub fn open(user: u32) -> std::io::Result<(Self, PathBuf)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        std::os::unix::fs::chown(&path, Some(user), None)?;
        rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        Ok((Self(Arc::new(registered(master)?)), path))
    }

    /// Opens the side of the programs.
    pub fn programs_side(path: &Path) -> std::io::Result<OwnedFd> {
        Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Writes input for the programs. Waits while the terminal is full.
    pub async fn write_all(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let written = self.0.async_io(Interest::WRITABLE, |master| {
                retry_on_intr(|| rustix::io::write(master, bytes)).map_err(std::io::Error::from)
            });
            let count = written.await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sets the size in columns and rows.
    pub fn resize(&self, width: u16, height: u16) {
        let size = Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal that has closed has no size.
        let _ = tcsetwinsize(self.0.get_ref(), size);
    }
}

/// Registers a descriptor with the runtime.
#[expect(unsafe_code, reason = "tokio cannot check that a descriptor stays open as long as it is registered")]
fn registered(master: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the result owns the descriptor, and gives only references to it.
    Ok(unsafe { AsyncFd::register(master) }?)
}

/// Reads the output of the programs. An error means that all of them have closed their side.
impl AsyncRead for Terminal {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        loop {
            let mut readable = ready!(self.0.poll_read_ready(cx))?;
            let free = buffer.initialize_unfilled();
            let read = readable.try_io(|master| {
                retry_on_intr(|| rustix::io::read(master.get_ref(), &mut *free)).map_err(std::io::Error::from)
            });
            match read {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                // It is not readable any more.
                Err(_) => {}
            }
        }
    }
}
