//! Checked conditions and counts: what `wait`, `expect` and `never` are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::cel::{self, CelValue, Expression};
use serde::Deserialize;
use substrate::fault::Span;
use substrate::json::Value;

use super::diagnostic::nearest;
use super::model::EventSeen;
use super::object::{Kind, ObjectRef};
use super::words;
use crate::cluster::names::MANAGER;

/// The longest value of a field that is shown.
const SHOWN: usize = 200;
/// The variable of every condition.
const SELF: &str = "self";

/// A condition in CEL over `self`.
#[derive(Clone)]
pub struct That(Arc<Expression>);

/// Why a text is no condition, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// Line and column within the text, from 1, where they are known.
    pub at: Option<(usize, usize)>,
    /// How long the part that is wrong is.
    pub length: usize,
}

impl That {
    /// Compiles a condition.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(text: &str) -> Result<Self, Unfit> {
        let expression = Expression::check(text, &[]).map_err(|refusal| {
            let why = if refusal.why.is_empty() { &refusal.message } else { &refusal.why };
            let offset = refusal.at.map_or(0, |at| offset(text, at));
            let plain = words::cel(why, &text[..offset], &text[offset..]);
            Unfit {
                message: plain.message,
                help: refusal.nearest.map(|word| format!("did you mean `{word}`?")).or(plain.help),
                at: refusal.at,
                length: refusal.word.as_ref().map_or(1, String::len),
            }
        })?;
        if let Some(unknown) = expression.unknown_variable(&[SELF]) {
            let help = match nearest(&unknown, [SELF].into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`self` is the object, or the list".to_owned(),
            };
            return Err(Unfit {
                message: format!("`{unknown}` is no variable of a condition"),
                help: Some(help),
                at: cel::place(text, &unknown),
                length: unknown.len(),
            });
        }
        if !expression.mentions(SELF) {
            return Err(Unfit {
                message: "the condition does not mention `self`, and so is about nothing".to_owned(),
                help: Some("write `self.status.phase == 'Bound'`".to_owned()),
                at: None,
                length: 1,
            });
        }
        Ok(Self(Arc::new(expression)))
    }

    /// The condition as it is written.
    pub fn source(&self) -> &str {
        self.0.source()
    }

    /// Whether it holds of `value`.
    ///
    /// # Errors
    /// Why it says nothing of `value`.
    pub fn holds(&self, value: &Value) -> Result<bool, String> {
        match self.0.evaluate(&[(SELF, value)])? {
            CelValue::Bool(is) => Ok(is),
            other => Err(format!("it gives {other:?}, not true or false")),
        }
    }

    /// What `value` has in the fields that it mentions, and why it says nothing of `value` if it does not.
    pub fn seen(&self, value: &Value) -> String {
        let fields = self.0.mentioned(SELF, value).into_iter().map(|(path, at)| match at {
            Some(at) => format!("{path} = {}", short(at)),
            None => format!("{path} is not there"),
        });
        let error = match self.0.evaluate(&[(SELF, value)]) {
            Ok(CelValue::Bool(_)) => None,
            Ok(_) => Some("it gives a value, not true or false".to_owned()),
            Err(error) => Some(format!("it cannot be evaluated: {error}")),
        };
        let all: Vec<String> = fields.chain(error).collect();
        if all.is_empty() { "it is not so".to_owned() } else { all.join(", ") }
    }
}

/// The byte at which a line and a column begin, from 1.
fn offset(text: &str, (line, column): (usize, usize)) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let line = text.get(before..).unwrap_or_default();
    before + line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at)
}

/// A value in a few words: of lists of objects, their names.
fn short(value: &Value) -> String {
    let name = |item: &Value| item["metadata"]["name"].as_str().or(item["volumeId"].as_str()).map(str::to_owned);
    let text = match value {
        Value::Array(list) if !list.is_empty() && list.iter().all(|item| name(item).is_some()) => {
            let names: Vec<String> = list.iter().filter_map(name).collect();
            format!("{} of them: {}", list.len(), names.join(", "))
        }
        other => other.to_string(),
    };
    if text.chars().count() <= SHOWN { text } else { text.chars().take(SHOWN).chain("…".chars()).collect() }
}

