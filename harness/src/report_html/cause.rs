//! Causes of events, as far as the recorded events show them.
//!
//! Some events are matched by their fields: a call and its end, a fault and the process that it ends, a state of the
//! cloud and its beginning. For all other events, the cause is the last earlier event about the same object. This
//! proves nothing, but it is a good place to look.

use super::facts::Role;
use super::listener::RecordedEvent;

/// Cause of an event: its index, and the kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub at: usize,
    pub why: &'static str,
}

/// Maximum number of earlier events that are searched.
const FAR: usize = 4_000;

/// An event with the objects that it names, each under a single name.
pub(super) struct Named {
    pub recorded: RecordedEvent,
    pub names: Vec<String>,
}

impl Named {
    /// Returns true if both are about the same volume, pod or claim, or about the same node if neither names any of
    /// these.
    fn meets(&self, other: &Self) -> bool {
        let same = |node: bool| {
            let wanted = |name: &&String| name.starts_with("node/") == node;
            self.names.iter().filter(wanted).any(|name| other.names.contains(name))
        };
        same(false) || (self.names.iter().all(|name| name.starts_with("node/")) && same(true))
    }

    fn is_commit(&self) -> bool {
        matches!(self.recorded.facts.role, Role::Commit { .. })
    }
}

/// Cause of the event at `at` of `all`.
pub(super) fn of(all: &[Named], at: usize) -> Option<Cause> {
    let event = &all[at];
    let (recorded, here) = (&event.recorded, |other: &Named| other.recorded.process == event.recorded.process);
    let back = |why: &'static str, is: &dyn Fn(&Named) -> bool| {
        let from = at.saturating_sub(FAR);
        all[from..at].iter().rposition(is).map(|found| Cause { at: from + found, why })
    };
    match &recorded.facts.role {
        Role::Done(_, ordinal) => back("the call that it ends", &|other| {
            here(other) && matches!(&other.recorded.facts.role, Role::Call(_, n) if n == ordinal)
        }),
        Role::Answered(rpc) => {
            let asked = back("its own call, which got no answer", &|other| {
                here(other) && other.recorded.facts.role == Role::Asked(rpc.clone()) && alike(event, other)
            })?;
            let done = back("the driver's answer", &|other| {
                matches!(&other.recorded.facts.role, Role::Done(done, _) if done == rpc) && alike(event, other)
            });
            Some(done.filter(|done| done.at > asked.at).unwrap_or(asked))
        }
        Role::Call(rpc, _) => back("the caller", &|other| {
            matches!(&other.recorded.facts.role, Role::Asked(asked) if asked == rpc) && alike(event, other)
        }),
        Role::Cloud { settles: true } => back("the start of the operation", &|other| {
            matches!(other.recorded.facts.role, Role::Cloud { .. })
                && other.recorded.kind == recorded.kind
                && event.meets(other)
        }),
        Role::Cloud { settles: false } => back("the driver's call", &|other| {
            matches!(other.recorded.facts.role, Role::Call(..)) && event.meets(other)
        }),
        Role::CloudAnswered | Role::Disk => back("the call under way", &|other| {
            here(other)
                && matches!(other.recorded.facts.role, Role::Call(..))
                && (event.names.is_empty() || event.meets(other))
        }),
        Role::Plug => back("the cloud's message to the machine", &|other| {
            other.recorded.kind.starts_with("ec2.") && event.meets(other)
        }),
        Role::Crashed => back("the fault that ends it", &|other| {
            other.recorded.ms == recorded.ms && other.recorded.facts.role == Role::Fired { ends: true }
        })
        .or_else(|| back("the step under way", &|other| other.recorded.facts.role == Role::Step)),
        Role::Started => back("its end", &|other| here(other) && other.recorded.facts.role == Role::Crashed),
        Role::Commit { by } if by == "scenario" => {
            back("the step under way", &|other| other.recorded.facts.role == Role::Step)
        }
        Role::Commit { by } => {
            let own =
                back("what the writer did before", &|other| *other.recorded.process == **by && event.meets(other));
            let other = back("the last change of what belongs to it", &|other| other.is_commit() && event.meets(other));
            own.max_by_place(other)
        }
        Role::Fired { .. } => {
            back("the call under way", &|other| here(other) && matches!(other.recorded.facts.role, Role::Call(..)))
                .filter(|call| !ended(&all[call.at..at]))
        }
        Role::Step | Role::Traffic => None,
        Role::Asked(_) | Role::Other => {
            let own = back("what it did before about the same object", &|other| here(other) && event.meets(other));
            let other = back("the last change of its object", &|other| other.is_commit() && event.meets(other));
            own.max_by_place(other)
        }
    }
}

/// Returns true if the call at the start of `since` ends within it.
fn ended(since: &[Named]) -> bool {
    let Some((call, after)) = since.split_first() else { return true };
    let Role::Call(_, ordinal) = &call.recorded.facts.role else { return true };
    after.iter().any(|other| {
        other.recorded.process == call.recorded.process
            && matches!(&other.recorded.facts.role, Role::Done(_, n) if n == ordinal)
    })
}

/// Returns true if two calls name the same objects, or neither names any.
fn alike(one: &Named, other: &Named) -> bool {
    one.meets(other) || (one.names.is_empty() && other.names.iter().all(|name| name.starts_with("node/")))
}

trait Later {
    fn max_by_place(self, other: Self) -> Self;
}

impl Later for Option<Cause> {
    fn max_by_place(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(two)) => Some(if one.at >= two.at { one } else { two }),
            (one, two) => one.or(two),
        }
    }
}
