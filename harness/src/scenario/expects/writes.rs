//! `writes`: the API server was written to exactly so since a step began.

use crate::scenario::prelude::*;
use crate::writes::{Elsewhere, Expected, Line, expected};

pub(super) static KEY: Key = one(
    "writes",
    Of::Map(&WRITES),
    "The API server was written to exactly so since a step began; in simulation only.",
)
.like(&[
    "- expect: {writes: {since: later, lines: [{by: csi-attacher, does: PATCH merge volumeattachments/status csi-1, \
                 fields: {status: {attached: true}}, may: [miss]}]}}",
    "- expect: {writes: {since: later, lines: [{by: kubelet, event: Normal Killing pod/web, says: Stopping container \
                 writer, component: kubelet, lacks: [version], may: [miss, repeat]}]}}",
]);

static WRITES: Map = Map {
    name: "writes",
    about: "Writes to the API server; docs/writes.md has the format of the lines.",
    keys: &[
        must("since", Of::Scalar, "The step from whose start writes count."),
        may(
            "elsewhere",
            Of::List(&Of::Map(&ELSEWHERE)),
            "Writes that another file expects, and that do not count here.",
        ),
        must("lines", Of::Some(&Of::Map(&LINE)), "The writes, in order."),
    ],
};

static ELSEWHERE: Map = Map {
    name: "elsewhere",
    about: "Writes of a client that another file expects.",
    keys: &[
        must("by", Of::Text, "The client."),
        may("does", Of::Text, "How `does` of these writes begins; all writes of the client when absent."),
        must("in", Of::Text, "The name of the scenario that expects them."),
    ],
};

static LINE: Map = Map {
    name: "line",
    about: "One write: `does` and `fields`, or `event`, `says` and `component`; or lists of writes, `together`.",
    keys: &[
        may("by", Of::Text, "The client, as its User-Agent names it: PROGRAM or PROGRAM/PART."),
        may("does", Of::Text, "Verb, kind of patch, resource, object: `PATCH merge volumeattachments NAME`."),
        may(
            "fields",
            Of::Either(&[
                (
                    Of::Part,
                    "The body; for a PUT the fields that differ from the stored object, with null for a removed one.",
                ),
                (Of::List(&Of::Part), "The operations of a JSON patch."),
            ]),
            "The fields.",
        ),
        may("answer", Of::Whole(300, Some(599)), "The HTTP status of a refused write; success when absent."),
        may("event", Of::Text, "Type, reason and object of an Event: `Normal Scheduled pod/web`."),
        may("says", Of::Text, "The message of the Event."),
        may("component", Of::Text, "The reporting component of the Event."),
        may("host", Of::Text, "The host of the reporter."),
        may("action", Of::Text, "The action of an Event of events.k8s.io."),
        may("related", Of::Text, "Its other object: `pod/web`."),
        may("path", Of::Text, "The `fieldPath` of the Event's object."),
        may("lacks", Of::List(&Of::Words(LACKS)), "Fields that the Event's reference to its object lacks."),
        may("may", Of::List(&Of::Words(FREEDOMS)), "Freedoms of the line."),
        may("from", Of::Text, "The source of the line, which the report of a difference names."),
        may(
            "together",
            Of::List(&Of::List(&Of::Map(&LINE))),
            "Lists of lines. Each list is in order; the order between the lists is free.",
        ),
    ],
};

const LACKS: &[Word] = &[("uid", "The uid."), ("version", "The resourceVersion.")];

const FREEDOMS: &[Word] = &[("miss", "The write may be absent."), ("repeat", "The write may occur more than once.")];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    since: Spanned<String>,
    #[serde(default)]
    elsewhere: Vec<Elsewhere>,
    lines: Vec<Spanned<Line>>,
}

/// Writes to the API server since a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// Index of the step.
    pub since: usize,
    /// Writes that other files expect.
    pub elsewhere: Vec<Elsewhere>,
    /// The lines, in the order of the file.
    pub lines: Vec<Expected>,
}

pub(super) fn lower(writes: Spanned<Written>, _: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let Spanned { place, value: Written { since, elsewhere, lines } } = writes;
    if !steps.is_simulated {
        let message = "writes are recorded in simulation only";
        return Err(Mistake::new(place, message, "here").help("add `worlds: [simulated]` to the file"));
    }
    if lines.is_empty() {
        let help = "for no write at all, use `never: {call: {plane: k8s, op: write}}`";
        return Err(Mistake::new(place, "`lines` expects no write", "here").help(help));
    }
    let mut found = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        expected(index, &line, &mut found).map_err(|why| Mistake::new(line.place, why, "in this line"))?;
    }
    let since = steps.index(since)?;
    Ok(Expectation::Writes(Writes { since, elsewhere, lines: found }))
}

pub(super) fn summary(writes: &Writes) -> Summary {
    let (lines, since) = (writes.lines.len(), writes.since + 1);
    Summary::check(format!("the API server was written to as in {lines} lines since step {since} began"))
}
