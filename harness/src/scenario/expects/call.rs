//! `call`: calls of an interface were made this often.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use substrate::fault::{Effect, Fault, Lease, Match, Mistake as FaultMistake, Moment, Ops, Plane, When};

use super::times::{TIMES, Times, WrittenTimes};
use crate::scenario::document::Word as Scalar;
use crate::scenario::lower::find;
use crate::scenario::prelude::*;
use crate::scenario::source_span::SourceSpan;
use crate::suggestions::nearest;

pub(super) static KEY: Key = one("call", Of::Map(&CALL), "Calls of an interface were made this often.").like(&[
    "- expect: {call: {plane: csi, op: ControllerPublishVolume, where: {node: node-a}, times: 1}}",
    "- expect: {call: {plane: ec2, op: DetachVolume, times: {at-most: 0}}, since: start}",
]);

pub(in crate::scenario) static CALL: Map = Map {
    name: "call",
    about: "Calls of an interface, by the names of docs/faults.md.",
    keys: &[
        must("plane", Of::Words(PLANES), "The interface."),
        may(
            "op",
            Of::Either(&[(Of::Text, "One."), (Of::Some(&Of::Text), "One of these.")]),
            "The operation by its name, the beginning of a name and `*`, or a class such as write; any when absent.",
        ),
        may(
            "where",
            Of::Each(&Of::Scalar),
            "Values of its attributes; a trailing `*` matches any rest. `volume` takes pvc/NAME, `node` a name. Its result \
             is `code` on the planes csi and ec2 (`OK`, `INTERNAL`, `IncorrectState`) and `status` on k8s (409, 5*).",
        ),
        may("times", TIMES, "Number of calls; at least one when absent."),
    ],
};

const PLANES: &[Word] = &[
    ("csi", "Calls of the CSI driver."),
    ("k8s", "Requests of the Kubernetes API."),
    ("ec2", "Actions of the EC2 API."),
];

/// `{plane: csi, op: ControllerPublishVolume, where: {…}, times: 1}`.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    plane: CallPlane,
    op: Option<Ops>,
    #[serde(default, rename = "where")]
    attributes: BTreeMap<String, Scalar>,
    pub times: Option<Spanned<WrittenTimes>>,
}

/// Planes whose calls can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPlane {
    Csi,
    K8s,
    Ec2,
}

impl CallPlane {
    /// Word in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csi => "csi",
            Self::K8s => "k8s",
            Self::Ec2 => "ec2",
        }
    }
}

/// Condition on an attribute of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This word; a trailing `*` matches any rest.
    Word(String),
    /// Id of the volume of a claim or a PersistentVolume.
    Volume(ObjectRef),
    /// Node, by its name or by the id of its instance.
    Node(String),
    /// Process, group of processes, or all processes of a node.
    Process(String),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) | Self::Node(word) | Self::Process(word) => f.write_str(word),
            Self::Volume(object) => object.fmt(f),
        }
    }
}

/// Calls of an interface and their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    pub plane: CallPlane,
    /// Operations, by their names in the catalogue of faults.
    pub operations: BTreeSet<&'static str>,
    /// Operations as written; none for any operation.
    pub written: Option<String>,
    pub attributes: BTreeMap<String, Pattern>,
    /// Result of the call: a gRPC code, an HTTP status, `OK` or an error code of EC2; a trailing `*` matches any rest.
    pub outcome: Option<String>,
    pub times: Times,
    /// Index of the step from whose start calls count; if absent, the start of the run.
    pub since: Option<usize>,
    pub within: Duration,
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.written.as_deref().unwrap_or("any call"), self.plane.name())?;
        for (name, pattern) in &self.attributes {
            write!(f, " {name}={pattern}")?;
        }
        if let Some(outcome) = &self.outcome {
            write!(f, " ending in {outcome}")?;
        }
        Ok(())
    }
}

pub(super) fn lower(call: Spanned<Written>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let within = expect.limit();
    check(call, expect.since, within, steps).map(Expectation::Calls)
}

