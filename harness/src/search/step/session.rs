//! What outlives going back: where to, breakpoints, changes.

use serde::{Deserialize, Serialize};
use substrate::World;
use substrate::fault::Fault;

use super::filter::Filter;

/// What whoever goes on needs to know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Session {
    /// The event to go to; the first when 0.
    pub to: u64,
    pub breakpoints: Vec<Filter>,
    /// What was changed, and at which event.
    pub changes: Vec<(u64, Change)>,
    /// The event was shown before.
    pub quiet: bool,
    /// The last line that moved.
    pub again: Option<String>,
}

/// What a person changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    Add(Box<Fault>),
    Drop(String),
}

impl Change {
    /// Does it, and says what came of it.
    pub fn apply(&self, world: &World) -> Result<String, String> {
        match self {
            Self::Add(fault) => {
                let added = world.faults().add(world.clock().mono(), (**fault).clone());
                added.map(|()| format!("{} is in force", fault.name)).map_err(|mistake| mistake.to_string())
            }
            Self::Drop(name) => match world.faults().remove(name) {
                Some(report) => Ok(format!("{name} is over; it fired {} times", report.hits)),
                None => Err(format!("no fault in force is called `{name}`; `faults` lists them")),
            },
        }
    }
}

impl Session {
    /// The same on the way back to the event `to`: what was changed later was not changed.
    pub fn back_to(mut self, to: u64) -> (Self, usize) {
        let before = self.changes.len();
        self.changes.retain(|(n, _)| *n <= to);
        (self.to, self.quiet) = (to, false);
        let taken = before - self.changes.len();
        (self, taken)
    }
}
