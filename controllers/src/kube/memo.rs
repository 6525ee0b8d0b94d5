//! Objects that were decoded a moment ago, by their bytes.
//!
//! One state of an object reaches many readers of a world with the same bytes, a few milliseconds apart: the answer to
//! who wrote it, each watch, and whoever reads it live. Whoever comes later takes what the first one made: an `Arc` of
//! the same value, so nobody can tell.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error};

/// Objects that are remembered at most; a power of two. Each holds the bytes that it came in, which over a socket are the
/// whole buffer of 16 KiB that was read, so many more would cost tens of megabytes and be met by nobody.
const REMEMBERED: usize = 128;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

type Decoded = Arc<dyn Any + Send + Sync>;
/// Where bytes lie, which are no others while they are held.
type Place = (usize, usize, TypeId);
type Content = (u64, TypeId);

/// What was decoded of late in one world.
#[derive(Default)]
pub(super) struct Memo(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    /// By where the bytes lie: within one OS process readers mostly have the very bytes, which then need not be looked
    /// at.
    places: Table<Place>,
    /// The same objects by what their bytes are.
    contents: Table<Content>,
}

/// Objects by a key whose hash is their only slot: the newest of two that meet there stays.
struct Table<K>(Vec<Option<(K, Bytes, Decoded)>>);

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Table<K> {
    fn slot(hash: u64) -> usize {
        // The upper half of a product depends on all bits.
        (hash >> 32) as usize % REMEMBERED
    }

    fn get(&self, hash: u64, key: &K) -> Option<(&Bytes, &Decoded)> {
        let (known, held, object) = self.0.get(Self::slot(hash))?.as_ref()?;
        (known == key).then_some((held, object))
    }

    fn put(&mut self, hash: u64, key: K, bytes: Bytes, object: Decoded) {
        if self.0.is_empty() {
            self.0.resize_with(REMEMBERED, || None);
        }
        if let Some(slot) = self.0.get_mut(Self::slot(hash)) {
            *slot = Some((key, bytes, object));
        }
    }
}

impl Memo {
    /// The object that `bytes` stand for.
    pub(super) fn object<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        bytes: &Bytes,
    ) -> Result<Arc<K>, serde_json::Error> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (bytes.as_ptr().addr(), bytes.len(), TypeId::of::<K>());
        let at = (place.0 as u64 ^ place.1 as u64).wrapping_mul(ODD);
        let known = recent.places.get(at, &place).map(|(_, object)| object.clone());
        if let Some(object) = known.and_then(|object| object.downcast::<K>().ok()) {
            return Ok(object);
        }
        let content = (hash(bytes), TypeId::of::<K>());
        let known = recent.contents.get(content.0, &content).filter(|(held, _)| *held == bytes);
        if let Some(object) = known.and_then(|(_, object)| object.clone().downcast::<K>().ok()) {
            return Ok(object);
        }
        let object = Arc::new(decode::<K>(bytes)?);
        recent.places.put(at, place, bytes.clone(), object.clone());
        recent.contents.put(content.0, content, bytes.clone(), object.clone());
        Ok(object)
    }
}

/// Decodes JSON. One look at all bytes is cheaper than one at each string, and half the code of two readers.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(bytes).map_err(|e| serde_json::Error::custom(format!("not UTF-8: {e}")))?;
    serde_json::from_str(text)
}

/// Words that are looked at of what is hashed, evenly spread.
const SAMPLES: usize = 32;

/// Tells apart what is not equal, mostly; equal bytes are compared all the same, and two that are taken for one another
/// only drive each other out.
fn hash(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let some = words.iter().step_by(words.len() / SAMPLES + 1);
    let sum = some.fold(bytes.len() as u64, |sum, word| step(sum, u64::from_le_bytes(*word)));
    step(sum, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_decoded_once() {
        let memo = Memo::default();
        let number = |text: &'static str| memo.object::<u64>(&Bytes::from_static(text.as_bytes()));
        let (a, b) = (number("42").expect("a number"), number("42").expect("a number"));
        assert!(Arc::ptr_eq(&a, &b));
        let copied = memo.object::<u64>(&Bytes::from(vec![b'4', b'2'])).expect("a number");
        assert!(Arc::ptr_eq(&a, &copied), "other bytes that are equal");
        assert_eq!(*number("43").expect("a number"), 43);
        assert!(number("x").is_err());
        // Another type with the same bytes is another object.
        assert_eq!(*memo.object::<i8>(&Bytes::from_static(b"42")).expect("a number"), 42);
    }

    #[test]
    fn what_was_decoded_is_forgotten_in_time() {
        let memo = Memo::default();
        let number = |n: usize| memo.object::<usize>(&n.to_string().into()).expect("a number");
        let first = number(0);
        for n in 1..=100 * REMEMBERED {
            assert_eq!(*number(n), n);
        }
        assert!(!Arc::ptr_eq(&first, &number(0)));
        let recent = memo.0.lock().expect("not poisoned");
        assert_eq!([recent.places.0.len(), recent.contents.0.len()], [REMEMBERED; 2]);
    }
}
