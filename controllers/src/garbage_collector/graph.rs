//! Ownership graph (`graph_builder.go`): objects by uid, and the work that its changes require.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::absent::AbsentOwners;
use super::identity::{Identity, blocks};
use crate::kube::metadata::Metadata;

/// Finalizer of an object whose dependents are deleted first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents are released first.
pub(super) const ORPHAN: &str = "orphan";

/// An object of the graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub identity: Identity,
    pub owners: Vec<OwnerReference>,
    /// Uids of the objects that name it as owner.
    pub dependents: BTreeSet<String>,
    /// True if it waits for the deletion of its dependents.
    pub is_deleting_dependents: bool,
    pub is_being_deleted: bool,
    /// False while only its dependents name it.
    pub is_observed: bool,
}

impl Node {
    /// Returns true if it waits for the deletion of its dependents, or is not being deleted: otherwise no work is left
    /// until it is gone.
    pub fn needs_work(&self) -> bool {
        !self.is_being_deleted || self.is_deleting_dependents
    }
}

/// Work that a change of the graph requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Decide whether to delete the object with this uid.
    Delete(String),
    /// The same after the object's backoff.
    DeleteLater(String),
    /// Release the dependents of the object with this uid.
    Orphan(String),
    /// Report that the object names an owner of another namespace.
    ReportNamespace(Box<Misplaced>),
}

/// An object with an owner of another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    /// The object.
    pub dependent: Identity,
    /// Its owner as it names it.
    pub owner: Identity,
}

/// A change of one object, from a watch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    /// The object is new (`old` absent) or changed.
    Applied { old: Option<&'a Metadata>, new: &'a Metadata },
    /// The object is gone.
    Deleted(&'a Metadata),
}

/// The graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    pub absent: AbsentOwners,
}

