//! The names of custom kinds. Those of built-in kinds are constants, and so are these: each different name, and each
//! different list of names, is made once and kept. Equal names are one, so nobody can tell which there were before.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());

/// A name.
pub(super) fn one(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = name.to_owned().leak();
    names.insert(kept);
    kept
}

/// Several names, in their order.
pub(super) fn all(list: &[String]) -> &'static [&'static str] {
    let list: Vec<&'static str> = list.iter().map(|name| one(name)).collect();
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.get(list.as_slice()) {
        return known;
    }
    let kept: &'static [&'static str] = list.leak();
    lists.insert(kept);
    kept
}
