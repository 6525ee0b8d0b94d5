//! One run that becomes several: at each of many places it asks whether it is the one in which something breaks there.
//!
//! Nothing fires at these places but in the run that says yes. So all runs have the same past, up to the place of each,
//! and whoever can copy a process needs to run that past once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Fault;

/// Asked with the number of a branch at its place: whether this run is that branch from now on.
pub type Parts = Arc<dyn Fn(usize) -> bool + Send + Sync>;

/// Faults of which each run has one at most.
#[derive(Clone)]
pub struct Branches {
    /// The fault of a scenario whose place they take in the order of faults.
    pub instead_of: String,
    /// The faults, by number. Each says with `nth` on which of its operations it fires.
    pub faults: Vec<(usize, Fault)>,
    /// Who decides.
    pub parts: Parts,
}

impl fmt::Debug for Branches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branches").field("instead_of", &self.instead_of).field("faults", &self.faults).finish()
    }
}

/// The branches that part at one place, by how often the place was seen.
pub(super) struct Turns {
    pub at: BTreeMap<u64, Vec<(usize, Fault)>>,
    pub parts: Parts,
}

impl Turns {
    /// The fault of the branch that this run is when the place is seen for the time `seen`.
    pub fn taken(&mut self, seen: u64) -> Option<Fault> {
        let here = self.at.remove(&seen)?;
        here.into_iter().find_map(|(number, fault)| (self.parts)(number).then_some(fault))
    }
}
