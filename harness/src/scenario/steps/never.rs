//! `never`: forbids a condition, from here to the end or to a named step.

use crate::scenario::document::one_of;
use crate::scenario::expects::{call, ec2, event, metric, object, times::counted};
use crate::scenario::lower::{no_namespace, only};
use crate::scenario::predicate::{Calls, Cloud, EventSeen, Holds, Metric, Subject};
use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("never", Of::Map(&NEVER), "Forbids a condition, from here to the end or to a named step.")
        .like(&["- never: {object: pvc/data, that: \"self.status.phase == 'Lost'\"}"]);

pub(crate) static NEVER: Map = Map {
    name: "never",
    about: "Exactly one condition that must not hold.",
    keys: &[
        one("object", Of::Object, "An object that satisfies `that`.")
            .like(&["- never: {object: pod/web, that: \"self.status.phase == 'Failed'\"}"]),
        one("list", Of::Text, "The objects of a kind, as a list that satisfies `that`.")
            .like(&["- never: {list: volumeattachments, that: 'self.size() > 1'}"]),
        one("call", Of::Map(&call::CALL), "A call, or at least as many as `times` says.")
            .like(&["- never: {call: {plane: csi, op: ControllerPublishVolume, where: {node: node-b}}, until: end}"]),
        one("event", Of::Map(&event::EVENT), "A Kubernetes Event about an object.")
            .like(&["- never: {event: {object: pod/web, reason: FailedAttachVolume, times: {at-least: 2}}}"]),
        one("metric", Of::Map(&metric::METRIC), "A value of a metric.").like(&[
            "- never: {metric: {of: mock-ec2, name: mock_ec2_volumes, where: {state: error}, value: {at-least: 1}}}",
        ]),
        one("ec2", Of::Map(&ec2::CLOUD), "A state of a volume or instance of the cloud.")
            .like(&["- never: {ec2: {volume: pvc/data, attached: [node-b]}}"]),
        may("that", Of::Cel, "A condition on the `object` or `list` that must not hold."),
        may("namespace", Of::Name, "The namespace of the `list`; all when absent."),
        may("until", Of::Scalar, "The later step at whose start this ends; the end of the run when absent."),
    ],
};

one_of! {
    /// All conditions as optional keys; exactly one must be present.
    struct Written {
        that: Spanned<String>,
        namespace: Spanned<String>,
        until: Spanned<String>
    } does Condition {
        object: Object(String),
        list: List(String),
        call: Call(call::Written),
        event: Event(event::Written),
        metric: Metric(metric::Written),
        ec2: Ec2(ec2::Written),
    }
}

/// A condition that is forbidden from its step on.
#[derive(Clone, Debug, PartialEq)]
pub struct Never {
    pub what: Forbidden,
    /// Name of the later step at whose start it ends; if absent, the end of the steps.
    pub until: Option<String>,
}

/// A forbidden condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Forbidden {
    Holds(Holds),
    /// At least `at_least` calls.
    Calls(Calls),
    /// At least `at_least` recordings of an Event.
    Event(EventSeen),
    Metric(Metric),
    Cloud(Cloud),
}

pub(super) fn lower(never: Spanned<Box<Written>>, steps: &mut Steps<'_>) -> Checked<Action> {
    let (place, mut never) = (never.place, *never.value);
    let help = "make two steps of it";
    let forbidden = only(never.take(), place, "a `never` forbids one thing", Written::KEYS, help)?;
    let Written { that, namespace, until, .. } = never;
    if let Some(that) = &that
        && !matches!(forbidden, Condition::Object(_) | Condition::List(_))
    {
        return Err(Mistake::new(that.place, "`that` stands beside `object` or `list`", "here"));
    }
    if !matches!(forbidden, Condition::List(_)) {
        no_namespace(namespace.clone())?;
    }
    let what = match forbidden {
        Condition::Object(object) => {
            let (of, place) = (Subject::Object(steps.object(&object)?), object.place);
            Forbidden::Holds(steps.holds(of, place, that, Duration::ZERO)?)
        }
        Condition::List(list) => {
            let place = list.place;
            Forbidden::Holds(steps.holds(steps.list(list, namespace)?, place, that, Duration::ZERO)?)
        }
        Condition::Call(call) => {
            counted(call.value.times.as_ref())?;
            Forbidden::Calls(call::check(call, None, Duration::ZERO, steps)?)
        }
        Condition::Event(event) => {
            if event.value.within.is_some() {
                let help = "leave it out: `never` holds to its end";
                return Err(Mistake::new(event.place, "a `never` has no `within`", "here").help(help));
            }
            counted(event.value.times.as_ref())?;
            Forbidden::Event(event::check(event.value, steps)?)
        }
        Condition::Metric(metric) => Forbidden::Metric(metric::check(metric, Duration::ZERO, steps)?),
        Condition::Ec2(cloud) => Forbidden::Cloud(ec2::check(cloud, Duration::ZERO, steps)?),
    };
    let until = until.map(|until| {
        steps.untils.push((until.clone(), steps.done.len()));
        until.value
    });
    Ok(Action::Never(Never { what, until }))
}

pub(super) fn summary(never: &Never) -> Summary {
    Summary { text: format!("see that never {never}"), ..never.what.summary() }
}

impl Forbidden {
    fn summary(&self) -> Summary {
        match self {
            Self::Holds(holds) => object::summary(holds),
            Self::Calls(calls) => call::summary(calls),
            Self::Event(event) => {
                let says = event.contains.as_ref().map(|part| format!(" that says \"{part}\"")).unwrap_or_default();
                let text = format!("an event {} of {}{says} {}", event.reason, event.object, event.times);
                Summary::check(text).of(&event.object)
            }
            Self::Metric(metric) => metric::summary(metric),
            Self::Cloud(cloud) => ec2::summary(cloud),
        }
    }
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what.summary().text)?;
        match &self.until {
            Some(until) => write!(f, " until {until}"),
            None => Ok(()),
        }
    }
}
