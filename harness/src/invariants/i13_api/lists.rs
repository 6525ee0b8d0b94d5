//! Lists: a list shows exactly the objects that its namespace and its selectors select at its revision, each at its own
//! revision and in the order of keys. Without a resourceVersion the revision is not older than the last commit, and
//! with one it is as the request says. The pages of a list show one revision, and each goes on where the one before
//! ended.
//!
//! Lists with selectors that [`Selection`] does not model are not judged, nor lists of revisions that are no longer
//! known, nor those of objects whose content no observer has seen.

use std::sync::Arc;

use fake_apiserver::events::ListShown;
use fake_apiserver::state::Object;

use super::selection::Selection;
use super::{Checked, Contract, Id, KEPT_PAGES};

/// End of a page that can be continued.
#[derive(Clone, Debug)]
pub(super) struct Page {
    rv: u64,
    /// The key of its last object.
    last: Arc<str>,
}

impl Contract {
    /// Checks a list, and remembers its end if it can be continued.
    pub(super) fn on_listed(&mut self, list: &ListShown, checked: &mut Checked) -> Option<String> {
        let items = list.held.get().filter(|_| self.complete == Some(true))?;
        let page = if list.token.is_empty() { None } else { Some(self.pages.get(&list.token).cloned()?) };
        let name = list.namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let said = |wrong: String| format!("a list of {}{name} at revision {} {wrong}", list.resource, list.rv);
        if let Some(wrong) = self.wrong_revision(list, page.as_ref()) {
            checked.add(Id::I13, 1);
            return Some(said(wrong));
        }
        let selection = Selection::parse(&list.labels, &list.fields)?;
        let resource = (list.group.clone().unwrap_or_default(), list.resource.clone());
        let Some(kind) = self.kinds.get(&resource) else {
            checked.add(Id::I13, 1);
            return (!items.is_empty()).then(|| said("shows objects that do not exist".to_owned()));
        };
        let objects = kind.at(list.rv)?;
        let prefix = list.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let mut expected = Vec::with_capacity(items.len());
        for (key, entry) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            if page.as_ref().is_some_and(|page| **key <= *page.last) {
                continue;
            }
            if selection.is_empty() || selection.selects(&entry.object.as_ref()?.value.read()) {
                expected.push((key.clone(), entry.rv));
            }
        }
        checked.add(Id::I13, 1);
        let limit = usize::try_from(list.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let has_more = expected.len() > limit;
        expected.truncate(limit);
        if let Some(wrong) = difference(&expected, items) {
            return Some(said(wrong));
        }
        let last = expected.last().map(|(key, _)| key.clone());
        match (has_more, list.next.is_empty(), last) {
            (true, true, Some(last)) => return Some(said(format!("ends with {last}, and there are more objects"))),
            (false, false, _) => return Some(said("is to be continued, and there are no more objects".to_owned())),
            (true, false, Some(last)) => {
                if self.pages.len() >= KEPT_PAGES {
                    self.pages.pop_first();
                }
                self.pages.insert(list.next.clone(), Page { rv: list.rv, last });
            }
            _ => {}
        }
        None
    }

    /// Compares the revision of a list with its request.
    fn wrong_revision(&self, list: &ListShown, page: Option<&Page>) -> Option<String> {
        if list.stale {
            return None;
        }
        if let Some(page) = page {
            return (list.rv != page.rv).then(|| format!("continues one of revision {}", page.rv));
        }
        if list.version.is_empty() {
            return (list.rv < self.newest).then(|| format!("is older than the last commit, {}", self.newest));
        }
        let asked: u64 = list.version.parse().ok()?;
        let is_right = if list.matching == "Exact" { list.rv == asked } else { list.rv >= asked };
        (!is_right).then(|| format!("was asked for revision {asked}"))
    }
}

/// Compares the objects of a list with the expected ones.
fn difference(expected: &[(Arc<str>, u64)], items: &[Arc<Object>]) -> Option<String> {
    let mut items = items.iter();
    for (key, rv) in expected {
        let Some(item) = items.next() else { return Some(format!("lacks {key}")) };
        let found = key_of(item);
        if found != **key {
            return Some(if found.as_str() > &**key { format!("lacks {key}") } else { unexpected(&found) });
        }
        if item.revision != *rv {
            return Some(format!("shows {key} at revision {}, and it is at {rv}", item.revision));
        }
    }
    items.next().map(|item| unexpected(&key_of(item)))
}

fn unexpected(key: &str) -> String {
    format!("shows {key}, which it does not select")
}

/// Returns the key that the metadata of an object say.
pub(super) fn key_of(object: &Object) -> String {
    let value = object.value.read();
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
