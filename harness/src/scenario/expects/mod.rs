//! The expectations under `expect:`. The module of an expectation has everything about it except its execution, which
//! is in `runner/steps/expects.rs`: `KEY`, its schema with examples; `Written`, the form of its value, if that is not a plain
//! type; `lower`, which checks a value; and `summary`.

pub(crate) mod attached;
pub(crate) mod bytes_intact;
pub(crate) mod call;
mod checked;
pub(crate) mod ec2;
pub(crate) mod elapsed;
pub(crate) mod event;
pub(crate) mod fired;
mod list;
pub(crate) mod metric;
pub(crate) mod object;
pub(crate) mod times;
pub(crate) mod violation;
pub(crate) mod writes;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use substrate::fault::Span;

use super::diagnostic::Mistake;
use super::document::{OneOf, one_of};
use super::lower::{Checked, Steps, only};
use super::predicate::Holds;
use super::shape::{Map, Of, may};
use super::source_span::Spanned;
use super::steps::Summary;
use crate::spec::{Id, ObjectRef};

/// Defines the written form of an expectation, its schema and its check from the modules of the keys, and the checked
/// form from the modules of its variants. Each key has the keys that may stand beside it.
macro_rules! expectations {
    (
        { $($key:ident: $demand:ident($written:ty) [$($beside:ident),*],)+ }
        { $($module:ident: $variant:ident($value:ty),)+ }
    ) => {
        one_of! {
            /// All expectations as optional keys; exactly one must be present.
            struct Expect {
                records: Spanned<u64>,
                that: Spanned<String>,
                namespace: Spanned<String>,
                since: Spanned<String>,
                within: Spanned<Span>
            } does Demand {
                $($key: $demand($written),)+
            }
        }

        /// An expectation.
        pub static EXPECT: Map = Map {
            name: "expect",
            about: "An expectation: exactly one condition that must hold.",
            keys: &[
                $($key::KEY,)+
                may("records", Of::Whole(0, None), "Minimum number of records for `bytes-intact`; 1 when absent."),
                may("that", Of::Cel, "A condition on the `object` or `list`."),
                may("namespace", Of::Name, "The namespace of the `list`; all when absent."),
                may(
                    "since",
                    Of::Scalar,
                    "The step from whose start a `call` counts; the start of the run when absent.",
                ),
                may("within", Of::Span, "Time limit; the condition must hold now when absent."),
            ],
        };

        impl Demand {
            /// Returns the keys that may stand beside it.
            fn takes(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$demand(_) => &[$(stringify!($beside)),*],)+
                }
            }

            fn lower(self, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
                match self {
                    $(Self::$demand(written) => $key::lower(written, expect, steps),)+
                }
            }
        }

        /// A condition that must be true.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Expectation {
            $(
                #[doc = concat!("Checked value of `expects::", stringify!($module), "`.")]
                $variant($value),
            )+
        }

        impl Expectation {
            fn summary(&self) -> Summary {
                match self {
                    $(Self::$variant(value) => $module::summary(value),)+
                }
            }
        }
    };
}

expectations! {
    {
        event: Event(event::Written) [],
        bytes_intact: BytesIntact(String) [records],
        attached: Attached(attached::Written) [],
        elapsed: Elapsed(elapsed::Written) [],
        checked: Checked(BTreeMap<String, u64>) [],
        object: Object(String) [that, within],
        list: List(String) [that, namespace, within],
        call: Call(call::Written) [since, within],
        metric: Metric(metric::Written) [within],
        ec2: Ec2(ec2::Written) [within],
        violation: Violation(String) [],
        fired: Fired(String) [within],
        writes: Writes(writes::Written) [],
    }
    {
        event: Event(event::EventSeen),
        bytes_intact: BytesIntact(bytes_intact::BytesIntact),
        attached: Attached(attached::Attached),
        elapsed: Elapsed(elapsed::Elapsed),
        checked: Checked(BTreeMap<Id, u64>),
        object: Holds(Holds),
        call: Calls(call::Calls),
        metric: Metric(metric::Metric),
        ec2: Cloud(ec2::Cloud),
        violation: Violation(String),
        fired: Fired(fired::Fired),
        writes: Writes(writes::Writes),
    }
}

impl Expect {
    /// Time limit; zero if the condition must hold now.
    fn limit(&self) -> Duration {
        self.within.as_ref().map_or(Duration::ZERO, |within| within.value.0)
    }
}

/// Checks an expectation.
pub(super) fn lower(expect: Spanned<Box<Expect>>, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let (place, mut expect) = (expect.place, *expect.value);
    let help = "make two steps of it";
    let demand = only(expect.take(), place, "an `expect` demands one thing", Expect::KEYS, help)?;
    let wrong = expect.beside().into_iter().find(|(key, _)| !demand.takes().contains(&key.as_str()));
    let Some((key, place)) = wrong else { return demand.lower(expect, steps) };
    let message = match (key.as_str(), demand) {
        ("records", _) => "`records` belongs to `bytes-intact`",
        ("that", _) => "`that` stands beside `object` or `list`",
        ("namespace", _) => "`namespace` belongs to `list`",
        ("since", _) => "`since` stands beside `call`",
        (_, Demand::Event(_)) => "`within` of an event stands in it: `event: {…, within: 30s}`",
        (_, Demand::Attached(_)) => "`within` stands in it: `attached: {…, within: 30s}`",
        _ => "this demand has no `within`",
    };
    Err(Mistake::new(place, message, "here"))
}

impl Expectation {
    /// Object of the expectation, if there is one.
    pub(super) fn object(&self) -> Option<ObjectRef> {
        self.summary().object
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary().text)
    }
}
