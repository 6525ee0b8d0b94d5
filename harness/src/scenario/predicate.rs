//! Checked conditions and counts of `wait`, `expect` and `never`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::cel::over::Over;
use fake_apiserver::cel::{self, CelValue, Expression};
use serde::Deserialize;
use substrate::fault::Span;
use substrate::json::Value;

use super::words;
use crate::spec::{Kind, ObjectRef};
use crate::suggestions::nearest;

/// Maximum length of a field's value that is shown.
const SHOWN: usize = 200;
/// Variable of every condition.
const SELF: &str = "self";

/// A condition in CEL over `self`.
#[derive(Clone)]
pub struct That(Arc<Expression>);

/// A Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSeen {
    /// Object of the event.
    pub object: ObjectRef,
    /// Exact reason.
    pub reason: String,
    /// Part of the message.
    pub contains: Option<String>,
    /// Number of recordings.
    pub times: Times,
    /// Time limit for it to appear. If zero, it must already exist.
    pub within: Duration,
}

/// Error in a condition, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Description of the error.
    pub message: String,
    /// Suggestion.
    pub help: Option<String>,
    /// Line and column within the text, from 1, if they are known.
    pub at: Option<(usize, usize)>,
    /// Length of the wrong part.
    pub length: usize,
}

impl That {
    /// Compiles a condition.
    ///
    /// # Errors
    /// Describes the error and its position.
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
                message: format!("`{unknown}` is not a variable of a condition"),
                help: Some(help),
                at: cel::place(text, &unknown),
                length: unknown.len(),
            });
        }
        if !expression.mentions(SELF) {
            return Err(Unfit {
                message: "the condition does not mention `self`, so it tests no object".to_owned(),
                help: Some("write `self.status.phase == 'Bound'`".to_owned()),
                at: None,
                length: 1,
            });
        }
        Ok(Self(Arc::new(expression)))
    }

    /// Condition as it is written.
    pub fn source(&self) -> &str {
        self.0.source()
    }

    /// Returns true if it holds for `value`.
    ///
    /// # Errors
    /// Returns the reason if it cannot be evaluated for `value`.
    pub fn holds(&self, value: &Value) -> Result<bool, String> {
        match self.0.evaluate(&[(SELF, value)])? {
            CelValue::Bool(is) => Ok(is),
            other => Err(format!("it gives {other:?}, not true or false")),
        }
    }

    /// Prepares the evaluation for a list that is checked repeatedly.
    pub fn over(&self) -> Over {
        Over::new(self.0.clone(), SELF)
    }

    /// Paths of the fields that the condition mentions, and that `value` does not have.
    pub fn absent(&self, value: &Value) -> Vec<String> {
        let fields = self.0.mentioned(SELF, value).into_iter();
        fields.filter(|(_, at)| at.is_none()).map(|(path, _)| path).collect()
    }

    /// Values of the fields in `value` that the condition mentions, and the error if it cannot be evaluated.
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

/// Byte offset of a line and column, both from 1.
fn offset(text: &str, (line, column): (usize, usize)) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let line = text.get(before..).unwrap_or_default();
    before + line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at)
}

/// Short form of a value; for lists of objects, their names.
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

/// Subject of a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// One object, which is `self`.
    Object(ObjectRef),
    /// All objects of a kind, in one namespace or in all; `self` is the list.
    List(Kind, Option<String>),
}

impl Subject {
    /// Kind of the objects.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Object(object) => object.kind,
            Self::List(kind, _) => *kind,
        }
    }

    /// Object, if it is a single one.
    pub fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Object(object) => Some(object.clone()),
            Self::List(..) => None,
        }
    }

    /// URL path of the collection of the objects.
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

/// A condition that holds for an object or a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    /// Subject of the condition.
    pub of: Subject,
    /// The condition.
    pub that: That,
    /// Time limit; if zero, it must hold now.
    pub within: Duration,
}

/// Bounds on a number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Lower bound.
    pub at_least: u64,
    /// Upper bound, if there is one.
    pub at_most: Option<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Self { at_least: 1, at_most: None }
    }
}

