//! Lines of `expect: {writes: …}`: the writes that a scenario expects.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shown::Shown;
use crate::spec::custom::Customs;
use crate::spec::object::ObjectRef;

/// Placeholder for any value.
pub(super) const ANY: &str = "<any>";

/// Writes that are not compared, because another scenario file expects them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The client.
    pub by: String,
    /// Prefix of `does`; if absent, all writes of the client.
    #[serde(default)]
    pub does: String,
    /// Name of the scenario that expects them.
    #[serde(rename = "in")]
    pub scenario: String,
}

impl Elsewhere {
    /// Returns true if the other scenario expects this write.
    pub fn has(&self, shown: &Shown) -> bool {
        self.by == shown.by && shown.does.starts_with(&self.does)
    }
}

/// One write, or lists of writes: `does` and `fields`, or `event`, `says` and `component`, or `together`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Lists whose order against each other is free. Each list is in order.
    #[serde(default)]
    pub together: Vec<Vec<Line>>,
    /// The client.
    #[serde(default)]
    pub by: String,
    /// Verb, kind of patch, resource and object.
    #[serde(default)]
    pub does: String,
    /// The fields.
    pub fields: Option<Value>,
    /// The HTTP status of a refusal.
    pub answer: Option<u16>,
    /// Type, reason and object of an Event, `Normal Scheduled pod/web`.
    pub event: Option<String>,
    /// The message of the Event.
    pub says: Option<String>,
    /// The reporting component.
    pub component: Option<String>,
    /// The host of the reporter.
    pub host: Option<String>,
    /// The action of an Event of events.k8s.io.
    pub action: Option<String>,
    /// The other object of an Event of events.k8s.io.
    pub related: Option<String>,
    /// The `fieldPath` of the object.
    pub path: Option<String>,
    /// Fields that the reference of the Event lacks.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Freedoms: the line may `miss`, may `repeat`, or both.
    #[serde(default)]
    pub may: Vec<May>,
    /// Source of the line, which a difference names.
    #[serde(default)]
    pub from: String,
}

/// Field that the reference of an Event lacks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Lack {
    /// The uid of the object.
    Uid,
    /// The resourceVersion of the object.
    Version,
}

/// Freedom of a line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum May {
    /// The write may be absent.
    Miss,
    /// The write may occur more than once.
    Repeat,
}

/// Position of a line: the index in each list from the outermost on. Odd levels are lists that are not ordered.
pub(super) type Position = Vec<usize>;

/// A line, as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The write.
    pub shown: Shown,
    /// Its freedoms.
    pub may: Vec<May>,
    /// Its source.
    pub from: String,
    pub(super) place: Position,
    pub(super) is_event: bool,
}

/// Checks a line and adds it, or the lines of its lists, to `found`. `index` is its position in the file.
///
/// # Errors
/// Describes a line that is neither a write nor an Event.
pub fn expected(index: usize, line: &Line, found: &mut Vec<Expected>) -> Result<(), String> {
    gather(&mut vec![index], line, found)
}

fn gather(place: &mut Position, line: &Line, found: &mut Vec<Expected>) -> Result<(), String> {
    if line.together.is_empty() {
        found.push(line.expected(place.clone())?);
    } else if !line.by.is_empty() || !line.does.is_empty() || line.fields.is_some() || line.event.is_some() {
        return Err(format!("`together` has no other keys, and `{}{}` stands beside it", line.by, line.does));
    }
    for (branch, lines) in line.together.iter().enumerate() {
        place.push(branch);
        for (index, line) in lines.iter().enumerate() {
            place.push(index);
            gather(place, line, found)?;
            place.pop();
        }
        place.pop();
    }
    Ok(())
}

