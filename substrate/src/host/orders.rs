//! Orders of a process's starter on standard input.

use parking_lot::Mutex;
use std::io::BufRead;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::fault::{Fault, Names, When};
use crate::world::World;

/// An order of the starter about faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Names of processes, nodes and servers.
    Names(Names),
    /// A fault is active. A fault that cannot fire in this process is ignored; the starter has validated it.
    Fault(Box<Fault>),
    /// A fault has ended.
    End(String),
}

/// Orders so far.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// World in which they act, once there is one.
    world: Option<World>,
    /// Orders that came before that.
    waiting: Vec<Order>,
}

impl Orders {
    pub(super) fn obey(&mut self, world: &World) {
        // The first world stays; a process has one.
        if self.world.is_none() {
            self.world = Some(world.clone());
            for order in std::mem::take(&mut self.waiting) {
                carry_out(world, order);
            }
        }
    }

    fn take(&mut self, order: Order) {
        match (&self.world, order) {
            (Some(world), order) => carry_out(world, order),
            (None, order) => self.waiting.push(order),
        }
    }
}

pub(super) fn lock(orders: &Mutex<Orders>) -> parking_lot::MutexGuard<'_, Orders> {
    orders.lock()
}

/// Carries out each line of standard input, until its end. A thread, because a read of standard input cannot be
/// cancelled and would delay the end of the runtime.
pub(super) fn watch_starter(orders: Arc<Mutex<Orders>>) -> oneshot::Receiver<()> {
    let (gone, wait) = oneshot::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(order) => lock(&orders).take(order),
                Err(error) => eprintln!("an order on standard input cannot be read: {error}"),
            }
        }
        drop(gone);
    });
    wait
}

fn carry_out(world: &World, order: Order) {
    match order {
        Order::Names(names) => world.faults().name(names),
        Order::Fault(fault) => {
            // Refused if the fault belongs to another server, or is already active here.
            let _ =
                world.faults().add(world.clock().mono(), Fault { when: When { until: None, ..fault.when }, ..*fault });
        }
        Order::End(name) => {
            world.faults().remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Options;

    #[test]
    fn orders_act_in_the_world_whether_they_come_before_it_or_after() {
        let fault = |name: &str| {
            let text = format!(
                r#"{{"fault": {{"name": "{name}", "match": {{"plane": "process", "op": "start"}}, "effect": {{"count": true}}}}}}"#
            );
            serde_json::from_str::<Order>(&text).expect("an order")
        };
        let mut orders = Orders::default();
        orders.take(fault("early"));
        crate::world::simulate(Options::default(), async move |world| {
            orders.obey(&world);
            orders.take(fault("late"));
            // The starter repeats its orders once the process is ready.
            orders.take(fault("early"));
            let names = || world.faults().list().into_iter().map(|report| report.fault.name).collect::<Vec<_>>();
            assert_eq!(names(), ["early", "late"]);
            orders.take(Order::End("early".to_owned()));
            assert_eq!(names(), ["late"]);
        });
    }
}
