//! Standard input of a container's program: empty, a named pipe, or a terminal. The guard of the program opens it by its
//! path.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use controllers::machine::api::ProgramSpec;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::terminal::Terminal;

/// Name of the pipe in the directory of its container.
const PIPE: &str = "stdin";

/// Standard input of a program.
#[derive(Debug)]
pub(super) struct Stdin {
    /// True if it takes the input of clients (`stdin`).
    pub is_open: bool,
    /// True if it ends with the first client (`stdinOnce`).
    pub is_once: bool,
    terminal: Option<Terminal>,
    /// Pipe to the program, until its end. Writers take turns.
    pipe: Mutex<Option<pipe::Sender>>,
}

/// Standard input whose program has not started yet.
#[derive(Debug)]
pub(super) struct NewStdin {
    pub stdin: Stdin,
    /// Options of the guard.
    pub options: Vec<OsString>,
    /// The reader, if it is a pipe. It must stay open until the program has one: a pipe without a reader is broken.
    pub reader: Option<OwnedFd>,
}

impl Stdin {
    /// Creates the standard input of a program of `user`, with its pipe in `directory`.
    pub fn create(program: &ProgramSpec, user: u32, directory: &Path) -> std::io::Result<NewStdin> {
        let (mut terminal, mut pipe, mut reader) = (None, None, None);
        let mut options = Vec::new();
        if program.tty {
            let (master, path) = Terminal::open(user)?;
            options = vec![OsString::from("--terminal"), path.into_os_string()];
            terminal = Some(master);
        } else if program.stdin {
            let path = create_pipe(user, directory)?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            reader = Some(rustix::fs::open(&path, flags, Mode::empty())?);
            pipe = Some(pipe::OpenOptions::new().open_sender(&path)?);
            options = vec![OsString::from("--stdin"), path.into_os_string()];
        }
        let (is_open, is_once, pipe) = (program.stdin, program.stdin_once, Mutex::new(pipe));
        Ok(NewStdin { stdin: Self { is_open, is_once, terminal, pipe }, options, reader })
    }

    /// Returns the terminal of the program, if it has one.
    pub fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// Writes to the program. Waits while the program does not read.
    ///
    /// # Errors
    /// If the input has ended, or the program has closed it.
    pub async fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(terminal) = &self.terminal {
            return terminal.write_all(bytes).await;
        }
        let mut pipe = self.pipe.lock().await;
        pipe.as_mut().ok_or(ErrorKind::BrokenPipe)?.write_all(bytes).await
    }

    /// Ends the input for good. A terminal stays open.
    pub async fn end(&self) {
        drop(self.pipe.lock().await.take());
    }
}

/// Creates a named pipe that its reader may open again as `/dev/stdin`.
fn create_pipe(user: u32, directory: &Path) -> std::io::Result<PathBuf> {
    let path = directory.join(PIPE);
    // Each start of a container has a new pipe.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    std::os::unix::fs::chown(&path, Some(user), None)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn program(stdin: bool) -> ProgramSpec {
        let text = serde_json::json!({ "command": ["cat"], "env": {}, "directory": "/", "mounts": [], "stdin": stdin });
        serde_json::from_value(text).expect("a program")
    }

    #[tokio::test]
    async fn a_pipe_carries_the_input_to_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let user = rustix::process::geteuid().as_raw();
        let created = Stdin::create(&program(true), user, directory.path());
        let NewStdin { stdin, options, reader } = created.expect("a pipe");
        assert_eq!(options, [OsString::from("--stdin"), directory.path().join(PIPE).into_os_string()]);
        stdin.write(b"one").await.expect("a reader");
        stdin.write(b"").await.expect("a reader");
        stdin.end().await;
        assert!(stdin.write(b"two").await.is_err(), "the input has ended");
        let mut text = String::new();
        File::from(reader.expect("a reader")).read_to_string(&mut text).expect("the end");
        assert_eq!(text, "one");
        // The next start of the container.
        assert!(Stdin::create(&program(true), user, directory.path()).is_ok());
        assert!(Stdin::create(&program(false), user, directory.path()).expect("nothing").options.is_empty());
    }
}
