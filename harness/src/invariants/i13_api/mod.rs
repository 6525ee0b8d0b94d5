//! I13: the API server keeps its contract with its clients: commits change only the parts of objects that their
//! requests may change, and reads show the stored objects. An occasion is a commit, a get, the answer of a write, or a
//! list.
//!
//! | Checker | Verifies |
//! |---|---|
//! | `identity` | an object keeps its uid, name and creation time; a new object has a new uid; revisions grow |
//! | `conflict` | a write that requires a revision or a uid meets exactly that one |
//! | `generation` | the generation counts changes of the spec, and the beginning of the deletion |
//! | `parts` | the main resource keeps the status, and each subresource changes only its own part |
//! | `deletion` | a deletion is not taken back; an object goes after its finalizers, its grace period and its content |
//! | `immutable` | immutable fields stay as they are |
//! | `lists` | a list shows the objects of its revision that its namespace and its selectors select |
//! | `answers` | a get and a write answer with the stored object |
//!
//! The content of objects is in events for observers of the same OS process ([`ObjectStored`], [`ObjectShown`],
//! [`ListShown`]). Clusters of containers have none of them, so I13 is not checked there. Leases and Events are not
//! checked, because they are committed most often. A stale read by a fault is compared with the past revision that it
//! claims to show; the fault excuses only the age of that revision.

mod answers;
mod conflict;
mod deletion;
mod generation;
mod identity;
mod immutable;
mod kind_objects;
mod lists;
mod parts;
mod selection;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use fake_apiserver::events::{Commit, ListShown, Load, ObjectShown, ObjectStored, Reset};
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id};
use kind_objects::{Entry, KindObjects};
use lists::Page;
use write::Write;

/// Maximum number of continue tokens to remember.
const KEPT_PAGES: usize = 64;

/// A kind: the group of a custom one, and the resource as in URLs.
type Resource = (Text, Text);

/// The stored objects, as the commits describe them.
#[derive(Debug, Default)]
pub(super) struct Contract {
    kinds: BTreeMap<Resource, KindObjects>,
    /// Uids of all objects so far.
    uids: BTreeSet<Text>,
    /// The newest revision.
    newest: u64,
    /// The revision before it.
    prior: u64,
    /// The object of the newest commit before that commit.
    before: Option<Entry>,
    /// True if all stored objects are known; `None` before the first commit.
    complete: Option<bool>,
    /// Lists that can be continued, by their tokens.
    pages: BTreeMap<Text, Page>,
}

impl Contract {
    /// Returns true if an event concerns this invariant, and no other checker.
    pub fn sees(&self, event: &Event) -> bool {
        event.is::<ObjectStored>() || event.is::<ObjectShown>() || event.is::<ListShown>()
    }

    /// Records commits.
    pub fn learn(&mut self, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if event.is::<Load>() {
            // The loaded objects have no commits.
            *self = Self { complete: Some(false), ..Self::default() };
        } else if event.is::<Reset>() {
            *self = Self { complete: Some(true), ..Self::default() };
        }
    }

    fn on_commit(&mut self, commit: &Commit) {
        // A server that continues from a journal has objects without commits.
        self.complete.get_or_insert(commit.rv == 1);
        self.prior = std::mem::replace(&mut self.newest, commit.rv);
        if is_frequent(&commit.resource) {
            return;
        }
        let resource = (commit.group.clone().unwrap_or_default(), commit.resource.clone());
        self.before = self.kinds.entry(resource).or_default().commit(commit);
        if self.before.is_none() && commit.r#type != fake_apiserver::state::EventType::Added {
            self.complete = Some(false);
        }
    }

    /// Checks a write or an answer. Call [`learn`](Self::learn) with its commit first.
    pub fn check(&mut self, event: &Event, checked: &mut Checked) -> Option<Found> {
        let (wrong, operation, rv) = if let Some(stored) = event.get::<ObjectStored>() {
            checked.add(Id::I13, 1);
            (self.on_stored(stored)?, stored.verb.to_string(), stored.rv)
        } else if let Some(shown) = event.get::<ObjectShown>() {
            (self.on_shown(shown, checked)?, shown.verb.to_string(), shown.rv.unwrap_or_default())
        } else {
            let list = event.get::<ListShown>()?;
            (self.on_listed(list, checked)?, "list".to_owned(), list.rv)
        };
        Some(Found { message: wrong, operation, details: [("rv", rv.into())].into(), ..Found::default() })
    }

    fn on_stored(&mut self, stored: &ObjectStored) -> Option<String> {
        let change = stored.change.get()?;
        let group = change.kind.custom.as_ref().map(|_| Text::from(change.kind.group)).unwrap_or_default();
        if let Some(object) = &change.new {
            let resource = (group, Text::new_static(change.kind.plural));
            self.kinds.entry(resource).or_default().hold(&change.key, object);
        }
        let write = Write::of(stored, change);
        let before = self.before.as_ref().filter(|_| self.newest == stored.rv);
        let wrong = identity::check(&write, before, self.prior, &mut self.uids)
            .or_else(|| conflict::check(&write))
            .or_else(|| generation::check(&write))
            .or_else(|| parts::check(&write))
            .or_else(|| deletion::check(&write))
            .or_else(|| immutable::check(&write))
            .or_else(|| self.check_namespace(&write))?;
        Some(format!("{}/{} {wrong}", change.kind.plural, change.key))
    }

    /// Checks that no object is created in a namespace that ends or does not exist, and that a namespace goes empty.
    fn check_namespace(&self, write: &Write<'_>) -> Option<String> {
        if self.complete != Some(true) {
            return None;
        }
        let namespaces = (Text::default(), Text::new_static("namespaces"));
        if write.is_removed() && write.resource() == "namespaces" && write.subresource() != Some("finalize") {
            let left = self.kinds.iter().find_map(|((_, plural), kind)| Some((plural, kind.first_in(write.key)?)));
            return left.map(|(plural, key)| format!("was removed while it has {plural}/{key}"));
        }
        let namespace = write.key.split_once('/').map(|(namespace, _)| namespace)?;
        if write.old.is_some() || write.asked.is_none() {
            return None;
        }
        let Some(found) = self.kinds.get(&namespaces).and_then(|kind| kind.get(namespace)) else {
            return Some("was created in a namespace that does not exist".to_owned());
        };
        let ends = found.object.as_ref().is_some_and(|found| {
            let value = found.value.read();
            !value["metadata"]["deletionTimestamp"].is_null()
        });
        ends.then(|| "was created in a namespace that is being deleted".to_owned())
    }
}

/// Returns true for resources whose objects are not followed.
fn is_frequent(resource: &str) -> bool {
    matches!(resource, "leases" | "events")
}
