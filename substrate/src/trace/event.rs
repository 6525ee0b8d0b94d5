//! Events: each type is a struct in the crate that emits it, with its kind as a constant.
//!
//! The trace keeps the struct. Readers take events by type ([`Event::get`]), so a reader of a field that is not emitted
//! does not compile. Text is made only on demand ([`Event::line`]).

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Trace;
use super::line::Line;
use crate::json::{Map, Value, from_value, to_value};

/// A type of event, defined by [`events!`](crate::events), which also lists the fields.
pub trait EventType: Serialize + DeserializeOwned + Debug + Any + Send + Sync {
    /// Its kind, `<component>.<verb>`, unique in the program.
    const KIND: &'static str;
    /// Its description, in one sentence.
    const ABOUT: &'static str;
    /// Its fields, in the order of the struct.
    const FIELDS: &'static [FieldType];
}

/// A field of a type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Its name in the text form.
    pub name: &'static str,
    /// Its Rust type.
    pub of: &'static str,
    /// Its description.
    pub about: &'static str,
}

/// A type of event as a value, for lists of types.
#[derive(Clone, Copy)]
pub struct EventKind {
    /// [`EventType::KIND`].
    pub kind: &'static str,
    /// [`EventType::ABOUT`].
    pub about: &'static str,
    /// [`EventType::FIELDS`].
    pub fields: &'static [FieldType],
    record: fn(&Trace, u64, Arc<str>, Value) -> Result<(), serde_json::Error>,
}

impl EventKind {
    /// Returns the type `T`.
    pub const fn of<T: EventType>() -> Self {
        Self { kind: T::KIND, about: T::ABOUT, fields: T::FIELDS, record: adopt::<T> }
    }

    /// Deserializes an event of this type from its fields and records it.
    pub(super) fn record(&self, trace: &Trace, line: Line) -> Result<(), serde_json::Error> {
        (self.record)(trace, line.ms, line.process, line.fields.into())
    }
}

impl Debug for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EventKind").field(&self.kind).finish()
    }
}

fn adopt<T: EventType>(trace: &Trace, ms: u64, process: Arc<str>, fields: Value) -> Result<(), serde_json::Error> {
    trace.record(ms, process, from_value::<T>(fields)?, super::Level::Info);
    Ok(())
}

/// Content of an event of any type.
pub trait Content: Any + Debug + Send + Sync {
    /// [`EventType::KIND`].
    fn kind(&self) -> &'static str;
    /// Returns the fields in text form, sorted by name.
    fn fields(&self) -> Map;
}

impl<T: EventType> Content for T {
    fn kind(&self) -> &'static str {
        T::KIND
    }

    fn fields(&self) -> Map {
        match to_value(self) {
            Ok(Value::Object(map)) => map,
            Ok(Value::Null) => Map::new(),
            Ok(other) => Map::from_iter([("value", other)]),
            Err(error) => Map::from_iter([("unwritable", Value::from(error.to_string()))]),
        }
    }
}

/// An event.
#[derive(Debug)]
pub struct Event<T: ?Sized = dyn Content> {
    /// Milliseconds since the world began.
    pub ms: u64,
    /// Position in the total order of the run, from 1.
    pub n: u64,
    /// The process in which it happened.
    pub process: Arc<str>,
    of: TypeId,
    content: T,
}

impl<T: EventType> Event<T> {
    pub(super) fn new(ms: u64, n: u64, process: Arc<str>, content: T) -> Self {
        Self { ms, n, process, of: TypeId::of::<T>(), content }
    }
}

impl Event {
    /// Returns the content, if it is a `T`.
    pub fn get<T: EventType>(&self) -> Option<&T> {
        // Most events are compared with many types, so the id is in the event and needs no call.
        if self.of != TypeId::of::<T>() {
            return None;
        }
        let content: &dyn Any = &self.content;
        content.downcast_ref()
    }

    /// Returns true if it is a `T`.
    pub fn is<T: EventType>(&self) -> bool {
        self.of == TypeId::of::<T>()
    }

    /// Returns its kind, `<component>.<verb>`.
    pub fn kind(&self) -> &'static str {
        self.content.kind()
    }

    /// Returns the event in text form.
    pub fn line(&self) -> Line {
        Line {
            ms: self.ms,
            n: self.n,
            process: self.process.clone(),
            kind: self.kind().into(),
            fields: self.content.fields().into(),
        }
    }
}

