//! The trace: one totally ordered list of events, with virtual time and ordinal.

mod event;
mod fields;
mod line;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use self::event::{Content, Event, EventKind, EventType, FieldType};
pub use self::fields::Fields;
pub use self::line::Line;
use crate::clock::Clock;

/// Detail of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Events of the domain: transitions, commits, RPCs, mounts.
    #[default]
    Info,
    /// Also every message on every link.
    Trace,
}

/// Reason why an event of another OS process cannot be adopted.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum AdoptError {
    /// no event is of the kind `{0}`
    Unknown(String),
    /// an event of the kind `{0}` is not as its type says: {1}
    Malformed(String, serde_json::Error),
}

/// An observer of every event from an ordinal on.
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
    /// True if events are neither kept nor written nor observed.
    silent: AtomicBool,
    observers: Mutex<Arc<Vec<Observer>>>,
    /// Number of observers so far.
    observed: AtomicU64,
    /// Kinds of events that were asked for with [`Trace::subscribe`].
    subscriptions: Mutex<BTreeSet<String>>,
    /// True if there are such kinds.
    has_subscriptions: AtomicBool,
}

#[derive(Default)]
struct State {
    n: u64,
    /// Shared with the observers, so that recording copies nothing.
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
    /// Creates an empty trace at `level`, with timestamps of `clock`.
    pub fn new(clock: Clock, level: Level) -> Self {
        Self(Arc::new(Inner {
            clock,
            level,
            state: Mutex::default(),
            silent: AtomicBool::new(false),
            observers: Mutex::default(),
            observed: AtomicU64::new(0),
            subscriptions: Mutex::default(),
            has_subscriptions: AtomicBool::new(false),
        }))
    }

    /// Returns the level that is kept.
    pub fn level(&self) -> Level {
        self.0.level
    }

    /// Keeps only the newest `events`, and none that [`Level::Trace`] adds, which would soon displace all others. For
    /// servers that run for days.
    pub fn keep(&self, events: usize) {
        self.state().keep = Some(events);
        self.listen();
    }

    /// Returns true if events are kept, written or observed; otherwise a caller need not build them.
    pub fn has_readers(&self) -> bool {
        !self.0.silent.load(Ordering::Relaxed)
    }

    fn listen(&self) {
        let state = self.state();
        let observed = !self.0.observers.lock().is_empty();
        self.0.silent.store(state.keep == Some(0) && state.sink.is_none() && !observed, Ordering::Relaxed);
    }

    /// Also writes every event from now on, as a JSON line, to `sink`.
    pub fn write_to(&self, sink: Box<dyn Write + Send>) {
        self.state().sink = Some(sink);
        self.listen();
    }

