//! What has changed since somebody asked: noted for who writes the state down, and no part of the state.

use std::collections::BTreeSet;

/// Keys that were changed; none are noted before somebody wants to know.
#[derive(Clone, Debug)]
pub struct Changed<K>(Option<BTreeSet<K>>);

impl<K> Default for Changed<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// Two states are the same whatever was noted of them.
impl<K> PartialEq for Changed<K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<K: Clone + Ord> Changed<K> {
    /// Notes keys from now on.
    pub fn track(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Notes a key.
    pub fn note(&mut self, key: &K) {
        if let Some(keys) = &mut self.0
            && !keys.contains(key)
        {
            keys.insert(key.clone());
        }
    }

    /// The keys that were noted, in their order; from now on others.
    pub fn take(&mut self) -> BTreeSet<K> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_noted_once_and_only_when_somebody_wants_to_know() {
        let mut changed = Changed::default();
        changed.note(&1);
        assert!(changed.take().is_empty());
        changed.track();
        [2, 1, 2].iter().for_each(|key| changed.note(key));
        assert_eq!(changed.take().into_iter().collect::<Vec<_>>(), [1, 2]);
        assert!(changed.take().is_empty());
    }
}
