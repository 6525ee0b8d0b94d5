//! A user's program in a container: its process, its pipes or its terminal.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use controllers::machine::programs::{Exec, Input, Output, Session};
use futures_util::future::{FusedFuture, FutureExt, join};
use rustix::process::{Pid, Signal, kill_process_group};
use substrate::{Ctx, latest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::enter::{self, Entry};
use super::setup::{Setup, VARIABLE};
use super::terminal::Terminal;

/// Messages that wait in each direction.
const WAITING: usize = 64;
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;
/// Longest time from the start of a container to its program.
const BEGINNING: Duration = Duration::from_secs(60);
/// Longest silence after the end of a program whose children still have its output open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Starts a program in a container as soon as the container's own program, `pid`, runs.
pub(super) fn start(ctx: &Ctx, pid: latest::Receiver<Option<u32>>, setup: &Setup, exec: &Exec) -> Session {
    let ((input, inputs), (outputs, output)) = (mpsc::channel(WAITING), mpsc::channel(WAITING));
    let entry = Entry {
        pid: 0,
        command: exec.command.clone(),
        env: setup.env.clone(),
        directory: setup.directory.clone(),
        identity: setup.identity.clone(),
        tty: exec.tty,
    };
    let stdin = exec.stdin;
    ctx.spawn(async move {
        if let Err(error) = run(pid, entry, stdin, inputs, &outputs).await {
            // The user may have gone.
            let _ = outputs.send(Output::Failed(error.to_string())).await;
        }
    });
    Session { input, output }
}

async fn run(
    mut pid: latest::Receiver<Option<u32>>,
    mut entry: Entry,
    stdin: bool,
    inputs: mpsc::Receiver<Input>,
    outputs: &mpsc::Sender<Output>,
) -> std::io::Result<()> {
    let begun = tokio::time::timeout(BEGINNING, pid.wait_for(Option::is_some)).await;
    let begun = begun.map_err(|_| std::io::Error::other("the container does not run yet"))?;
    begun.map_err(|_| std::io::Error::other("the container has ended"))?;
    entry.pid = pid.borrow().unwrap_or_default();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(enter::COMMAND).env_clear().env(VARIABLE, substrate::encode::text(&entry)).kill_on_drop(true);
    match entry.tty {
        true => in_terminal(command, &entry, inputs, outputs).await,
        false => with_pipes(command, stdin, inputs, outputs).await,
    }
}

async fn with_pipes(
    mut command: Command,
    stdin: bool,
    mut inputs: mpsc::Receiver<Input>,
    outputs: &mpsc::Sender<Output>,
) -> std::io::Result<()> {
    let reads = if stdin { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(reads).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut writer, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(out), Some(err)) = (out, err) else { return Err(std::io::Error::other("the program has no pipes")) };
    let copies = join(copy(out, outputs, Output::Stdout), copy(err, outputs, Output::Stderr));
    let group = Group::of(&child);
    let over = tokio::select! { biased;
        status = ended(&mut child, copies.map(drop), outputs) => Some(status),
        () = feed(&mut inputs, &mut writer) => None,
        // A program that does not read its input must not outlive the user.
        () = outputs.closed() => None,
    };
    drop(group);
    report(over, outputs).await;
    Ok(())
}

/// Copies the input to the program until the session is over.
async fn feed(inputs: &mut mpsc::Receiver<Input>, writer: &mut Option<ChildStdin>) {
    while let Some(one) = inputs.recv().await {
        match (one, writer.as_mut()) {
            (Input::Stdin(bytes), Some(open)) => {
                if open.write_all(&bytes).await.is_err() {
                    // The program reads no more.
                    *writer = None;
                }
            }
            (Input::End, _) => *writer = None,
            (Input::Stdin(_), None) | (Input::Resize { .. }, _) => {}
        }
    }
}

/// Waits for the end of a program and for its output.
async fn ended(
    child: &mut Child,
    copies: impl Future<Output = ()>,
    outputs: &mpsc::Sender<Output>,
) -> std::io::Result<ExitStatus> {
    let mut copies = std::pin::pin!(copies.fuse());
    let status = loop {
        tokio::select! { biased;
            status = child.wait() => break status,
            () = &mut copies, if !copies.is_terminated() => {}
        }
    };
    if !copies.is_terminated() {
        last_output(copies, outputs).await;
    }
    status
}

/// Copies the last output of a program. A user who reads slowly gets all of it; children of the program that keep its
/// output open are waited for only [`LAST_OUTPUT`].
async fn last_output(mut copies: impl Future<Output = ()> + Unpin, outputs: &mpsc::Sender<Output>) {
    while tokio::time::timeout(LAST_OUTPUT, &mut copies).await.is_err() {
        if outputs.capacity() == outputs.max_capacity() {
            return;
        }
    }
}

/// Processes of a program, which are killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended with all its children.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reports the exit of a program, if it ended by itself.
async fn report(over: Option<std::io::Result<ExitStatus>>, outputs: &mpsc::Sender<Output>) {
    use std::os::unix::process::ExitStatusExt;
    let output = match over {
        None => return,
        Some(Ok(status)) => {
            Output::Exit(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or_default())
        }
        Some(Err(error)) => Output::Failed(error.to_string()),
    };
    // The user may have gone.
    let _ = outputs.send(output).await;
}

async fn copy(mut from: impl AsyncRead + Unpin, outputs: &mpsc::Sender<Output>, kind: fn(Bytes) -> Output) {
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        if outputs.send(kind(Bytes::copy_from_slice(&piece[..count]))).await.is_err() {
            return;
        }
    }
}

