//! `wait`: waits until an object or a list is as described.

use crate::scenario::lower::no_namespace;
use crate::scenario::predicate::{Holds, That};
use crate::scenario::prelude::*;
use crate::spec::object::State;

pub(super) static KEY: Key = one("wait", Of::Map(&WAIT), "Waits until an object or a list is as described.").like(&[
    "- wait: {object: pod/web, is: Running, on: node-a, within: 2m}",
    "- wait: {object: pod/web, records: 5}",
    "- wait: {list: pods, namespace: default, that: 'self.size() == 1', within: 1m}",
]);

static WAIT: Map = Map {
    name: "wait",
    about: "A wait. All conditions must hold at once.",
    keys: &[
        one("object", Of::Object, "The object."),
        one("list", Of::Text, "The kind of the objects of a list, such as pods; goes with `that`."),
        may("namespace", Of::Name, "The namespace of the list; all when absent."),
        may("is", Of::Words(STATES), "The object's state. The possible states depend on its kind."),
        may("on", Of::Text, "The node that the pod is on, or that the attachment is for."),
        may(
            "records",
            Of::Whole(0, None),
            "Minimum number of records that the pod has written and synced since it started.",
        ),
        may("that", Of::Cel, "A condition on the object or on the list."),
        may("within", Of::Span, "Time limit; 5m when absent."),
    ],
};

const STATES: &[Word] = &[
    ("Pending", "The phase of a pod, claim or volume."),
    ("Running", "The phase of a pod."),
    ("Succeeded", "The phase of a pod."),
    ("Failed", "The phase of a pod or volume."),
    ("Bound", "The phase of a claim or volume."),
    ("Available", "The phase of a volume."),
    ("Released", "The phase of a volume."),
    ("Lost", "The phase of a claim."),
    ("Ready", "The condition Ready of a node or pod is True."),
    ("NotReady", "The condition Ready of a node is False."),
    ("Unknown", "The condition Ready of a node is Unknown, or so is the phase of a pod."),
    ("Attached", "`status.attached` of an attachment is true."),
    ("Detached", "The attachment exists, and `status.attached` is false."),
    ("Terminating", "`metadata.deletionTimestamp` is set."),
    ("exists", "The object exists, in any state."),
    ("gone", "The object does not exist."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    object: Option<Spanned<String>>,
    list: Option<Spanned<String>>,
    namespace: Option<Spanned<String>>,
    is: Option<Spanned<State>>,
    on: Option<Spanned<String>>,
    records: Option<Spanned<u64>>,
    that: Option<Spanned<String>>,
    within: Option<Span>,
}

/// Waits until an object is in a state; all conditions must hold at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub object: ObjectRef,
    /// State. If absent and `records` is given, any state is accepted.
    pub is: Option<State>,
    pub on: Option<String>,
    pub records: Option<u64>,
    pub that: Option<That>,
    pub within: Duration,
}

/// Default time limit.
pub(super) const WITHIN: Duration = Duration::from_secs(5 * 60);

pub(super) fn lower(wait: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let (place, wait) = (wait.place, wait.value);
    let within = wait.within.map_or(WITHIN, |w| w.0);
    let that = wait.that.map(|that| steps.that(that)).transpose()?;
    if let Some(list) = wait.list {
        let others = [wait.object.is_some(), wait.is.is_some(), wait.on.is_some(), wait.records.is_some()];
        if others.contains(&true) {
            let message = "`list` goes with `that`, `namespace` and `within` alone";
            return Err(Mistake::new(list.place, message, "a list is in no state and on no node"));
        }
        let missing = || Mistake::new(place, "there is nothing to wait for", "no condition").help("add `that`");
        let of = steps.list(list, wait.namespace)?;
        return Ok(Action::WaitFor(Holds { of, that: that.ok_or_else(missing)?, within }));
    }
    let Some(object) = wait.object else {
        let message = "a `wait` names an `object` or a `list`, and this one nothing";
        return Err(Mistake::new(place, message, "here").help("add `object: kind/name`, as in pod/web"));
    };
    let object = steps.object(&object)?;
    no_namespace(wait.namespace)?;
    let kind = object.kind;
    if let Some(is) = &wait.is
        && !kind.states().contains(&is.value)
    {
        let words: Vec<String> = kind.states().iter().map(State::to_string).collect();
        let message = format!("a {} is never {}", kind.kind(), is.value);
        let help = suggest(&is.value.to_string(), words.iter().map(String::as_str), "its states");
        return Err(Mistake::new(is.place, message, "this state").help(help));
    }
    if let Some(on) = &wait.on
        && ![Kind::pod(), Kind::volume_attachment()].contains(&kind)
    {
        let message = format!("a {} is on no node", kind.kind());
        return Err(Mistake::new(on.place, message, "`on` is for pods and attachments"));
    }
    if let Some(records) = &wait.records
        && kind != Kind::pod()
    {
        let message = format!("a {} writes no records", kind.kind());
        return Err(Mistake::new(records.place, message, "`records` is for pods"));
    }
    if wait.is.is_none() && wait.records.is_none() && wait.on.is_none() && that.is_none() {
        let message = "there is nothing to wait for";
        return Err(Mistake::new(place, message, "no condition").help("add `is`, `on`, `records` or `that`"));
    }
    Ok(Action::Wait(Wait {
        object,
        is: wait.is.map(|is| is.value),
        on: wait.on.map(|on| steps.node(on)).transpose()?,
        records: wait.records.map(|r| r.value),
        that,
        within,
    }))
}

pub(super) fn summary(wait: &Wait) -> Summary {
    Summary::check(format!("wait until {wait}")).of(&wait.object)
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = self.is.map(|is| format!(" is {is}")).unwrap_or_default();
        let on = self.on.as_ref().map(|on| format!(" on {on}")).unwrap_or_default();
        let state = Some(is + &on).filter(|state| !state.is_empty());
        let records = self.records.map(|records| format!(" has written {records} records"));
        let that = self.that.as_ref().map(|that| format!(" satisfies `{that}`"));
        let all: Vec<String> = [state, records, that].into_iter().flatten().collect();
        write!(f, "{}{} within {}", self.object, all.join(" and"), Span(self.within))
    }
}
