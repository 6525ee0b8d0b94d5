//! `ec2`: calls the cloud as a user, or does something that only its operator can do (`admin_action`).

use mock_ec2::faults::{ERROR_CODES, OPERATIONS};
use mock_ec2::state::command::ACTIONS;
use mock_ec2::state::error::Ec2Error;
use mock_ec2::wire::parameters;
use serde_json::{Map as Object, Value};

use super::admin_action::{self, ADMIN_ACTIONS, STATES, WHICH};
use crate::scenario::document::{OneOf, one_of};
use crate::scenario::lower::{find, only, placeholder};
use crate::scenario::predicate::That;
use crate::scenario::prelude::*;
use crate::scenario::shape::first_upper;
use crate::scenario::source_span::SourceSpan;
use crate::suggestions::nearest;

pub(super) static KEY: Key =
    one("ec2", Of::Map(&EC2), "Calls the cloud as a user, or does what only its operator can.")
        .like(&["- ec2: {action: DescribeVolumes, with: {VolumeId: [{volume: pvc/data}]}}"]);

pub(crate) static EC2: Map = Map {
    name: "ec2",
    about: "A call of the EC2 API (`action` with `with`, `fails`, `that`, `save` and `from`), or something that only \
            the cloud's operator can do (`poke` and the other keys).",
    keys: &[
        one("action", Of::Known(actions), "The action of the EC2 API.").like(&[
            "- ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}",
            "- ec2: {action: DeleteVolume, with: {VolumeId: {volume: pvc/data}}, fails: VolumeInUse}",
            "- ec2: {action: DescribeVolumes, with: {Filter: [{Name: status, Value: [in-use]}]}, that: self.volumeSet.size() < 9}",
        ]),
        one("poke", Of::Words(ADMIN_ACTIONS), "What the operator does.").like(&[
            "- ec2: {poke: terminate, instance: node-b}",
            "- ec2: {poke: stick, volume: pvc/data, which: modification}",
            "- ec2: {poke: state, volume: pvc/data, state: error}",
            "- ec2: {poke: impair, volume: pvc/data, impaired: true}",
            "- ec2: {poke: hardware, instance: node-b, hide: [/dev/xvdba], reserved-slots: 1, network-interfaces: 2}",
            "- ec2: {poke: burn, token: pvc-1234}",
            "- ec2: {poke: switch, switches: {volumeQuota: 50, snapshotSpacingMs: 0}}",
        ]),
        may(
            "with",
            Of::Part,
            "The action's parameters. Lists and maps are flattened as in the Query API. An id may be a reference: \
             `{volume: pvc/data}`, `{instance: node-a}` or `{saved: NAME}`.",
        ),
        may("fails", Of::Suggest(codes), "The error code that the call must fail with; it must succeed when absent."),
        may("that", Of::Cel, "A condition on the answer: lists are arrays, whole numbers are numbers."),
        may("save", Of::Text, "The name under which an id of the answer is kept for `{saved: NAME}`; with `from`."),
        may("from", Of::Words(IDS), "The id of the answer to keep; with `save`."),
        may(
            "instance",
            Of::Either(&[(Of::Text, "A node, or the id of an instance."), (Of::Map(&SAVED), "An id that was saved.")]),
            "The instance that the poke is about.",
        ),
        may(
            "volume",
            Of::Either(&[
                (Of::Volume, "A claim, a PersistentVolume or an id."),
                (Of::Map(&SAVED), "An id that was saved."),
            ]),
            "The volume that the poke is about.",
        ),
        may(
            "snapshot",
            Of::Either(&[(Of::Text, "The id of a snapshot."), (Of::Map(&SAVED), "An id that was saved.")]),
            "The snapshot that the poke is about.",
        ),
        may("token", Of::Text, "The client token that `burn` is about."),
        may(
            "which",
            Of::Words(WHICH),
            "The transition of the volume for `stick`, `complete` and `fail`; the volume's own when absent.",
        ),
        may("state", Of::Words(STATES), "The state that `state` forces on the volume."),
        may(
            "impaired",
            Of::Flag,
            "If true, `impair` impairs the volume; if false, it makes it ok again. True when absent.",
        ),
        may(
            "hide",
            Of::List(&Of::Text),
            "Device names, such as /dev/xvdba, that are in use but not in the block device mapping.",
        ),
        may("poison", Of::List(&Of::Text), "Device names under which an attach sticks until the instance reboots."),
        may(
            "reserved-slots",
            Of::Whole(0, Some(u32::MAX as u64)),
            "Attachment slots of the instance that are taken by something else.",
        ),
        may(
            "network-interfaces",
            Of::Whole(1, Some(u32::MAX as u64)),
            "Number of network interfaces of the instance; on some types they take attachment slots.",
        ),
        may("clear", Of::Flag, "If true, `hardware` first forgets hidden and poisoned names."),
        may(
            "switches",
            Of::Part,
            "The switches that `switch` changes, by their names in `GET /admin/v1/switches`. Null ends a quota.",
        ),
    ],
};

