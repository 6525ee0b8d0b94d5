//! Who hears what happens to the cloud.

use substrate::Now;

use crate::state::State;
use crate::state::event::Event;

/// Hears of every event, in order, while the cloud is locked: it must not call back.
pub(crate) trait Listener: Send + Sync {
    /// Hears of one.
    fn hear(&self, heard: &Heard<'_>);
}

/// An event, and what it happened to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard<'a> {
    /// What happened.
    pub(crate) event: &'a Event,
    /// When it is told.
    pub(crate) now: Now,
    /// The machine after all that happened at that time.
    pub(crate) state: &'a State,
}
