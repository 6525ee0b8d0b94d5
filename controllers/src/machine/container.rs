//! One start of a container, from its first writer or its program to its exit.
//!
//! A modelled container exits when it is asked to stop, when its planned end has come, or when one of its writers cannot
//! read or write its volume (code 1). A server has no planned end and stops with code 0; a command that would have ended
//! by itself does not handle SIGTERM (code 143). A program exits as it likes; it gets SIGTERM when it is asked to
//! stop. Both are killed (code 137) when the grace period of their pod is over.

use std::sync::Arc;
use std::time::Duration;

use substrate::latest;
use tokio::sync::mpsc;

use super::Machine;
use super::api::{ContainerSpec, PodSpec, VolumeUse};
use super::events::WorkloadKilled;
use super::log_file::LogFile;
use super::message;
use super::programs::{KILLED, NOT_STARTED, Printed, Programs, Started};
use super::writer::{Outcome, Records, Writer};

/// Exit code of a container whose writer failed.
const FAILED: i32 = 1;
/// Exit code of a command that SIGTERM ended: 128 + SIGTERM.
const TERMINATED: i32 = 143;

/// Signals to the containers of a running pod.
#[derive(Clone)]
pub(super) struct Signals {
    /// SIGTERM.
    stop: Arc<latest::Sender<bool>>,
    /// SIGKILL.
    kill: Arc<latest::Sender<bool>>,
    /// One copy for each running container, and one while others may be started.
    alive: mpsc::Sender<()>,
}

impl Signals {
    /// Returns signals, and a receiver that closes when the last copy of them is dropped.
    pub fn new() -> (Self, mpsc::Receiver<()>) {
        let (alive, done) = mpsc::channel(1);
        (Self { stop: Arc::new(latest::Sender::new(false)), kill: Arc::new(latest::Sender::new(false)), alive }, done)
    }

    /// Asks all containers to stop. No other container gets these signals. Returns the sender of SIGKILL.
    pub fn stop(self) -> Arc<latest::Sender<bool>> {
        self.stop.send_replace(true);
        self.kill
    }
}

/// Signals to one start of a modelled container.
pub(super) struct Own {
    /// SIGTERM.
    pub stop: latest::Sender<bool>,
    /// SIGKILL. Sent after its end, too.
    pub kill: latest::Sender<bool>,
}

/// Waits for one of two signals.
async fn either(one: &mut latest::Receiver<bool>, other: &mut latest::Receiver<bool>) {
    tokio::select! { biased;
        _ = one.wait_for(|sent| *sent) => {}
        _ = other.wait_for(|sent| *sent) => {}
    }
}

/// Starts a container of a pod. It writes to the volumes that name it.
pub(super) fn start(machine: &Arc<Machine>, spec: &Arc<PodSpec>, index: usize, log: Arc<LogFile>, signals: Signals) {
    let container = Container { machine: machine.clone(), spec: spec.clone(), index, log };
    machine.ctx.spawn(async move {
        match (&container.machine.config.programs, &container.spec().program) {
            (Some(programs), Some(_)) => container.run_program(programs, signals).await,
            _ => container.run(signals).await,
        }
    });
}

struct Container {
    machine: Arc<Machine>,
    spec: Arc<PodSpec>,
    index: usize,
    log: Arc<LogFile>,
}

impl Container {
    fn spec(&self) -> &ContainerSpec {
        &self.spec.containers[self.index]
    }

    fn print(&self, text: &str) {
        self.log.print(&self.machine.ctx, text);
    }

    /// Returns the volumes that it writes to. The first container writes to those that name no container of the pod.
    fn volumes(&self) -> impl Iterator<Item = &VolumeUse> {
        let all = &self.spec.containers;
        let index = |name: &String| all.iter().position(|one| one.name == *name);
        let first = all.iter().position(|one| !one.init).unwrap_or_default();
        let writer =
            move |volume: &&VolumeUse| volume.container.as_ref().and_then(index).unwrap_or(first) == self.index;
        self.spec.volumes.iter().filter(writer)
    }