pub(super) static SAVED: Map = Map {
    name: "saved",
    about: "An id or text that an earlier step saved.",
    keys: &[must("saved", Of::Text, "The name under which it was saved.")],
};

/// Fields of answers that can be saved.
const IDS: &[Word] = &[
    ("VolumeId", "The first VolumeId."),
    ("InstanceId", "The first InstanceId."),
    ("SnapshotId", "The first SnapshotId."),
    ("ResourceId", "The first ResourceId, as DescribeTags returns it."),
];

fn actions() -> Vec<(String, String)> {
    let about =
        |name: &str| OPERATIONS.iter().find(|operation| operation.name == name).map(|operation| operation.about);
    let describe = |name: &str| about(name).map_or_else(|| format!("{name} of the EC2 API."), first_upper);
    ACTIONS.iter().map(|name| ((*name).to_owned(), describe(name))).collect()
}

fn codes() -> Vec<(String, String)> {
    ERROR_CODES.iter().map(|code| ((*code).to_owned(), format!("The error {code} of the EC2 API."))).collect()
}

one_of! {
    /// A call of the cloud, or an operation that only its operator can do.
    struct Written {
        with: Spanned<Object<String, Value>>,
        fails: Spanned<String>,
        that: Spanned<String>,
        save: Spanned<String>,
        from: Spanned<String>,
        instance: Spanned<Value>,
        volume: Spanned<Value>,
        snapshot: Spanned<Value>,
        token: Spanned<String>,
        which: Spanned<String>,
        state: Spanned<String>,
        impaired: Spanned<bool>,
        hide: Spanned<Vec<String>>,
        poison: Spanned<Vec<String>>,
        reserved_slots: Spanned<u32>,
        network_interfaces: Spanned<u32>,
        clear: Spanned<bool>,
        switches: Spanned<Object<String, Value>>
    } does Choice {
        action: Action(String),
        poke: AdminAction(String),
    }
}

/// A parameter of a cloud request: a text, or an id that is known once the step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    Text(String),
    /// Id of the volume behind a claim or a PersistentVolume.
    Volume(ObjectRef),
    /// Id of a node's instance.
    Instance(String),
    /// Id that an earlier step saved under this name.
    Saved(String),
}

/// A call of the EC2 API by the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub action: String,
    /// Parameters, named and flattened as in the Query API.
    pub parameters: Vec<(String, Id)>,
    pub fails: Option<String>,
    /// Condition on the answer.
    pub that: Option<That>,
    pub save: Option<Save>,
}

/// An id of an answer that later steps use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    pub name: String,
    /// `VolumeId`, `InstanceId` or `SnapshotId`; the first one in the answer is saved.
    pub from: String,
}

/// Keys of references to ids in parameters. EC2's own names begin with a capital letter.
const REFERENCES: [&str; 3] = ["volume", "instance", "saved"];
/// Keys that only calls have.
const OF_CALLS: [&str; 5] = ["with", "fails", "that", "save", "from"];

pub(super) fn lower(ec2: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let (place, mut ec2) = (ec2.place, ec2.value);
    let rule = "an `ec2` step calls an action or pokes the cloud";
    match only(ec2.take(), place, rule, Written::KEYS, "make two steps of it")? {
        Choice::Action(name) => {
            if let Some((key, place)) = ec2.beside().into_iter().find(|(key, _)| !OF_CALLS.contains(&key.as_str())) {
                let message = format!("`{key}` belongs to a poke");
                let help = "an action has its parameters in `with`, as in `with: {InstanceId: {instance: node-a}}`";
                return Err(Mistake::new(place, message, "here").help(help));
            }
            call(name, ec2, steps).map(Action::Ec2)
        }
        Choice::AdminAction(verb) => {
            if let Some((key, place)) = ec2.beside().into_iter().find(|(key, _)| OF_CALLS.contains(&key.as_str())) {
                let help = "a poke names what it is about: `instance: node-a`, `volume: pvc/data`";
                return Err(Mistake::new(place, format!("`{key}` belongs to an action"), "here").help(help));
            }
            admin_action::lower(verb, ec2, steps).map(Action::AdminAction)
        }
    }
}

