//! Checked conditions of `wait`, `expect` and `never`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::cel::over::Over;
use fake_apiserver::cel::{self, CelValue, Expression};
use substrate::fault::Span;
use substrate::json::Value;

pub(crate) use super::expects::call::{CallPlane, Calls, Pattern};
pub(crate) use super::expects::ec2::{Cloud, CloudSubject};
pub(crate) use super::expects::event::EventSeen;
pub(crate) use super::expects::metric::{Metric, MetricsOf};
pub(crate) use super::steps::never::{Forbidden, Never};
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
    pub of: Subject,
    pub that: That,
    /// Time limit; if zero, it must hold now.
    pub within: Duration,
}

/// Formats ` within 30s`; nothing if there is no time limit.
pub(super) struct Within(pub Duration);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { Ok(()) } else { write!(f, " within {}", Span(self.0)) }
    }
}
