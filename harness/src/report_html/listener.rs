//! Records the events of a world from the first one on, including those that its trace does not keep.

use parking_lot::Mutex;
use std::sync::Arc;

use substrate::json::Map;
use substrate::{Event, EventKind, Trace};

use super::facts::{Facts, Role};

/// An event, for a report.
#[derive(Clone, Debug)]
pub(super) struct RecordedEvent {
    pub ms: u64,
    /// Ordinal in the trace. An event that the trace does not keep has that of the previous one.
    pub n: u64,
    /// True if the trace keeps it.
    pub kept: bool,
    pub process: Arc<str>,
    pub kind: &'static str,
    pub fields: Map,
    pub facts: Facts,
}

/// Recorder of a run for a report. Attach it to the trace before the first event.
#[derive(Clone, Debug, Default)]
pub struct Listener(Arc<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    last: u64,
    all: Vec<RecordedEvent>,
}

/// Kinds that are emitted only for subscribers, and that explain other events.
const ASKED: [&str; 6] =
    ["csi.asked", "csi.answered", "ec2.answered", "ec2.retry", "plug.disconnected", "pod-gc.deleted"];

/// Maximum number of recorded events; later ones are dropped.
const MOST: usize = 200_000;

impl Listener {
    /// Records the events of `trace` from now on, and those that it has kept so far.
    pub fn attach(&self, trace: &Trace) {
        let failures = crate::events::all().into_iter().map(|EventKind { kind, .. }| kind);
        for kind in failures.filter(|kind| kind.ends_with(".error")).chain(ASKED) {
            trace.subscribe(kind);
        }
        let recorded = self.0.clone();
        trace.observe(move |event| recorded.lock().take(event));
    }

    /// All recorded events in order.
    pub(super) fn events(&self) -> Vec<RecordedEvent> {
        self.0.lock().all.clone()
    }
}

impl Recording {
    fn take(&mut self, event: &Event) {
        let kept = event.n > self.last;
        self.last = event.n;
        let facts = Facts::of(event);
        // Streams and messages are frequent and carry little information.
        if self.all.len() >= MOST || facts.role == Role::Traffic {
            return;
        }
        let line = event.line();
        let fields: Map = line.fields.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let process = event.process.clone();
        self.all.push(RecordedEvent { ms: event.ms, n: event.n, kept, process, kind: event.kind(), fields, facts });
    }
}
