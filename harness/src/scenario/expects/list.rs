//! `list`: the list of all objects of a kind satisfies a condition.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("list", Of::Text, "The objects of a kind, as a list that satisfies `that`.")
    .like(&["- expect: {list: volumeattachments, that: 'self.size() == 1', within: 10s}"]);

pub(super) fn lower(list: Spanned<String>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let (within, place) = (expect.limit(), list.place);
    let of = steps.list(list, expect.namespace)?;
    steps.holds(of, place, expect.that, within).map(Expectation::Holds)
}
