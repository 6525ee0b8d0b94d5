//! Checks calls of the cloud: actions and parameters that the mock knows, ids by reference.

use mock_ec2::faults::ERROR_CODES;
use mock_ec2::state::command::ACTIONS;
use mock_ec2::state::error::Ec2Error;
use mock_ec2::wire::parameters;
use serde_json::{Map, Value};

use super::checked::Checked;
use super::find;
use super::steps::{Steps, only};
use crate::scenario::acts::{Call, Id, Save};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::Action;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::spec::object::{Kind, ObjectRef};
use crate::suggestions::{nearest, suggest};

/// Keys of references to ids in parameters. EC2's own names begin with a capital letter.
const REFERENCES: [&str; 3] = ["volume", "instance", "saved"];
/// Fields of answers that can be saved.
const SAVABLE: [&str; 4] = ["VolumeId", "InstanceId", "SnapshotId", "ResourceId"];
/// Keys that only calls have.
const OF_CALLS: [&str; 4] = ["with", "fails", "save", "from"];

/// A well-formed sample id for a field of [`SAVABLE`].
pub(super) fn placeholder(field: &str) -> &'static str {
    match field {
        "InstanceId" => "i-0123456789abcdef0",
        "SnapshotId" => "snap-0123456789abcdef0",
        _ => "vol-0123456789abcdef0",
    }
}

