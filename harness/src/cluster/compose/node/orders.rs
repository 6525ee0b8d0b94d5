//! Orders about faults, for the parts of a node.

use std::io::BufRead;

use substrate::host::Order;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::process::Running;

/// Reads orders about faults for the parts from standard input, as components do. The channel closes at end of input.
pub(super) fn listen() -> mpsc::UnboundedReceiver<Order> {
    let (orders, subscriptions) = mpsc::unbounded_channel();
    // A read of standard input cannot be cancelled and would delay the shutdown of the runtime.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(order) => {
                    if orders.send(order).is_err() {
                        break;
                    }
                }
                Err(error) => eprintln!("node: an order on standard input cannot be read: {error}"),
            }
        }
    });
    subscriptions
}

/// Orders in force, which a restarted part must receive again.
#[derive(Debug, Default)]
pub(super) struct OrdersInForce(pub(super) Vec<Order>);

impl OrdersInForce {
    pub(super) fn note(&mut self, order: Order) {
        match &order {
            Order::Names(_) => self.0.retain(|known| !matches!(known, Order::Names(_))),
            Order::End(name) => {
                self.0.retain(|known| !matches!(known, Order::Fault(fault) if fault.name == *name));
                return;
            }
            Order::Fault(_) => {
                if self.0.contains(&order) {
                    return;
                }
            }
        }
        // Names come first: faults are validated against them.
        let at = if matches!(order, Order::Names(_)) { 0 } else { self.0.len() };
        self.0.insert(at, order);
    }

    /// Sends the orders in force to a part that has just started.
    pub(super) async fn to(&self, (child, mut stdin): Running) -> Running {
        for order in &self.0 {
            send(&mut stdin, order).await;
        }
        (child, stdin)
    }
}

pub(super) async fn send(stdin: &mut Option<ChildStdin>, order: &Order) {
    let line = substrate::encode::line(order);
    if let Some(stdin) = stdin {
        // A part that has ended receives all orders again when it starts.
        let _ = stdin.write_all(&line).await;
    }
}
