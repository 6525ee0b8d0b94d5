//! The trace: one totally ordered list of what happened, with virtual time and ordinal.

mod fields;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::json::{Map, Text, Value};
use serde::{Deserialize, Serialize};

pub use self::fields::Fields;
use crate::clock::Clock;

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the domain did: transitions, commits, RPCs, mounts.
    #[default]
    Info,
    /// Also every message on every link.
    Trace,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the world began.
    pub ms: u64,
    /// Position in the total order of the run, from 1.
    pub n: u64,
    /// The process that it happened in.
    pub process: Arc<str>,
    /// What happened, as `<component>.<verb>`.
    pub kind: Text,
    /// What it happened to.
    #[serde(flatten)]
    pub fields: Fields,
}

impl Event {
    /// A field's text, or nothing when it is absent or not a string.
    pub fn str(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// The event as one JSON line without its newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// The recorder. Cheap to clone; all clones of one world write one list.
#[derive(Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    clock: Clock,
    level: Level,
    state: Mutex<State>,
    /// Nobody keeps, writes or observes events.
    silent: AtomicBool,
    observers: Mutex<Arc<Vec<Observer>>>,
}

#[derive(Default)]
struct State {
    n: u64,
    /// Shared with the observers of the moment, so that recording copies nothing.
    events: VecDeque<Arc<Event>>,
    keep: Option<usize>,
    sink: Option<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("level", &self.0.level).finish_non_exhaustive()
    }
}

impl Trace {
    /// An empty trace at `level`, stamped by `clock`.
    pub fn new(clock: Clock, level: Level) -> Self {
        let (state, observers) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { clock, level, state, silent: AtomicBool::new(false), observers }))
    }

    /// The level that is kept.
    pub fn level(&self) -> Level {
        self.0.level
    }

    /// Keeps only the newest `events`; for servers that run for days.
    pub fn keep(&self, events: usize) {
        self.state().keep = Some(events);
        self.listen();
    }

    /// Whether anybody keeps, writes or observes events; to spare who would record them the making of their fields.
    pub fn is_heard(&self) -> bool {
        !self.0.silent.load(Ordering::Relaxed)
    }

    fn listen(&self) {
        let state = self.state();
        let observed = !self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        self.0.silent.store(state.keep == Some(0) && state.sink.is_none() && !observed, Ordering::Relaxed);
    }

    /// Also writes every event from now on, as a JSON line, to `sink`.
    pub fn write_to(&self, sink: Box<dyn Write + Send>) {
        self.state().sink = Some(sink);
        self.listen();
    }

    /// Calls `observer` for every event from now on, in order, before [`Trace::info`] returns.
    pub fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        let mut list = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Vec::clone(&list);
        next.push(Arc::new(observer));
        *list = Arc::new(next);
        drop(list);
        self.listen();
    }

    /// Records a domain event. `fields` is a JSON object; anything else becomes the field `value`.
    pub fn info(&self, process: &Arc<str>, kind: &str, fields: impl Into<Value>) {
        self.record(self.0.clock.mono().as_millis() as u64, process.clone(), kind, fields.into());
    }

    /// Records an event that only [`Level::Trace`] keeps; `fields` is not called otherwise.
    pub fn trace<V: Into<Value>>(&self, process: &Arc<str>, kind: &str, fields: impl FnOnce() -> V) {
        if self.0.level == Level::Trace {
            self.info(process, kind, fields());
        }
    }

    /// Takes over an event that another OS process recorded, with a new ordinal.
    pub fn adopt(&self, event: Event) {
        self.record(event.ms, event.process, &event.kind, event.fields.into());
    }

    fn record(&self, ms: u64, process: Arc<str>, kind: &str, fields: Value) {
        if !self.is_heard() {
            self.state().n += 1;
            return;
        }
        let fields = match fields {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => Map::from_iter([("value", other)]),
        };
        debug_assert!(
            ["ms", "n", "process", "kind"].iter().all(|own| !fields.contains_key(own)),
            "{kind}: a field has the name of one of the event's own"
        );
        let fields = Fields::from(fields);
        let event = {
            let mut state = self.state();
            state.n += 1;
            let event = Arc::new(Event { ms, n: state.n, process, kind: kind.into(), fields });
            if let Some(sink) = &mut state.sink {
                // A trace file that cannot be written must not change the run; `flush` reports it.
                let _ = writeln!(sink, "{}", event.line());
            }
            state.events.push_back(event.clone());
            if let Some(keep) = state.keep {
                while state.events.len() > keep {
                    state.events.pop_front();
                }
            }
            event
        };
        let observers = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers.iter() {
            observer(&event);
        }
    }

    /// All events that are kept, in order.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.iter().map(|event| Event::clone(event)).collect()
    }

    /// All events that are kept, in order, without copying them; the trace keeps none of them.
    pub fn take_events(&self) -> Vec<Event> {
        let events = std::mem::take(&mut self.state().events);
        events.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// How many events were recorded.
    pub fn len(&self) -> u64 {
        self.state().n
    }

    /// Whether nothing was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last `count` events as JSON lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let state = self.state();
        state.events.iter().skip(state.events.len().saturating_sub(count)).map(|event| event.line()).collect()
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// What the sink says.
    pub fn flush(&self) -> std::io::Result<()> {
        self.state().sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
