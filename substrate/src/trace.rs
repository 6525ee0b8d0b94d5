//! The trace: one totally ordered list of what happened, with virtual time and ordinal.

mod event;
mod fields;
mod line;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::event::{Content, Event, EventKind, EventType, FieldType};
pub use self::fields::Fields;
pub use self::line::Line;
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

/// Why an event of another OS process cannot be taken over.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum AdoptError {
    /// no event is of the kind `{0}`
    Unknown(String),
    /// an event of the kind `{0}` is not as its type says: {1}
    Malformed(String, serde_json::Error),
}

/// Sees every event from the ordinal on.
#[derive(Clone)]
struct Observer {
    number: u64,
    from: u64,
    see: Arc<dyn Fn(&Event) + Send + Sync>,
}

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
    /// How many observers there have been.
    observed: AtomicU64,
    /// Kinds of events that somebody asked to hear of; see [`Trace::hear`].
    heard: Mutex<BTreeSet<String>>,
    /// There are such kinds.
    hears: AtomicBool,
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
        Self(Arc::new(Inner {
            clock,
            level,
            state: Mutex::default(),
            silent: AtomicBool::new(false),
            observers: Mutex::default(),
            observed: AtomicU64::new(0),
            heard: Mutex::default(),
            hears: AtomicBool::new(false),
        }))
    }

    /// The level that is kept.
    pub fn level(&self) -> Level {
        self.0.level
    }

    /// Keeps only the newest `events`, and none that [`Level::Trace`] alone has, which would soon be all that is kept;
    /// for servers that run for days.
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

    /// Calls `observer` for every event, in order, before [`Trace::info`] returns: at once for those that are kept
    /// already, so that whoever comes late sees the world from its first event. It must not record events itself.
    pub fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        self.add_observer(observer);
    }

    /// Like [`Trace::observe`], for as long as what is given back lives: for who looks for a while in a world that goes on.
    pub fn observe_for_now(&self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Observing {
        Observing { trace: self.clone(), number: self.add_observer(observer) }
    }

    /// Adds an observer, and returns its number.
    fn add_observer(&self, observer: impl Fn(&Event) + Send + Sync + 'static) -> u64 {
        let number = self.0.observed.fetch_add(1, Ordering::Relaxed);
        let mut list = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let (past, last): (Vec<Arc<Event>>, u64) = {
            let state = self.state();
            (state.events.iter().cloned().collect(), state.n)
        };
        for event in &past {
            observer(event);
        }
        let mut next = Vec::clone(&list);
        next.push(Observer { number, from: last + 1, see: Arc::new(observer) });
        *list = Arc::new(next);
        drop(list);
        self.listen();
        number
    }

    /// Calls one observer no more.
    fn remove_observer(&self, number: u64) {
        let mut list = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = list.iter().filter(|observer| observer.number != number).cloned().collect();
        // What it owns is dropped without the lock.
        let before = std::mem::replace(&mut *list, Arc::new(next));
        drop(list);
        drop(before);
        self.listen();
    }

    /// How many observers there are.
    pub fn observers(&self) -> usize {
        self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Calls no observer any more.
    pub(crate) fn forget_observers(&self) {
        let observers = std::mem::take(&mut *self.0.observers.lock().unwrap_or_else(PoisonError::into_inner));
        drop(observers);
        self.listen();
    }

    /// Records a domain event.
    pub fn info(&self, process: &Arc<str>, event: impl EventType) {
        self.record(self.0.clock.mono().as_millis() as u64, process.clone(), event, Level::Info);
    }

    /// Records an event that only [`Level::Trace`] keeps; `event` is not called otherwise.
    pub fn trace<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.0.level == Level::Trace {
            self.record(self.0.clock.mono().as_millis() as u64, process.clone(), event(), Level::Trace);
        }
    }

    /// Tells observers of an event that only [`Level::Trace`] keeps: what checkers look at and people seldom read.
    /// `event` is not called when nobody observes.
    pub fn whisper<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.0.level == Level::Trace {
            return self.trace(process, event);
        }
        let observers = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if observers.is_empty() {
            return;
        }
        let ms = self.0.clock.mono().as_millis() as u64;
        // It has no place of its own in the order: it belongs to the event before it.
        let event = Event::new(ms, self.len(), process.clone(), event());
        for observer in observers.iter().filter(|observer| observer.from <= event.n + 1) {
            (observer.see)(&event);
        }
    }

    /// From now on, observers are told of events of this kind that only [`Level::Trace`] keeps and that are seldom asked
    /// for; see [`Trace::mention`].
    pub fn hear(&self, kind: &str) {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.to_owned());
        self.0.hears.store(true, Ordering::Relaxed);
    }

    /// Whether an event of this type that is mentioned goes anywhere; to spare who would mention it the making.
    pub fn hears<T: EventType>(&self) -> bool {
        let asked = || self.0.heard.lock().unwrap_or_else(PoisonError::into_inner).contains(T::KIND);
        self.0.level == Level::Trace || (self.0.hears.load(Ordering::Relaxed) && asked())
    }

    /// Tells of an event that only [`Level::Trace`] keeps, and observers where somebody asked to [`Trace::hear`] of its
    /// kind: what happens so often that even the telling costs. `event` is not called when nobody hears.
    pub fn mention<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.hears::<T>() {
            self.whisper(process, event);
        }
    }

    /// Takes over an event that another OS process recorded, with a new ordinal.
    ///
    /// # Errors
    /// When its kind is none of `kinds`, or its fields are not those of the kind.
    pub fn adopt(&self, kinds: &[EventKind], line: Line) -> Result<(), AdoptError> {
        let kind = kinds.iter().find(|kind| line.kind == kind.kind);
        let kind = kind.ok_or_else(|| AdoptError::Unknown(line.kind.to_string()))?;
        kind.record(self, line).map_err(|error| AdoptError::Malformed(kind.kind.to_owned(), error))
    }

    fn record<T: EventType>(&self, ms: u64, process: Arc<str>, content: T, level: Level) {
        if !self.is_heard() {
            self.state().n += 1;
            return;
        }
        let event: Arc<Event> = {
            let mut state = self.state();
            state.n += 1;
            let event: Arc<Event> = Arc::new(Event::new(ms, state.n, process, content));
            if let Some(sink) = &mut state.sink {
                // A trace file that cannot be written must not change the run; `flush` reports it.
                let _ = writeln!(sink, "{}", event.line().text());
            }
            if state.keep.is_none() || level == Level::Info {
                state.events.push_back(event.clone());
            }
            if let Some(keep) = state.keep {
                while state.events.len() > keep {
                    state.events.pop_front();
                }
            }
            event
        };
        let observers = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers.iter().filter(|observer| observer.from <= event.n) {
            (observer.see)(&event);
        }
    }

    /// All events that are kept, in order.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.state().events.iter().cloned().collect()
    }

    /// All events that are kept, in order; the trace keeps none of them.
    pub fn take_events(&self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.state().events).into()
    }

    /// All events that are kept, in order, as text shows them.
    pub fn lines(&self) -> Vec<Line> {
        self.state().events.iter().map(|event| event.line()).collect()
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
        state.events.iter().skip(state.events.len().saturating_sub(count)).map(|event| event.line().text()).collect()
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

/// Somebody who observes a trace until this is dropped.
#[must_use = "it observes nothing any more once it is dropped"]
pub struct Observing {
    trace: Trace,
    number: u64,
}

impl std::fmt::Debug for Observing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observing").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.trace.remove_observer(self.number);
    }
}
