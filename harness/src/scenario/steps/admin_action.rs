//! Action of `ec2` with `poke`: an operation of the cloud's operator that no customer can do.

use mock_ec2::state::device::DeviceSlot;
use mock_ec2::state::ids::{InstanceId, SnapshotId, VolumeId};
use mock_ec2::state::switches::Switches;
use serde_json::{Map as Object, Value, json};

use super::ec2::{Id, Written};
use crate::scenario::document::OneOf;
use crate::scenario::prelude::*;
use crate::scenario::source_span::SourceSpan;

pub(super) const ADMIN_ACTIONS: &[Word] = &[
    ("terminate", "Terminates an instance."),
    ("stop", "Stops an instance."),
    ("start", "Starts an instance."),
    ("reboot", "Reboots an instance."),
    ("crash", "An instance loses power."),
    ("purge", "Forgets an instance at once, as EC2 does an hour after its end; its volumes become free."),
    ("hardware", "Changes the devices that an instance shows, or the number that it accepts."),
    ("stick", "A transition of an instance, volume or snapshot no longer ends by itself."),
    ("complete", "A transition of an instance, volume or snapshot ends now."),
    ("fail", "A snapshot, or the modification of a volume, fails."),
    ("vanish", "A volume disappears, at once and permanently."),
    ("state", "Forces a state on a volume."),
    ("impair", "A volume becomes impaired, or ok again."),
    (
        "burn",
        "The volume of a used client token counts as deleted; the next request with the token gets the error for that.",
    ),
    ("switch", "Changes switches of the cloud, such as the quotas of the account."),
];

pub(super) const WHICH: &[Word] = &[
    ("volume", "The volume's own: creating or deleting."),
    ("attachment", "Attaching or detaching."),
    ("modification", "The modification of size, type or performance."),
];

pub(super) const STATES: &[Word] = &[
    ("creating", "The volume is being created."),
    ("available", "The volume is not attached."),
    ("in-use", "The volume is attached."),
    ("deleting", "The volume is being deleted."),
    ("error", "The volume cannot be used."),
];

/// An operation of the cloud's operator that no customer can do: a request to the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminAction {
    /// Operation, as in the path of the admin API, or an action of the EC2 API.
    pub verb: String,
    pub about: About,
    pub target: Id,
    pub body: Value,
}

/// Kind of target of an admin action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Instance,
    Volume,
    Snapshot,
    Token,
    /// The cloud as a whole: there is no target.
    Cloud,
}

/// A kind of poke.
struct Row {
    verb: &'static str,
    /// Kinds of targets.
    about: &'static [About],
    /// Additional keys.
    options: &'static [&'static str],
}

const INSTANCE: &[About] = &[About::Instance];
const VOLUME: &[About] = &[About::Volume];
/// The verbs are those of the admin API. `stop`, `start` and `reboot` are actions that every customer can do.
const ROWS: &[Row] = &[
    Row { verb: "terminate", about: INSTANCE, options: &[] },
    Row { verb: "stop", about: INSTANCE, options: &[] },
    Row { verb: "start", about: INSTANCE, options: &[] },
    Row { verb: "reboot", about: INSTANCE, options: &[] },
    Row { verb: "crash", about: INSTANCE, options: &[] },
    Row { verb: "purge", about: INSTANCE, options: &[] },
    Row { verb: "hardware", about: INSTANCE, options: HARDWARE },
    Row { verb: "stick", about: &[About::Instance, About::Volume, About::Snapshot], options: &["which"] },
    Row { verb: "complete", about: &[About::Instance, About::Volume, About::Snapshot], options: &["which"] },
    Row { verb: "fail", about: &[About::Volume, About::Snapshot], options: &["which"] },
    Row { verb: "vanish", about: VOLUME, options: &[] },
    Row { verb: "state", about: VOLUME, options: &["state"] },
    Row { verb: "impair", about: VOLUME, options: &["impaired"] },
    Row { verb: "burn", about: &[About::Token], options: &[] },
    Row { verb: "switch", about: &[About::Cloud], options: &["switches"] },
];
const TARGETS: [&str; 4] = ["instance", "volume", "snapshot", "token"];
const HARDWARE: &[&str] = &["hide", "poison", "reserved-slots", "network-interfaces", "clear"];

fn key(about: About) -> &'static str {
    match about {
        About::Instance => "instance",
        About::Volume => "volume",
        About::Snapshot => "snapshot",
        About::Token => "token",
        About::Cloud => "cloud",
    }
}

