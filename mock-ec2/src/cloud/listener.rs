//! Listeners of the cloud's events.

use substrate::Now;

use crate::state::State;
use crate::state::event::Event;

/// Receives every event, in order, while the cloud is locked: it must not call back.
pub(crate) trait Listener: Send + Sync {
    /// Handles an event.
    fn on_event(&self, published: &PublishedEvent<'_>);
}

/// Event with its context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedEvent<'a> {
    /// The event.
    pub(crate) event: &'a Event,
    /// Time of its publication.
    pub(crate) now: Now,
    /// State of the machine after all events of that time.
    pub(crate) state: &'a State,
}
