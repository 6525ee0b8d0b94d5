//! Record of changed keys for the journal, outside the state proper.

use std::collections::BTreeSet;

/// Changed keys. None are recorded before `track`.
#[derive(Clone, Debug)]
pub struct Changed<K>(Option<BTreeSet<K>>);

impl<K> Default for Changed<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// Equality ignores the record, which does not belong to the state.
impl<K> PartialEq for Changed<K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<K: Clone + Ord> Changed<K> {
    /// Starts recording.
    pub fn track(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Records a key.
    pub fn note(&mut self, key: &K) {
        if let Some(keys) = &mut self.0
            && !keys.contains(key)
        {
            keys.insert(key.clone());
        }
    }

    /// Takes the recorded keys, in their order, and starts a new record.
    pub fn take(&mut self) -> BTreeSet<K> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_noted_once_and_only_while_tracked() {
        let mut changed = Changed::default();
        changed.note(&1);
        assert!(changed.take().is_empty());
        changed.track();
        [2, 1, 2].iter().for_each(|key| changed.note(key));
        assert_eq!(changed.take().into_iter().collect::<Vec<_>>(), [1, 2]);
        assert!(changed.take().is_empty());
    }
}
