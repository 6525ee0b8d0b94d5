//! Checks admin actions of the cloud: operations of its operator that no customer can do.

use mock_ec2::state::device::DeviceSlot;
use mock_ec2::state::ids::{InstanceId, SnapshotId, VolumeId};
use mock_ec2::state::volume::VolumeState;
use serde_json::{Map, Value, json};

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::acts::{About, AdminAction, Id};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::suggestions::suggest;

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
const ADMIN_ACTIONS: &[Row] = &[
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
];
const HARDWARE: &[&str] = &["hide", "poison", "reserved-slots", "network-interfaces", "clear"];
const WHICH: [&str; 3] = ["volume", "attachment", "modification"];
const STATES: [VolumeState; 5] =
    [VolumeState::Creating, VolumeState::Available, VolumeState::InUse, VolumeState::Deleting, VolumeState::Error];

fn key(about: About) -> &'static str {
    match about {
        About::Instance => "instance",
        About::Volume => "volume",
        About::Snapshot => "snapshot",
        About::Token => "token",
    }
}

impl Steps<'_> {
    pub(super) fn admin_action(&self, verb: Spanned<String>, ec2: doc::Ec2) -> Checked<AdminAction> {
        let Some(row) = ADMIN_ACTIONS.iter().find(|row| row.verb == verb.value) else {
            let help = suggest(&verb, ADMIN_ACTIONS.iter().map(|row| row.verb), "pokes");
            return Err(Mistake::new(verb.place, format!("`{}` is not a poke", verb.value), "this poke").help(help));
        };
        if let Some((option, place)) = ec2.options().find(|(option, _)| !row.options.contains(option)) {
            let message = format!("`{option}` does not go with `{}`", row.verb);
            let help = match row.options {
                [] => format!("`{}` takes only its target", row.verb),
                options => format!("`{}` takes {}", row.verb, options.join(", ")),
            };
            return Err(Mistake::new(place, message, "here").help(help));
        }
        let body = body(row, &verb, &ec2)?;
        let (about, target) = self.target(row, &verb, ec2)?;
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

    /// Checks the target of an admin action.
    fn target(&self, row: &Row, verb: &Spanned<String>, ec2: doc::Ec2) -> Checked<(About, Id)> {
        let token = ec2.token.map(|token| Spanned { place: token.place, value: Value::String(token.value) });
        let there = [
            (About::Instance, ec2.instance),
            (About::Volume, ec2.volume),
            (About::Snapshot, ec2.snapshot),
            (About::Token, token),
        ];
        let mut there = there.into_iter().filter_map(|(about, value)| Some((about, value?)));
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
        self.named(about, value).map(|id| (about, id))
    }

    fn named(&self, about: About, value: Spanned<Value>) -> Checked<Id> {
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
                return self.saved_id(&Spanned { value: saved.to_owned(), place }, Some(field));
            }
            _ => return Err(Mistake::new(place, format!("this names no {}", key(about)), "here")),
        };
        match about {
            About::Instance if text.parse::<InstanceId>().is_ok() => Ok(Id::Text(text.value)),
            About::Instance => self.node(text).map(Id::Instance),
            About::Volume if text.parse::<VolumeId>().is_ok() => Ok(Id::Text(text.value)),
            About::Volume => self.volume(&text).map(Id::Volume),
            About::Snapshot if text.parse::<SnapshotId>().is_ok() => Ok(Id::Text(text.value)),
            About::Snapshot => {
                let help = "save the id where the snapshot is made, and write `{saved: NAME}`";
                Err(Mistake::new(place, format!("`{}` is not an id of a snapshot", text.value), "here").help(help))
            }
            About::Token => Ok(Id::Text(text.value)),
        }
    }
}

/// Builds the body of the request.
fn body(row: &Row, verb: &Spanned<String>, ec2: &doc::Ec2) -> Checked<Map<String, Value>> {
    let mut body = Map::new();
    if row.verb == "hardware" {
        for (key, names) in [("hide", &ec2.hide), ("poison", &ec2.poison)] {
            let Some(names) = names else { continue };
            if let Some(wrong) = names.iter().find(|name| DeviceSlot::parse(name).is_none()) {
                let message = format!("`{wrong}` is not a device name");
                return Err(Mistake::new(names.place, message, "here").help("write one such as /dev/xvdba"));
            }
            body.insert(key.to_owned(), json!(names.value));
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
        word(which, which.place, &WHICH, "not a transition of a volume", "transitions")?;
        body.insert("which".to_owned(), json!(which.value));
    }
    if row.verb == "state" {
        let words = STATES.map(VolumeState::as_str);
        let Some(state) = &ec2.state else {
            let help = format!("add `state`, one of: {}", words.join(", "));
            return Err(Mistake::new(verb.place, "`state` needs the state to force", "this poke").help(help));
        };
        word(state, state.place, &words, "not a state of a volume", "states")?;
        body.insert("state".to_owned(), json!(state.value));
    }
    if row.verb == "impair" {
        body.insert("impaired".to_owned(), json!(ec2.impaired.as_ref().is_none_or(|impaired| impaired.value)));
    }
    Ok(body)
}

fn word(word: &str, place: SourceSpan, known: &[&str], what: &str, title: &str) -> Checked<()> {
    if known.contains(&word) {
        return Ok(());
    }
    let help = suggest(word, known.iter().copied(), title);
    Err(Mistake::new(place, format!("`{word}` is {what}"), "this word").help(help))
}
