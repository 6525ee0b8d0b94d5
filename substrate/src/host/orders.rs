//! What the starter of a process says on its standard input.

use std::io::BufRead;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::fault::{Fault, Names, When};
use crate::world::World;

/// What whoever started this process says of faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Which processes, nodes and servers there are.
    Names(Names),
    /// A fault is in force. What cannot happen in this process is nothing to it: the starter has checked it.
    Fault(Box<Fault>),
    /// A fault is over.
    End(String),
    /// All has been said that the process has to know before it starts.
    Begin,
}

/// What the starter has said.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Where they act, once there is a world.
    world: Option<World>,
    /// Those that came before.
    waiting: Vec<Order>,
    /// [`Order::Begin`] has come, or nothing will come any more.
    pub(super) begun: bool,
    /// Who waits for that.
    pub(super) begin: Option<oneshot::Sender<()>>,
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
            (_, Order::Begin) => self.begin(),
            (Some(world), order) => carry_out(world, order),
            (None, order) => self.waiting.push(order),
        }
    }

    fn begin(&mut self) {
        self.begun = true;
        if let Some(begin) = self.begin.take() {
            // Whoever waited may have given up.
            let _ = begin.send(());
        }
    }
}

pub(super) fn lock(orders: &Mutex<Orders>) -> std::sync::MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what each line of standard input says, and ends when that does. A thread, because a read of standard input
/// cannot be cancelled and would hold up the runtime's end.
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
        lock(&orders).begin();
        drop(gone);
    });
    wait
}

fn carry_out(world: &World, order: Order) {
    match order {
        Order::Names(names) => world.faults().name(names),
        Order::Fault(fault) => {
            // Refused is what belongs to a server that this process is not, or is here already.
            let _ =
                world.faults().add(world.clock().mono(), Fault { when: When { until: None, ..fault.when }, ..*fault });
        }
        Order::End(name) => {
            world.faults().remove(&name);
        }
        Order::Begin => {}
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
        let (begun, mut begin) = oneshot::channel();
        orders.begin = Some(begun);
        orders.take(fault("early"));
        assert!(begin.try_recv().is_err());
        orders.take(Order::Begin);
        assert!(begin.try_recv().is_ok() && orders.begun);
        crate::world::simulate(Options::default(), async move |world| {
            orders.obey(&world);
            orders.take(fault("late"));
            // It is said again once the process has become ready.
            orders.take(fault("early"));
            let names = || world.faults().list().into_iter().map(|report| report.fault.name).collect::<Vec<_>>();
            assert_eq!(names(), ["early", "late"]);
            orders.take(Order::End("early".to_owned()));
            assert_eq!(names(), ["late"]);
        });
    }
}
