//! Checks conditions in CEL, and counts of calls and Events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use substrate::fault::{Effect, Fault, Lease, Match, Mistake as FaultMistake, Moment, Plane, When};

use super::checked::Checked;
use super::find;
use super::steps::{Steps, no_namespace, only};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::Expectation;
use crate::scenario::predicate::EventSeen;
use crate::scenario::predicate::{
    CallPlane, Calls, Cloud, CloudSubject, Forbidden, Holds, Metric, MetricsOf, Never, Pattern, Subject, That, Times,
};
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::spec::names::has_metrics;
use crate::spec::object::{Kind, ObjectRef};
use crate::suggestions::{nearest, suggest};

/// States of an instance.
const INSTANCE_STATES: [&str; 6] = ["pending", "running", "stopping", "stopped", "shutting-down", "terminated"];
/// States of a volume; `deleted` if it does not exist.
const VOLUME_STATES: [&str; 6] = ["creating", "available", "in-use", "deleting", "error", "deleted"];

impl Steps<'_> {
    /// Compiles a condition.
    pub(in crate::scenario) fn that(&self, that: Spanned<String>) -> Checked<That> {
        That::read(&that).map_err(|unfit| {
            let mistake = Mistake::new(self.within(&that, unfit.at, unfit.length), unfit.message, "here");
            match unfit.help {
                Some(help) => mistake.help(help),
                None => mistake,
            }
        })
    }

    /// Place in the file of a line and column `at` of a text; the start of the text if it is not found.
    fn within(&self, that: &Spanned<String>, at: Option<(usize, usize)>, length: usize) -> SourceSpan {
        let found = at.and_then(|(line, column)| {
            let written = that.lines().nth(line - 1)?;
            let column = written.char_indices().nth(column - 1).map_or(written.len(), |(at, _)| at);
            let rest = self.origin.text.get(that.place.offset..)?;
            let offset = that.place.offset + rest.find(written.trim_end())? + column;
            Some(SourceSpan::of(&self.origin.text, offset, length.max(1)))
        });
        found.unwrap_or(that.place)
    }

    /// Checks a list of all objects of a kind.
    pub(in crate::scenario) fn list(
        &self,
        list: Spanned<String>,
        namespace: Option<Spanned<String>>,
    ) -> Checked<Subject> {
        let Some(kind) = self.customs.find(&list) else {
            let words: Vec<String> = self.customs.words().collect();
            let near = nearest(&list, words.iter().map(String::as_str));
            let message = format!("`{}` is not a kind of object", *list);
            let mistake = Mistake::new(list.place, message, "this kind").refers(&list);
            return Err(match near {
                Some(word) => mistake.help(format!("did you mean `{word}`?")),
                None => mistake,
            });
        };
        match namespace {
            Some(namespace) if !kind.namespaced() => {
                let message = format!("a {} has no namespace", kind.kind());
                Err(Mistake::new(namespace.place, message, "here"))
            }
            namespace => Ok(Subject::List(kind, namespace.map(|n| n.value))),
        }
    }

    pub(in crate::scenario) fn holds(
        &self,
        of: Subject,
        place: SourceSpan,
        that: Option<Spanned<String>>,
        within: Duration,
    ) -> Checked<Expectation> {
        self.holding(of, place, that, within).map(Expectation::Holds)
    }

    fn holding(
        &self,
        of: Subject,
        place: SourceSpan,
        that: Option<Spanned<String>>,
        within: Duration,
    ) -> Checked<Holds> {
        let Some(that) = that else {
            let help = "add `that: \"self.status.phase == 'Bound'\"`";
            return Err(Mistake::new(place, format!("no condition for {of}"), "here").help(help));
        };
        Ok(Holds { of, that: self.that(that)?, within })
    }

    /// Refuses keys that do not apply to this expectation.
    pub(in crate::scenario) fn own_keys(&self, expect: &doc::Expect, demand: &doc::Demand) -> Checked<()> {
        use doc::Demand as D;
        let object = matches!(demand, D::Object(_) | D::List(_));
        let timed = object || matches!(demand, D::Call(_) | D::Metric(_) | D::Ec2(_) | D::Fired(_));
        let refuse = |place: SourceSpan, message: &str| Err(Mistake::new(place, message, "here"));
        match expect {
            doc::Expect { that: Some(that), .. } if !object => {
                refuse(that.place, "`that` stands beside `object` or `list`")
            }
            doc::Expect { namespace: Some(namespace), .. } if !matches!(demand, D::List(_)) => {
                refuse(namespace.place, "`namespace` belongs to `list`")
            }
            doc::Expect { since: Some(since), .. } if !matches!(demand, D::Call(_)) => {
                refuse(since.place, "`since` stands beside `call`")
            }
            doc::Expect { within: Some(within), .. } if !timed => {
                let place = within.place;
                match demand {
                    D::Event(_) => refuse(place, "`within` of an event stands in it: `event: {…, within: 30s}`"),
                    D::Attached(_) => refuse(place, "`within` stands in it: `attached: {…, within: 30s}`"),
                    _ => refuse(place, "this demand has no `within`"),
                }
            }
            _ => Ok(()),
        }
    }

    pub(in crate::scenario) fn event(&self, event: doc::EventSeen) -> Checked<EventSeen> {
        let doc::EventSeen { object, reason, contains, times, within } = event;
        let times_of = times.map(|times| times_of(times, within.is_some())).transpose()?.unwrap_or_default();
        let within = within.map_or(Duration::ZERO, |w| w.0);
        let object = self.object(&object)?;
        Ok(EventSeen { object, reason, contains, times: times_of, within })
    }

    /// Checks calls of a plane. Operations and attributes are those of faults, and the result of the call.
    pub(in crate::scenario) fn calls(
        &self,
        call: Spanned<doc::CallMade>,
        since: Option<Spanned<String>>,
        within: Duration,
    ) -> Checked<Calls> {
        let Spanned { place, value: call } = call;
        let at = |word: &str| find::word(&self.origin.text, place, word).unwrap_or(place);
        let ending = match call.plane {
            CallPlane::Csi | CallPlane::Ec2 => "code",
            CallPlane::K8s => "status",
        };
        let mut words: BTreeMap<String, String> =
            call.attributes.into_iter().map(|(name, word)| (name, word.0)).collect();
        let outcome = words.remove(ending);
        if let Some(code) = &outcome {
            self.outcome(call.plane, code).map_err(|help| {
                let message =
                    format!("where.{ending}: `{code}` is not a result of calls on the plane {}", call.plane.name());
                Mistake::new(at(code), message, "here").help(help)
            })?;
        }
        let wrong = if ending == "code" { "status" } else { "code" };
        if words.contains_key(wrong) {
            let message = format!("where.{wrong}: a call of the plane {} ends with a `{ending}`", call.plane.name());
            return Err(Mistake::new(at(wrong), message, "here").help(format!("did you mean `{ending}`?")));
        }
        name_object(call.plane, &mut words);
        let written = call.op.as_ref().map(ToString::to_string);
        let operations = self.operations(call.plane, call.op, &words).map_err(|mistake| {
            let field = mistake.field.strip_prefix("match.").unwrap_or(&mistake.field);
            let wrong = Mistake::new(
                mistake.word.as_deref().map_or(place, at),
                format!("{field}: {}", mistake.message),
                "here",
            );
            match &mistake.nearest {
                Some(word) => wrong.help(format!("did you mean `{word}`?")),
                None => wrong,
            }
        })?;
        let pattern = |(name, word): (String, String)| {
            let pattern = self.pattern(&name, word.clone(), at(&word))?;
            Ok((name, pattern))
        };
        Ok(Calls {
            plane: call.plane,
            operations,
            written,
            attributes: words.into_iter().map(pattern).collect::<Checked<_>>()?,
            outcome,
            times: call.times.map(|times| times_of(times, !within.is_zero())).transpose()?.unwrap_or_default(),
            since: since.map(|name| self.index(name)).transpose()?,
            within,
        })
    }

    /// Resolves the operations of calls, validated as the match of a fault that only counts.
    fn operations(
        &self,
        plane: CallPlane,
        op: Option<substrate::fault::Ops>,
        words: &BTreeMap<String, String>,
    ) -> Result<BTreeSet<&'static str>, FaultMistake> {
        let of = match plane {
            CallPlane::Csi => Plane::Csi,
            CallPlane::K8s => Plane::K8s,
            CallPlane::Ec2 => Plane::Ec2,
        };
        // Operations that can be broken but are not requests have no class.
        let is_call = |name: &str| {
            let mut all = self.catalogue.operations();
            all.any(|o| o.plane == of && o.name == name && (plane == CallPlane::Csi || !o.classes.is_empty()))
        };
        let fault = |op| Fault {
            name: "call".to_owned(),
            matches: Match { plane: of, op, attributes: words.clone().into_iter().collect() },
            when: When::default(),
            effect: Effect::Count(true),
            at: Moment::Before,
            lease: Lease::default(),
        };
        let found = self.catalogue.check(&fault(op.clone()))?;
        let calls: BTreeSet<&'static str> = found.into_iter().filter(|name| is_call(name)).collect();
        if calls.is_empty() {
            let word = op.map(|op| op.to_string());
            let message = format!("`{}` is not a call that can be counted", word.as_deref().unwrap_or_default());
            return Err(FaultMistake { word, ..FaultMistake::new("match.op", message) });
        }
        Ok(calls)
    }

    /// Checks that a call of `plane` can end with `code`. The error says what to write instead.
    fn outcome(&self, plane: CallPlane, code: &str) -> Result<(), String> {
        let stem = code.strip_suffix('*').unwrap_or(code);
        match plane {
            CallPlane::K8s => {
                let digits = stem.len() <= 3 && stem.chars().all(|c| c.is_ascii_digit());
                let whole = code.ends_with('*') || stem.len() == 3;
                if digits && whole { Ok(()) } else { Err("write an HTTP status, as in 409 or 5*".to_owned()) }
            }
            CallPlane::Csi => known(code, ["OK"].iter().chain(csi_mock::faults::FAILURES).copied()),
            CallPlane::Ec2 if code.starts_with("HTTP ") || self.codes.contains(code) => Ok(()),
            CallPlane::Ec2 => known(code, ["OK"].iter().chain(mock_ec2::faults::ERROR_CODES).copied()),
        }
    }

    /// Converts the value of an attribute; ids can be written as the names of their objects.
    fn pattern(&self, name: &str, word: String, place: SourceSpan) -> Checked<Pattern> {
        match name {
            "volume" => self.volume_or_id(word, place),
            "process" => Ok(Pattern::Process(word)),
            "node" | "instance" if word.ends_with('*') || is_id(&word, "i-") => Ok(Pattern::Word(word)),
            "node" | "instance" => self.node(Spanned { value: word, place }).map(Pattern::Node),
            _ => Ok(Pattern::Word(word)),
        }
    }

    /// Converts a volume: its id, or its claim or PersistentVolume.
    fn volume_or_id(&self, word: String, place: SourceSpan) -> Checked<Pattern> {
        if word.ends_with('*') || is_id(&word, "vol-") {
            return Ok(Pattern::Word(word));
        }
        let help = "write `pvc/NAME`, `pv/NAME` or an id such as vol-0123456789abcdef0";
        let object: ObjectRef = word.parse().map_err(|m: String| Mistake::new(place, m, "this volume").help(help))?;
        if ![Kind::claim(), Kind::volume()].contains(&object.kind) {
            return Err(Mistake::new(place, format!("a {} is not a volume", object.kind.kind()), "here").help(help));
        }
        Ok(Pattern::Volume(object))
    }

    pub(in crate::scenario) fn metric(&self, metric: Spanned<doc::MetricIs>, within: Duration) -> Checked<Metric> {
        let doc::MetricIs { of, name, labels, value } = metric.value;
        let running = self.catalogue.names().map(|names| names.processes.iter()).into_iter().flatten();
        let running: Vec<&str> = running.map(String::as_str).filter(|name| has_metrics(name)).collect();
        let Some(process) = MetricsOf::named(&of, running.iter().copied()) else {
            let servers = MetricsOf::SERVERS;
            let names = servers.iter().map(MetricsOf::name).chain(running.iter().copied());
            let message = format!("`{}` has no metrics here", *of);
            let help = suggest(&of, names, "processes with metrics");
            return Err(Mistake::new(of.place, message, "this process").help(help));
        };
        let doc::Amount { at_least, at_most } = value.value;
        bounded(value.place, at_least, at_most)?;
        let labels = labels.into_iter().map(|(name, value)| (name, value.0)).collect();
        Ok(Metric { of: process, name, labels, at_least, at_most, within })
    }

    pub(in crate::scenario) fn cloud(&self, cloud: Spanned<doc::CloudIs>, within: Duration) -> Checked<Cloud> {
        let Spanned { place, value: cloud } = cloud;
        let doc::CloudIs { volume, instance, volumes, state, attached, that } = cloud;
        let (of, states) = match (volume, instance, volumes) {
            (Some(volume), None, None) => {
                (CloudSubject::Volume(self.volume_or_id(volume.value, volume.place)?), Some(&VOLUME_STATES))
            }
            (None, Some(node), None) => (CloudSubject::Instance(self.node(node)?), Some(&INSTANCE_STATES)),
            (None, None, Some(_)) => (CloudSubject::Volumes, None),
            _ => {
                let message = "`ec2` looks at one of `volume`, `instance` and `volumes`";
                return Err(Mistake::new(place, message, "here").help("write `volume: pvc/data`"));
            }
        };
        if let Some(state) = &state {
            let Some(states) = states else {
                return Err(
                    Mistake::new(state.place, "all volumes have no state in common", "here").help("write `that`")
                );
            };
            if !states.contains(&state.value.as_str()) {
                let help = suggest(state, states.iter().copied(), "its states");
                return Err(
                    Mistake::new(state.place, format!("`{}` is not one of its states", **state), "here").help(help)
                );
            }
        }
        if let Some(attached) = &attached
            && !matches!(of, CloudSubject::Volume(_))
        {
            return Err(Mistake::new(attached.place, "`attached` belongs to `volume`", "here"));
        }
        if state.is_none() && attached.is_none() && that.is_none() {
            let help = "add `state`, `attached` or `that`";
            return Err(Mistake::new(place, "no condition for the cloud", "here").help(help));
        }
        let nodes = |list: Spanned<Vec<Spanned<String>>>| list.value.into_iter().map(|node| self.node(node)).collect();
        Ok(Cloud {
            of,
            state: state.map(|state| state.value),
            attached: attached.map(nodes).transpose()?,
            that: that.map(|that| self.that(that)).transpose()?,
            within,
        })
    }

    pub(in crate::scenario) fn never(&mut self, never: Spanned<Box<doc::Never>>) -> Checked<Never> {
        let (place, mut never) = (never.place, *never.value);
        let help = "make two steps of it";
        let forbidden = only(never.take(), place, "a `never` forbids one thing", doc::Never::KEYS, help)?;
        let doc::Never { that, namespace, until, .. } = never;
        if let Some(that) = &that
            && !matches!(forbidden, doc::Forbidden::Object(_) | doc::Forbidden::List(_))
        {
            return Err(Mistake::new(that.place, "`that` stands beside `object` or `list`", "here"));
        }
        if !matches!(forbidden, doc::Forbidden::List(_)) {
            no_namespace(namespace.clone())?;
        }
        let what = match forbidden {
            doc::Forbidden::Object(object) => {
                let (of, place) = (Subject::Object(self.object(&object)?), object.place);
                Forbidden::Holds(self.holding(of, place, that, Duration::ZERO)?)
            }
            doc::Forbidden::List(list) => {
                let place = list.place;
                Forbidden::Holds(self.holding(self.list(list, namespace)?, place, that, Duration::ZERO)?)
            }
            doc::Forbidden::Call(call) => {
                counted(call.value.times.as_ref())?;
                Forbidden::Calls(self.calls(call, None, Duration::ZERO)?)
            }
            doc::Forbidden::Event(event) => {
                if event.value.within.is_some() {
                    let help = "leave it out: `never` holds to its end";
                    return Err(Mistake::new(event.place, "a `never` has no `within`", "here").help(help));
                }
                counted(event.value.times.as_ref())?;
                Forbidden::Event(self.event(event.value)?)
            }
            doc::Forbidden::Metric(metric) => Forbidden::Metric(self.metric(metric, Duration::ZERO)?),
            doc::Forbidden::Ec2(cloud) => Forbidden::Cloud(self.cloud(cloud, Duration::ZERO)?),
        };
        let until = until.map(|until| {
            self.untils.push((until.clone(), self.done.len()));
            until.value
        });
        Ok(Never { what, until })
    }

    /// Checks that each `until` of a `never` names a later step.
    pub(in crate::scenario) fn check_untils(&self) {
        for (until, index) in &self.untils {
            let later = || self.done.iter().skip(index + 1).filter_map(|step| step.name.as_deref());
            if !later().any(|name| *name == **until) {
                let message = format!("no later step is called `{}`", **until);
                let help = suggest(until, later().collect::<Vec<_>>().into_iter(), "names of later steps");
                self.heed(Err(Mistake::new(until.place, message, "this step").help(help).refers(until)));
            }
        }
    }
}

