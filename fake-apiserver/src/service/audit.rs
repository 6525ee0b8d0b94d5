//! The audit log: requests and their results as JSON lines of `audit.k8s.io/v1` Events (apiserver `pkg/audit`,
//! `plugin/pkg/audit/log`).

use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

use substrate::json::{Value, json};

use super::call::Call;
use crate::state::Identity;
use crate::state::value::{list, text};

/// Amount of detail of a logged request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    None,
    /// User, verb, object, time and result.
    Metadata,
    /// And the request body.
    Request,
    /// And the response body.
    RequestResponse,
}

impl Level {
    fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse].into_iter().find(|l| l.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// Rules that select the level of each request (`audit.k8s.io/v1` Policy).
#[derive(Clone, Debug)]
pub struct Policy(Value);

impl Default for Policy {
    /// Logs every request at level Metadata.
    fn default() -> Self {
        Self(json!({"rules": [{"level": "Metadata"}]}))
    }
}

/// A request as rules see it.
pub(super) struct Asked<'a> {
    pub(super) user: &'a Identity,
    pub(super) verb: &'a str,
    pub(super) path: &'a str,
    pub(super) call: Option<&'a Call>,
}

impl Policy {
    /// Parses a policy from YAML.
    ///
    /// # Errors
    /// The first error in the policy.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let policy: Value = substrate::yaml::from_str(yaml).map_err(|error| format!("is not valid YAML: {error}"))?;
        let (version, kind) = (text(&policy, &["apiVersion"]), text(&policy, &["kind"]));
        if version != "audit.k8s.io/v1" || kind != "Policy" {
            return Err(format!("must be a Policy of audit.k8s.io/v1, not {kind:?} of {version:?}"));
        }
        let rules = list(&policy, &["rules"]);
        if rules.is_empty() {
            return Err("rules: must hold at least one".to_owned());
        }
        for (i, rule) in rules.iter().enumerate() {
            let level = text(rule, &["level"]);
            if Level::named(level).is_none() {
                return Err(format!("rules[{i}].level: {level:?} is none of None, Metadata, Request, RequestResponse"));
            }
            let of_paths = !list(rule, &["nonResourceURLs"]).is_empty();
            if of_paths && !(list(rule, &["resources"]).is_empty() && list(rule, &["namespaces"]).is_empty()) {
                return Err(format!("rules[{i}].nonResourceURLs: rules cannot apply to both resources and paths"));
            }
        }
        Ok(Self(policy))
    }

    /// Returns the level of a request and the rule that sets it.
    pub(super) fn level(&self, asked: &Asked<'_>) -> (Level, &Value) {
        let rule = list(&self.0, &["rules"]).iter().find(|rule| matches(rule, asked));
        rule.map_or((Level::None, &Value::Null), |rule| {
            (Level::named(text(rule, &["level"])).unwrap_or(Level::None), rule)
        })
    }

    pub(super) fn omits(&self, rule: &Value, stage: &str) -> bool {
        [&self.0, rule].iter().any(|of| list(of, &["omitStages"]).iter().any(|s| s == stage))
    }
}

fn matches(rule: &Value, asked: &Asked<'_>) -> bool {
    let unless = |field: &str, has: &dyn Fn(&str) -> bool| {
        let wanted = list(rule, &[field]);
        wanted.is_empty() || wanted.iter().filter_map(Value::as_str).any(has)
    };
    if !unless("users", &|user| user == asked.user.username)
        || !unless("userGroups", &|group| asked.user.groups.iter().any(|g| g == group))
        || !unless("verbs", &|verb| verb == asked.verb)
    {
        return false;
    }
    let (resources, namespaces) = (list(rule, &["resources"]), list(rule, &["namespaces"]));
    if !resources.is_empty() || !namespaces.is_empty() {
        let Some(call) = asked.call else { return false };
        let namespace = call.namespace.as_deref().unwrap_or_default();
        return (namespaces.is_empty() || namespaces.iter().any(|n| n == namespace))
            && (resources.is_empty() || resources.iter().any(|of| is_resource(of, call)));
    }
    let paths = list(rule, &["nonResourceURLs"]);
    if paths.is_empty() {
        return true;
    }
    asked.call.is_none()
        && paths.iter().filter_map(Value::as_str).any(|path| {
            path == "*"
                || path == asked.path
                || path.strip_suffix('*').is_some_and(|start| asked.path.starts_with(start))
        })
}

fn is_resource(of: &Value, call: &Call) -> bool {
    if text(of, &["group"]) != call.kind.group {
        return false;
    }
    let (wanted, names) = (list(of, &["resources"]), list(of, &["resourceNames"]));
    let (plural, sub) = (call.kind.plural, call.subresource.name());
    let whole = if sub.is_empty() { plural.to_owned() } else { format!("{plural}/{sub}") };
    wanted.is_empty()
        || (names.is_empty() || names.iter().any(|name| name == call.named()))
            && wanted.iter().filter_map(Value::as_str).any(|resource| {
                resource == "*"
                    || resource == whole
                    || !sub.is_empty() && resource.strip_prefix("*/") == Some(sub)
                    || resource.strip_suffix("/*") == Some(plural)
            })
}

/// Audit log of one server.
#[derive(Clone)]
pub struct Audit {
    pub(super) policy: Arc<Policy>,
    sink: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Audit {
    /// Creates a log that writes a line for each event to `sink`.
    pub fn new(policy: Policy, sink: Box<dyn Write + Send>) -> Self {
        Self { policy: Arc::new(policy), sink: Arc::new(Mutex::new(sink)) }
    }

    pub(super) fn write(&self, event: &Value) {
        let mut line = event.to_string();
        line.push('\n');
        let mut sink = self.sink.lock();
        // A write error of the log does not fail the request; upstream counts such events in a metric.
        let _ = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
    }
}