    /// Runs its program.
    async fn run_program(&self, programs: &Arc<dyn Programs>, signals: Signals) {
        let Signals { stop, kill, alive } = signals;
        let (mut stop, mut kill) = (stop.subscribe(), kill.subscribe());
        let (uid, name) = (&self.spec.uid, &self.spec().name);
        let spec = self.spec().program.as_ref().expect("a container with a program");
        spec.without.iter().for_each(|why| self.print(&format!("(mooring: {why})")));
        let (log, ctx) = (self.log.clone(), self.machine.ctx.clone());
        let print = Arc::new(move |printed: Printed<'_>| match printed {
            Printed::Line(line) => log.print(&ctx, line),
            Printed::Rest(rest) => log.print_rest(&ctx, rest),
        });
        let (code, began) = match programs.start(uid, name, spec, print) {
            Err(why) => {
                self.print(&format!("(mooring: cannot start: {why})"));
                (i32::from(NOT_STARTED), false)
            }
            Ok(Started { program, mut exit }) => {
                self.machine.runs(uid, name, program.clone());
                let code = tokio::select! { biased;
                    code = &mut exit => code,
                    _ = stop.wait_for(|stop| *stop) => {
                        program.terminate();
                        tokio::select! { biased;
                            code = &mut exit => code,
                            _ = kill.wait_for(|kill| *kill) => {
                                program.kill();
                                exit.await
                            }
                        }
                    }
                };
                (code, true)
            }
        };
        self.log.close();
        let has_file = began && !spec.message_path.is_empty();
        let written = if has_file { programs.message(uid, name) } else { String::new() };
        let message = message::of(written, code, spec, || self.log.end(message::LINES));
        self.machine.exited(uid, name, code, message);
        drop(alive);
    }

    async fn run(&self, signals: Signals) {
        let Signals { stop, kill, alive } = signals;
        let (mut stop, mut kill) = (stop.subscribe(), kill.subscribe());
        let own = Arc::new(Own { stop: latest::Sender::new(false), kill: latest::Sender::new(false) });
        let (mut own_stop, mut own_kill) = (own.stop.subscribe(), own.kill.subscribe());
        self.machine.runs_modelled(&self.spec.uid, &self.spec().name, own.clone());
        self.print(&format!("started as a modelled workload of image {:?}", self.spec().image));
        let halt = latest::Sender::new(false);
        let (ends, mut ended) = mpsc::unbounded_channel();
        for volume in self.volumes() {
            self.write(volume, &halt, (&kill, &own_kill), ends.clone());
        }
        drop(ends);
        let asked = tokio::select! { biased;
            () = either(&mut stop, &mut own_stop) => None,
            () = failure(&mut ended) => Some(FAILED),
            code = self.planned_exit() => Some(code),
        };
        if asked.is_none() {
            self.print("asked to stop (SIGTERM)");
        }
        halt.send_replace(true);
        let finished = async {
            while ended.recv().await.is_some() {}
            if asked.is_none() && !self.machine.config.container_stop.is_zero() {
                self.machine.ctx.sleep(self.machine.config.container_stop).await;
            }
        };
        let code = tokio::select! { biased;
            () = finished => asked.unwrap_or(if self.spec().exit.is_some() { TERMINATED } else { 0 }),
            () = either(&mut kill, &mut own_kill) => KILLED,
        };
        // A killed writer closes its files before its container counts as exited.
        while ended.recv().await.is_some() {}
        match (asked, code) {
            (_, KILLED) => self.print("killed: the grace period is over"),
            (None, _) => self.print("stopped"),
            (Some(code), _) => self.print(&format!("exits with code {code}")),
        }
        self.log.close();
        self.machine.exited(&self.spec.uid, &self.spec().name, code, String::new());
        // Its grace period ends with it.
        own.kill.send_replace(true);
        drop(alive);
    }

    /// Waits for the planned end. Returns its exit code. An init container without one is done at once.
    async fn planned_exit(&self) -> i32 {
        match self.spec().exit {
            Some(exit) => {
                self.machine.ctx.sleep(Duration::from_millis(exit.after_ms)).await;
                exit.code
            }
            None if self.spec().init => 0,
            None => std::future::pending().await,
        }
    }

    /// Starts a writer.
    fn write(
        &self,
        volume: &VolumeUse,
        halt: &latest::Sender<bool>,
        (kill, own_kill): (&latest::Receiver<bool>, &latest::Receiver<bool>),
        ends: mpsc::UnboundedSender<Outcome>,
    ) {
        let records = Records::at(&volume.volume, &volume.place);
        let at = volume.at.as_deref().unwrap_or("no path");
        let how = if matches!(records, Records::Device { .. }) { "mapped as a raw device" } else { "mounted" };
        self.print(&format!("{}: volume {} is {how} at {at}", volume.name, volume.volume));
        let writer = Writer {
            machine: self.machine.clone(),
            uid: self.spec.uid.clone(),
            name: volume.name.clone(),
            log: self.log.clone(),
            pod: self.spec.pod.as_str().into(),
            volume: volume.volume.as_str().into(),
            records,
            readonly: volume.readonly,
            pace: self.spec.pace,
        };
        let (halt, mut kill, mut own_kill) = (halt.subscribe(), kill.clone(), own_kill.clone());
        let machine = self.machine.clone();
        machine.ctx.clone().spawn(async move {
            let (node, pod, volume) = writer.whose();
            let outcome = tokio::select! { biased;
                () = either(&mut kill, &mut own_kill) => {
                    machine.ctx.emit(WorkloadKilled { node, pod, volume });
                    Outcome::Stopped
                }
                outcome = writer.run(halt) => outcome,
            };
            // The container may have ended on its own.
            let _ = ends.send(outcome);
        });
    }
}

/// Waits until a writer fails.
async fn failure(ended: &mut mpsc::UnboundedReceiver<Outcome>) {
    loop {
        match ended.recv().await {
            Some(Outcome::Failed) => return,
            Some(Outcome::Stopped) => {}
            // A container without a writer, or whose writers have all stopped, goes on.
            None => std::future::pending().await,
        }
    }
}