impl Times {
    /// Returns true if `count` is within the bounds.
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

/// Planes whose calls can be counted.
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
    /// Interface.
    pub plane: CallPlane,
    /// Operations, by their names in the catalogue of faults.
    pub operations: BTreeSet<&'static str>,
    /// Operations as written; none for any operation.
    pub written: Option<String>,
    /// Conditions on their attributes.
    pub attributes: BTreeMap<String, Pattern>,
    /// Result of the call: a gRPC code, an HTTP status, `OK` or an error code of EC2; a trailing `*` matches any rest.
    pub outcome: Option<String>,
    /// Number of calls.
    pub times: Times,
    /// Index of the step from whose start calls count; if absent, the start of the run.
    pub since: Option<usize>,
    /// Time limit; if zero, it must hold now.
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

/// A metric in the text format of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Process that serves it.
    pub of: MetricsOf,
    /// Name of the metric.
    pub name: String,
    /// Labels that its samples must have; matching samples are added up.
    pub labels: BTreeMap<String, String>,
    /// Lower bound.
    pub at_least: Option<f64>,
    /// Upper bound.
    pub at_most: Option<f64>,
    /// Time limit; if zero, it must hold now.
    pub within: Duration,
}

impl Metric {
    /// Returns true if `value` is within the bounds.
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

/// A process that serves metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsOf {
    /// The cloud.
    MockEc2,
    /// The API server.
    FakeApiserver,
    /// A process of control loops or a kubelet, by its name.
    Process(String),
}

impl MetricsOf {
    /// Returns the servers, which run in every cluster.
    pub const SERVERS: [Self; 2] = [Self::MockEc2, Self::FakeApiserver];

    /// Returns the process of this name among `processes`, if it serves metrics.
    pub fn named<'a>(name: &str, mut processes: impl Iterator<Item = &'a str>) -> Option<Self> {
        let server = Self::SERVERS.into_iter().find(|server| server.name() == name);
        server.or_else(|| processes.any(|process| process == name).then(|| Self::Process(name.to_owned())))
    }

    /// Name of the process.
    pub fn name(&self) -> &str {
        match self {
            Self::MockEc2 => "mock-ec2",
            Self::FakeApiserver => "fake-apiserver",
            Self::Process(name) => name,
        }
    }
}

/// Resource of the cloud to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudSubject {
    /// A volume: of a claim, of a PersistentVolume, or by its id.
    Volume(Pattern),
    /// The instance of a node.
    Instance(String),
    /// All volumes, including root volumes of instances.
    Volumes,
}

/// Expected state of a resource of the cloud, as its API describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud {
    /// Resource to check.
    pub of: CloudSubject,
    /// State; `deleted` for a volume that does not exist.
    pub state: Option<String>,
    /// Exact set of nodes to which the volume is attached.
    pub attached: Option<BTreeSet<String>>,
    /// Condition on the answer of the API.
    pub that: Option<That>,
    /// Time limit; if zero, it must hold now.
    pub within: Duration,
}

impl Cloud {
    /// Object of the check, if there is one.
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

/// A condition that is forbidden from its step on.
#[derive(Clone, Debug, PartialEq)]
pub struct Never {
    /// Forbidden condition.
    pub what: Forbidden,
    /// Name of the later step at whose start it ends; if absent, the end of the steps.
    pub until: Option<String>,
}

impl Never {
    /// Object of the condition, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match &self.what {
            Forbidden::Holds(holds) => holds.of.object(),
            Forbidden::Event(event) => Some(event.object.clone()),
            Forbidden::Cloud(cloud) => cloud.object(),
            Forbidden::Calls(_) | Forbidden::Metric(_) => None,
        }
    }
}

/// A forbidden condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Forbidden {
    /// A condition that must not hold.
    Holds(Holds),
    /// At least `at_least` calls.
    Calls(Calls),
    /// At least `at_least` recordings of an Event.
    Event(EventSeen),
    /// A value of a metric.
    Metric(Metric),
    /// A state of a resource of the cloud.
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

/// Writes ` within 30s` if there is a time limit.
pub(super) fn within(f: &mut fmt::Formatter<'_>, within: Duration) -> fmt::Result {
    if within.is_zero() { Ok(()) } else { write!(f, " within {}", Span(within)) }
}
