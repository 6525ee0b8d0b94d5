//! Written form of a step: an optional name, and one key for its action.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use substrate::fault::{Fault, Span};

use super::acts::{Ec2, Heal, NodeFile, Partition, Patch};
use super::predicate::{CallMade, CloudIs, MetricIs, Never, Times};
use super::shapes::{OneOrMany, one_of};
use super::short::{Claim, Class, Include, Pod, Repeat, Snapshot};
use crate::scenario::source_span::Spanned;
use crate::spec::object::State;
use crate::writes::{Elsewhere, Line};

one_of! {
    /// All actions as optional keys; exactly one must be present.
    struct Step { name: Spanned<String> } does Act {
        apply: Apply(OneOrMany<Map<String, Value>>),
        claim: Claim(Claim),
        pod: Pod(Pod),
        class: Class(Class),
        snapshot: Snapshot(Snapshot),
        repeat: Repeat(Repeat),
        include: Include(Include),
        wait: Wait(Wait),
        expect: Expect(Box<Expect>),
        never: Never(Box<Never>),
        crash: Crash(String),
        restart: Restart(String),
        delete: Delete(Delete),
        evict: Evict(Evict),
        taint: Taint(Taint),
        untaint: Untaint(Untaint),
        cordon: Cordon(String),
        uncordon: Uncordon(String),
        fault: Fault(Fault),
        clear_fault: ClearFault(String),
        sleep: Sleep(Span),
        ec2: Ec2(Ec2),
        patch: Patch(Patch),
        partition: Partition(Partition),
        heal: Heal(Heal),
        node_file: NodeFile(NodeFile),
        pause: Pause(String),
    }
}

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
pub(in crate::scenario) struct Wait {
    pub object: Option<Spanned<String>>,
    pub list: Option<Spanned<String>>,
    pub namespace: Option<Spanned<String>>,
    pub is: Option<Spanned<State>>,
    pub on: Option<Spanned<String>>,
    pub records: Option<Spanned<u64>>,
    pub that: Option<Spanned<String>>,
    pub within: Option<Span>,
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

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Delete {
    pub object: Spanned<String>,
    #[serde(default)]
    pub force: bool,
    pub grace: Option<Span>,
    pub cascade: Option<Spanned<String>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Evict {
    pub object: Spanned<String>,
    pub grace: Option<Span>,
    pub within: Option<Span>,
    #[serde(default)]
    pub refused: bool,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Taint {
    pub node: Spanned<String>,
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: Spanned<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Untaint {
    pub node: Spanned<String>,
    pub key: String,
}
