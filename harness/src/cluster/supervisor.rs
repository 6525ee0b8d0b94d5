//! Who carries out what faults say of processes and machines, `crash` and `reboot`, and what the cloud does to its
//! instances: a machine that is stopped, terminated or crashed there runs nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use substrate::fault::Effect;
use substrate::{Ctx, Event, Process, World};
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
    /// Those that the cloud has taken the power of, and how often it has done so.
    cut: Arc<Mutex<BTreeMap<String, (bool, u32)>>>,
}

/// What is to be done.
enum Order {
    Crash(String),
    Reboot(String),
    PowerOff(String),
    PowerOn(String),
}

/// What an event of the cloud means for the node that runs on the instance.
fn order(event: &Event, instances: &BTreeMap<String, String>) -> Option<Order> {
    if event.kind != "ec2.instance" {
        return None;
    }
    let node = instances.get(event.str("instance")?)?.clone();
    match event.str("state")? {
        "impaired" | "stopping" | "stopped" | "shutting-down" | "terminated" => Some(Order::PowerOff(node)),
        "running" => Some(Order::PowerOn(node)),
        "rebooted" => Some(Order::Reboot(node)),
        _ => None,
    }
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
    let parts = Parts { members, nodes: nodes.clone(), off: off.clone(), cut: Arc::default() };
    let (orders, inbox) = mpsc::unbounded_channel();
    let instances: BTreeMap<String, String> =
        nodes.iter().map(|(name, n)| (n.instance.clone(), name.clone())).collect();
    let to_cloud = orders.clone();
    world.trace().observe(move |event| {
        if let Some(order) = order(event, &instances) {
            let _ = to_cloud.send(order);
        }
    });
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
        let name = match &order {
            Order::PowerOff(node) => return self.power_off(&ctx, node).await,
            Order::PowerOn(node) => return self.power_on(&ctx, node).await,
            // What the cloud reboots comes back, however it lost its power.
            Order::Reboot(node) if self.is_cut(node) => return self.power_on(&ctx, node).await,
            Order::Crash(name) | Order::Reboot(name) => name,
        };
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

    /// The cloud takes a machine's power, until it gives it back.
    async fn power_off(&self, ctx: &Ctx, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        if !self.off.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
            return;
        }
        {
            let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
            let (is_cut, times) = cut.entry(name.to_owned()).or_default();
            (*is_cut, *times) = (true, *times + 1);
        }
        for member in node.members.iter().rev() {
            member.crash().await;
        }
        if let Err(error) = node.disk.crash().await {
            return ctx.emit("process.failed", json!({ "error": error.to_string() }));
        }
        ctx.world().trace().info(&Arc::from("cluster"), "disk.crashed", json!({ "node": name }));
    }

    /// The cloud gives a machine its power back; it boots, unless that is taken again meanwhile.
    async fn power_on(&self, ctx: &Ctx, name: &str) {
        let times = || {
            let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
            cut.get(name).filter(|(is_cut, _)| *is_cut).map(|(_, times)| *times)
        };
        let Some(before) = times() else { return };
        ctx.sleep(BOOT).await;
        // Somebody else may have started it by now.
        if times() != Some(before) || !self.is_off(name) {
            return;
        }
        if let Some((is_cut, _)) = self.cut.lock().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            *is_cut = false;
        }
        self.off.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        for member in self.nodes.get(name).iter().flat_map(|node| &node.members) {
            if let Err(error) = member.restart().await {
                ctx.emit("process.failed", json!({ "error": error }));
            }
        }
    }

    fn is_cut(&self, node: &str) -> bool {
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_off(node) && cut.get(node).is_some_and(|(is_cut, _)| *is_cut)
    }

    fn is_off(&self, node: &str) -> bool {
        self.off.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }
}
