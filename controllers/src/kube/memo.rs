//! Cache of recently decoded objects by their bytes.
//!
//! One state of an object reaches many readers of a world with the same bytes, within a few milliseconds: the answer to
//! its writer, each watch, and live reads. Later readers get the `Arc` of the first one's value, which is equal to a
//! new one.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error};

/// Largest number of cached objects; a power of two. Each holds the bytes that it came in: over a socket a whole read
/// buffer of 16 KiB. A larger cache would cost tens of megabytes and gain few hits.
const REMEMBERED: usize = 128;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

type Decoded = Arc<dyn Any + Send + Sync>;
/// Address of bytes; unique while the bytes are held.
type BufferKey = (usize, usize, TypeId);
type Content = (u64, TypeId);

/// Recently decoded objects of one world.
#[derive(Default)]
pub(super) struct Memo(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    /// Objects by the address of their bytes: within one OS process readers mostly have the same buffer, which then
    /// need not be hashed.
    places: Table<BufferKey>,
    /// The same objects by the content of their bytes.
    contents: Table<Content>,
}

/// Objects by a key whose hash selects the only slot: a new object replaces the old one.
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
    /// Returns the decoded object of `bytes`.
    pub(super) fn object<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        bytes: &Bytes,
    ) -> Result<Arc<K>, serde_json::Error> {
        let mut recent = self.0.lock();
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

/// Decodes JSON. One UTF-8 check of all bytes is cheaper than one per string, and avoids a second generic reader.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(bytes).map_err(|e| serde_json::Error::custom(format!("not UTF-8: {e}")))?;
    serde_json::from_str(text)
}

/// Number of sampled words, evenly spread.
const SAMPLES: usize = 32;

/// Hashes samples of the bytes. A hit still compares all bytes; a collision only evicts an entry.
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
    fn old_decoded_objects_are_evicted() {
        let memo = Memo::default();
        let number = |n: usize| memo.object::<usize>(&n.to_string().into()).expect("a number");
        let first = number(0);
        for n in 1..=100 * REMEMBERED {
            assert_eq!(*number(n), n);
        }
        assert!(!Arc::ptr_eq(&first, &number(0)));
        let recent = memo.0.lock();
        assert_eq!([recent.places.0.len(), recent.contents.0.len()], [REMEMBERED; 2]);
    }
}