pub(super) fn lower(verb: Spanned<String>, ec2: Written, steps: &Steps<'_>) -> Checked<AdminAction> {
    let Some(row) = ROWS.iter().find(|row| row.verb == verb.value) else {
        let help = suggest(&verb, ROWS.iter().map(|row| row.verb), "pokes");
        return Err(Mistake::new(verb.place, format!("`{}` is not a poke", verb.value), "this poke").help(help));
    };
    let fits = |key: &str| TARGETS.contains(&key) || row.options.contains(&key);
    if let Some((option, place)) = ec2.beside().into_iter().find(|(key, _)| !fits(key)) {
        let message = format!("`{option}` does not go with `{}`", row.verb);
        let help = match row.options {
            [] => format!("`{}` takes only its target", row.verb),
            options => format!("`{}` takes {}", row.verb, options.join(", ")),
        };
        return Err(Mistake::new(place, message, "here").help(help));
    }
    let body = body(row, &verb, &ec2)?;
    let (about, target) = target(row, &verb, ec2, steps)?;
    if about != About::Volume && body.contains_key("which") {
        let message =
            format!("`which` does not go with a{} {}", if about == About::Instance { "n" } else { "" }, key(about));
        return Err(Mistake::new(verb.place, message, "here").help("only volumes have several transitions"));
    }
    if row.verb == "fail" && about == About::Volume && body.get("which") != Some(&json!("modification")) {
        let message = "of a volume only a modification can fail";
        let help = "add `which: modification`; `poke: vanish` takes a volume away";
        return Err(Mistake::new(verb.place, message, "here").help(help));
    }
    Ok(AdminAction { verb: verb.value, about, target, body: Value::Object(body) })
}

/// Checks the target.
fn target(row: &Row, verb: &Spanned<String>, ec2: Written, steps: &Steps<'_>) -> Checked<(About, Id)> {
    let token = ec2.token.map(|token| Spanned { place: token.place, value: Value::String(token.value) });
    let there = [
        (About::Instance, ec2.instance),
        (About::Volume, ec2.volume),
        (About::Snapshot, ec2.snapshot),
        (About::Token, token),
    ];
    let mut there = there.into_iter().filter_map(|(about, value)| Some((about, value?)));
    if row.about == [About::Cloud] {
        let Some((about, value)) = there.next() else { return Ok((About::Cloud, Id::Text(String::new()))) };
        let message = format!("`{}` does not go with `{}`", row.verb, key(about));
        let help = format!("`{}` takes {}", row.verb, row.options.join(", "));
        return Err(Mistake::new(value.place, message, "here").help(help));
    }
    let can = || row.about.iter().map(|about| format!("`{}`", key(*about))).collect::<Vec<_>>().join(" or ");
    let Some((about, value)) = there.next() else {
        let message = format!("`{}` has no target", row.verb);
        return Err(Mistake::new(verb.place, message, "this poke").help(format!("add {}", can())));
    };
    if let Some((_, second)) = there.next() {
        return Err(Mistake::new(second.place, "a poke is about one thing", "the second one"));
    }
    if !row.about.contains(&about) {
        let message = format!("`{}` does not go with `{}`", row.verb, key(about));
        return Err(Mistake::new(value.place, message, "here").help(format!("`{}` takes {}", row.verb, can())));
    }
    named(about, value, steps).map(|id| (about, id))
}

fn named(about: About, value: Spanned<Value>, steps: &Steps<'_>) -> Checked<Id> {
    let place = value.place;
    let text = match value.value {
        Value::String(text) => Spanned { value: text, place },
        Value::Object(map) => {
            let saved = map.get("saved").and_then(Value::as_str).filter(|_| map.len() == 1);
            let Some(saved) = saved else {
                let help = "write a name, or `{saved: NAME}` for an id that an earlier step saved";
                return Err(Mistake::new(place, format!("this names no {}", key(about)), "here").help(help));
            };
            let field = match about {
                About::Instance => "InstanceId",
                About::Snapshot => "SnapshotId",
                _ => "VolumeId",
            };
            return steps.saved_id(&Spanned { value: saved.to_owned(), place }, Some(field));
        }
        _ => return Err(Mistake::new(place, format!("this names no {}", key(about)), "here")),
    };
    match about {
        About::Instance if text.parse::<InstanceId>().is_ok() => Ok(Id::Text(text.value)),
        About::Instance => steps.node(text).map(Id::Instance),
        About::Volume if text.parse::<VolumeId>().is_ok() => Ok(Id::Text(text.value)),
        About::Volume => steps.volume(&text).map(Id::Volume),
        About::Snapshot if text.parse::<SnapshotId>().is_ok() => Ok(Id::Text(text.value)),
        About::Snapshot => {
            let help = "save the id where the snapshot is made, and write `{saved: NAME}`";
            Err(Mistake::new(place, format!("`{}` is not an id of a snapshot", text.value), "here").help(help))
        }
        About::Token | About::Cloud => Ok(Id::Text(text.value)),
    }
}