impl PartialEq for That {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl fmt::Debug for That {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

impl fmt::Display for That {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

/// What a condition is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// One object; `self` is it.
    Object(ObjectRef),
    /// All objects of a kind, of all namespaces where none is named; `self` is the list of them.
    List(Kind, Option<String>),
}

impl Subject {
    /// The kind of the objects.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Object(object) => object.kind,
            Self::List(kind, _) => *kind,
        }
    }

    /// The object, where it is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Object(object) => Some(object.clone()),
            Self::List(..) => None,
        }
    }

    /// The URL path of the collection of the objects.
    pub fn collection_path(&self) -> String {
        match self {
            Self::Object(object) => object.collection_path(),
            Self::List(kind, Some(namespace)) => ObjectRef::new(*kind, Some(namespace), "").collection_path(),
            Self::List(kind, None) => {
                let root = if kind.api_version().contains('/') { "apis" } else { "api" };
                format!("/{root}/{}/{}", kind.api_version(), kind.resource())
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::List(kind, None) => write!(f, "the list of {}", kind.resource()),
            Self::List(kind, Some(namespace)) => write!(f, "the list of {} in {namespace}", kind.resource()),
        }
    }
}

/// A condition holds of an object or a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    /// What it is about.
    pub of: Subject,
    /// The condition.
    pub that: That,
    /// How long it may take; zero demands that it is so now.
    pub within: Duration,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The least.
    pub at_least: u64,
    /// The most; any number when absent.
    pub at_most: Option<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Self { at_least: 1, at_most: None }
    }
}

impl Times {
    /// Whether `count` is so often.
    pub fn holds(self, count: u64) -> bool {
        count >= self.at_least && self.at_most.is_none_or(|most| count <= most)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        match (self.at_least, self.at_most) {
            (_, Some(0)) => f.write_str("never"),
            (least, Some(most)) if least == most => f.write_str(&times(least)),
            (0, Some(most)) => write!(f, "at most {}", times(most)),
            (least, Some(most)) => write!(f, "{least} to {most} times"),
            (least, None) => write!(f, "at least {}", times(least)),
        }
    }
}

/// The planes whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPlane {
    /// Calls of the CSI driver.
    Csi,
    /// Requests of the Kubernetes API.
    K8s,
    /// Actions of the EC2 API.
    Ec2,
}

impl CallPlane {
    /// Its word in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csi => "csi",
            Self::K8s => "k8s",
            Self::Ec2 => "ec2",
        }
    }
}

/// What an attribute of a call must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This word; a trailing `*` matches any rest.
    Word(String),
    /// The id of the volume of a claim, or of a PersistentVolume.
    Volume(ObjectRef),
    /// The node, by its name or by the id of its instance.
    Node(String),
    /// The process, a group of processes, or all of a node.
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

/// Calls of an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// The interface.
    pub plane: CallPlane,
    /// The operations, by their names in the catalogue of faults.
    pub operations: BTreeSet<&'static str>,
    /// The operations as they are written; nothing for any.
    pub written: Option<String>,
    /// What their attributes are.
    pub attributes: BTreeMap<String, Pattern>,
    /// How they ended: a gRPC code, an HTTP status, `OK` or an error code of EC2; a trailing `*` matches any rest.
    pub outcome: Option<String>,
    /// How many there are.
    pub times: Times,
    /// The step (its index) since whose beginning they count; since the run began when absent.
    pub since: Option<usize>,
    /// How long it may take; zero demands that it is so now.
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

/// A metric in the text form of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The process.
    pub of: MetricsOf,
    /// The metric.
    pub name: String,
    /// Labels that its samples must have; those that match are added up.
    pub labels: BTreeMap<String, String>,
    /// The least.
    pub at_least: Option<f64>,
    /// The most.
    pub at_most: Option<f64>,
    /// How long it may take; zero demands that it is so now.
    pub within: Duration,
}

impl Metric {
    /// Whether `value` is within the bounds.
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        write!(f, "{} of {}", self.name, self.of.name())?;
        if !labels.is_empty() {
            write!(f, " where {}", labels.join(", "))?;
        }
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => write!(f, " is {least}"),
            (Some(least), Some(most)) => write!(f, " is {least} to {most}"),
            (Some(least), None) => write!(f, " is at least {least}"),
            (None, Some(most)) => write!(f, " is at most {most}"),
            (None, None) => f.write_str(" is anything"),
        }
    }
}

