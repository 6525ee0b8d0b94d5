//! Branching of a run: at each of many places it asks whether it is the run in which a fault fires there.
//!
//! A place has an effect only in the run that answers yes. So all runs have the same prefix, up to the place of each,
//! and a caller that can fork a process runs that prefix only once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Fault;

/// Called with the number of a branch at its place. Returns true if this run is that branch from now on.
pub type Parts = Arc<dyn Fn(usize) -> bool + Send + Sync>;

/// Faults of which each run has at most one.
#[derive(Clone)]
pub struct Branches {
    /// Name of the fault whose position in the order of faults they take.
    pub instead_of: String,
    /// The faults by number. Each has `nth`, the operation at which it fires.
    pub faults: Vec<(usize, Fault)>,
    /// Decides which branch this run is.
    pub parts: Parts,
}

impl fmt::Debug for Branches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branches").field("instead_of", &self.instead_of).field("faults", &self.faults).finish()
    }
}

/// Branches at one place, by the number of the operation there.
pub(super) struct Turns {
    pub at: BTreeMap<u64, Vec<(usize, Fault)>>,
    pub parts: Parts,
}

impl Turns {
    /// Returns the fault of the branch that this run is, at the operation with number `seen`.
    pub fn taken(&mut self, seen: u64) -> Option<Fault> {
        let here = self.at.remove(&seen)?;
        here.into_iter().find_map(|(number, fault)| (self.parts)(number).then_some(fault))
    }
}
