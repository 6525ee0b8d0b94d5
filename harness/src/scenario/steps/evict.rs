//! `evict`: evicts a pod.

use super::wait::WITHIN;
use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("evict", Of::Map(&EVICT), "Evicts a pod, as `kubectl drain` does: a disruption budget can delay it.")
        .like(&["- evict: {object: pod/web, grace: 5s, within: 10m}"]);

static EVICT: Map = Map {
    name: "evict",
    about: "An eviction.",
    keys: &[
        must("object", Of::Object, "The pod. If it does not exist, the step succeeds."),
        may("grace", Of::Span, "The grace period; the pod's own when absent."),
        may("within", Of::Span, "Time for which a refused eviction is requested again, every 5s; 5m when absent."),
        may("refused", Of::Flag, "A disruption budget must refuse it. It is requested once."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    object: Spanned<String>,
    grace: Option<Span>,
    within: Option<Span>,
    #[serde(default)]
    refused: bool,
}

/// An eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct Evict {
    pub pod: ObjectRef,
    pub grace: Option<Duration>,
    pub within: Duration,
    pub refused: bool,
}

pub(super) fn lower(evict: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Written { object, grace, within, refused } = evict.value;
    let pod = steps.object(&object)?;
    if pod.kind != Kind::pod() {
        let message = format!("only pods can be evicted, and `{}` is none", *object);
        return Err(Mistake::new(object.place, message, "not a pod").help("write `pod/NAME`"));
    }
    let within = within.map_or(WITHIN, |within| within.0);
    Ok(Action::Evict(Evict { pod, grace: grace.map(|g| g.0), within, refused }))
}

pub(super) fn summary(evict: &Evict) -> Summary {
    let refused = if evict.refused { ", which is refused" } else { "" };
    Summary::change(format!("evict {}{refused}", evict.pod)).of(&evict.pod)
}