    /// Calls `observer` for every event, in order, before [`Trace::info`] returns. The events that are kept already
    /// come first, so that a late observer sees the world from its first event. The observer must not record events
    /// itself.
    pub fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        self.add_observer(observer);
    }

    /// Like [`Trace::observe`], until the result is dropped: for a temporary observer in a world that continues.
    pub fn observe_for_now(&self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Observing {
        Observing { trace: self.clone(), number: self.add_observer(observer) }
    }

    /// Adds an observer, and returns its number.
    fn add_observer(&self, observer: impl Fn(&Event) + Send + Sync + 'static) -> u64 {
        let number = self.0.observed.fetch_add(1, Ordering::Relaxed);
        let mut list = self.0.observers.lock();
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

    /// Removes an observer.
    fn remove_observer(&self, number: u64) {
        let mut list = self.0.observers.lock();
        let next = list.iter().filter(|observer| observer.number != number).cloned().collect();
        // Its data are dropped without the lock.
        let before = std::mem::replace(&mut *list, Arc::new(next));
        drop(list);
        drop(before);
        self.listen();
    }

    /// Returns the number of observers.
    pub fn observers(&self) -> usize {
        self.0.observers.lock().len()
    }

    /// Removes all observers.
    pub(crate) fn forget_observers(&self) {
        let observers = std::mem::take(&mut *self.0.observers.lock());
        drop(observers);
        self.listen();
    }

    /// Records an event of the domain.
    pub fn info(&self, process: &Arc<str>, event: impl EventType) {
        self.record(self.0.clock.mono().as_millis() as u64, process.clone(), event, Level::Info);
    }

    /// Records an event that only [`Level::Trace`] keeps; `event` is not called otherwise.
    pub fn trace<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.0.level == Level::Trace {
            self.record(self.0.clock.mono().as_millis() as u64, process.clone(), event(), Level::Trace);
        }
    }

    /// Shows observers an event that only [`Level::Trace`] keeps, for checkers rather than for people. Below that
    /// level, `event` is not called without observers.
    pub fn show_observers<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.0.level == Level::Trace {
            return self.trace(process, event);
        }
        let observers = self.0.observers.lock().clone();
        if observers.is_empty() {
            return;
        }
        let ms = self.0.clock.mono().as_millis() as u64;
        // It has no ordinal, because it belongs to the event before it.
        let event = Event::new(ms, self.len(), process.clone(), event());
        for observer in observers.iter().filter(|observer| observer.from <= event.n + 1) {
            (observer.see)(&event);
        }
    }

    /// Shows observers events of this kind from now on, if they are recorded with [`Trace::emit_lazily`].
    pub fn subscribe(&self, kind: &str) {
        self.0.subscriptions.lock().insert(kind.to_owned());
        self.0.has_subscriptions.store(true, Ordering::Relaxed);
    }

    /// Returns true if [`Trace::emit_lazily`] of this type has an effect; otherwise a caller need not build the event.
    pub fn is_subscribed<T: EventType>(&self) -> bool {
        let asked = || self.0.subscriptions.lock().contains(T::KIND);
        self.0.level == Level::Trace || (self.0.has_subscriptions.load(Ordering::Relaxed) && asked())
    }

    /// Records an event that only [`Level::Trace`] keeps, and that observers see only if its kind was asked for with
    /// [`Trace::subscribe`]: for events that are too frequent to build always. `event` is not called without need.
    pub fn emit_lazily<T: EventType>(&self, process: &Arc<str>, event: impl FnOnce() -> T) {
        if self.is_subscribed::<T>() {
            self.show_observers(process, event);
        }
    }

    /// Records an event of another OS process, with a new ordinal.
    ///
    /// # Errors
    /// If its kind is not one of `kinds`, or its fields do not match the kind.
    pub fn adopt(&self, kinds: &[EventKind], line: Line) -> Result<(), AdoptError> {
        let kind = kinds.iter().find(|kind| line.kind == kind.kind);
        let kind = kind.ok_or_else(|| AdoptError::Unknown(line.kind.to_string()))?;
        kind.record(self, line).map_err(|error| AdoptError::Malformed(kind.kind.to_owned(), error))
    }

    fn record<T: EventType>(&self, ms: u64, process: Arc<str>, content: T, level: Level) {
        if !self.has_readers() {
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
        let observers = self.0.observers.lock().clone();
        for observer in observers.iter().filter(|observer| observer.from <= event.n) {
            (observer.see)(&event);
        }
    }

    /// Returns all kept events, in order.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.state().events.iter().cloned().collect()
    }

    /// Takes all kept events, in order.
    pub fn take_events(&self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.state().events).into()
    }

    /// Returns all kept events, in order, in text form.
    pub fn lines(&self) -> Vec<Line> {
        self.state().events.iter().map(|event| event.line()).collect()
    }

    /// Returns the number of recorded events.
    pub fn len(&self) -> u64 {
        self.state().n
    }

    /// Returns true if no event was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the last `count` events as JSON lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let state = self.state();
        state.events.iter().skip(state.events.len().saturating_sub(count)).map(|event| event.line().text()).collect()
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn flush(&self) -> std::io::Result<()> {
        self.state().sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// An observer of a trace, until this is dropped.
#[must_use = "the observer is removed when this is dropped"]
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
