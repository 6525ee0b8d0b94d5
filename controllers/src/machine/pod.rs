//! Containers of one pod, from the first request to the last writer's end.

use std::sync::Arc;
use std::time::Duration;

use substrate::latest;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::Machine;
use super::api::PodSpec;
use super::events::WorkloadKilled;
use super::log_file::LogFile;
use super::writer::{Records, Writer};

/// Orders to the containers of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Time of the first request to stop.
    pub asked: Option<Duration>,
    /// Grace period from that request on. A later request may change it.
    pub grace: Duration,
}

/// Creates a pod's containers, runs them, and stops them on request.
pub(super) async fn live(
    machine: Arc<Machine>,
    spec: PodSpec,
    logs: Vec<Arc<LogFile>>,
    mut orders: latest::Receiver<Orders>,
) {
    let begun = tokio::select! { biased;
        () = asked_to_stop(&mut orders) => false,
        () = take_time(&machine, &spec) => true,
    };
    let mut killed = false;
    if begun {
        let running = begin(&machine, &spec, &logs);
        machine.started(&spec.uid);
        asked_to_stop(&mut orders).await;
        killed = end(&machine, running, &logs, &mut orders).await;
    }
    for log in &logs {
        log.close();
    }
    machine.stopped(&spec.uid, killed);
}

async fn asked_to_stop(orders: &mut latest::Receiver<Orders>) {
    // The sender lives in the table as long as the containers.
    let _ = orders.wait_for(|orders| orders.asked.is_some()).await;
}

/// Waits for the time from a request to running containers.
async fn take_time(machine: &Machine, spec: &PodSpec) {
    let (least, most) = machine.config.container_start;
    let mut rng = machine.ctx.rng(&format!("pod {} {}", spec.uid, spec.attempt));
    let ms = between(&mut rng, least.as_millis() as u64, most.as_millis() as u64);
    if ms > 0 {
        machine.ctx.sleep(Duration::from_millis(ms)).await;
    }
}

/// Running containers.
struct Running {
    stop: latest::Sender<bool>,
    kill: latest::Sender<bool>,
    /// Closes when the last writer has ended.
    done: mpsc::Receiver<()>,
}

/// Starts a writer for each volume.
fn begin(machine: &Arc<Machine>, spec: &PodSpec, logs: &[Arc<LogFile>]) -> Running {
    for (container, log) in spec.containers.iter().zip(logs) {
        log.print(&machine.ctx, &format!("started as a modelled workload of image {:?}", container.image));
    }
    let (stop, kill) = (latest::Sender::new(false), latest::Sender::new(false));
    let (alive, done) = mpsc::channel(1);
    let pod: Arc<str> = spec.pod.as_str().into();
    for use_ in &spec.volumes {
        let named = |name: &String| spec.containers.iter().position(|c| c.name == *name);
        let log = logs.get(use_.container.as_ref().and_then(named).unwrap_or_default()).cloned();
        let records = Records::at(&use_.volume, &use_.place);
        if let Some(log) = &log {
            let (volume, at) = (&use_.volume, use_.at.as_deref().unwrap_or("no path"));
            let raw = matches!(records, Records::Device { .. });
            let how = if raw { "mapped as a raw device" } else { "mounted" };
            log.print(&machine.ctx, &format!("{}: volume {volume} is {how} at {at}", use_.name));
        }
        let writer = Writer {
            machine: machine.clone(),
            uid: spec.uid.clone(),
            name: use_.name.clone(),
            log,
            pod: pod.clone(),
            volume: use_.volume.as_str().into(),
            records,
            readonly: use_.readonly,
            pace: spec.pace,
        };
        let (stop, mut kill, alive) = (stop.subscribe(), kill.subscribe(), alive.clone());
        let machine = machine.clone();
        machine.ctx.clone().spawn(async move {
            let (node, pod, volume) = writer.whose();
            tokio::select! { biased;
                _ = kill.wait_for(|kill| *kill) => machine.ctx.emit(WorkloadKilled { node, pod, volume }),
                () = writer.run(stop) => {}
            }
            drop(alive);
        });
    }
    Running { stop, kill, done }
}

/// Stops containers: SIGTERM, then SIGKILL after the grace period. Returns true if they were killed.
async fn end(
    machine: &Machine,
    mut running: Running,
    logs: &[Arc<LogFile>],
    orders: &mut latest::Receiver<Orders>,
) -> bool {
    let print = |text: &str| logs.iter().for_each(|log| log.print(&machine.ctx, text));
    print("asked to stop (SIGTERM)");
    running.stop.send_replace(true);
    let done = &mut running.done;
    let mut finished = Box::pin(async {
        while done.recv().await.is_some() {}
        if !machine.config.container_stop.is_zero() {
            machine.ctx.sleep(machine.config.container_stop).await;
        }
    });
    let (killed, how) = loop {
        let Orders { asked, grace } = *orders.borrow_and_update();
        let deadline = asked.unwrap_or_default() + machine.ctx.scaled(grace);
        tokio::select! { biased;
            () = &mut finished => break (false, "stopped"),
            changed = orders.changed() => if changed.is_err() { break (true, "killed") },
            () = machine.ctx.sleep_until(deadline) => break (true, "killed: the grace period is over"),
        }
    };
    drop(finished);
    running.kill.send_replace(true);
    // A killed writer closes its files before the pod counts as stopped.
    while running.done.recv().await.is_some() {}
    print(how);
    killed
}
