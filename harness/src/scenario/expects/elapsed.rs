//! `elapsed`: a time since a step began is within bounds.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("elapsed", Of::Map(&ELAPSED), "How much time passed since a step began.")
    .like(&["- expect: {elapsed: {since: start, at-least: 1s, at-most: 10m}}"]);

static ELAPSED: Map = Map {
    name: "elapsed",
    about: "Bounds on the time that passed; at least one of them.",
    keys: &[
        may("since", Of::Scalar, "The step from whose start the time counts; the first step when absent."),
        may("at-least", Of::Span, "The least time."),
        may("at-most", Of::Span, "The longest time."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    since: Option<Spanned<String>>,
    at_least: Option<Span>,
    at_most: Option<Span>,
}

/// Bounds on a duration in the scenario's own time.
#[derive(Clone, Debug, PartialEq)]
pub struct Elapsed {
    /// Index of the step; the first one if absent.
    pub since: Option<usize>,
    pub at_least: Option<Duration>,
    pub at_most: Option<Duration>,
}

pub(super) fn lower(elapsed: Spanned<Written>, _: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let Spanned { place, value: elapsed } = elapsed;
    let (at_least, at_most) = (elapsed.at_least.map(|s| s.0), elapsed.at_most.map(|s| s.0));
    if at_least.is_none() && at_most.is_none() {
        return Err(Mistake::new(place, "no bound on the time that passed", "here").help("add `at-least` or `at-most`"));
    }
    if at_least.zip(at_most).is_some_and(|(least, most)| least > most) {
        return Err(Mistake::new(place, "`at-least` is more than `at-most`", "no time lies between these"));
    }
    let since = elapsed.since.map(|name| steps.index(name)).transpose()?;
    Ok(Expectation::Elapsed(Elapsed { since, at_least, at_most }))
}

pub(super) fn summary(elapsed: &Elapsed) -> Summary {
    let since = elapsed.since.map_or_else(|| "the first step".to_owned(), |step| format!("step {}", step + 1));
    let bounds = match (elapsed.at_least, elapsed.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", Span(least), Span(most)),
        (Some(least), None) => format!("at least {}", Span(least)),
        (None, Some(most)) => format!("at most {}", Span(most)),
        (None, None) => "anything".to_owned(),
    };
    Summary::check(format!("the time since {since} began is {bounds}"))
}
