//! State that survives going back: the target, breakpoints, changes.

use serde::{Deserialize, Serialize};
use substrate::World;
use substrate::fault::Fault;

use super::filter::Filter;

/// State for the process that continues the session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Session {
    /// Event to go to; 0 is the first.
    pub to: u64,
    pub breakpoints: Vec<Filter>,
    /// Changes, each with the event at which it was made.
    pub changes: Vec<(u64, Change)>,
    /// If set, the event was already shown.
    pub quiet: bool,
    /// Last command that moved.
    pub again: Option<String>,
}

/// A change that the user made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    Add(Box<Fault>),
    Drop(String),
}

impl Change {
    /// Applies the change and returns a message about the result.
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
    /// Prepares going back to the event `to`: drops later changes and returns their number.
    pub fn back_to(mut self, to: u64) -> (Self, usize) {
        let before = self.changes.len();
        self.changes.retain(|(n, _)| *n <= to);
        (self.to, self.quiet) = (to, false);
        let taken = before - self.changes.len();
        (self, taken)
    }
}
