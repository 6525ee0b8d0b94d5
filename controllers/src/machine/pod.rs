//! Pod on a machine, from the first request to the last container's exit.

use std::sync::Arc;
use std::time::Duration;

use substrate::latest;
use substrate::seed::between;

use super::Machine;
use super::api::PodSpec;
use super::container::Signals;

/// Orders to the containers of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Time of the first request to stop.
    pub asked: Option<Duration>,
    /// Grace period from that request on. A later request may change it.
    pub grace: Duration,
}

/// Creates a pod's containers, runs them, and stops them on request.
pub(super) async fn live(machine: Arc<Machine>, spec: Arc<PodSpec>, mut orders: latest::Receiver<Orders>) {
    let begun = tokio::select! { biased;
        () = asked_to_stop(&mut orders) => false,
        () = take_time(&machine, &spec) => true,
    };
    if begun {
        let (signals, mut done) = Signals::new();
        machine.started(&spec, signals);
        asked_to_stop(&mut orders).await;
        // From now on no container is started again.
        let kill = machine.take_signals(&spec.uid).stop();
        loop {
            let Orders { asked, grace } = *orders.borrow_and_update();
            let deadline = asked.unwrap_or_default() + machine.ctx.scaled(grace);
            tokio::select! { biased;
                None = done.recv() => break,
                changed = orders.changed() => if changed.is_err() { break },
                () = machine.ctx.sleep_until(deadline) => break,
            }
        }
        kill.send_replace(true);
        while done.recv().await.is_some() {}
    }
    machine.stopped(&spec.uid);
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
