//! Owners that do not exist according to the API server (`ReferenceCache`).

use std::collections::VecDeque;

use super::identity::Identity;

/// Upstream's limit.
const LIMIT: usize = 500;

/// Absent owners of the latest lookups.
#[derive(Debug, Default)]
pub(super) struct AbsentOwners(VecDeque<Identity>);

impl AbsentOwners {
    /// Remembers an owner as absent.
    pub fn add(&mut self, owner: Identity) {
        self.0.retain(|known| *known != owner);
        if self.0.len() == LIMIT {
            self.0.pop_back();
        }
        self.0.push_front(owner);
    }

    /// Returns true if the owner is known to be absent.
    pub fn has(&mut self, owner: &Identity) -> bool {
        let Some(at) = self.0.iter().position(|known| known == owner) else { return false };
        if let Some(known) = self.0.remove(at) {
            self.0.push_front(known);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_that_was_asked_for_longest_ago_is_forgotten() {
        let owner = |n: usize| Identity { name: n.to_string(), ..Identity::default() };
        let mut absent = AbsentOwners::default();
        (0..LIMIT).for_each(|n| absent.add(owner(n)));
        assert!(absent.has(&owner(0)));
        absent.add(owner(LIMIT));
        assert!(absent.has(&owner(0)) && !absent.has(&owner(1)) && absent.has(&owner(LIMIT)));
    }
}