async fn in_terminal(
    mut command: Command,
    entry: &Entry,
    mut inputs: mpsc::Receiver<Input>,
    outputs: &mpsc::Sender<Output>,
) -> std::io::Result<()> {
    let (terminal, path) = Terminal::open(entry.identity.user)?;
    let side = Terminal::programs_side(&path)?;
    let mut child = command.stdin(side.try_clone()?).stdout(side.try_clone()?).stderr(Stdio::from(side)).spawn()?;
    // The command keeps a copy of the terminal, which would stay open.
    drop(command);
    let copied = copy(terminal.clone(), outputs, Output::Stdout);
    let group = Group::of(&child);
    let feed = async {
        while let Some(one) = inputs.recv().await {
            // A terminal that has closed takes no input.
            let _ = match one {
                Input::Stdin(bytes) => terminal.write_all(&bytes).await,
                // End of transmission (Ctrl-D).
                Input::End => terminal.write_all(b"\x04").await,
                Input::Resize { width, height } => {
                    terminal.resize(width, height);
                    Ok(())
                }
            };
        }
    };
    let over = tokio::select! { biased;
        status = ended(&mut child, copied, outputs) => Some(status),
        () = feed => None,
        () = outputs.closed() => None,
    };
    drop(group);
    report(over, outputs).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_who_reads_slowly_gets_all_output_and_a_child_that_keeps_it_open_is_not_waited_for() {
        let written = vec![b'a'; 3 * WAITING * PIECE];
        let (outputs, mut output) = mpsc::channel(WAITING);
        let read = async {
            let mut count = 0;
            while count < written.len() {
                tokio::time::sleep(LAST_OUTPUT * 3).await;
                match output.recv().await {
                    Some(Output::Stdout(bytes)) => count += bytes.len(),
                    other => panic!("{other:?} after {count} bytes"),
                }
            }
        };
        let copies = async {
            last_output(Box::pin(copy(&written[..], &outputs, Output::Stdout)), &outputs).await;
            // Without an end, a user who misses output would wait for ever.
            drop(outputs);
        };
        join(copies, read).await;

        let (open, _child) = tokio::io::duplex(1);
        let (outputs, _output) = mpsc::channel(WAITING);
        let begin = tokio::time::Instant::now();
        last_output(Box::pin(copy(open, &outputs, Output::Stdout)), &outputs).await;
        assert_eq!(begin.elapsed(), LAST_OUTPUT);
    }
}
