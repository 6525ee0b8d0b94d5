//! Written form of a step: an optional name, and one key for its action.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use substrate::fault::{Fault, Span};

use super::acts::{Ec2, Heal, NodeFile, Partition, Patch};
use super::predicate::{CallMade, CloudIs, MetricIs, Never, Times};
use super::shapes::{OneOrMany, one_of};
use super::short::{Claim, Class, Include, Pod, Repeat};
use crate::scenario::object::State;
use crate::scenario::place::Placed;

one_of! {
    /// All actions as optional keys; exactly one must be present.
    struct Step { name: Placed<String> } does Act {
        apply: Apply(OneOrMany<Map<String, Value>>),
        claim: Claim(Claim),
        pod: Pod(Pod),
        class: Class(Class),
        repeat: Repeat(Repeat),
        include: Include(Include),
        wait: Wait(Wait),
        expect: Expect(Box<Expect>),
        never: Never(Box<Never>),
        crash: Crash(String),
        restart: Restart(String),
        delete: Delete(Delete),
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
        records: Placed<u64>,
        that: Placed<String>,
        namespace: Placed<String>,
        since: Placed<String>,
        within: Placed<Span>
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
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Wait {
    pub object: Option<Placed<String>>,
    pub list: Option<Placed<String>>,
    pub namespace: Option<Placed<String>>,
    pub is: Option<Placed<State>>,
    pub on: Option<Placed<String>>,
    pub records: Option<Placed<u64>>,
    pub that: Option<Placed<String>>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct EventSeen {
    pub object: Placed<String>,
    pub reason: String,
    pub contains: Option<String>,
    pub times: Option<Placed<Times>>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Attached {
    pub claim: Placed<String>,
    pub node: Placed<String>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Elapsed {
    pub since: Option<Placed<String>>,
    pub at_least: Option<Span>,
    pub at_most: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Delete {
    pub object: Placed<String>,
    #[serde(default)]
    pub force: bool,
    pub grace: Option<Span>,
    pub cascade: Option<Placed<String>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Taint {
    pub node: Placed<String>,
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: Placed<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Untaint {
    pub node: Placed<String>,
    pub key: String,
}