/// Replaces each number in the name of a parameter by `N`.
fn numbered(name: &str) -> String {
    let part = |part: &str| if part.parse::<u64>().is_ok() { "N".to_owned() } else { part.to_owned() };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

impl Steps<'_> {
    pub(super) fn ec2(&mut self, ec2: Spanned<doc::Ec2>) -> Checked<Action> {
        let (place, mut ec2) = (ec2.place, ec2.value);
        let rule = "an `ec2` step calls an action or pokes the cloud";
        match only(ec2.take(), place, rule, doc::Ec2::KEYS, "make two steps of it")? {
            doc::Ec2Act::Action(name) => {
                if let Some((key, place)) = ec2.given().find(|(key, _)| !OF_CALLS.contains(key)) {
                    let message = format!("`{key}` belongs to a poke");
                    let help = "an action has its parameters in `with`, as in `with: {InstanceId: {instance: node-a}}`";
                    return Err(Mistake::new(place, message, "here").help(help));
                }
                self.call(name, ec2).map(Action::Ec2)
            }
            doc::Ec2Act::AdminAction(verb) => {
                if let Some((key, place)) = ec2.given().find(|(key, _)| OF_CALLS.contains(key)) {
                    let help = "a poke names what it is about: `instance: node-a`, `volume: pvc/data`";
                    return Err(Mistake::new(place, format!("`{key}` belongs to an action"), "here").help(help));
                }
                self.admin_action(verb, ec2).map(Action::AdminAction)
            }
        }
    }

    fn call(&mut self, action: Spanned<String>, ec2: doc::Ec2) -> Checked<Call> {
        let mut parameters = Vec::new();
        let place = ec2.with.as_ref().map_or(action.place, |with| with.place);
        for (name, value) in ec2.with.map(|with| with.value).unwrap_or_default() {
            self.flatten(name, &value, place, &mut parameters)?;
        }
        let fails = ec2.fails.map(|code| self.error_code(code)).transpose()?;
        let sample = |id: &Id| match id {
            Id::Text(text) => text.clone(),
            Id::Volume(_) => placeholder("VolumeId").to_owned(),
            Id::Instance(_) => placeholder("InstanceId").to_owned(),
            Id::Saved(name) => placeholder(self.saved.get(name).map_or("", String::as_str)).to_owned(),
        };
        let samples: Vec<(&str, String)> = parameters.iter().map(|(name, id)| (name.as_str(), sample(id))).collect();
        let checked = parameters::check(&action, samples.iter().map(|(name, value)| (*name, value.as_str())));
        if let Err(error) = checked
            && fails.as_deref() != Some(error.code())
        {
            return Err(self.refused(&action, place, &parameters, &error));
        }
        let save = self.save(ec2.save, ec2.from)?;
        Ok(Call { action: action.value, parameters, fails, save })
    }

    fn refused(
        &self,
        action: &Spanned<String>,
        place: SourceSpan,
        given: &[(String, Id)],
        error: &Ec2Error,
    ) -> Mistake {
        match error {
            Ec2Error::InvalidAction(name) => {
                let help = suggest(name, ACTIONS.iter().copied(), "actions");
                Mistake::new(action.place, format!("`{name}` is not an action of this cloud"), "this action").help(help)
            }
            Ec2Error::UnknownParameter(name) => self.unknown(action, place, name),
            Ec2Error::MissingParameter(name) => {
                // The parameter may be present with a misspelled name.
                let known = parameters::of(action);
                let meant = |(written, _): &&(String, Id)| {
                    !known.contains(&numbered(written).as_str())
                        && nearest(written, [name.as_str()].into_iter()).is_some()
                };
                if let Some((written, _)) = given.iter().find(meant) {
                    return self.unknown(action, place, written);
                }
                let message = format!("{} needs the parameter `{name}`", action.value);
                Mistake::new(place, message, "here").help(format!("add `{name}` to `with`"))
            }
            error => Mistake::new(place, format!("{}: {error}", action.value), "here"),
        }
    }

    fn unknown(&self, action: &Spanned<String>, place: SourceSpan, name: &str) -> Mistake {
        let known = parameters::of(action);
        // The name may be spread over several nested maps.
        let parts = name.split('.').filter(|part| part.parse::<u64>().is_err());
        let written = [name].into_iter().chain(parts.rev());
        let place = written.filter_map(|word| find::word(&self.origin.text, place, word)).next().unwrap_or(place);
        let message = format!("{} has no parameter `{name}`", action.value);
        let help = suggest(&numbered(name), known.into_iter(), "its parameters");
        Mistake::new(place, message, "here").help(help)
    }

    fn error_code(&self, code: Spanned<String>) -> Checked<String> {
        if ERROR_CODES.contains(&code.as_str()) || self.codes.contains(&code.value) {
            return Ok(code.value);
        }
        let near = nearest(&code, ERROR_CODES.iter().copied());
        let help =
            near.map_or_else(|| "see ec2 in docs/faults.md".to_owned(), |near| format!("did you mean `{near}`?"));
        Err(Mistake::new(code.place, format!("`{}` is not an error code of this cloud", code.value), "this code")
            .help(help))
    }

    fn save(&mut self, name: Option<Spanned<String>>, from: Option<Spanned<String>>) -> Checked<Option<Save>> {
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
        if !SAVABLE.contains(&from.as_str()) {
            let help = suggest(&from, SAVABLE.into_iter(), "what can be saved");
            let message = format!("`{}` is not an id of an answer", from.value);
            return Err(Mistake::new(from.place, message, "this field").help(help));
        }
        self.saved.insert(name.value.clone(), from.value.clone());
        Ok(Some(Save { name: name.value, from: from.value }))
    }

    /// Flattens lists and maps of a parameter to the form of the Query API: `Filter.1.Value.2`.
    fn flatten(&self, name: String, value: &Value, place: SourceSpan, out: &mut Vec<(String, Id)>) -> Checked<()> {
        match value {
            Value::Object(map) if map.keys().any(|key| key.starts_with(|c: char| c.is_ascii_lowercase())) => {
                out.push((name, self.reference(map, place)?));
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.flatten(format!("{name}.{key}"), value, place, out)?;
                }
            }
            Value::Array(list) => {
                for (at, value) in list.iter().enumerate() {
                    self.flatten(format!("{name}.{}", at + 1), value, place, out)?;
                }
            }
            Value::String(text) => out.push((name, Id::Text(text.clone()))),
            Value::Bool(_) | Value::Number(_) => out.push((name, Id::Text(value.to_string()))),
            Value::Null => {
                let at =
                    find::word(&self.origin.text, place, name.rsplit('.').next().unwrap_or(&name)).unwrap_or(place);
                return Err(Mistake::new(at, format!("the parameter `{name}` has no value"), "here"));
            }
        }
        Ok(())
    }

    /// Reads a reference such as `{volume: pvc/data}`.
    fn reference(&self, map: &Map<String, Value>, place: SourceSpan) -> Checked<Id> {
        let at = |word: &str| find::word(&self.origin.text, place, word).unwrap_or(place);
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
            "volume" => self.volume(&text).map(Id::Volume),
            "instance" => self.node(text).map(Id::Instance),
            _ => self.saved_id(&text, None),
        }
    }

    /// Reads the name of a claim or a PersistentVolume.
    pub(super) fn volume(&self, text: &Spanned<String>) -> Checked<ObjectRef> {
        let object = self.object(text)?;
        if [Kind::claim(), Kind::volume()].contains(&object.kind) {
            return Ok(object);
        }
        let message = format!("a {} has no volume of its own", object.kind.kind());
        Err(Mistake::new(text.place, message, "here").help("write pvc/NAME or pv/NAME"))
    }

    /// Reads the name of an id that an earlier step saved, which must be a `field`.
    pub(super) fn saved_id(&self, name: &Spanned<String>, field: Option<&str>) -> Checked<Id> {
        match self.saved.get(&name.value) {
            Some(kind) if field.is_none_or(|field| field == kind) => Ok(Id::Saved(name.value.clone())),
            Some(kind) => Err(Mistake::new(name.place, format!("`{}` is a saved {kind}", name.value), "here")),
            None => Err(self.unknown_saved(name)),
        }
    }

    /// Error for a name that no earlier step saves.
    pub(super) fn unknown_saved(&self, name: &Spanned<String>) -> Mistake {
        let message = format!("no earlier step saves `{}`", name.value);
        let help = suggest(name, self.saved.keys().map(String::as_str), "saved ids");
        Mistake::new(name.place, message, "this name").help(help).refers(name)
    }
}

impl doc::Ec2 {
    /// Keys that are present beside the key of the action.
    fn given(&self) -> impl Iterator<Item = (&'static str, SourceSpan)> {
        fn at<T>(key: &'static str, value: &Option<Spanned<T>>) -> Option<(&'static str, SourceSpan)> {
            value.as_ref().map(|value| (key, value.place))
        }
        [
            at("with", &self.with),
            at("fails", &self.fails),
            at("save", &self.save),
            at("from", &self.from),
            at("instance", &self.instance),
            at("volume", &self.volume),
            at("snapshot", &self.snapshot),
            at("token", &self.token),
            at("which", &self.which),
            at("state", &self.state),
            at("impaired", &self.impaired),
            at("hide", &self.hide),
            at("poison", &self.poison),
            at("reserved-slots", &self.reserved_slots),
            at("network-interfaces", &self.network_interfaces),
            at("clear", &self.clear),
        ]
        .into_iter()
        .flatten()
    }

    /// Keys of an admin action except those that name its target.
    pub(super) fn options(&self) -> impl Iterator<Item = (&'static str, SourceSpan)> {
        self.given().filter(|(key, _)| !["instance", "volume", "snapshot", "token"].contains(key))
    }
}
