//! Objects that were decoded a moment ago, by their bytes.
//!
//! One change of an object reaches every informer of the process with the same bytes, a few milliseconds apart.
//! Whoever is second takes what the first one made: an `Arc` of the same value, so nobody can tell.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Objects of a kind that are remembered: a burst is a few dozen commits.
const REMEMBERED: usize = 32;

type Recent = VecDeque<(Box<[u8]>, Arc<dyn Any + Send + Sync>)>;

/// What was decoded of late.
#[derive(Default)]
pub(super) struct Memo(Mutex<BTreeMap<TypeId, Recent>>);

impl Memo {
    /// The object that `bytes` stand for; `decode` makes it when it is not remembered.
    pub(super) fn object<K: Send + Sync + 'static>(
        &self,
        bytes: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<K, serde_json::Error>,
    ) -> Result<Arc<K>, serde_json::Error> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = kinds.entry(TypeId::of::<K>()).or_default();
        let known = recent.iter().rev().find(|(seen, _)| **seen == *bytes).map(|(_, object)| object.clone());
        if let Some(object) = known.and_then(|object| object.downcast::<K>().ok()) {
            return Ok(object);
        }
        let object = Arc::new(decode(bytes)?);
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back((bytes.into(), object.clone()));
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_decoded_once() {
        let memo = Memo::default();
        let decode = |bytes: &[u8]| serde_json::from_slice::<u64>(bytes);
        let (a, b) = (memo.object(b"42", decode).expect("a number"), memo.object(b"42", decode).expect("a number"));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(*memo.object(b"43", decode).expect("a number"), 43);
        assert!(memo.object(b"x", decode).is_err());
        // Another type with the same bytes is another object.
        assert_eq!(*memo.object(b"42", |b| serde_json::from_slice::<i8>(b)).expect("a number"), 42);
    }
}
