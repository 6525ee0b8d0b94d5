//! The steps. The module of a step has everything about it except its execution, which is in `runner/steps`:
//!
//! - of each key: `KEY`, its schema with examples; `Written`, the form of its value, if that is not a plain type; and
//!   `lower`, which checks a value and returns the action, or none if it checked other steps instead;
//! - of each action: `summary`.

pub(crate) mod admin_action;
pub(crate) mod apply;
pub(crate) mod claim;
pub(crate) mod class;
pub(crate) mod clear_fault;
pub(crate) mod cordon;
pub(crate) mod crash;
pub(crate) mod csi;
pub(crate) mod delete;
pub(crate) mod ec2;
pub(crate) mod evict;
pub(crate) mod expect;
pub(crate) mod fault;
pub(crate) mod heal;
pub(crate) mod include;
pub(crate) mod never;
pub(crate) mod node_file;
pub(crate) mod partition;
pub(crate) mod patch;
pub(crate) mod pause;
pub(crate) mod pod;
pub(crate) mod repeat;
pub(crate) mod request;
pub(crate) mod restart;
pub(crate) mod sleep;
pub(crate) mod snapshot;
pub(crate) mod taint;
pub(crate) mod uncordon;
pub(crate) mod untaint;
pub(crate) mod wait;
pub(crate) mod wait_for;

use std::fmt;
use std::time::Duration;

use serde_json::{Map as Object, Value};
use substrate::fault::{Fault, Span};

use super::document::{OneOrMany, one_of};
use super::expects::{Expect, Expectation};
use super::lower::{Checked, Steps};
use super::predicate::Holds;
use super::shape::{Map, Of, may};
use super::source_span::Spanned;
use crate::spec::{Kind, Manifest, ObjectRef};

/// Defines the written form of a step, its schema, and its check. Each key has a module, a variant, and a written form.
macro_rules! keys {
    ($($key:ident: $variant:ident($written:ty),)+) => {
        one_of! {
            /// All actions as optional keys; exactly one must be present.
            struct Step { name: Spanned<String> } does Act {
                $($key: $variant($written),)+
            }
        }

        /// A step.
        pub static STEP: Map = Map {
            name: "step",
            about: "A step: it does one thing, and may have a name.",
            keys: &[
                may(
                    "name",
                    Of::Scalar,
                    "Names the step in reports, and for `since` and `until`; no two have the same name.",
                )
                .like(&["- {name: start, sleep: 1s}"]),
                $($key::KEY,)+
            ],
        };

        impl Act {
            /// Checks the value. Returns none if it stands for several steps, which are checked by now.
            pub(super) fn lower(self, steps: &mut Steps<'_>) -> Checked<Option<Action>> {
                match self {
                    $(Self::$variant(written) => $key::lower(written, steps).map(Into::into),)+
                }
            }
        }
    };
}

keys! {
    apply: Apply(OneOrMany<Object<String, Value>>),
    claim: Claim(claim::Written),
    pod: Pod(pod::Written),
    class: Class(class::Written),
    snapshot: Snapshot(snapshot::Written),
    repeat: Repeat(repeat::Written),
    include: Include(include::Written),
    wait: Wait(wait::Written),
    expect: Expect(Box<Expect>),
    never: Never(Box<never::Written>),
    crash: Crash(String),
    restart: Restart(String),
    delete: Delete(delete::Written),
    evict: Evict(evict::Written),
    taint: Taint(taint::Written),
    untaint: Untaint(untaint::Written),
    cordon: Cordon(String),
    uncordon: Uncordon(String),
    fault: Fault(Fault),
    clear_fault: ClearFault(String),
    sleep: Sleep(Span),
    ec2: Ec2(ec2::Written),
    csi: Csi(csi::Written),
    patch: Patch(patch::Written),
    request: Request(request::Written),
    partition: Partition(partition::Written),
    heal: Heal(heal::Written),
    node_file: NodeFile(node_file::Written),
    pause: Pause(String),
}

/// Calls a macro with all actions: the module, which is also the method of the runner; the variant; the checked value.
macro_rules! actions {
    ($then:ident) => {
        $then! {
            apply: Apply(Vec<Manifest>),
            wait: Wait(wait::Wait),
            wait_for: WaitFor(Holds),
            expect: Expect(Expectation),
            never: Never(never::Never),
            crash: Crash(String),
            restart: Restart(String),
            delete: Delete(delete::Delete),
            evict: Evict(evict::Evict),
            taint: Taint(taint::Taint),
            untaint: Untaint(untaint::Untaint),
            cordon: Cordon(String),
            uncordon: Uncordon(String),
            fault: Fault(Box<Fault>),
            clear_fault: ClearFault(String),
            sleep: Sleep(Duration),
            ec2: Ec2(ec2::Call),
            csi: Csi(Box<csi::Call>),
            admin_action: AdminAction(admin_action::AdminAction),
            patch: Patch(Box<patch::Patch>),
            request: Request(Box<request::ApiRequest>),
            node_file: NodeFile(node_file::NodeFile),
            pause: Pause(String),
        }
    };
}
pub(crate) use actions;

