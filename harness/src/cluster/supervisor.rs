//! Carries out the effects `crash` and `reboot` of faults on processes and machines. Cuts and restores the power of a
//! machine whose instance stops, starts or reboots in the cloud. Restarts a process that ended because it lost its
//! lease.
//!
//! The effect `crash: node-a` ends the kubelet and the driver's node service of that node; `reboot: node-a` restarts
//! the machine.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controllers::events::LeaderLost;
use csi_disk::events::DiskCrashed;
use mock_ec2::events::{InstanceChanged, InstancePhase};
use substrate::events::{FaultFired, ProcessFailed};
use substrate::fault::{Effect, Names};
use substrate::{Ctx, Event, Process, World};
use tokio::sync::mpsc;

use super::guests::Guests;
use super::member::Member;
use super::{Cluster, Node, names};

/// Downtime of a crashed process, which is kubelet's delay for the first restart of a container.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Time that a machine takes to boot.
const BOOT: Duration = Duration::from_secs(30);

/// Processes and nodes of a cluster.
#[derive(Clone)]
struct Parts {
    /// Every process by name.
    members: BTreeMap<String, Member>,
    /// Processes that the user of the library adds.
    guests: Guests,
    names: Arc<Names>,
    nodes: BTreeMap<String, Node>,
    /// Machines and processes that a step has ended. They stay down until a step starts them.
    off: Arc<Mutex<BTreeSet<String>>>,
    /// Machines whose power the cloud has cut: whether it is cut now, and the number of cuts.
    cut: Arc<Mutex<BTreeMap<String, (bool, u32)>>>,
}

/// Action of the supervisor.
enum Order {
    /// Start these processes again; they have ended.
    Revive(Vec<String>),
    /// End these processes, which are containers or have lost their lease, and start them again.
    Replace(Vec<String>),
    Reboot(String),
    PowerOff(String),
    PowerOn(String),
}

/// Action that an event requires.
fn order(event: &Event, instances: &BTreeMap<String, String>) -> Option<Order> {
    if event.is::<LeaderLost>() {
        return Some(Order::Replace(vec![event.process.to_string()]));
    }
    let InstanceChanged { instance, state } = event.get()?;
    let node = instances.get(instance.as_str())?.clone();
    match state {
        InstancePhase::Impaired
        | InstancePhase::Stopping
        | InstancePhase::Stopped
        | InstancePhase::ShuttingDown
        | InstancePhase::Terminated => Some(Order::PowerOff(node)),
        InstancePhase::Running => Some(Order::PowerOn(node)),
        InstancePhase::Rebooted => Some(Order::Reboot(node)),
        InstancePhase::Pending => None,
    }
}

/// Starts to supervise `cluster`.
pub(super) fn start(world: &World, cluster: &Cluster) {
    let parts = Parts {
        members: cluster.all_members(),
        guests: cluster.guests.clone(),
        names: Arc::new(names::of(&cluster.spec)),
        nodes: cluster.nodes.clone(),
        off: cluster.down.clone(),
        cut: Arc::default(),
    };
    let (orders, inbox) = mpsc::unbounded_channel();
    let instances: BTreeMap<String, String> =
        cluster.nodes.iter().map(|(name, n)| (n.instance.clone(), name.clone())).collect();
    // Firings in containers arrive through the trace. The process itself has ended by then.
    let elsewhere = cluster.is_in_containers().then(|| parts.clone());
    let from_trace = orders.clone();
    world.trace().observe(move |event| {
        let fired = || match (&elsewhere, event.get()) {
            (Some(parts), Some(FaultFired { effect, .. })) => parts.suffer(&event.process, effect),
            _ => None,
        };
        if let Some(order) = order(event, &instances).or_else(fired) {
            // The supervisor lives as long as the world.
            let _ = from_trace.send(order);
        }
    });
    if !cluster.is_in_containers() {
        let at_once = parts.clone();
        world.observe_faults(move |process, firing| {
            if let Some(order) = at_once.suffer(process, &firing.effect) {
                let _ = orders.send(order);
            }
        });
    }
    let inbox = Mutex::new(Some(inbox));
    Process::start(world, "supervisor", move |ctx| {
        let (parts, inbox) = (parts.clone(), inbox.lock().take());
        async move {
            let Some(mut inbox) = inbox else { return };
            while let Some(order) = inbox.recv().await {
                ctx.spawn(parts.clone().carry_out(ctx.clone(), order));
            }
        }
    });
}

impl Parts {
    /// Carries out the effect of a fault that fires in `process`.
    fn suffer(&self, process: &str, effect: &Effect) -> Option<Order> {
        match effect {
            Effect::Crash(who) if who == "self" => Some(self.crash(&[process.to_owned()])),
            Effect::Crash(who) => Some(self.crash(&self.meant(who))),
            Effect::Reboot(node) => self.cut_power(node),
            _ => None,
        }
    }

    fn member(&self, name: &str) -> Option<Member> {
        self.members.get(name).cloned().or_else(|| self.guests.get(name))
    }

    /// Returns the processes that `crash: who` ends.
    fn meant(&self, who: &str) -> Vec<String> {
        // The machine itself keeps running.
        let guest = self.guests.get(who).map(|guest| guest.name().to_owned());
        let own = self.names.resolve(who).into_iter().filter(|process| !self.nodes.contains_key(process));
        own.chain(guest).collect()
    }

