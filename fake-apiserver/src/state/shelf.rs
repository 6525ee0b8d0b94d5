//! All objects of one kind, with what finds some of them without looking at all.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::Limits;
use super::history::History;
use super::list::within;
use super::object::{Key, Object};
use super::selector::Selector;
use crate::kinds::{self, KindRef};

/// Objects of one kind, and what became of them lately.
pub(super) struct Shelf {
    /// The kind as it is stored.
    pub kind: KindRef,
    /// All objects, in the order of lists.
    objects: OrdMap<Key, Arc<Object>>,
    /// What changed.
    pub history: History,
    /// The same objects by their node: of pods, which kubelets and the node controllers list so.
    by_node: BTreeMap<Box<str>, BTreeMap<Key, Arc<Object>>>,
    /// Whether objects are kept without their trees.
    folds: bool,
}

/// The field by which pods are indexed.
const NODE: &str = "spec.nodeName";

impl Shelf {
    /// An empty one, whose history begins after revision `floor`.
    pub fn new(kind: KindRef, limits: Limits, floor: u64) -> Self {
        let history = History::new(limits, floor);
        // Of events there are more than of anything else, and they are written to be read by people.
        let folds = limits.folds || kind == kinds::EVENTS;
        Self { kind, objects: OrdMap::new(), history, by_node: BTreeMap::new(), folds }
    }

    /// All objects, in the order of lists.
    pub fn objects(&self) -> &OrdMap<Key, Arc<Object>> {
        &self.objects
    }

    fn is_indexed(&self) -> bool {
        self.kind == kinds::PODS
    }

    /// Puts an object in its place; gives the one that was there.
    pub fn insert(&mut self, key: Key, object: Arc<Object>) -> Option<Arc<Object>> {
        let object = if self.folds { object.folded() } else { object };
        let old = self.objects.insert(key.clone(), object.clone());
        if self.is_indexed() {
            let node = object.node();
            if let Some(old) = old.as_ref().filter(|old| old.node() != node) {
                self.forget(old.node(), &key);
            }
            // Pods without a node are no node's.
            if !node.is_empty() {
                match self.by_node.get_mut(node) {
                    Some(pods) => drop(pods.insert(key, object.clone())),
                    None => drop(self.by_node.insert(node.into(), BTreeMap::from([(key, object.clone())]))),
                }
            }
        }
        old
    }

    /// Takes an object away.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        let old = self.objects.remove(key)?;
        if self.is_indexed() {
            self.forget(old.node(), key);
        }
        Some(old)
    }

    fn forget(&mut self, node: &str, key: &str) {
        if let Some(pods) = self.by_node.get_mut(node) {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// Wipes the objects; the history begins anew after revision `floor`.
    pub fn wipe(&mut self, limits: Limits, floor: u64) {
        *self = Self::new(self.kind.clone(), limits, floor);
    }

    /// Objects among which are all that `selector` matches, of those whose key begins with `prefix`, from `start` on.
    pub fn candidates<'a>(
        &'a self,
        prefix: &'a str,
        start: &'a str,
        selector: &Selector,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Object>)> + 'a> {
        match selector.fields.required(NODE).filter(|node| self.is_indexed() && !node.is_empty()) {
            None => Box::new(within(&self.objects, prefix, start)),
            Some(node) => match self.by_node.get(node) {
                None => Box::new(std::iter::empty()),
                Some(pods) => Box::new(
                    pods.range::<str, _>((Bound::Included(start), Bound::Unbounded))
                        .take_while(move |(key, _)| key.starts_with(prefix)),
                ),
            },
        }
    }
}
