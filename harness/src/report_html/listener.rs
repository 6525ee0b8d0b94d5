//! Hears a world from its first event on, also what its trace does not keep.

use std::sync::{Arc, Mutex, PoisonError};

use substrate::json::Map;
use substrate::{Event, EventKind, Trace};

use super::facts::{Facts, Role};

/// One thing that happened, for a report.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub ms: u64,
    /// Its number in the trace. What the trace does not keep has that of the event before it.
    pub n: u64,
    /// Whether the trace keeps it.
    pub kept: bool,
    pub process: Arc<str>,
    pub kind: &'static str,
    pub fields: Map,
    pub facts: Facts,
}

/// Whoever wants a report of a run attaches one to its trace before anything happens, and asks it afterwards.
#[derive(Clone, Debug, Default)]
pub struct Listener(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    last: u64,
    all: Vec<Told>,
}

/// Kinds that only observers hear who ask for them, and that say why something else happened.
const ASKED: [&str; 6] =
    ["csi.asked", "csi.answered", "ec2.answered", "ec2.retry", "plug.disconnected", "pod-gc.deleted"];

/// As many events as are remembered; a run that has more is told from its beginning.
const MOST: usize = 200_000;

impl Listener {
    /// Hears `trace` from now on, and what it has kept until now.
    pub fn attach(&self, trace: &Trace) {
        let failures = crate::events::all().into_iter().map(|EventKind { kind, .. }| kind);
        for kind in failures.filter(|kind| kind.ends_with(".error")).chain(ASKED) {
            trace.hear(kind);
        }
        let heard = self.0.clone();
        trace.observe(move |event| heard.lock().unwrap_or_else(PoisonError::into_inner).take(event));
    }

    /// All that was heard, in order.
    pub(super) fn told(&self) -> Vec<Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }
}

impl Heard {
    fn take(&mut self, event: &Event) {
        let kept = event.n > self.last;
        self.last = event.n;
        let facts = Facts::of(event);
        // Streams and messages are many and say little.
        if self.all.len() >= MOST || facts.role == Role::Traffic {
            return;
        }
        let line = event.line();
        let fields: Map = line.fields.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let process = event.process.clone();
        self.all.push(Told { ms: event.ms, n: event.n, kept, process, kind: event.kind(), fields, facts });
    }
}