    /// Ends processes at once, inside the operation in which the fault fires, so that it does not continue.
    fn crash(&self, processes: &[String]) -> Order {
        let up = |process: &&String| !self.is_off(process);
        let processes: Vec<String> = processes.iter().filter(up).cloned().collect();
        let mut replaced = Vec::new();
        for process in &processes {
            match self.member(process) {
                Some(Member::Task(task)) => task.crash(),
                Some(Member::Program(program)) => program.crash_now(),
                Some(Member::Container(_)) => replaced.push(process.clone()),
                None => {}
            }
        }
        if replaced.is_empty() { Order::Revive(processes) } else { Order::Replace(replaced) }
    }

    /// Ends all processes of a machine at once; the disk is pulled afterwards. A machine that a step or the cloud keeps
    /// down stays so.
    fn cut_power(&self, node: &str) -> Option<Order> {
        let machine = self.nodes.get(node).filter(|_| !self.is_off(node))?;
        for member in machine.members.iter().rev() {
            if let Member::Task(task) = member {
                task.crash();
            }
        }
        Some(Order::Reboot(node.to_owned()))
    }

    async fn carry_out(self, ctx: Ctx, order: Order) {
        match order {
            Order::PowerOff(node) => self.power_off(&ctx, &node).await,
            Order::PowerOn(node) => self.power_on(&ctx, &node).await,
            // A reboot by the cloud brings the machine back, even if the cloud had cut its power.
            Order::Reboot(node) if self.is_cut(&node) => self.power_on(&ctx, &node).await,
            Order::Reboot(node) => self.reboot(&ctx, &node).await,
            Order::Revive(processes) => {
                ctx.sleep(RESTART_AFTER).await;
                self.restart(&ctx, &processes).await;
            }
            Order::Replace(processes) => {
                for process in &processes {
                    if let Some(member) = self.member(process) {
                        member.crash().await;
                    }
                }
                ctx.sleep(RESTART_AFTER).await;
                self.restart(&ctx, &processes).await;
            }
        }
    }

    /// Restarts processes that have ended, unless a step or the cloud keeps them down.
    async fn restart(&self, ctx: &Ctx, processes: &[String]) {
        for process in processes {
            let Some(member) = self.member(process).filter(|_| !self.is_off(process)) else { continue };
            // A reboot may have started it by now.
            let is_there = match &member {
                Member::Task(task) => task.ctx().is_some(),
                Member::Program(program) => program.is_wanted(),
                Member::Container(_) => false,
            };
            if is_there {
                continue;
            }
            if let Err(error) = member.restart().await {
                ctx.emit(ProcessFailed { error });
            }
        }
    }

    async fn reboot(&self, ctx: &Ctx, name: &str) {
        let Some(node) = self.nodes.get(name).filter(|_| !self.is_off(name)) else { return };
        for member in node.members.iter().rev() {
            member.crash().await;
        }
        if !self.pull(ctx, name, node).await {
            return;
        }
        ctx.sleep(BOOT).await;
        if !self.is_off(name) {
            self.start_all(ctx, node).await;
        }
    }

    /// Removes mounts, devices and unsynced writes.
    async fn pull(&self, ctx: &Ctx, name: &str, node: &Node) -> bool {
        if let Err(error) = node.disk.crash().await {
            ctx.emit(ProcessFailed { error: error.to_string() });
            return false;
        }
        ctx.world().trace().info(&Arc::from("cluster"), DiskCrashed { node: name.into() });
        true
    }

    async fn start_all(&self, ctx: &Ctx, node: &Node) {
        for member in &node.members {
            if let Err(error) = member.restart().await {
                ctx.emit(ProcessFailed { error });
            }
        }
    }

    /// Cuts the power of a machine until the cloud restores it.
    async fn power_off(&self, ctx: &Ctx, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        if !self.off.lock().insert(name.to_owned()) {
            return;
        }
        {
            let mut cut = self.cut.lock();
            let (is_cut, times) = cut.entry(name.to_owned()).or_default();
            (*is_cut, *times) = (true, *times + 1);
        }
        for member in node.members.iter().rev() {
            member.crash().await;
        }
        self.pull(ctx, name, node).await;
    }

    /// Restores the power of a machine, which boots unless the power is cut again meanwhile.
    async fn power_on(&self, ctx: &Ctx, name: &str) {
        let times = || {
            let cut = self.cut.lock();
            cut.get(name).filter(|(is_cut, _)| *is_cut).map(|(_, times)| *times)
        };
        let Some(before) = times() else { return };
        ctx.sleep(BOOT).await;
        // Another order may have started it by now.
        if times() != Some(before) || !self.is_off(name) {
            return;
        }
        if let Some((is_cut, _)) = self.cut.lock().get_mut(name) {
            *is_cut = false;
        }
        self.off.lock().remove(name);
        if let Some(node) = self.nodes.get(name) {
            self.start_all(ctx, node).await;
        }
    }

    fn is_cut(&self, node: &str) -> bool {
        let cut = self.cut.lock();
        self.is_off(node) && cut.get(node).is_some_and(|(is_cut, _)| *is_cut)
    }

    /// Returns true if a step or the cloud keeps a process or its machine down.
    fn is_off(&self, process: &str) -> bool {
        let off = self.off.lock();
        off.contains(process) || process.split_once('/').is_some_and(|(node, _)| off.contains(node))
    }
}
