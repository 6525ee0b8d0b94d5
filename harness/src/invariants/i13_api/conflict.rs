//! Conflicts: a write that names a resourceVersion or a uid, in its object, its patch or its preconditions, is accepted
//! only if the stored object has them.
//!
//! The tests of a JSON patch are not compared, and a refused write is not judged.

use super::write::{Write, meta};

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    let (asked, old) = (write.asked?, write.old.as_deref()?);
    if let Some(rv) = asked.rv.filter(|rv| *rv != write.old_rv) {
        return Some(format!(
            "was at revision {}, and a request that requires revision {rv} was accepted ({})",
            write.old_rv, write.verb
        ));
    }
    let uid = asked.uid.as_ref().filter(|uid| *uid != meta(old, "uid"))?;
    Some(format!("has another uid than {uid}, and a request that requires this one was accepted ({})", write.verb))
}
