//! `expect`: requires a condition of the cluster, now or within a time.

use crate::scenario::expects::{self, EXPECT};
use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("expect", Of::Map(&EXPECT), "Requires a condition of the cluster, now or within a time.")
        .like(&["- expect: {attached: {claim: data, node: node-a}}"]);

pub(super) fn lower(expect: Spanned<Box<Expect>>, steps: &mut Steps<'_>) -> Checked<Action> {
    expects::lower(expect, steps).map(Action::Expect)
}

pub(super) fn summary(expectation: &Expectation) -> Summary {
    Summary { object: expectation.object(), ..Summary::check(format!("expect that {expectation}")) }
}
