//! Objects that only the history holds, packed while nothing else is to be done.
//!
//! The events of the last minutes hold every object that was written or deleted in them. After the deletion of a large
//! collection that is several times what the objects themselves weighed, and seldom does a watch or a list go back to it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::Store;
use super::history::Event;
use super::object::Object;

/// Texts shorter than this, in bytes, stay as they are.
const WORTH: usize = 512;

/// The JSON of an object, as it is or compressed.
#[derive(Clone)]
pub(super) enum Text {
    /// As it is, shared with the line of a watch.
    Plain(Bytes),
    /// Compressed, with the length that it had.
    Packed(Arc<[u8]>, usize),
}

impl Text {
    /// The text; that of a packed one is made each time.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Plain(bytes) => bytes.clone(),
            Self::Packed(packed, length) => {
                let mut bytes = Vec::with_capacity(*length);
                // This program packed it.
                let _ = DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes);
                bytes.into()
            }
        }
    }

    /// The length of the text.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Packed(_, length) => *length,
        }
    }

    /// True if packing it would save something.
    pub fn is_packable(&self) -> bool {
        matches!(self, Self::Plain(bytes) if bytes.len() >= WORTH)
    }

    /// The same text, compressed; nothing if it is that already, or too short.
    pub fn packed(&self) -> Option<Self> {
        let Self::Plain(bytes) = self else { return None };
        if !self.is_packable() {
            return None;
        }
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
        encoder.write_all(bytes).ok()?;
        Some(Self::Packed(encoder.finish().ok()?.into(), bytes.len()))
    }
}

/// One pass over the histories of all kinds. The store is looked at and changed between its steps, never during one.
#[derive(Debug, Default)]
pub struct Packing {
    /// The kind that is looked at, by its position.
    kind: usize,
    /// The revision up to which its events have been looked at.
    revision: u64,
    /// Objects that were packed, by their revision: one event holds as new what another one holds as old.
    known: BTreeMap<u64, Arc<Object>>,
    /// How many events hold less than before.
    packed: u64,
}

impl Packing {
    /// The same events with their texts packed. It takes a while, and needs no store.
    pub fn pack(&mut self, events: Vec<Arc<Event>>) -> Vec<(Arc<Event>, Arc<Event>)> {
        let packed = events.into_iter().map(|event| {
            let mut small = |object: &Arc<Object>| match self.known.get(&object.revision) {
                Some(known) => known.clone(),
                None => {
                    let packed = object.packed().unwrap_or_else(|| object.clone());
                    self.known.insert(object.revision, packed.clone());
                    packed
                }
            };
            let (old, new) = (event.old.as_ref().map(&mut small), event.new.as_ref().map(&mut small));
            let small = Event::new(event.revision, event.kind.clone(), event.key.clone(), old, new);
            (event, small)
        });
        packed.collect()
    }

    /// How many events hold less than before.
    pub fn packed(&self) -> u64 {
        self.packed
    }
}

impl Store {
    /// The next events of a pass that hold objects whose texts can be packed, at most so many; none at its end.
    pub fn unpacked(&self, pass: &mut Packing, most: usize) -> Vec<Arc<Event>> {
        while let Some(shelf) = self.shelves.get(pass.kind) {
            let found: Vec<Arc<Event>> =
                shelf.history.unpacked(pass.revision, shelf.objects()).take(most).cloned().collect();
            if let Some(last) = found.last() {
                pass.revision = last.revision;
                // The store holds present objects anyway, and they are read most often.
                let present = found.iter().filter_map(|event| shelf.objects().get(&event.key));
                pass.known.extend(present.map(|object| (object.revision, object.clone())));
                return found;
            }
            *pass = Packing { kind: pass.kind + 1, packed: pass.packed, ..Packing::default() };
        }
        Vec::new()
    }

    /// Lets the history hold what [`Packing::pack`] made of its events, where it still holds these.
    pub fn repack(&mut self, pass: &mut Packing, events: Vec<(Arc<Event>, Arc<Event>)>) {
        let Some(shelf) = self.shelves.get_mut(pass.kind) else { return };
        for (old, new) in events {
            pass.packed += 1;
            shelf.history.replace(&old, new);
        }
    }
}
