//! Action of `wait` with a list: waits until a condition holds for it.

use crate::scenario::predicate::Holds;
use crate::scenario::prelude::*;

pub(super) fn summary(holds: &Holds) -> Summary {
    let text = format!("wait until {} satisfies `{}`{}", holds.of, holds.that, Within(holds.within));
    Summary { object: holds.of.object(), ..Summary::check(text) }
}
