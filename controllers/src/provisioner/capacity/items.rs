//! Objects that should exist, and the tasks that a change needs (upstream `pkg/capacity/capacity.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, VolumeNodeAffinity};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};

use super::super::topology::Segment;
use super::object::is_managed;
use crate::kube::Kind;

/// A topology segment and a StorageClass: one object shows their capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// The segment.
    pub segment: Segment,
    /// Name of the class.
    pub class: String,
}

impl Item {
    /// Creates the item of a segment and a class.
    pub fn new(segment: &Segment, class: &str) -> Self {
        Self { segment: segment.clone(), class: class.to_owned() }
    }

    /// Returns the item that an object shows. None if its topology is more than a set of labels. Upstream never
    /// recognizes its own object of an empty segment: it compares an empty map with a missing one.
    pub fn of(object: &CSIStorageCapacity) -> Option<Self> {
        let topology = object.node_topology.as_ref()?;
        let has_expressions = topology.match_expressions.as_ref().is_some_and(|all| !all.is_empty());
        (!has_expressions).then(|| Self {
            segment: topology.match_labels.clone().unwrap_or_default(),
            class: object.storage_class_name.clone(),
        })
    }
}

/// Task of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Ask the driver, and create or update the object of an item.
    Sync(Item),
    /// Delete an obsolete or duplicate object of this name.
    Delete(String),
}

impl Task {
    fn delete(object: &CSIStorageCapacity) -> Self {
        Self::Delete(object.name().to_owned())
    }
}

/// Items of a driver, with their objects.
#[derive(Clone, Debug)]
pub struct Capacities {
    driver: String,
    /// `--capacity-for-immediate-binding`.
    immediate: bool,
    segments: BTreeSet<Segment>,
    classes: BTreeSet<String>,
    /// Items that should have an object, and the objects that the watch has shown. A created object is added only by
    /// the watch. If two are created for one item, the second is a duplicate and is deleted.
    objects: BTreeMap<Item, Option<Arc<CSIStorageCapacity>>>,
}

impl Capacities {
    /// Creates the state without segments and classes.
    pub fn new(driver: &str, immediate: bool) -> Self {
        Self {
            driver: driver.to_owned(),
            immediate,
            segments: BTreeSet::new(),
            classes: BTreeSet::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Replaces the segments.
    pub fn set_segments(&mut self, segments: BTreeSet<Segment>) -> Vec<Task> {
        let old = std::mem::replace(&mut self.segments, segments);
        let added: Vec<Segment> = self.segments.difference(&old).cloned().collect();
        let removed: Vec<Segment> = old.difference(&self.segments).cloned().collect();
        let mut tasks = Vec::new();
        for class in self.classes.clone() {
            for segment in &added {
                tasks.push(self.add(Item::new(segment, &class)));
            }
            for segment in &removed {
                tasks.extend(self.remove(&Item::new(segment, &class)));
            }
        }
        tasks
    }

    /// Records a new or changed StorageClass. Ignores classes of other drivers, and without the flag those that bind at
    /// once.
    pub fn class_applied(&mut self, class: &StorageClass) -> Vec<Task> {
        let binds_at_once = class.volume_binding_mode.as_deref() == Some("Immediate");
        if class.provisioner != self.driver || (binds_at_once && !self.immediate) {
            return Vec::new();
        }
        self.classes.insert(class.name().to_owned());
        let items: Vec<Item> = self.segments.iter().map(|segment| Item::new(segment, class.name())).collect();
        items.into_iter().map(|item| self.add(item)).collect()
    }

    /// Records that a StorageClass was deleted.
    pub fn class_deleted(&mut self, class: &str) -> Vec<Task> {
        self.classes.remove(class);
        let items: Vec<Item> = self.objects.keys().filter(|item| item.class == class).cloned().collect();
        items.iter().filter_map(|item| self.remove(item)).collect()
    }

    /// Records a new or changed object. Takes it over if its item has none; deletes an obsolete or duplicate object.
    pub fn object_applied(&mut self, object: &Arc<CSIStorageCapacity>) -> Option<Task> {
        if !is_managed(object, &self.driver) {
            return self.object_deleted(object);
        }
        let is_free =
            |known: &Option<Arc<CSIStorageCapacity>>| known.as_ref().is_none_or(|known| known.uid() == object.uid());
        match Item::of(object).filter(|item| self.objects.get(item).is_some_and(is_free)) {
            Some(item) => {
                self.objects.insert(item, Some(object.clone()));
                None
            }
            None => Some(Task::delete(object)),
        }
    }

    /// Records that an object was deleted or is no longer ours. The object of an item is created again.
    pub fn object_deleted(&mut self, object: &CSIStorageCapacity) -> Option<Task> {
        let item = Item::of(object)?;
        let known = self.objects.get_mut(&item)?;
        if known.as_ref()?.uid() != object.uid() {
            return None;
        }
        *known = None;
        Some(Task::Sync(item))
    }

    /// Returns the object of an item, if there is one; None if the item no longer exists.
    pub fn find(&self, item: &Item) -> Option<Option<Arc<CSIStorageCapacity>>> {
        self.objects.get(item).cloned()
    }

    /// Returns the tasks of a poll: all items.
    pub fn all(&self) -> Vec<Task> {
        self.syncs(|_| true)
    }

    /// Returns the tasks for the items of a class (`refreshSC`).
    pub fn of_class(&self, class: &str) -> Vec<Task> {
        self.syncs(|item| item.class == class)
    }

    /// Returns the tasks for the items in the topology of a volume (`refreshTopology`). A term must have exactly the
    /// keys of the segment, as upstream.
    pub fn of_topology(&self, affinity: &VolumeNodeAffinity) -> Vec<Task> {
        let terms = affinity.required.iter().flat_map(|required| &required.node_selector_terms);
        let wanted: BTreeSet<Segment> = terms.filter_map(segment_of).collect();
        self.syncs(|item| wanted.contains(&item.segment))
    }

    /// Returns the number of objects that should exist.
    pub fn goal(&self) -> usize {
        self.objects.len()
    }

    /// Returns the number of objects that should exist and do.
    pub fn current(&self) -> usize {
        self.objects.values().flatten().count()
    }

    /// Returns true if the object is ours and has no item.
    pub fn is_obsolete(&self, object: &CSIStorageCapacity) -> bool {
        is_managed(object, &self.driver) && Item::of(object).is_none_or(|item| !self.objects.contains_key(&item))
    }

    fn syncs(&self, wanted: impl Fn(&Item) -> bool) -> Vec<Task> {
        self.objects.keys().filter(|item| wanted(item)).cloned().map(Task::Sync).collect()
    }

    fn add(&mut self, item: Item) -> Task {
        self.objects.entry(item.clone()).or_default();
        Task::Sync(item)
    }

    fn remove(&mut self, item: &Item) -> Option<Task> {
        let object = self.objects.remove(item)??;
        Some(Task::delete(&object))
    }
}

/// Returns the segment of a term, which must name one value for each key (`termToSegment`).
fn segment_of(term: &NodeSelectorTerm) -> Option<Segment> {
    if term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
        return None;
    }
    let expressions = term.match_expressions.iter().flatten();
    let pair = expressions.map(|e| match (e.operator.as_str(), e.values.as_deref().unwrap_or_default()) {
        ("In", [value]) => Some((e.key.clone(), value.clone())),
        _ => None,
    });
    pair.collect()
}