/// Checks calls of a plane. Operations and attributes are those of faults, and the result of the call.
pub(in crate::scenario) fn check(
    call: Spanned<Written>,
    since: Option<Spanned<String>>,
    within: Duration,
    steps: &Steps<'_>,
) -> Checked<Calls> {
    let Spanned { place, value: call } = call;
    let at = |word: &str| find::word(&steps.origin.text, place, word).unwrap_or(place);
    let ending = match call.plane {
        CallPlane::Csi | CallPlane::Ec2 => "code",
        CallPlane::K8s => "status",
    };
    let mut words: BTreeMap<String, String> = call.attributes.into_iter().map(|(name, word)| (name, word.0)).collect();
    let outcome = words.remove(ending);
    if let Some(code) = &outcome {
        check_outcome(call.plane, code, steps).map_err(|help| {
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
    let operations = operations(call.plane, call.op, &words, steps).map_err(|mistake| {
        let field = mistake.field.strip_prefix("match.").unwrap_or(&mistake.field);
        let wrong =
            Mistake::new(mistake.word.as_deref().map_or(place, at), format!("{field}: {}", mistake.message), "here");
        match &mistake.nearest {
            Some(word) => wrong.help(format!("did you mean `{word}`?")),
            None => wrong,
        }
    })?;
    let pattern = |(name, word): (String, String)| {
        let pattern = pattern(&name, word.clone(), at(&word), steps)?;
        Ok((name, pattern))
    };
    Ok(Calls {
        plane: call.plane,
        operations,
        written,
        attributes: words.into_iter().map(pattern).collect::<Checked<_>>()?,
        outcome,
        times: call
            .times
            .map(|times| times.value.check(times.place, !within.is_zero()))
            .transpose()?
            .unwrap_or_default(),
        since: since.map(|name| steps.index(name)).transpose()?,
        within,
    })
}

/// Resolves the operations of calls, validated as the match of a fault that only counts.
fn operations(
    plane: CallPlane,
    op: Option<Ops>,
    words: &BTreeMap<String, String>,
    steps: &Steps<'_>,
) -> Result<BTreeSet<&'static str>, FaultMistake> {
    let of = match plane {
        CallPlane::Csi => Plane::Csi,
        CallPlane::K8s => Plane::K8s,
        CallPlane::Ec2 => Plane::Ec2,
    };
    // Operations that can be broken but are not requests have no class.
    let is_call = |name: &str| {
        let mut all = steps.catalogue.operations();
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
    let found = steps.catalogue.check(&fault(op.clone()))?;
    let calls: BTreeSet<&'static str> = found.into_iter().filter(|name| is_call(name)).collect();
    if calls.is_empty() {
        let word = op.map(|op| op.to_string());
        let message = format!("`{}` is not a call that can be counted", word.as_deref().unwrap_or_default());
        return Err(FaultMistake { word, ..FaultMistake::new("match.op", message) });
    }
    Ok(calls)
}

/// Checks that a call of `plane` can end with `code`. The error says what to write instead.
fn check_outcome(plane: CallPlane, code: &str, steps: &Steps<'_>) -> Result<(), String> {
    let stem = code.strip_suffix('*').unwrap_or(code);
    match plane {
        CallPlane::K8s => {
            let digits = stem.len() <= 3 && stem.chars().all(|c| c.is_ascii_digit());
            let whole = code.ends_with('*') || stem.len() == 3;
            if digits && whole { Ok(()) } else { Err("write an HTTP status, as in 409 or 5*".to_owned()) }
        }
        CallPlane::Csi => known(code, ["OK"].iter().chain(csi_mock::faults::FAILURES).copied()),
        CallPlane::Ec2 if code.starts_with("HTTP ") || steps.codes.contains(code) => Ok(()),
        CallPlane::Ec2 => known(code, ["OK"].iter().chain(mock_ec2::faults::ERROR_CODES).copied()),
    }
}

/// Converts the value of an attribute; ids can be written as the names of their objects.
fn pattern(name: &str, word: String, place: SourceSpan, steps: &Steps<'_>) -> Checked<Pattern> {
    match name {
        "volume" => volume_or_id(word, place),
        "process" => Ok(Pattern::Process(word)),
        "node" | "instance" if word.ends_with('*') || is_id(&word, "i-") => Ok(Pattern::Word(word)),
        "node" | "instance" => steps.node(Spanned { value: word, place }).map(Pattern::Node),
        _ => Ok(Pattern::Word(word)),
    }
}

/// Converts a volume: its id, or its claim or PersistentVolume.
pub(super) fn volume_or_id(word: String, place: SourceSpan) -> Checked<Pattern> {
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

/// Returns true if `word` is an id with this prefix.
fn is_id(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Replaces an object of the Kubernetes API, `pod/web`, by its resource and key.
fn name_object(plane: CallPlane, words: &mut BTreeMap<String, String>) {
    let Some(object) = words.get("object").and_then(|word| word.parse::<ObjectRef>().ok()) else { return };
    if plane == CallPlane::K8s {
        words.insert("object".to_owned(), object.key());
        words.entry("resource".to_owned()).or_insert_with(|| object.kind.resource().to_owned());
    }
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

pub(in crate::scenario) fn summary(calls: &Calls) -> Summary {
    let since = calls.since.map(|step| format!(" since step {} began", step + 1)).unwrap_or_default();
    Summary::check(format!("{calls} {}{since}{}", calls.times, Within(calls.within)))
}
