//! Interned names of custom kinds. The names of built-in kinds are constants, so these need static lifetimes, too: each
//! distinct name and each distinct list of names is allocated once and kept. Equal names share one allocation, so
//! behaviour does not depend on earlier ones.

use parking_lot::Mutex;
use std::collections::BTreeSet;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());

/// Interns a name.
pub(super) fn one(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = name.to_owned().leak();
    names.insert(kept);
    kept
}

/// Interns several names, in order.
pub(super) fn all(list: &[String]) -> &'static [&'static str] {
    let list: Vec<&'static str> = list.iter().map(|name| one(name)).collect();
    let mut lists = LISTS.lock();
    if let Some(known) = lists.get(list.as_slice()) {
        return known;
    }
    let kept: &'static [&'static str] = list.leak();
    lists.insert(kept);
    kept
}