impl Graph {
    /// Returns the object with this uid.
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the dependents of an object.
    pub fn dependents<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> + 'a {
        node.dependents.iter().filter_map(|uid| self.nodes.get(uid))
    }

    /// Returns the dependents that block the deletion of `node` (`blockingDependents`).
    pub fn blocking_dependents<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> + 'a {
        self.dependents(node)
            .filter(|dependent| dependent.owners.iter().any(|owner| owner.uid == node.identity.uid && blocks(owner)))
    }

    /// Applies a watch event of `kind` (`processGraphChanges`).
    pub fn observe(&mut self, api_version: &str, kind: &str, change: Change<'_>) -> Vec<Task> {
        let mut tasks = Vec::new();
        let (Change::Applied { new: object, .. } | Change::Deleted(object)) = change;
        let identity = Identity {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        };
        self.mark_observed(&identity, &mut tasks);
        match change {
            Change::Applied { old, new } if self.nodes.contains_key(&new.uid) => {
                self.update(identity, new, &mut tasks);
                self.begin_deletion(old, new, &mut tasks);
            }
            Change::Applied { old, new } => {
                let node = Node {
                    identity,
                    owners: new.owner_references.clone(),
                    dependents: BTreeSet::new(),
                    is_deleting_dependents: new.is_deleting() && new.has_finalizer(FOREGROUND),
                    is_being_deleted: new.is_deleting(),
                    is_observed: true,
                };
                self.nodes.insert(new.uid.clone(), node);
                self.add_to_owners(&new.uid, &new.owner_references, &mut tasks);
                self.begin_deletion(old, new, &mut tasks);
            }
            Change::Deleted(object) => self.remove(&object.uid, identity, &mut tasks),
        }
        tasks
    }

    /// Records that the API server has no object with these coordinates: a virtual delete event.
    pub fn confirm_absent(&mut self, absent: &Identity) -> Vec<Task> {
        let mut tasks = Vec::new();
        let Some(node) = self.nodes.get(&absent.uid) else { return tasks };
        let is_same = node.identity == *absent;
        let (matching, other) = self.partition(node, absent);
        let stays = if node.is_observed { !is_same } else { !other.is_empty() };
        if !stays {
            self.remove(&absent.uid.clone(), absent.clone(), &mut tasks);
            return tasks;
        }
        if !node.is_observed && is_same {
            // Some dependents name the owner by other coordinates; these are checked next.
            if let Some(next) = self.alternative(&other, absent)
                && let Some(node) = self.nodes.get_mut(&absent.uid)
            {
                node.identity = next;
                tasks.push(Task::DeleteLater(absent.uid.clone()));
            }
        }
        if !matching.is_empty() {
            self.absent.add(absent.clone());
            tasks.extend(matching.into_iter().map(Task::Delete));
        }
        tasks
    }

    /// Marks an object as observed that only its dependents had named. Dependents that name it by other coordinates are
    /// checked.
    fn mark_observed(&mut self, observed: &Identity, tasks: &mut Vec<Task>) {
        let Some(node) = self.nodes.get(&observed.uid).filter(|node| !node.is_observed) else { return };
        if node.identity != *observed {
            for uid in self.partition(node, observed).1 {
                let Some(dependent) = self.nodes.get(&uid) else { continue };
                if !observed.namespace.is_empty() && dependent.identity.namespace != observed.namespace {
                    tasks.extend(misplaced(dependent, &observed.uid));
                }
                tasks.push(Task::Delete(uid));
            }
        }
        if let Some(node) = self.nodes.get_mut(&observed.uid) {
            node.identity = observed.clone();
            node.is_observed = true;
        }
    }

    /// Applies a change of a known object.
    fn update(&mut self, identity: Identity, new: &Metadata, tasks: &mut Vec<Task>) {
        let Some(node) = self.nodes.get_mut(&new.uid) else { return };
        node.identity = identity;
        node.is_being_deleted |= new.is_deleting();
        if node.owners == new.owner_references {
            return;
        }
        let before = std::mem::replace(&mut node.owners, new.owner_references.clone());
        let removed: Vec<&OwnerReference> =
            before.iter().filter(|old| new.owner_references.iter().all(|owner| owner.uid != old.uid)).collect();
        for old in &before {
            let now = new.owner_references.iter().find(|owner| owner.uid == old.uid);
            // An owner that is no longer blocked may be deleted.
            if blocks(old) && now.is_none_or(|now| !blocks(now)) && self.nodes.contains_key(&old.uid) {
                tasks.push(Task::Delete(old.uid.clone()));
            }
        }
        let added: Vec<OwnerReference> = new
            .owner_references
            .iter()
            .filter(|owner| before.iter().all(|old| old.uid != owner.uid))
            .cloned()
            .collect();
        self.add_to_owners(&new.uid, &added, tasks);
        for old in removed {
            if let Some(owner) = self.nodes.get_mut(&old.uid) {
                owner.dependents.remove(&new.uid);
            }
        }
    }

    /// Starts the work of a deletion with a finalizer of the garbage collector (`processTransitions`).
    fn begin_deletion(&mut self, old: Option<&Metadata>, new: &Metadata, tasks: &mut Vec<Task>) {
        let begins = |finalizer: &str| {
            new.is_deleting()
                && new.has_finalizer(finalizer)
                && old.is_none_or(|old| !old.is_deleting() || !old.has_finalizer(finalizer))
        };
        if begins(ORPHAN) {
            tasks.push(Task::Orphan(new.uid.clone()));
        } else if begins(FOREGROUND)
            && let Some(node) = self.nodes.get_mut(&new.uid)
        {
            node.is_deleting_dependents = true;
            tasks.extend(node.dependents.iter().cloned().map(Task::Delete));
            tasks.push(Task::Delete(new.uid.clone()));
        }
    }

    /// Adds an object to the dependents of `owners` (`addDependentToOwners`). An unknown owner becomes an unobserved
    /// node, and the API server is asked for it.
    fn add_to_owners(&mut self, uid: &str, owners: &[OwnerReference], tasks: &mut Vec<Task>) {
        let Some(dependent) = self.nodes.get(uid) else { return };
        let (dependent, namespace) = (dependent.clone(), dependent.identity.namespace.clone());
        let mut is_doubtful = false;
        for owner in owners {
            let Some(node) = self.nodes.get_mut(&owner.uid) else {
                let node = Node {
                    identity: Identity::of_owner(owner, &namespace),
                    dependents: BTreeSet::from([uid.to_owned()]),
                    ..Node::default()
                };
                self.nodes.insert(owner.uid.clone(), node);
                tasks.push(Task::Delete(owner.uid.clone()));
                continue;
            };
            node.dependents.insert(uid.to_owned());
            if is_doubtful {
                continue;
            }
            let is_elsewhere = node.identity.namespace != namespace;
            if !node.identity.namespace.is_empty() && is_elsewhere {
                if node.is_observed {
                    tasks.extend(misplaced(&dependent, &owner.uid));
                }
                is_doubtful = true;
            } else {
                is_doubtful = !node.identity.is_named_by(owner) || (is_elsewhere && !node.is_observed);
            }
        }
        if is_doubtful {
            tasks.push(Task::Delete(uid.to_owned()));
        }
    }

    fn remove(&mut self, uid: &str, identity: Identity, tasks: &mut Vec<Task>) {
        let Some(node) = self.nodes.remove(uid) else { return };
        for owner in &node.owners {
            if let Some(owner) = self.nodes.get_mut(&owner.uid) {
                owner.dependents.remove(uid);
            }
        }
        if !node.dependents.is_empty() {
            self.absent.add(identity);
        }
        tasks.extend(node.dependents.into_iter().map(Task::Delete));
        for owner in &node.owners {
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.is_deleting_dependents) {
                tasks.push(Task::Delete(owner.uid.clone()));
            }
        }
    }

    /// Splits the dependents of `node` into those that name it by these coordinates and those that name it by others.
    /// One that names it twice can be in both (`partitionDependents`).
    fn partition(&self, node: &Node, coordinates: &Identity) -> (Vec<String>, Vec<String>) {
        let (mut matching, mut other) = (Vec::new(), Vec::new());
        for dependent in self.dependents(node) {
            let uid = &dependent.identity.uid;
            if !coordinates.namespace.is_empty() && coordinates.namespace != dependent.identity.namespace {
                other.push(uid.clone());
                continue;
            }
            let mut references = dependent.owners.iter().filter(|owner| owner.uid == coordinates.uid);
            if references.clone().any(|owner| coordinates.is_named_by(owner)) {
                matching.push(uid.clone());
            }
            if references.any(|owner| !coordinates.is_named_by(owner)) {
                other.push(uid.clone());
            }
        }
        (matching, other)
    }

    /// Returns the coordinates to try after `absent` for the same uid (`getAlternateOwnerIdentity`): the next in order,
    /// or the first.
    fn alternative(&self, dependents: &[String], absent: &Identity) -> Option<Identity> {
        let is_cluster_scoped = absent.namespace.is_empty();
        let mut candidates = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == absent.uid) {
                let namespace = &dependent.identity.namespace;
                if absent.is_named_by(owner) && (is_cluster_scoped || absent.namespace == *namespace) {
                    continue;
                }
                let mut candidate = Identity::of_owner(owner, namespace);
                if is_cluster_scoped && candidate.api_version == absent.api_version && candidate.kind == absent.kind {
                    candidate.namespace.clear();
                }
                candidates.insert(candidate);
            }
        }
        candidates.remove(absent);
        candidates.iter().find(|candidate| *candidate > absent).or_else(|| candidates.first()).cloned()
    }
}

/// Builds the report that `dependent` names an owner in another namespace (`reportInvalidNamespaceOwnerRef`).
fn misplaced(dependent: &Node, owner: &str) -> Option<Task> {
    let owner = dependent.owners.iter().find(|reference| reference.uid == owner)?;
    let owner = Identity::of_owner(owner, &dependent.identity.namespace);
    Some(Task::ReportNamespace(Box::new(Misplaced { dependent: dependent.identity.clone(), owner })))
}
