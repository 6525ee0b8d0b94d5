//! `object`: an object satisfies a condition.

use crate::scenario::predicate::{Holds, Subject};
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("object", Of::Object, "An object that satisfies `that`.")
    .like(&["- expect: {object: pvc/data, that: \"self.status.phase == 'Bound'\"}"]);

pub(super) fn lower(object: Spanned<String>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let (within, of) = (expect.limit(), Subject::Object(steps.object(&object)?));
    steps.holds(of, object.place, expect.that, within).map(Expectation::Holds)
}

pub(in crate::scenario) fn summary(holds: &Holds) -> Summary {
    let text = format!("{} satisfies `{}`{}", holds.of, holds.that, Within(holds.within));
    Summary { object: holds.of.object(), ..Summary::check(text) }
}
