//! Number of checks of each invariant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use crate::spec::Id;

/// Number of occasions on which each invariant could have been broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    counts: BTreeMap<Id, u64>,
    /// Invariants that cannot be checked in this world.
    out_of_sight: BTreeSet<Id>,
    /// Number of volumes that I1 does not check, because several nodes may write to them.
    pub shared_volumes: u64,
    /// Number of watch streams whose completeness cannot be checked, because they select by labels.
    pub unjudged_streams: u64,
}

impl Checked {
    /// Counts `occasions` of an invariant.
    pub fn add(&mut self, id: Id, occasions: u64) {
        *self.counts.entry(id).or_default() += occasions;
    }

    /// Records that an invariant cannot be checked in this world.
    pub fn cannot(&mut self, id: Id) {
        self.out_of_sight.insert(id);
    }

    /// Returns the number of occasions.
    pub fn get(&self, id: Id) -> u64 {
        self.counts.get(&id).copied().unwrap_or(0)
    }
}

impl Checked {
    /// Returns the count of each invariant in words, in order.
    pub fn parts(&self) -> Vec<String> {
        let part = |id: &Id| match self.out_of_sight.contains(id) {
            true => format!("{id} not checked"),
            false => format!("{id} {}", self.get(*id)),
        };
        Id::ALL.iter().map(part).collect()
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().join(" · "))
    }
}

impl Serialize for Checked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seen = Id::ALL.iter().filter(|id| !self.out_of_sight.contains(id));
        let counts = seen.map(|id| (id.name(), self.get(*id)));
        let more = [("sharedVolumes", self.shared_volumes), ("unjudgedStreams", self.unjudged_streams)];
        serializer.collect_map(counts.chain(more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncheckable_invariant_is_not_counted() {
        let mut checked = Checked::default();
        checked.add(Id::I1, 3);
        checked.cannot(Id::I7);
        assert_eq!(
            checked.to_string(),
            "I1 3 · I2 0 · I3 0 · I4 0 · I5 0 · I6 0 · I7 not checked · I8 0 · I9 0 · I10 0 · I11 0 · I12 0 · I13 0"
        );
        let data = serde_json::to_value(&checked).unwrap();
        assert_eq!((&data["I1"], data.get("I7")), (&3.into(), None));
    }
}
