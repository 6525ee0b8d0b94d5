//! Conflicts: a write that names a resourceVersion or a uid, in its object, its patch or its preconditions, is accepted
//! only if the stored object has them. A create is accepted only if there is no object of the name. A dry run writes
//! nothing.
//!
//! The tests of a JSON patch are not compared, and a refused write is not judged.

use super::write::{Write, meta};

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    if write.dry_run {
        return Some(format!("was written by a dry run ({})", write.verb));
    }
    let (asked, old) = (write.asked?, write.old.as_deref()?);
    if write.verb == "create" && asked.subresource.is_empty() && !write.is_removed() {
        return Some("was created while it exists".to_owned());
    }
    if let Some(rv) = asked.rv.filter(|rv| *rv != write.old_rv) {
        return Some(format!(
            "was at revision {}, and a request that requires revision {rv} was accepted ({})",
            write.old_rv, write.verb
        ));
    }
    let uid = asked.uid.as_ref().filter(|uid| *uid != meta(old, "uid"))?;
    Some(format!("has another uid than {uid}, and a request that requires this one was accepted ({})", write.verb))
}