fn call(action: Spanned<String>, ec2: Written, steps: &mut Steps<'_>) -> Checked<Call> {
    let mut parameters = Vec::new();
    let place = ec2.with.as_ref().map_or(action.place, |with| with.place);
    for (name, value) in ec2.with.map(|with| with.value).unwrap_or_default() {
        flatten(name, &value, place, steps, &mut parameters)?;
    }
    let fails = ec2.fails.map(|code| error_code(code, steps)).transpose()?;
    let sample = |id: &Id| match id {
        Id::Text(text) => text.clone(),
        Id::Volume(_) => placeholder("VolumeId").to_owned(),
        Id::Instance(_) => placeholder("InstanceId").to_owned(),
        Id::Saved(name) => placeholder(steps.saved.get(name).map_or("", String::as_str)).to_owned(),
    };
    let samples: Vec<(&str, String)> = parameters.iter().map(|(name, id)| (name.as_str(), sample(id))).collect();
    let checked = parameters::check(&action, samples.iter().map(|(name, value)| (*name, value.as_str())));
    if let Err(error) = checked
        && fails.as_deref() != Some(error.code())
    {
        return Err(refused(&action, place, &parameters, &error, steps));
    }
    let save = save(ec2.save, ec2.from, steps)?;
    if let (Some(that), Some(_)) = (&ec2.that, &fails) {
        return Err(Mistake::new(that.place, "a call that fails has no answer", "here").help("leave out one"));
    }
    let that = ec2.that.map(|that| steps.that(that)).transpose()?;
    Ok(Call { action: action.value, parameters, fails, that, save })
}

fn refused(
    action: &Spanned<String>,
    place: SourceSpan,
    given: &[(String, Id)],
    error: &Ec2Error,
    steps: &Steps<'_>,
) -> Mistake {
    match error {
        Ec2Error::InvalidAction(name) => {
            let help = suggest(name, ACTIONS.iter().copied(), "actions");
            Mistake::new(action.place, format!("`{name}` is not an action of this cloud"), "this action").help(help)
        }
        Ec2Error::UnknownParameter(name) => unknown(action, place, name, steps),
        Ec2Error::MissingParameter(name) => {
            // The parameter may be present with a misspelled name.
            let known = parameters::of(action);
            let meant = |(written, _): &&(String, Id)| {
                !known.contains(&numbered(written).as_str()) && nearest(written, [name.as_str()].into_iter()).is_some()
            };
            if let Some((written, _)) = given.iter().find(meant) {
                return unknown(action, place, written, steps);
            }
            let message = format!("{} needs the parameter `{name}`", action.value);
            Mistake::new(place, message, "here").help(format!("add `{name}` to `with`"))
        }
        error => Mistake::new(place, format!("{}: {error}", action.value), "here"),
    }
}

fn unknown(action: &Spanned<String>, place: SourceSpan, name: &str, steps: &Steps<'_>) -> Mistake {
    let known = parameters::of(action);
    // The name may be spread over several nested maps.
    let parts = name.split('.').filter(|part| part.parse::<u64>().is_err());
    let written = [name].into_iter().chain(parts.rev());
    let place = written.filter_map(|word| find::word(&steps.origin.text, place, word)).next().unwrap_or(place);
    let message = format!("{} has no parameter `{name}`", action.value);
    let help = suggest(&numbered(name), known.into_iter(), "its parameters");
    Mistake::new(place, message, "here").help(help)
}