/// Defines the action of a step from its module, its variant, and its checked value.
macro_rules! define {
    ($($action:ident: $variant:ident($value:ty),)+) => {
        /// Action of a step.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Action {
            $(
                #[doc = concat!("Checked value of `steps::", stringify!($action), "`.")]
                $variant($value),
            )+
        }

        impl Action {
            fn summary(&self) -> Summary {
                match self {
                    $(Self::$variant(value) => $action::summary(value),)+
                }
            }
        }
    };
}

actions!(define);

impl Action {
    /// Object of the action, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        self.summary().object
    }

    /// Returns true if it changes anything except the time.
    pub(super) fn changes(&self) -> bool {
        self.summary().changes
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary().text)
    }
}

/// Summary of an action.
pub(super) struct Summary {
    /// Description for progress, traces and reports.
    pub text: String,
    /// Object, if there is one.
    pub object: Option<ObjectRef>,
    /// True if the action changes anything except the time.
    pub changes: bool,
}

impl Summary {
    pub fn change(text: String) -> Self {
        Self { text, object: None, changes: true }
    }

    pub fn check(text: String) -> Self {
        Self { text, object: None, changes: false }
    }

    pub fn of(self, object: &ObjectRef) -> Self {
        Self { object: Some(object.clone()), ..self }
    }

    pub fn of_node(self, node: &str) -> Self {
        self.of(&ObjectRef::new(Kind::node(), None, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    #[test]
    fn a_key_has_the_name_of_its_module() {
        let modules: Vec<String> = Step::KEYS.iter().map(|key| key.replace('_', "-")).collect();
        let keys: Vec<&str> = STEP.keys.iter().skip(1).map(|key| key.name).collect();
        assert_eq!(keys, modules);
    }

    #[test]
    fn a_step_says_what_it_does() {
        let text = "name: t
nodes: {count: 2}
steps:
  - {name: go, apply: [{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}, {apiVersion: v1, kind: Node, metadata: {name: n}}]}
  - wait: {object: pod/web, is: Running, on: node-a, records: 5, within: 90s}
  - expect: {event: {object: pod/a/web, reason: R, contains: c, within: 30s}}
  - expect: {elapsed: {since: go, at-least: 710s, at-most: 20m}}
  - expect: {attached: {claim: data, node: node-b}}
  - delete: {object: pod/web, force: true}
  - wait: {object: pod/web, is: Running, that: \"has(self.spec)\", within: 90s}
  - wait: {list: pods, that: \"self.size() == 1\", within: 90s}
  - expect: {call: {plane: csi, op: NodeStageVolume, where: {volume: pvc/data, code: OK}, times: 2}, since: go, within: 5s}
  - expect: {metric: {of: mock-ec2, name: m, where: {state: error}, value: {at-least: 1}}}
  - expect: {ec2: {volume: pvc/data, state: in-use, attached: [node-a]}, within: 5s}
  - never: {event: {object: pod/a/web, reason: R}, until: end}
  - {name: end, expect: {event: {object: pod/a/web, reason: R, times: {at-most: 1}}}}
";
        let steps = parse("t.yaml", text).expect("valid").steps;
        let message: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            message,
            [
                "go: apply pod/web, node/n",
                "wait until pod/web is Running on node-a and has written 5 records within 1m30s",
                "expect that an event R of pod/a/web says \"c\" within 30s",
                "expect that the time since step 1 began is 11m50s to 20m",
                "expect that the volume of pvc/data is attached to node-b",
                "force delete pod/web",
                "wait until pod/web is Running and satisfies `has(self.spec)` within 1m30s",
                "wait until the list of pods satisfies `self.size() == 1` within 1m30s",
                "expect that NodeStageVolume of csi volume=pvc/data ending in OK 2 times since step 1 began within 5s",
                "expect that m of mock-ec2 where state=\"error\" is at least 1",
                "expect that the cloud's volume of pvc/data is in-use and is attached to node-a alone within 5s",
                "see that never an event R of pod/a/web at least once until end",
                "end: expect that an event R of pod/a/web, at most once",
            ]
        );
    }
}
