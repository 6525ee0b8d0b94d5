//! One program, from its start to its exit. The guard of user programs starts it and ends everything that it leaves.

use std::process::Stdio;

use controllers::machine::programs::{Exec, KILLED, NOT_STARTED, Print, Program, Session};
use futures_util::future::BoxFuture;
use substrate::{Ctx, latest};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdout, Command};

use super::session;
use super::setup::{Setup, VARIABLE};
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
}

/// Starts a program. It ends when the returned future is dropped.
///
/// # Errors
/// Errors of the operating system.
pub(super) fn start(setup: Setup, print: Print) -> std::io::Result<(Running, BoxFuture<'static, i32>)> {
    let mooring = std::env::current_exe()?;
    let mut guard = Command::new(&mooring)
        .args([guard::COMMAND, "--"])
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
        let ended = async {
            let (code, ()) = tokio::join!(exit_code(reports, &known), copy(output, &print));
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
    Ok((Running { orders, pid, setup }, exit))
}

/// Waits for the end of the program.
async fn exit_code(reports: ChildStdout, pid: &latest::Sender<Option<u32>>) -> i32 {
    let mut lines = BufReader::new(reports).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(GuardReport::Started { pid: number }) => {
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

/// Copies the output, line by line.
async fn copy(mut output: ChildStderr, print: &Print) {
    let (mut lines, mut piece) = (Lines::new(&[]), vec![0; PIECE]);
    while let Ok(count @ 1..) = output.read(&mut piece).await {
        lines.take(piece.get(..count).unwrap_or_default(), |line| print(&line));
        // The cluster's tasks share this thread.
        tokio::task::yield_now().await;
    }
    if let Some(line) = lines.end() {
        print(&line);
    }
}