/// A process that has metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsOf {
    /// The cloud.
    MockEc2,
    /// The API server.
    FakeApiserver,
    /// The control loops of kube-controller-manager.
    Manager,
}

impl MetricsOf {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::MockEc2, Self::FakeApiserver, Self::Manager];

    /// The process' name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MockEc2 => "mock-ec2",
            Self::FakeApiserver => "fake-apiserver",
            Self::Manager => MANAGER,
        }
    }
}

/// What is looked at in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudSubject {
    /// A volume: of a claim, of a PersistentVolume, or by its id.
    Volume(Pattern),
    /// The instance of a node.
    Instance(String),
    /// All volumes, those of instances included.
    Volumes,
}

/// What the cloud has, as its API describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud {
    /// What is looked at.
    pub of: CloudSubject,
    /// Its state; `deleted` for a volume that is not there.
    pub state: Option<String>,
    /// The nodes that the volume is attached to, and no others.
    pub attached: Option<BTreeSet<String>>,
    /// A condition over what the API answers.
    pub that: Option<That>,
    /// How long it may take; zero demands that it is so now.
    pub within: Duration,
}

impl Cloud {
    /// The object that it is about, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match &self.of {
            CloudSubject::Volume(Pattern::Volume(volume)) => Some(volume.clone()),
            CloudSubject::Volume(_) => None,
            CloudSubject::Instance(node) => Some(ObjectRef::new(Kind::node(), None, node)),
            CloudSubject::Volumes => None,
        }
    }
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            CloudSubject::Volume(volume) => write!(f, "the cloud's volume of {volume}")?,
            CloudSubject::Instance(node) => write!(f, "the instance of {node}")?,
            CloudSubject::Volumes => f.write_str("the cloud's volumes")?,
        }
        let state = self.state.as_ref().map(|state| format!("is {state}"));
        let attached = self.attached.as_ref().map(|nodes| match nodes.len() {
            0 => "is attached to no node".to_owned(),
            _ => format!("is attached to {} alone", nodes.iter().cloned().collect::<Vec<_>>().join(" and ")),
        });
        let that = self.that.as_ref().map(|that| format!("satisfies `{that}`"));
        let parts: Vec<String> = state.into_iter().chain(attached).chain(that).collect();
        write!(f, " {}", parts.join(" and "))
    }
}

/// Something that must not be, from its step on.
#[derive(Clone, Debug, PartialEq)]
pub struct Never {
    /// What must not be.
    pub what: Forbidden,
    /// The later step at whose beginning it ends, by name; the end of the story when absent.
    pub until: Option<String>,
}

impl Never {
    /// The object that it is about, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match &self.what {
            Forbidden::Holds(holds) => holds.of.object(),
            Forbidden::Event(event) => Some(event.object.clone()),
            Forbidden::Cloud(cloud) => cloud.object(),
            Forbidden::Calls(_) | Forbidden::Metric(_) => None,
        }
    }
}

/// What must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum Forbidden {
    /// A condition holds.
    Holds(Holds),
    /// Calls are made, as often as `at_least` says.
    Calls(Calls),
    /// An Event is recorded, as often as `at_least` says.
    Event(EventSeen),
    /// A metric has a value.
    Metric(Metric),
    /// The cloud has something.
    Cloud(Cloud),
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds(holds) => write!(f, "{} satisfies `{}`", holds.of, holds.that),
            Self::Calls(calls) => write!(f, "{calls} {}", calls.times),
            Self::Event(event) => {
                write!(f, "an event {} of {}", event.reason, event.object)?;
                match &event.contains {
                    Some(part) => write!(f, " that says \"{part}\" {}", event.times),
                    None => write!(f, " {}", event.times),
                }
            }
            Self::Metric(metric) => metric.fmt(f),
            Self::Cloud(cloud) => cloud.fmt(f),
        }
    }
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)?;
        match &self.until {
            Some(until) => write!(f, " until {until}"),
            None => Ok(()),
        }
    }
}

/// ` within 30s`, where there is time.
pub(super) fn within(f: &mut fmt::Formatter<'_>, within: Duration) -> fmt::Result {
    if within.is_zero() { Ok(()) } else { write!(f, " within {}", Span(within)) }
}