/// Replaces each number in the name of a parameter by `N`.
fn numbered(name: &str) -> String {
    let part = |part: &str| if part.parse::<u64>().is_ok() { "N".to_owned() } else { part.to_owned() };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

fn error_code(code: Spanned<String>, steps: &Steps<'_>) -> Checked<String> {
    if ERROR_CODES.contains(&code.as_str()) || steps.codes.contains(&code.value) {
        return Ok(code.value);
    }
    let near = nearest(&code, ERROR_CODES.iter().copied());
    let help = near.map_or_else(|| "see ec2 in docs/faults.md".to_owned(), |near| format!("did you mean `{near}`?"));
    let message = format!("`{}` is not an error code of this cloud", code.value);
    Err(Mistake::new(code.place, message, "this code").help(help))
}

fn save(name: Option<Spanned<String>>, from: Option<Spanned<String>>, steps: &mut Steps<'_>) -> Checked<Option<Save>> {
    let (name, from) = match (name, from) {
        (None, None) => return Ok(None),
        (Some(name), Some(from)) => (name, from),
        (Some(name), None) => {
            let message = "`save` says under which name, and not what";
            return Err(Mistake::new(name.place, message, "here").help("add `from: VolumeId`"));
        }
        (None, Some(from)) => {
            let message = "`from` says what is saved, and not under which name";
            return Err(Mistake::new(from.place, message, "here").help("add `save: NAME`"));
        }
    };
    if !names(IDS).any(|id| id == from.as_str()) {
        let help = suggest(&from, names(IDS), "what can be saved");
        let message = format!("`{}` is not an id of an answer", from.value);
        return Err(Mistake::new(from.place, message, "this field").help(help));
    }
    steps.saved.insert(name.value.clone(), from.value.clone());
    Ok(Some(Save { name: name.value, from: from.value }))
}

/// Flattens lists and maps of a parameter to the form of the Query API: `Filter.1.Value.2`.
fn flatten(
    name: String,
    value: &Value,
    place: SourceSpan,
    steps: &Steps<'_>,
    out: &mut Vec<(String, Id)>,
) -> Checked<()> {
    match value {
        Value::Object(map) if map.keys().any(|key| key.starts_with(|c: char| c.is_ascii_lowercase())) => {
            out.push((name, reference(map, place, steps)?));
        }
        Value::Object(map) => {
            for (key, value) in map {
                flatten(format!("{name}.{key}"), value, place, steps, out)?;
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                flatten(format!("{name}.{}", at + 1), value, place, steps, out)?;
            }
        }
        Value::String(text) => out.push((name, Id::Text(text.clone()))),
        Value::Bool(_) | Value::Number(_) => out.push((name, Id::Text(value.to_string()))),
        Value::Null => {
            let at = find::word(&steps.origin.text, place, name.rsplit('.').next().unwrap_or(&name)).unwrap_or(place);
            return Err(Mistake::new(at, format!("the parameter `{name}` has no value"), "here"));
        }
    }
    Ok(())
}

/// Reads a reference such as `{volume: pvc/data}`.
pub(super) fn reference(map: &Object<String, Value>, place: SourceSpan, steps: &Steps<'_>) -> Checked<Id> {
    let at = |word: &str| find::word(&steps.origin.text, place, word).unwrap_or(place);
    let mut entries = map.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        let message = "a reference has one key";
        return Err(Mistake::new(place, message, "here").help("write `{volume: pvc/data}`"));
    };
    if !REFERENCES.contains(&key.as_str()) {
        let help = suggest(key, REFERENCES.into_iter(), "references");
        return Err(Mistake::new(at(key), format!("`{key}` is not a reference"), "here").help(help));
    }
    let Some(text) = value.as_str() else {
        return Err(Mistake::new(at(key), format!("`{key}` takes a name"), "here"));
    };
    let text = Spanned { value: text.to_owned(), place: at(text) };
    match key.as_str() {
        "volume" => steps.volume(&text).map(Id::Volume),
        "instance" => steps.node(text).map(Id::Instance),
        _ => steps.saved_id(&text, None),
    }
}

pub(super) fn summary(call: &Call) -> Summary {
    let parameters: Vec<String> = call.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let before = if parameters.is_empty() { "" } else { " " };
    let fails = call.fails.as_ref().map(|code| format!(", which fails with {code}")).unwrap_or_default();
    Summary::change(format!("call {}{before}{}{fails}", call.action, parameters.join(", ")))
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Volume(object) => object.fmt(f),
            Self::Instance(node) => f.write_str(node),
            Self::Saved(name) => write!(f, "the saved {name}"),
        }
    }
}