/// Builds the body of the request.
fn body(row: &Row, verb: &Spanned<String>, ec2: &Written) -> Checked<Object<String, Value>> {
    let mut body = Object::new();
    if row.verb == "hardware" {
        for (key, devices) in [("hide", &ec2.hide), ("poison", &ec2.poison)] {
            let Some(devices) = devices else { continue };
            if let Some(wrong) = devices.iter().find(|name| DeviceSlot::parse(name).is_none()) {
                let message = format!("`{wrong}` is not a device name");
                return Err(Mistake::new(devices.place, message, "here").help("write one such as /dev/xvdba"));
            }
            body.insert(key.to_owned(), json!(devices.value));
        }
        let number = |value: &Option<Spanned<u32>>| value.as_ref().map(|value| json!(value.value));
        if let Some(none) = ec2.network_interfaces.as_ref().filter(|count| count.value == 0) {
            return Err(Mistake::new(none.place, "an instance has at least one network interface", "here"));
        }
        body.extend(number(&ec2.reserved_slots).map(|n| ("reservedSlots".to_owned(), n)));
        body.extend(number(&ec2.network_interfaces).map(|n| ("networkInterfaces".to_owned(), n)));
        if ec2.clear.as_ref().is_some_and(|clear| clear.value) {
            body.insert("clear".to_owned(), json!(true));
        }
        if body.is_empty() {
            let help = format!("add one of: {}", HARDWARE.join(", "));
            return Err(Mistake::new(verb.place, "`hardware` has no change", "this poke").help(help));
        }
    }
    if let Some(which) = &ec2.which {
        word(which, which.place, WHICH, "not a transition of a volume", "transitions")?;
        body.insert("which".to_owned(), json!(which.value));
    }
    if row.verb == "state" {
        let Some(state) = &ec2.state else {
            let help = format!("add `state`, one of: {}", names(STATES).collect::<Vec<_>>().join(", "));
            return Err(Mistake::new(verb.place, "`state` needs the state to force", "this poke").help(help));
        };
        word(state, state.place, STATES, "not a state of a volume", "states")?;
        body.insert("state".to_owned(), json!(state.value));
    }
    if row.verb == "switch" {
        body.extend(switches(verb, ec2)?);
    }
    if row.verb == "impair" {
        body.insert("impaired".to_owned(), json!(ec2.impaired.as_ref().is_none_or(|impaired| impaired.value)));
    }
    Ok(body)
}

/// Returns the switches that a poke changes, named as in the admin API.
fn switches(verb: &Spanned<String>, ec2: &Written) -> Checked<Object<String, Value>> {
    let Some(switches) = ec2.switches.as_ref().filter(|switches| !switches.value.is_empty()) else {
        let help = "add `switches`, as in `switches: {volumeQuota: 50}`";
        return Err(Mistake::new(verb.place, "`switch` names no switch", "this poke").help(help));
    };
    let all = serde_json::to_value(Switches::default()).expect("switches can be written");
    let known: Vec<&str> = all.as_object().expect("they are a map").keys().map(String::as_str).collect();
    if let Some(wrong) = switches.value.keys().find(|name| !known.contains(&name.as_str())) {
        let help = suggest(wrong, known.iter().copied(), "switches");
        return Err(Mistake::new(switches.place, format!("`{wrong}` is not a switch of the cloud"), "here").help(help));
    }
    let read = serde_json::from_value::<Switches>(Value::Object(switches.value.clone()));
    match read.map_err(|e| e.to_string()).and_then(|read| read.check()) {
        Ok(()) => Ok(switches.value.clone()),
        Err(reason) => Err(Mistake::new(switches.place, format!("the cloud refuses these switches: {reason}"), "here")),
    }
}

fn word(word: &str, place: SourceSpan, known: &'static [Word], what: &str, title: &str) -> Checked<()> {
    if names(known).any(|known| known == word) {
        return Ok(());
    }
    let help = suggest(word, names(known), title);
    Err(Mistake::new(place, format!("`{word}` is {what}"), "this word").help(help))
}

pub(super) fn summary(admin_action: &AdminAction) -> Summary {
    Summary::change(admin_action.to_string())
}

impl fmt::Display for AdminAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "poke the cloud: {}", self.verb)?;
        if self.about != About::Cloud {
            write!(f, " {} {}", key(self.about), self.target)?;
        }
        match self.body.as_object() {
            Some(body) if !body.is_empty() => write!(f, " {}", self.body),
            _ => Ok(()),
        }
    }
}
