//! Who carries out what faults say of processes and machines: `crash` and `reboot`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use substrate::fault::Effect;
use substrate::{Ctx, Process, World};
use tokio::sync::mpsc;

use super::Node;
use super::member::Member;

/// How long a crashed process is down, as a container that kubelet starts again for the first time.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// How long a machine takes to come up again.
const BOOT: Duration = Duration::from_secs(30);

/// The components of a cluster, by name.
#[derive(Clone)]
struct Parts {
    members: BTreeMap<String, Vec<Member>>,
    nodes: BTreeMap<String, Node>,
    /// The nodes whose power is off; they stay off.
    off: Arc<Mutex<BTreeSet<String>>>,
}

/// What is to be done.
enum Order {
    Crash(String),
    Reboot(String),
}

/// Starts to carry out crashes and reboots in `world`, whose components share this OS process.
pub(super) fn start(
    world: &World,
    members: &BTreeMap<String, Member>,
    nodes: &BTreeMap<String, Node>,
    off: &Arc<Mutex<BTreeSet<String>>>,
) {
    let machines = nodes.iter().map(|(name, node)| (name.clone(), node.members.clone()));
    let members = members.iter().map(|(name, member)| (name.clone(), vec![member.clone()])).chain(machines).collect();
    let parts = Parts { members, nodes: nodes.clone(), off: off.clone() };
    let (orders, inbox) = mpsc::unbounded_channel();
    world.observe_faults(move |process, firing| {
        let order = match &firing.effect {
            Effect::Crash(who) if who == "self" => Order::Crash(process.to_string()),
            Effect::Crash(who) => Order::Crash(who.clone()),
            Effect::Reboot(node) => Order::Reboot(node.clone()),
            _ => return,
        };
        // The supervisor lives as long as the world.
        let _ = orders.send(order);
    });
    let inbox = Mutex::new(Some(inbox));
    Process::start(world, "supervisor", move |ctx| {
        let (parts, inbox) = (parts.clone(), inbox.lock().unwrap_or_else(PoisonError::into_inner).take());
        async move {
            let Some(mut inbox) = inbox else { return };
            while let Some(order) = inbox.recv().await {
                ctx.spawn(parts.clone().carry_out(ctx.clone(), order));
            }
        }
    });
}

impl Parts {
    async fn carry_out(self, ctx: Ctx, order: Order) {
        let (Order::Crash(name) | Order::Reboot(name)) = &order;
        let Some(members) = self.members.get(name).filter(|_| !self.is_off(name)) else { return };
        for member in members.iter().rev() {
            member.crash().await;
        }
        if let (Order::Reboot(_), Some(node)) = (&order, self.nodes.get(name)) {
            if let Err(error) = node.disk.crash().await {
                return ctx.emit("process.failed", json!({ "error": error.to_string() }));
            }
            ctx.world().trace().info(&Arc::from("cluster"), "disk.crashed", json!({ "node": name }));
            ctx.sleep(BOOT).await;
        } else {
            ctx.sleep(RESTART_AFTER).await;
        }
        if self.is_off(name) {
            return;
        }
        for member in members {
            if let Err(error) = member.restart().await {
                ctx.emit("process.failed", json!({ "error": error }));
            }
        }
    }

    fn is_off(&self, node: &str) -> bool {
        self.off.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }
}