/// Replaces an object of the Kubernetes API, `pod/web`, by its resource and key.
fn name_object(plane: CallPlane, words: &mut BTreeMap<String, String>) {
    let Some(object) = words.get("object").and_then(|word| word.parse::<ObjectRef>().ok()) else { return };
    if plane == CallPlane::K8s {
        words.insert("object".to_owned(), object.key());
        words.entry("resource".to_owned()).or_insert_with(|| object.kind.resource().to_owned());
    }
}

/// Returns true if `word` is an id with this prefix.
fn is_id(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Checks that `word` is one of `known`, or a prefix of one if it ends in `*`. The error says what to write instead.
fn known(word: &str, known: impl Iterator<Item = &'static str> + Clone) -> Result<(), String> {
    if known.clone().any(|code| substrate::fault::wild(word, code)) {
        return Ok(());
    }
    let near = nearest(word, known.clone());
    Err(near.map_or_else(
        || format!("one of: {}", known.collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    ))
}

fn bounded<T: PartialOrd>(place: SourceSpan, at_least: Option<T>, at_most: Option<T>) -> Checked<()> {
    match (at_least, at_most) {
        (None, None) => {
            Err(Mistake::new(place, "no bound is given", "here").help("add `at-least` or `at-most`, or write a number"))
        }
        (Some(least), Some(most)) if least > most => {
            Err(Mistake::new(place, "`at-least` is more than `at-most`", "nothing lies between these"))
        }
        _ => Ok(()),
    }
}

fn times_of(times: Spanned<doc::Times>, timed: bool) -> Checked<Times> {
    let Spanned { place, value: doc::Times { at_least, at_most } } = times;
    bounded(place, at_least, at_most)?;
    let at_least = at_least.unwrap_or(0);
    if at_least == 0 && at_most.is_none() {
        return Err(Mistake::new(place, "no number of times is less than this", "this demands nothing"));
    }
    if timed && at_least == 0 {
        let help = "use `sleep` before it, or `never`";
        return Err(
            Mistake::new(place, "a count only grows, so `within` adds nothing to an upper bound", "here").help(help)
        );
    }
    Ok(Times { at_least, at_most })
}

/// Checks that the count of a `never` has only a lower bound.
fn counted(times: Option<&Spanned<doc::Times>>) -> Checked<()> {
    match times {
        Some(times) if times.at_most.is_some() || times.at_least == Some(0) => {
            let help = "write `times: {at-least: 2}`";
            let message = "a `never` is broken when a count is reached, and has no upper bound";
            Err(Mistake::new(times.place, message, "here").help(help))
        }
        _ => Ok(()),
    }
}
