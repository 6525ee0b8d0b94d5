//! Start of a watch, and the type of the event that a watch receives for a commit.

use std::sync::Arc;

use super::history::{Event, EventType};
use super::key_range::{prefix, within};
use super::list::{Match, Version, invalid_options};
use super::object::{Object, name_of};
use super::selector::Selector;
use super::status::Status;
use super::{FieldError, Store};
use crate::kinds::Kind;

/// Parameters of a watch that decide how it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchOptions {
    /// resourceVersion.
    pub version: Version,
    /// resourceVersionMatch.
    pub matching: Option<Match>,
    /// sendInitialEvents.
    pub send_initial_events: Option<bool>,
    /// allowWatchBookmarks.
    pub allow_bookmarks: bool,
    /// True if `continue` was given, which a watch does not allow.
    pub continued: bool,
}

impl WatchOptions {
    /// Refuses invalid combinations.
    ///
    /// # Errors
    /// 422 with the reasons.
    pub fn check(&self) -> Result<(), Status> {
        self.check_sent(self.matching.map_or("", Match::name))
    }

    /// Refuses invalid combinations with the resourceVersionMatch that a request sent (apimachinery
    /// `ValidateListOptions` for watches).
    ///
    /// # Errors
    /// As [`WatchOptions::check`].
    pub fn check_sent(&self, matching: &str) -> Result<(), Status> {
        let field = "resourceVersionMatch";
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, why));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(field, &matching.into(), &["NotOlderThan"]));
            }
            if self.continued {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(invalid_options(errors)) }
    }

    /// Returns true if the stream starts with the present state, followed by a bookmark (WatchList).
    pub fn is_watch_list(&self) -> bool {
        self.send_initial_events == Some(true) && self.allow_bookmarks
    }

    /// Returns the revision that must exist before the stream can start. Only a watch that starts with state waits for
    /// one.
    pub fn needed(&self) -> Option<u64> {
        match (self.send_initial_events, self.version) {
            (Some(true), Version::At(revision)) => Some(revision),
            _ => None,
        }
    }
}

/// An event that a watch receives before live ones.
#[derive(Clone, Debug)]
pub enum Initial {
    /// A present object: a synthetic ADDED.
    Present(Arc<Object>),
    /// A commit that the watch missed.
    Missed(Arc<Event>, EventType),
}

/// Start of a watch.
#[derive(Clone, Debug)]
pub struct Started {
    /// Events at the start.
    pub initial: Vec<Initial>,
    /// Revision of the bookmark that ends the initial events, if there is one.
    pub bookmark: Option<u64>,
    /// Events after that bookmark; only if the state was older than the present one.
    pub later: Vec<Initial>,
    /// True if it starts with the state of the objects.
    pub state: bool,
    /// The revision at which it starts.
    pub from: u64,
    /// Live events are those above this revision.
    pub after: u64,
}

impl Store {
    /// Starts a watch at the present revision. The caller has waited for the revision that the options need.
    ///
    /// # Errors
    /// 422 for invalid options, 410 for a revision that is no longer held, 504 for a future one.
    pub fn watch(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
        options: &WatchOptions,
    ) -> Result<Started, Status> {
        self.watch_behind(kind, namespace, selector, options, 0)
    }

    /// Starts a watch whose initial state is `behind` revisions old, or as old as the history reaches back.
    ///
    /// # Errors
    /// As [`Store::watch`].
    pub fn watch_behind(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
        options: &WatchOptions,
        behind: u32,
    ) -> Result<Started, Status> {
        options.check()?;
        if let Some(wanted) = options.needed().filter(|n| *n > self.revision) {
            return Err(Status::too_large_resource_version(wanted, self.revision));
        }
        let (state, from) = match (options.send_initial_events, options.version) {
            (None, Version::Unset | Version::Any) | (Some(true), _) => (true, self.revision),
            (Some(false), Version::Unset | Version::Any) => (false, self.revision),
            (None | Some(false), Version::At(revision)) => (false, revision),
        };
        let kind_store = self.kind_store(kind);
        let prefix = prefix(namespace);
        let missed = |from: u64| -> Result<Vec<Initial>, Status> {
            let from = if self.defects.starts_expired { from.max(kind_store.history.floor()) } else { from };
            let events = kind_store.history.since(from)?;
            let reported = |event: &Arc<Event>| {
                let event_type = event_type_for(event, namespace, selector)?;
                let leaves = event_type == EventType::Deleted && event.new.is_some();
                (!leaves || !self.defects.forgets_leavers).then(|| Initial::Missed(event.clone(), event_type))
            };
            Ok(events.filter_map(reported).collect())
        };
        if state && behind > 0 {
            let from = from.saturating_sub(behind.into()).max(kind_store.history.floor()).max(1);
            let mut initial: Vec<Initial> = within(&self.cached_at(kind, from)?, &prefix, &prefix)
                .filter(|(_, object)| selector.selects(object))
                .map(|(_, object)| Initial::Present(object.clone()))
                .collect();
            let bookmark = options.is_watch_list().then_some(from);
            let mut later = missed(from)?;
            if bookmark.is_none() {
                initial.append(&mut later);
            }
            return Ok(Started { initial, bookmark, later, state, from, after: self.revision });
        }
        let initial = if state {
            kind_store
                .candidates(&prefix, &prefix, selector)
                .filter(|(_, object)| selector.selects(object))
                .map(|(_, object)| Initial::Present(object.clone()))
                .collect()
        } else {
            missed(from)?
        };
        let bookmark = options.is_watch_list().then_some(self.revision);
        Ok(Started { initial, bookmark, later: Vec::new(), state, from, after: from.max(self.revision) })
    }
}

/// Returns the type of the event that a watch of `namespace` and `selector` receives for a commit; `None` if it does
/// not concern the watch. An object that starts to match is ADDED, one that stops matching is DELETED, as in apiserver
/// `storage/cacher` (`convertToWatchEvent`).
pub fn event_type_for(event: &Event, namespace: Option<&str>, selector: &Selector) -> Option<EventType> {
    if let Some(namespace) = namespace {
        let inside = event.key.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'));
        if !inside {
            return None;
        }
    }
    if selector.is_empty() {
        return Some(event.own_type());
    }
    // Names never change, so the objects need not be parsed.
    if selector.fields.required("metadata.name").is_some_and(|name| name != name_of(&event.key)) {
        return None;
    }
    let matches = |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|o| selector.selects(o));
    match (matches(&event.old), matches(&event.new)) {
        (false, false) => None,
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
    }
}
