//! Process of a node: its start, and the files that show its state.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use substrate::host::{PARENT_PIPE, PROCESS_NAME};
use tokio::process::{Child, ChildStdin, Command};

use super::args::Args;
use super::gone;

/// Time limit for a part to become ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running part and its standard input.
pub(super) type Running = (Child, Option<ChildStdin>);

/// The component that is the node agent.
pub(super) const KUBELET: &str = "node-agent";

/// A process of the node.
#[derive(Debug)]
pub(super) struct Part {
    /// Name in traces.
    pub(super) name: String,
    pub(super) component: &'static str,
    pub(super) args: Vec<(&'static str, String)>,
    pub(super) ready: PathBuf,
    /// If this file exists, the part must be down.
    pub(super) stop: PathBuf,
}

impl Part {
    /// Starts it and waits until it is ready. The process ends when its standard input closes, so the caller must keep
    /// it open (waiting on the child would close it).
    pub(super) async fn start(&self, node: &Args, address: IpAddr) -> Result<Running, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", self.name);
        gone(&self.ready)?;
        let mut command = Command::new(std::env::current_exe().map_err(|e| failed(&e))?);
        command.args(["component", self.component]);
        for (flag, value) in &self.args {
            command.arg(flag);
            if !value.is_empty() {
                command.arg(value);
            }
        }
        if self.component == KUBELET {
            command.args(["--node-ip", &address.to_string()]);
        }
        if node.trace {
            command.args(["--trace", "-"]);
        }
        command.args(["--seed", &node.seed.to_string(), "--time-scale", &node.time_scale.to_string()]);
        command.arg("--ready-file").arg(&self.ready);
        // The process ends with its standard input, even after `kill -9` of this one.
        command.env(PARENT_PIPE, "end").env(PROCESS_NAME, &self.name).stdin(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let stdin = child.stdin.take();
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            if self.ready.exists() {
                return Ok((child, stdin));
            }
            if let Some(status) = child.try_wait().map_err(|e| failed(&e))? {
                return Err(failed(&format!("ended with {status} while it started")));
            }
            tokio::time::sleep(step).await;
        }
        Err(failed(&format!("was not ready within {START_LIMIT:?}")))
    }
}
