//! Written form of an expectation.

use std::collections::BTreeMap;

use substrate::fault::Span;

use super::predicate::{CallMade, CloudIs, MetricIs, Times};
use super::shapes::one_of;
use crate::scenario::source_span::Spanned;
use crate::writes::{Elsewhere, Line};

one_of! {
    /// All expectations as optional keys; exactly one must be present.
    struct Expect {
        records: Spanned<u64>,
        that: Spanned<String>,
        namespace: Spanned<String>,
        since: Spanned<String>,
        within: Spanned<Span>
    } does Demand {
        event: Event(EventSeen),
        bytes_intact: BytesIntact(String),
        attached: Attached(Attached),
        elapsed: Elapsed(Elapsed),
        checked: Checked(BTreeMap<String, u64>),
        object: Object(String),
        list: List(String),
        call: Call(CallMade),
        metric: Metric(MetricIs),
        ec2: Ec2(CloudIs),
        violation: Violation(String),
        fired: Fired(String),
        writes: Writes(WritesMade),
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct EventSeen {
    pub object: Spanned<String>,
    pub reason: String,
    pub contains: Option<String>,
    pub times: Option<Spanned<Times>>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct WritesMade {
    pub since: Spanned<String>,
    #[serde(default)]
    pub elsewhere: Vec<Elsewhere>,
    pub lines: Vec<Spanned<Line>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Attached {
    pub claim: Spanned<String>,
    pub node: Spanned<String>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Elapsed {
    pub since: Option<Spanned<String>>,
    pub at_least: Option<Span>,
    pub at_most: Option<Span>,
}
