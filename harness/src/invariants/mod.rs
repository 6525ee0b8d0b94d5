//! What must hold in every run, whatever happens: checked after every event of the trace, in both worlds.
//!
//! | | |
//! |---|---|
//! | I1 | no volume is writable on two nodes, unless it is multi-attach, or a forced detach from the other node is on record |
//! | I2 | no detach while the volume is staged there, unless forced or out-of-service, which is recorded |
//! | I3 | publish only after stage, stage only after attached |
//! | I5 | nothing leaks: cloud volumes, attachments, finalizers, loops, mounts, directories |
//! | I6 | bytes synced before a clean unmount are readable afterwards |
//!
//! The checkers are pure: they see trace events and nothing else. `facts` keeps what several of them need; each
//! invariant has a file of its own. I5 is asked once, at quiescence, with what the harness found left over.

mod facts;
mod i1_one_writer;
mod i2_detach_after_unstage;
mod i3_order;
mod i5_nothing_leaks;
mod i6_durable_bytes;

pub use i5_nothing_leaks::Leftovers;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use substrate::Event;

use facts::Facts;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Which: `I1` … `I6`, or in words.
    pub id: &'static str,
    /// What was seen, in one sentence.
    pub message: String,
    /// When, in milliseconds since the world began.
    pub ms: u64,
    /// The ordinal of the event that showed it.
    pub n: u64,
}

/// As many violations as are kept: one bug can break an invariant at every event that follows.
const KEPT: usize = 50;

/// All invariants of a run. Feed it every event in order; it may be shared with whoever asks for violations.
#[derive(Debug, Default)]
pub struct Invariants(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    facts: Facts,
    one_writer: i1_one_writer::OneWriter,
    detach_after_unstage: i2_detach_after_unstage::DetachAfterUnstage,
    durable_bytes: i6_durable_bytes::DurableBytes,
    violations: Vec<Violation>,
    total: usize,
    last: (u64, u64),
}

impl Invariants {
    /// Invariants of a run in which nothing happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says which EC2 instance a node runs on; needed when the trace has no `cluster.node` events.
    pub fn node(&self, node: &str, instance: &str) {
        self.state().facts.add_node(node, instance);
    }

    /// Takes in the next event and checks I1, I2, I3 and I6, and that no component broke.
    pub fn observe(&self, event: &Event) {
        let state = &mut *self.state();
        state.last = (event.ms, event.n);
        state.facts.observe(event);
        let found = [
            state.one_writer.check(&state.facts, event),
            state.detach_after_unstage.check(&state.facts, event),
            i3_order::check(&state.facts, event),
            state.durable_bytes.check(event),
        ];
        for (id, message) in ["I1", "I2", "I3", "I6"].into_iter().zip(found) {
            if let Some(message) = message {
                state.add(id, message);
            }
        }
        if let Some(message) = broken(event) {
            state.add("no component breaks", message);
        }
    }

    /// Checks I5 at quiescence, with what is left over.
    pub fn at_quiescence(&self, leftovers: &Leftovers) {
        let mut state = self.state();
        for message in leftovers.sentences() {
            state.add("I5", message);
        }
    }

    /// What did not hold so far, oldest first; at most the first 50.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    /// How often an invariant did not hold, beyond what [`Invariants::violations`] keeps.
    pub fn total(&self) -> usize {
        self.state().total
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A component that panicked or could not start: a defect of ours, whatever else went well.
fn broken(event: &Event) -> Option<String> {
    let what = match &*event.kind {
        "process.panicked" => "panicked",
        "process.failed" => "failed",
        _ => return None,
    };
    Some(format!("{} {what}: {}", event.process, event.str("error").unwrap_or_default()))
}

impl State {
    fn add(&mut self, id: &'static str, message: String) {
        self.total += 1;
        if self.violations.len() < KEPT {
            let (ms, n) = self.last;
            self.violations.push(Violation { id, message, ms, n });
        }
    }
}

#[cfg(test)]
mod tests;
