//! Identity: an object keeps its uid, creationTimestamp, name and namespace. A new object has a uid that no other
//! object had. Each commit has a greater revision than the one before, and replaces the newest revision of its object.
//!
//! `generateName` is not compared: upstream lets a client change it.

use std::collections::BTreeSet;

use substrate::json::Text;

use super::kind_objects::Entry;
use super::write::{Write, meta};

const FIXED: [&str; 4] = ["uid", "creationTimestamp", "name", "namespace"];

/// Checks a write. `before` is the object as the commits before described it, and `prior` the revision before.
pub(super) fn check(
    write: &Write<'_>,
    before: Option<&Entry>,
    prior: u64,
    uids: &mut BTreeSet<Text>,
) -> Option<String> {
    if write.rv <= prior {
        return Some(format!("was written as revision {} after revision {prior}", write.rv));
    }
    let new = write.new.as_deref()?;
    let uid = meta(new, "uid");
    let is_new = !uids.contains(uid) && uids.insert(uid.into());
    if let Some(old) = write.old.as_deref() {
        if let Some(field) = FIXED.iter().find(|field| meta(old, field) != meta(new, field)) {
            let (was, is) = (meta(old, field), meta(new, field));
            return Some(format!("changed its metadata.{field} from {was:?} to {is:?}"));
        }
        if let Some(entry) = before.filter(|entry| entry.rv != write.old_rv) {
            return Some(format!("was changed from revision {}, and it was at {}", write.old_rv, entry.rv));
        }
    } else if before.is_some() {
        return Some("was created while it exists".to_owned());
    } else if uid.is_empty() || !is_new {
        return Some(format!("was created with the uid {uid:?}, which is not new"));
    }
    let named = meta(new, "resourceVersion");
    (named.parse::<u64>().ok() != Some(write.rv))
        .then(|| format!("was written with the resourceVersion {named:?} at {}", write.rv))
}