impl Line {
    fn expected(&self, place: Position) -> Result<Expected, String> {
        let title = self.event.as_ref().unwrap_or(&self.does);
        let wrong = |why: &str| format!("the line `{} {title}` {why}", self.by);
        if self.by.is_empty() {
            return Err(wrong("names no client: add `by: csi-attacher`"));
        }
        let (does, fields) = match (&self.event, &self.fields) {
            (Some(event), None) if self.does.is_empty() => self.event(event).map_err(|why| wrong(&why))?,
            (None, Some(fields)) if !self.does.is_empty() => (self.does.clone(), fields.clone()),
            _ => return Err(wrong("needs either `does` and `fields`, or `event`")),
        };
        if self.event.is_none()
            && [&self.says, &self.component, &self.host, &self.action, &self.related, &self.path]
                .into_iter()
                .any(Option::is_some)
        {
            return Err(wrong("has a key of an Event, but no `event`"));
        }
        if self.answer.is_some_and(|answer| !(300..600).contains(&answer)) {
            return Err(wrong("has an `answer` that is not the status of a refused write: 300 to 599"));
        }
        let shown = Shown { by: self.by.clone(), does, fields, answer: self.answer };
        let is_event = shown.does.contains(" events");
        Ok(Expected { shown, place, may: self.may.clone(), is_event, from: self.from.clone() })
    }

    /// Returns the POST of an Event: verb and resource, and the body.
    fn event(&self, event: &str) -> Result<(String, Value), String> {
        // A word in angle brackets in the name may have a space.
        let words: Vec<&str> = event.splitn(3, ' ').collect();
        let [kind, reason, object] = words[..] else {
            return Err("needs type, reason and object: `event: Normal Scheduled pod/web`".to_owned());
        };
        let mut object = object.to_owned();
        let varying =
            object.find('<').map(|at| object.split_off(object[..at].rfind('/').map_or(at, |slash| slash + 1)));
        if varying.is_some() {
            object.push_str("name");
        }
        let mut object = ObjectRef::read(&object, &Customs::with_snapshots())?;
        object.name = varying.unwrap_or(object.name);
        let (Some(component), Some(message)) = (&self.component, &self.says) else {
            return Err("needs `says` and `component`".to_owned());
        };
        let mut about = reference(&object);
        for (lack, field) in [(Lack::Uid, "uid"), (Lack::Version, "resourceVersion")] {
            if self.lacks.contains(&lack) {
                about.remove(field);
            }
        }
        about.extend(self.path.iter().map(|path| ("fieldPath".to_owned(), json!(path))));
        let body = match &self.action {
            Some(action) => {
                let mut body = json!({
                    "action": action, "eventTime": "<time>", "note": message, "reason": reason, "regarding": about,
                    "reportingController": component, "reportingInstance": ANY, "type": kind,
                });
                if let Some(related) = &self.related {
                    body["related"] = reference(&related.parse()?).into();
                }
                body
            }
            None if self.related.is_some() => return Err("has `related`, but no `action`".to_owned()),
            None => {
                let mut source = json!({"component": component});
                let host = self.host.as_deref().unwrap_or("");
                // client-go builds an Event for similar ones without its reporter.
                let is_combined = message.starts_with("(combined from similar events): ");
                let (component, host) = if is_combined { ("", "") } else { (component.as_str(), host) };
                let mut body = json!({
                    "count": 1, "firstTimestamp": "<time>", "involvedObject": about, "lastTimestamp": "<time>",
                    "message": message, "reason": reason, "reportingComponent": component, "type": kind,
                    "reportingInstance": host,
                });
                if let Some(host) = &self.host {
                    source["host"] = host.as_str().into();
                }
                body["source"] = source;
                body
            }
        };
        let resource = if self.action.is_some() { "events.events.k8s.io" } else { "events" };
        Ok((format!("POST {resource} {}.<event>", object.name), body))
    }
}

/// Returns the reference of an Event to an object.
fn reference(object: &ObjectRef) -> Map<String, Value> {
    let mut reference = Map::from_iter([
        ("apiVersion".to_owned(), json!(object.kind.api_version())),
        ("kind".to_owned(), json!(object.kind.kind())),
        ("name".to_owned(), json!(object.name)),
        ("uid".to_owned(), json!(format!("<uid of {} {}>", object.kind.resource(), object.name))),
        ("resourceVersion".to_owned(), json!("<version>")),
    ]);
    reference.extend(object.namespace.iter().map(|namespace| ("namespace".to_owned(), json!(namespace))));
    reference
}
