//! `POST /v1/pods/{uid}/attach/{container}`: attaches a client to the program of a container (containerd
//! `internal/cri/server/container_attach.go`). The bodies are messages as in an exec. A client of a modelled container
//! gets the lines that it logs from then on.

use std::sync::Arc;

use http_body_util::BodyExt;
use substrate::Ctx;
use tokio::sync::mpsc;

use super::Machine;
use super::api::ContainerState;
use super::container_log::LogOptions;
use super::exec::flag;
use super::log_file::LogFile;
use super::programs::{Attach, Output, Program, Session};

/// Messages that wait in each direction between a client and a modelled container.
const WAITING: usize = 16;

/// Reads the parameters `stdin`, `stdout`, `stderr` and `tty`.
pub(super) fn parameters(query: &[(String, String)]) -> Attach {
    // kubelet leaves stderr out if the request has both (`remotecommand.NewOptions`).
    let stderr = flag(query, "stderr") && !flag(query, "tty");
    Attach { stdin: flag(query, "stdin"), stdout: flag(query, "stdout"), stderr }
}

/// Container to which a client can attach.
pub(super) enum Target {
    /// Its program.
    Program(Arc<dyn Program>),
    /// Log of a modelled container.
    Log(Arc<LogFile>),
}

impl Target {
    /// Finds a container. Waits for its program if it is about to start.
    ///
    /// # Errors
    /// The reason why a client cannot attach to it.
    pub async fn find(machine: &Machine, uid: &str, container: &str, attach: Attach) -> Result<Self, String> {
        match modelled(machine, uid, container, attach)? {
            Some(log) => Ok(Self::Log(log)),
            None => machine.started_program(uid, container).await.map(Self::Program),
        }
    }

    /// Attaches a client.
    pub fn attach(&self, ctx: &Ctx, attach: Attach) -> Session {
        match self {
            Self::Program(program) => program.attach(ctx, attach),
            Self::Log(log) => follow(ctx, log),
        }
    }
}

/// Returns the log of a running container that is modelled. None for a container with a program, and for a client with
/// input, which needs one.
fn modelled(machine: &Machine, uid: &str, container: &str, attach: Attach) -> Result<Option<Arc<LogFile>>, String> {
    let inner = machine.lock();
    let handle = inner.handles.get(uid).ok_or("the pod is not on this machine")?;
    let spec = handle.spec.containers.iter().find(|one| one.name == container);
    match &spec.ok_or("the pod has no such container")?.program {
        // `validateAttachRequest` of the CRI's streaming server. The terminal is that of the container, not of the client.
        Some(program) if program.tty && attach.stderr => {
            Err("rpc error: code = InvalidArgument desc = tty and stderr cannot both be true".to_owned())
        }
        Some(_) => Ok(None),
        None if attach.stdin => Ok(None),
        None => {
            let record = inner.pods.get(uid).and_then(|pod| pod.container(container));
            let runs = record.is_some_and(|one| matches!(one.state, ContainerState::Running { .. }));
            let logs = handle.logs.get(container).filter(|_| runs).ok_or("the container is not running")?;
            Ok(Some(logs.latest.clone()))
        }
    }
}

/// Sends the new lines of a log to a client until the container stops.
fn follow(ctx: &Ctx, log: &Arc<LogFile>) -> Session {
    let ((input, mut inputs), (outputs, output)) = (mpsc::channel(WAITING), mpsc::channel(WAITING));
    let mut lines = log.read(LogOptions { follow: true, tail: Some(0), ..LogOptions::default() });
    ctx.spawn(async move {
        let copied = async {
            while let Some(Ok(frame)) = lines.frame().await {
                let Ok(line) = frame.into_data() else { continue };
                if outputs.send(Output::Stdout(line)).await.is_err() {
                    return;
                }
            }
            // The client may have gone.
            let _ = outputs.send(Output::Detached).await;
        };
        // There is no input except sizes of a terminal. It ends with the client.
        let gone = async { while inputs.recv().await.is_some() {} };
        tokio::select! { biased;
            () = copied => {}
            () = gone => {}
        }
    });
    Session { input, output }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_a_kubelet() {
        let of = |text: &str| parameters(&super::super::query(text));
        let attach = |stdin, stdout, stderr| Attach { stdin, stdout, stderr };
        assert_eq!(of("container=app&stdin=true&stdout=true&stderr=true"), attach(true, true, true));
        assert_eq!(of("stdin=false&stdout=1"), attach(false, true, false));
        assert_eq!(of("stdout=true&stderr=true&tty=true"), attach(false, true, false));
    }
}
