//! Sends orders to the processes in a container: on their standard input, through `docker attach`, and again after each
//! restart of the container.

use parking_lot::{Mutex, MutexGuard};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use substrate::World;
use substrate::fault::{Fault, Names};
use substrate::host::Order;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

/// Time allowed for docker to deliver an order.
const PASSED_ON: Duration = Duration::from_millis(500);
/// Delay before the next attempt to attach to a container that does not run.
const LOOK: Duration = Duration::from_millis(200);

/// Sends the names and faults that hold in a container.
#[derive(Debug)]
pub(super) struct FaultChannel {
    in_force: Arc<Mutex<NamesAndFaults>>,
    news: mpsc::UnboundedSender<Order>,
}

#[derive(Debug, Default)]
struct NamesAndFaults {
    names: Names,
    faults: IndexMap<String, Fault>,
}

impl NamesAndFaults {
    /// Records an order.
    fn note(&mut self, order: &Order) {
        match order {
            Order::Names(names) => self.names = names.clone(),
            Order::Fault(fault) => drop(self.faults.insert(fault.name.clone(), Fault::clone(fault))),
            Order::End(name) => drop(self.faults.shift_remove(name)),
        }
    }

    /// Orders for a process that has just started.
    fn brief(&self) -> Vec<Order> {
        let faults = self.faults.values().map(|fault| Order::Fault(Box::new(fault.clone())));
        std::iter::once(Order::Names(self.names.clone())).chain(faults).collect()
    }
}

impl FaultChannel {
    /// Starts a task that sends orders to the processes in container `id` of `service`.
    pub fn start(world: &World, service: &str, id: &str, names: Names) -> Self {
        let in_force = Arc::new(Mutex::new(NamesAndFaults { names, ..NamesAndFaults::default() }));
        let (news, orders) = mpsc::unbounded_channel();
        let (id, what) = (id.to_owned(), in_force.clone());
        let speaker = substrate::Process::start(world, &format!("orders of {service}"), |_| std::future::pending());
        if let Some(ctx) = speaker.ctx() {
            ctx.spawn(async move {
                // Keeps the process handle alive while there can be orders.
                let _speaker = speaker;
                speak(&id, &what, orders).await;
            });
        }
        Self { in_force, news }
    }

    /// Sends the processes a fault, or the end of one.
    pub async fn order(&self, order: Order) {
        lock(&self.in_force).note(&order);
        // The receiving task lives as long as the sender.
        let _ = self.news.send(order);
        tokio::time::sleep(PASSED_ON).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Sends all orders, in each life of the container, until the channel closes.
async fn speak(id: &str, in_force: &Mutex<NamesAndFaults>, mut orders: mpsc::UnboundedReceiver<Order>) {
    loop {
        if let Some((mut child, mut stdin)) = attach(id) {
            // Orders that arrive from here on are sent twice at most, and a component refuses a fault that it already
            // has.
            let brief = lock(in_force).brief();
            for order in &brief {
                send(&mut stdin, order).await;
            }
            loop {
                tokio::select! { biased;
                    _ = child.wait() => break,
                    order = orders.recv() => match order {
                        Some(order) => send(&mut stdin, &order).await,
                        None => return,
                    },
                }
            }
        }
        if orders.is_closed() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Attaches to the standard input of a container. It stays open when this client detaches, because compose.yaml starts
/// the container with `stdin_open`.
fn attach(id: &str) -> Option<(Child, ChildStdin)> {
    let mut command = Command::new("docker");
    command.args(["attach", "--sig-proxy=false", id]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let stdin = child.stdin.take()?;
    Some((child, stdin))
}

async fn send(stdin: &mut ChildStdin, order: &Order) {
    let line = substrate::encode::line(order);
    // A container that has ended receives all orders again when it runs.
    let _ = stdin.write_all(&line).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_process_gets_only_faults_in_force() {
        let fault = |name: &str| {
            let text = format!(
                r#"{{"name": "{name}", "match": {{"plane": "link"}}, "effect": {{"partition_one_way": ["a", "b"]}}}}"#
            );
            Box::new(serde_json::from_str::<Fault>(&text).unwrap())
        };
        let mut in_force = NamesAndFaults::default();
        for order in [Order::Fault(fault("over")), Order::Fault(fault("holds")), Order::End("over".to_owned())] {
            in_force.note(&order);
        }
        assert_eq!(in_force.brief(), [Order::Names(Names::default()), Order::Fault(fault("holds"))]);
    }
}
