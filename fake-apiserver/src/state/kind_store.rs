//! All objects of one kind, with an index.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::Limits;
use super::history::History;
use super::key_range::within;
use super::object::{Key, Object};
use super::selector::Selector;
use crate::kinds::{self, KindRef};

/// Objects of one kind, with their history.
pub(super) struct KindStore {
    /// The kind as it is stored.
    pub kind: KindRef,
    /// All objects, in list order.
    objects: OrdMap<Key, Arc<Object>>,
    /// The recent events.
    pub history: History,
    /// Pods by node. Kubelets and the node controllers list them this way.
    by_node: BTreeMap<Box<str>, BTreeMap<Key, Arc<Object>>>,
    /// If set, objects are kept without their trees.
    folds: bool,
    /// Seeded bug: the index keeps a pod as it was when it was bound.
    pub indexes_once: bool,
}

/// Field by which pods are indexed.
const NODE: &str = "spec.nodeName";

impl KindStore {
    /// Creates an empty store whose history begins after revision `floor`.
    pub fn new(kind: KindRef, limits: Limits, floor: u64) -> Self {
        let history = History::new(limits, floor);
        // Events are the most numerous objects, and mostly people read them.
        let folds = limits.folds || kind == kinds::EVENTS;
        Self { kind, objects: OrdMap::new(), history, by_node: BTreeMap::new(), folds, indexes_once: false }
    }

    /// Returns all objects, in list order.
    pub fn objects(&self) -> &OrdMap<Key, Arc<Object>> {
        &self.objects
    }

    fn is_indexed(&self) -> bool {
        self.kind == kinds::PODS
    }

    /// Inserts an object and returns the previous one.
    pub fn insert(&mut self, key: Key, object: Arc<Object>) -> Option<Arc<Object>> {
        let object = if self.folds { object.folded() } else { object };
        let old = self.objects.insert(key.clone(), object.clone());
        if self.is_indexed() {
            let node = object.node();
            if let Some(old) = old.as_ref().filter(|old| old.node() != node) {
                self.forget(old.node(), &key);
            }
            // Pods without a node are not indexed.
            if !node.is_empty() {
                match self.by_node.get_mut(node) {
                    Some(pods) if self.indexes_once && pods.contains_key(&key) => {}
                    Some(pods) => drop(pods.insert(key, object.clone())),
                    None => drop(self.by_node.insert(node.into(), BTreeMap::from([(key, object.clone())]))),
                }
            }
        }
        old
    }

    /// Removes an object.
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

    /// Removes all objects and restarts the history after revision `floor`.
    pub fn wipe(&mut self, limits: Limits, floor: u64) {
        *self = Self { indexes_once: self.indexes_once, ..Self::new(self.kind.clone(), limits, floor) };
    }

    /// Returns a superset of the objects that `selector` matches, of those whose key begins with `prefix`, from `start`
    /// on.
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
