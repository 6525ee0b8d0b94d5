//! Interface to what runs the programs of containers. Only a live machine has one. Without it each container is a
//! modelled workload.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use substrate::Ctx;
use tokio::sync::mpsc;

use super::api::ProgramSpec;

/// Exit code of a container whose program cannot be started (`StartError`).
pub const NOT_STARTED: u8 = 128;
/// Exit code of a killed container: 128 + SIGKILL.
pub const KILLED: i32 = 137;

/// Longest termination message that a program can write, in bytes (`MaxContainerTerminationMessageLength`).
pub const LONGEST_MESSAGE: u64 = 4096;

/// Receiver of the output of a program.
pub type Print = Arc<dyn Fn(Printed<'_>) + Send + Sync>;

/// Part of the output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed<'a> {
    /// A line.
    Line(&'a str),
    /// The end of its output, which does not end with a line feed.
    Rest(&'a str),
}

/// Starts the programs of containers.
pub trait Programs: Debug + Send + Sync {
    /// Starts the program of `container` of the pod `uid`. `print` gets its output.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    fn start(&self, uid: &str, container: &str, program: &ProgramSpec, print: Print) -> Result<Started, String>;

    /// Returns the last [`LONGEST_MESSAGE`] bytes of the termination message that the program of `container`, which has
    /// ended, wrote to the file of its specification.
    fn message(&self, uid: &str, container: &str) -> String;

    /// Removes the directories of a pod whose programs have ended.
    fn forget(&self, uid: &str);
}

/// Program that was started.
pub struct Started {
    /// The program.
    pub program: Arc<dyn Program>,
    /// Its exit code: 128 + n if signal n ended it. It and all its children have ended.
    pub exit: BoxFuture<'static, i32>,
}

/// Running program.
pub trait Program: Send + Sync {
    /// Sends SIGTERM to it, or the signal that its specification names.
    fn terminate(&self);

    /// Sends SIGKILL to it and to all its children.
    fn kill(&self);

    /// Starts another program in its container. It ends with process `ctx`.
    fn exec(&self, ctx: &Ctx, exec: &Exec) -> Session;

    /// Attaches a client to it. The session ends with process `ctx`, and with the program.
    fn attach(&self, ctx: &Ctx, attach: Attach) -> Session;
}

/// Program that a user starts in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// True if it gets a terminal.
    pub tty: bool,
    /// True if it gets input.
    pub stdin: bool,
}

/// Streams that a client attaches to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// True if it sends input.
    pub stdin: bool,
    /// True if it gets output.
    pub stdout: bool,
    /// True if it gets error output as a stream of its own. A terminal has none.
    pub stderr: bool,
}

/// Connection of a client with a program in a container. A program that the client has started is killed when the
/// sender of the input or the receiver of the output is dropped.
pub struct Session {
    /// Input of the program.
    pub input: mpsc::Sender<Input>,
    /// Its output, which ends with its exit or with the end of the session.
    pub output: mpsc::Receiver<Output>,
}

/// Input of a program from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes.
    Stdin(Bytes),
    /// End of the bytes.
    End,
    /// Size of its terminal.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
}

/// Output of a program for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Bytes of its output.
    Stdout(Bytes),
    /// Bytes of its error output.
    Stderr(Bytes),
    /// Its exit code.
    Exit(i32),
    /// End of the session of an attached client.
    Detached,
    /// Reason why it was not started.
    Failed(String),
}
