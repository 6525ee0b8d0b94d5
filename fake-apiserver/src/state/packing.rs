//! Passes over the histories, which compress texts while the server is idle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Store;
use super::history::Event;
use super::object::Object;

/// One pass over the histories of all kinds. [`Packing::pack`] needs no access to the store; the store is read and
/// changed between its calls.
#[derive(Debug, Default)]
pub struct Packing {
    /// Position of the current kind.
    kind: usize,
    /// Revision up to which the current kind's events are packed.
    revision: u64,
    /// Packed objects by revision. The new object of one event is the old object of a later one, so both share it.
    known: BTreeMap<u64, Arc<Object>>,
    /// Number of events that became smaller.
    packed: u64,
}

impl Packing {
    /// Returns the same events with packed texts. This takes time and needs no access to the store.
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

    /// Returns the number of events that became smaller.
    pub fn packed(&self) -> u64 {
        self.packed
    }
}

impl Store {
    /// Returns at most `most` further events of the pass whose objects can be packed; an empty list at the end of the
    /// pass.
    pub fn unpacked(&self, pass: &mut Packing, most: usize) -> Vec<Arc<Event>> {
        while let Some(kind_store) = self.kind_stores.get(pass.kind) {
            let found: Vec<Arc<Event>> =
                kind_store.history.unpacked(pass.revision, kind_store.objects()).take(most).cloned().collect();
            if let Some(last) = found.last() {
                pass.revision = last.revision;
                // The store holds the present objects anyway, and reads them most often.
                let present = found.iter().filter_map(|event| kind_store.objects().get(&event.key));
                pass.known.extend(present.map(|object| (object.revision, object.clone())));
                return found;
            }
            *pass = Packing { kind: pass.kind + 1, packed: pass.packed, ..Packing::default() };
        }
        Vec::new()
    }

    /// Replaces events by their packed form, if the history still holds them.
    pub fn repack(&mut self, pass: &mut Packing, events: Vec<(Arc<Event>, Arc<Event>)>) {
        let Some(kind_store) = self.kind_stores.get_mut(pass.kind) else { return };
        for (old, new) in events {
            pass.packed += 1;
            kind_store.history.replace(&old, new);
        }
    }
}
