//! One program, from its start to its exit. The guard of user programs starts it and ends everything that it leaves.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;

use controllers::machine::api::ProgramSpec;
use controllers::machine::programs::{Attach, Exec, KILLED, NOT_STARTED, Print, Printed, Program, Session};
use futures_util::future::BoxFuture;
use substrate::{Ctx, latest};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdout, Command};

use super::attach::Attachable;
use super::session;
use super::setup::{Setup, VARIABLE};
use super::signal;
use super::stdin::{NewStdin, Stdin};
use crate::program::guard::{self, GuardReport};
use crate::program::lines::Lines;

/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Orders to a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    terminate: bool,
    kill: bool,
}

/// A running program.
pub(super) struct Running {
    orders: latest::Sender<Orders>,
    /// Its process, once it is known.
    pid: latest::Receiver<Option<u32>>,
    setup: Setup,
    attachable: Arc<Attachable>,
}

impl Program for Running {
    fn terminate(&self) {
        self.orders.send_modify(|orders| orders.terminate = true);
    }

    fn kill(&self) {
        self.orders.send_modify(|orders| orders.kill = true);
    }

    fn exec(&self, ctx: &Ctx, exec: &Exec) -> Session {
        session::start(ctx, self.pid.clone(), &self.setup, exec)
    }

    fn attach(&self, ctx: &Ctx, attach: Attach) -> Session {
        self.attachable.attach(ctx, self.pid.clone(), attach)
    }
}

/// Starts a program. It ends when the returned future is dropped.
///
/// # Errors
/// Errors of the operating system.
pub(super) fn start(
    setup: Setup,
    program: &ProgramSpec,
    print: Print,
) -> std::io::Result<(Running, BoxFuture<'static, i32>)> {
    let NewStdin { stdin, options, reader } = Stdin::create(program, setup.identity.user, &setup.scratch)?;
    let terminal = stdin.terminal().cloned();
    let attachable = Attachable::new(stdin);
    let mooring = std::env::current_exe()?;
    let mut guard = Command::new(&mooring)
        .arg(guard::COMMAND)
        .args(options)
        .args(signal::options(program.stop_signal.as_deref()))
        .arg("--")
        .arg(&mooring)
        .arg(super::root::COMMAND)
        .env_clear()
        .env(VARIABLE, substrate::encode::text(&setup))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (Some(mut input), Some(reports), Some(output)) = (guard.stdin.take(), guard.stdout.take(), guard.stderr.take())
    else {
        return Err(std::io::Error::other("the guard has no pipes"));
    };
    let orders = latest::Sender::new(Orders::default());
    let mut ordered = orders.subscribe();
    let known = latest::Sender::new(None);
    let pid = known.subscribe();
    let clients = attachable.clone();
    let exit = Box::pin(async move {
        let obeyed = async {
            let mut before = Orders::default();
            // The guard kills everything at the end of its input.
            while ordered.changed().await.is_ok() {
                let now = *ordered.borrow_and_update();
                if now.kill {
                    break;
                }
                if now.terminate && !before.terminate {
                    // A guard that has ended needs no order.
                    let _ = input.write_all(format!("{}\n", guard::TERMINATE).as_bytes()).await;
                }
                before = now;
            }
            drop(input);
            std::future::pending::<()>().await;
        };
        // With a terminal the program does not write to the guard's standard error.
        let from_terminal = async {
            if let Some(terminal) = terminal {
                copy(terminal, &print, &clients).await;
            }
        };
        let ended = async {
            let exit = exit_code(reports, &known, reader);
            let (code, (), ()) = tokio::join!(exit, copy(output, &print, &clients), from_terminal);
            clients.end().await;
            code
        };
        let code = tokio::select! { biased;
            code = ended => code,
            () = obeyed => KILLED,
        };
        // Its children are gone, and so is the guard.
        let _ = guard.wait().await;
        code
    });
    Ok((Running { orders, pid, setup, attachable }, exit))
}

/// Waits for the end of the program. Closes `reader` of its standard input as soon as the program has it.
async fn exit_code(reports: ChildStdout, pid: &latest::Sender<Option<u32>>, mut reader: Option<OwnedFd>) -> i32 {
    let mut lines = BufReader::new(reports).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(GuardReport::Started { pid: number }) => {
                drop(reader.take());
                pid.send_replace(Some(number));
            }
            Ok(GuardReport::Ended { code, signal, .. }) => {
                return code.or(signal.map(|signal| 128 + signal)).unwrap_or(KILLED);
            }
            Ok(GuardReport::Failed { .. }) | Err(_) => return i32::from(NOT_STARTED),
        }
    }
    KILLED
}

/// Copies the output: line by line to the log, and as it comes to the clients.
async fn copy(mut output: impl AsyncRead + Unpin, print: &Print, clients: &Attachable) {
    let (mut lines, mut piece) = (Lines::new(&[]), vec![0; PIECE]);
    while let Ok(count @ 1..) = output.read(&mut piece).await {
        let bytes = piece.get(..count).unwrap_or_default();
        lines.take(bytes, |line| print(Printed::Line(&line)));
        clients.send(bytes).await;
        // The cluster's tasks share this thread.
        tokio::task::yield_now().await;
    }
    if let Some(rest) = lines.end() {
        print(Printed::Rest(&rest));
    }
}
