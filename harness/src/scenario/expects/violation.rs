//! `violation`: by the end of the run, a declared deviation of upstream has occurred.

use crate::scenario::prelude::*;
use crate::spec::upstream_bugs;

pub(super) static KEY: Key =
    one("violation", Of::Known(deviations), "By the end of the run, a declared deviation of upstream has occurred.")
        .like(&["- expect: {violation: kubelet-forgets-staged-volume}"]);

pub(crate) fn deviations() -> Vec<(String, String)> {
    // The file is compiled into the program, and a test reads it.
    upstream_bugs::all().unwrap_or_default().iter().map(|known| (known.id.clone(), known.about.clone())).collect()
}

pub(super) fn lower(id: Spanned<String>, _: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    steps.violations.push(id.clone());
    Ok(Expectation::Violation(id.value))
}

pub(super) fn summary(id: &str) -> Summary {
    Summary::check(format!("by the end the declared deviation {id} occurred"))
}