/// Defines types of events and a list of them, `EVENTS`.
///
/// ```
/// substrate::events! {
///     /// A door was opened.
///     pub struct Opened = "door.opened" {
///         /// The person who opened it.
///         pub by: String,
///         /// The key, if it took one.
///         #[serde(default, skip_serializing_if = "Option::is_none")]
///         pub key: Option<String>,
///     }
/// }
/// assert_eq!(EVENTS[0].fields[1].name, "key");
/// ```
#[macro_export]
macro_rules! events {
    ($(
        $(#[doc = $about:literal])+
        pub struct $name:ident = $kind:literal {
            $(
                $(#[doc = $message:literal])+
                $(#[serde($($serde:tt)*)])?
                pub $field:ident: $of:ty
            ),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $(
                    $(#[doc = $message])+
                    $(#[serde($($serde)*)])?
                    pub $field: $of,
                )*
            }

            impl $crate::trace::EventType for $name {
                const KIND: &'static str = $kind;
                const ABOUT: &'static str = concat!($($about),+);
                const FIELDS: &'static [$crate::trace::FieldType] = &[$(
                    $crate::trace::FieldType {
                        name: stringify!($field),
                        of: stringify!($of),
                        about: concat!($($message),+),
                    }
                ),*];
            }
        )*

        /// The types of events that are defined here.
        pub const EVENTS: &[$crate::trace::EventKind] = &[$($crate::trace::EventKind::of::<$name>()),*];
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::{Clock, Level};

    events! {
        /// A door was opened.
        pub struct Opened = "door.opened" {
            /// The person who opened it.
            pub by: String,
            /// The key, if it took one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub key: Option<u32>,
        }

        /// A door was closed.
        pub struct Closed = "door.closed" {}
    }

    fn trace() -> Trace {
        Trace::new(Clock::live(), Level::Info)
    }

    #[test]
    fn an_event_is_taken_by_its_type_and_written_in_the_order_of_names() {
        let trace = trace();
        trace.info(&"house".into(), Opened { by: "me".into(), key: Some(7) });
        trace.info(&"house".into(), Closed {});
        let events = trace.events();
        assert_eq!(events[0].get(), Some(&Opened { by: "me".into(), key: Some(7) }));
        assert!(events[0].get::<Closed>().is_none() && events[1].is::<Closed>());
        let text = events[0].line().text();
        assert!(text.ends_with(r#""n":1,"process":"house","kind":"door.opened","by":"me","key":7}"#), "{text}");
        assert!(events[1].line().text().ends_with(r#""kind":"door.closed"}"#));
        assert_eq!((EVENTS[0].fields[0].of, EVENTS[0].about.trim()), ("String", "A door was opened."));
    }

    #[test]
    fn a_line_of_another_process_becomes_the_same_type_again_and_an_unknown_one_is_refused() {
        let (there, here) = (trace(), trace());
        there.info(&"house".into(), Opened { by: "me".into(), key: None });
        let line: Line = serde_json::from_str(&there.lines()[0].text()).unwrap();
        here.adopt(EVENTS, line.clone()).unwrap();
        assert_eq!(here.events()[0].get(), Some(&Opened { by: "me".into(), key: None }));
        let strange = Line { kind: "door.painted".into(), ..line.clone() };
        assert_eq!(here.adopt(EVENTS, strange).unwrap_err().to_string(), "no event is of the kind `door.painted`");
        let other = Line { fields: json!({ "by": "me", "colour": 1 }).as_object().cloned().unwrap().into(), ..line };
        let error = here.adopt(EVENTS, other).unwrap_err().to_string();
        assert!(error.contains("door.opened") && error.contains("colour"), "{error}");
    }

    #[test]
    fn messages_do_not_push_out_what_a_server_keeps_for_days() {
        let trace = Trace::new(Clock::live(), Level::Trace);
        trace.keep(2);
        trace.info(&"house".into(), Opened { by: "me".into(), key: None });
        for _ in 0..5 {
            trace.trace(&"house".into(), || Closed {});
            trace.show_observers(&"house".into(), || Closed {});
        }
        assert!(trace.events().len() == 1 && trace.events()[0].is::<Opened>());
        assert_eq!(trace.len(), 11);
        // At the trace level, these events are kept, too.
        let all = Trace::new(Clock::live(), Level::Trace);
        all.trace(&"house".into(), || Closed {});
        assert_eq!(all.events().len(), 1);
    }

    #[test]
    fn an_observer_that_comes_late_sees_the_world_from_its_first_event() {
        use parking_lot::Mutex;
        use std::sync::Arc;
        let trace = trace();
        trace.info(&"house".into(), Opened { by: "me".into(), key: None });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        trace.observe(move |event| into.lock().push(event.n));
        trace.info(&"house".into(), Closed {});
        assert_eq!(*seen.lock(), [1, 2]);
    }

    #[test]
    fn a_dropped_observer_sees_no_events() {
        use parking_lot::Mutex;
        use std::sync::Arc;
        let trace = trace();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let observing = trace.observe_for_now(move |event| into.lock().push(event.n));
        trace.info(&"house".into(), Closed {});
        assert_eq!((trace.observers(), Arc::strong_count(&seen)), (1, 2));
        drop(observing);
        trace.info(&"house".into(), Closed {});
        assert_eq!((trace.observers(), Arc::strong_count(&seen)), (0, 1));
        assert_eq!(*seen.lock(), [1]);
    }

    #[test]
    fn lazy_events_need_a_subscriber() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        let trace = trace();
        let seen = Arc::new(AtomicUsize::new(0));
        let counts = seen.clone();
        trace.observe(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        trace.emit_lazily(&"p".into(), || -> Closed { unreachable!("it has no subscriber") });
        trace.subscribe("door.opened");
        trace.emit_lazily(&"p".into(), || -> Closed { unreachable!("the subscriber is of another kind") });
        assert_eq!(seen.load(Ordering::Relaxed), 0);
        trace.subscribe("door.closed");
        trace.emit_lazily(&"p".into(), || Closed {});
        assert_eq!((seen.load(Ordering::Relaxed), trace.len()), (1, 0));
    }
}
