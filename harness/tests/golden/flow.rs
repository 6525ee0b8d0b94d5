//! Format of a golden: a scenario, and the writes that upstream makes in it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shown::Shown;

/// Placeholder for any value, if the code of upstream does not determine it.
pub const ANY: &str = "<any>";

/// Repositories that expected lines may cite.
pub const SOURCES: &[&str] = &[
    "kubernetes",
    "external-attacher",
    "external-provisioner",
    "external-resizer",
    "sig-storage-lib-external-provisioner",
];

/// A golden file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Description of the flow in a sentence.
    pub flow: String,
    /// The scenario. Writes count from its step `flow` up to its step `end`.
    pub scenario: String,
    /// Writes that another golden contains.
    #[serde(default)]
    pub elsewhere: Vec<Elsewhere>,
    /// The writes of upstream.
    pub writes: Vec<Line>,
}

/// Writes that are left to another golden.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The client.
    pub by: String,
    /// Prefix of `does`; if absent, all writes of the client.
    #[serde(default)]
    pub does: String,
    /// The golden that contains them.
    pub golden: String,
}

/// One write, or lists of writes: `does` and `fields`, or `event`, `says` and `component`, or `together`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Lists that upstream does not order against each other. Each list is in order.
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
    /// The `fieldPath` of the object.
    pub path: Option<String>,
    /// Fields that a hand-made reference lacks.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Freedoms of the code of upstream: the line may `miss`, may `repeat`, or both.
    #[serde(default)]
    pub may: Vec<May>,
    /// Source: repository, file and function, `kubernetes pkg/a/b.go bind`.
    #[serde(default)]
    pub from: String,
    /// Reason why no recorded request agrees with it, if none does.
    pub unrecorded: Option<String>,
}

/// Field that a hand-made reference lacks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Lack {
    /// The uid of the object.
    Uid,
    /// The resourceVersion of the object.
    Version,
}

/// Freedom of the code of upstream.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum May {
    /// The write may be absent.
    Miss,
    /// The write may occur more than once.
    Repeat,
}

/// Position of a line: the index in each list from the outermost on. Odd levels are lists that are not ordered.
pub type Position = Vec<usize>;

/// A line of the golden, as it is compared.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The write.
    pub shown: Shown,
    /// Its position.
    pub place: Position,
    /// Its freedoms.
    pub may: Vec<May>,
    /// True for an Event.
    pub is_event: bool,
    /// Its source.
    pub from: String,
    /// Reason why it is not among the recorded requests.
    pub unrecorded: Option<String>,
}

impl Flow {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// Describes the mistake in the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let flow: Self = substrate::yaml::from_str(text).map_err(|error| error.to_string())?;
        flow.expected()?;
        Ok(flow)
    }

    /// Returns the lines in the order of the file.
    ///
    /// # Errors
    ///
    /// If a line has no source, or is neither a write nor an Event.
    pub fn expected(&self) -> Result<Vec<Expected>, String> {
        let mut lines = Vec::new();
        gather(&self.writes, &mut Vec::new(), &mut lines)?;
        if lines.is_empty() { Err("writes: must hold at least one".to_owned()) } else { Ok(lines) }
    }

    /// Returns true if another golden contains the write.
    pub fn is_elsewhere(&self, shown: &Shown) -> bool {
        self.elsewhere.iter().any(|e| e.by == shown.by && shown.does.starts_with(&e.does))
    }
}

fn gather(lines: &[Line], place: &mut Position, found: &mut Vec<Expected>) -> Result<(), String> {
    for (i, line) in lines.iter().enumerate() {
        place.push(i);
        if line.together.is_empty() {
            found.push(line.expected(place.clone())?);
        } else if !line.by.is_empty() {
            return Err(format!("{}: `together` stands alone", line.by));
        }
        for (branch, lines) in line.together.iter().enumerate() {
            place.push(branch);
            gather(lines, place, found)?;
            place.pop();
        }
        place.pop();
    }
    Ok(())
}

impl Line {
    fn expected(&self, place: Position) -> Result<Expected, String> {
        let what = self.event.as_ref().unwrap_or(&self.does);
        let wrong = |why: &str| format!("{} {what}: {why}", self.by);
        let source: Vec<&str> = self.from.split(' ').collect();
        let [repository, file, function] = source[..] else {
            return Err(wrong("from: must name repository, file and function"));
        };
        if !SOURCES.contains(&repository) {
            return Err(wrong(&format!("from: the repository is none of {}", SOURCES.join(", "))));
        }
        if !file.ends_with(".go") || !file.contains('/') || function.is_empty() {
            return Err(wrong("from: must name a Go file by its path, and a function in it"));
        }
        let (does, fields) = match (&self.event, &self.fields) {
            (Some(event), None) => self.event(event).ok_or_else(|| wrong("event: must be type, reason and object"))?,
            (None, Some(fields)) if !self.does.is_empty() => (self.does.clone(), fields.clone()),
            _ => return Err(wrong("must have either `does` and `fields`, or `event`")),
        };
        let shown = Shown { by: self.by.clone(), does, fields, answer: self.answer };
        let is_event = shown.does.contains(" events");
        let (may, from, unrecorded) = (self.may.clone(), self.from.clone(), self.unrecorded.clone());
        Ok(Expected { shown, place, may, is_event, from, unrecorded })
    }

    /// Returns the POST of an Event: verb and resource, and the body.
    fn event(&self, event: &str) -> Option<(String, Value)> {
        let mut words = event.split(' ');
        let (kind, reason, object) = (words.next()?, words.next()?, words.next()?);
        let (short, name) = object.split_once('/')?;
        let (plural, api_kind, namespaced) = match short {
            "pod" => ("pods", "Pod", true),
            "pvc" => ("persistentvolumeclaims", "PersistentVolumeClaim", true),
            "pv" => ("persistentvolumes", "PersistentVolume", false),
            "node" => ("nodes", "Node", false),
            _ => return None,
        };
        let mut about = Map::from_iter([
            ("apiVersion".to_owned(), json!("v1")),
            ("kind".to_owned(), json!(api_kind)),
            ("name".to_owned(), json!(name)),
        ]);
        let has = |what| !self.lacks.contains(&what);
        let mut put = |field: &str, value: Option<String>| {
            about.extend(value.map(|value| (field.to_owned(), Value::from(value))));
        };
        put("namespace", namespaced.then(|| "default".to_owned()));
        put("uid", has(Lack::Uid).then(|| format!("<uid of {plural} {name}>")));
        put("resourceVersion", has(Lack::Version).then(|| "<version>".to_owned()));
        put("fieldPath", self.path.clone());
        let (component, says) = (self.component.as_deref()?, self.says.as_deref()?);
        let body = match &self.action {
            Some(action) => json!({
                "action": action, "eventTime": "<time>", "note": says, "reason": reason, "regarding": about,
                "reportingController": component, "reportingInstance": ANY, "type": kind,
            }),
            None => {
                let mut source = json!({"component": component});
                let mut body = json!({
                    "count": 1, "firstTimestamp": "<time>", "involvedObject": about, "lastTimestamp": "<time>",
                    "message": says, "reason": reason, "reportingComponent": component, "type": kind,
                });
                let host = self.host.clone().unwrap_or_default();
                body["reportingInstance"] = host.clone().into();
                if !host.is_empty() {
                    source["host"] = host.into();
                }
                body["source"] = source;
                body
            }
        };
        let resource = if self.action.is_some() { "events.events.k8s.io" } else { "events" };
        Some((format!("POST {resource} {name}.<event>"), body))
    }
}
