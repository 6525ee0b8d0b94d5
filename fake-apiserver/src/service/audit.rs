//! The audit log: requests and their results as JSON lines of `audit.k8s.io/v1` Events (apiserver `pkg/audit`,
//! `plugin/pkg/audit/log`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use substrate::body::{Body, BoxError, Holding, boxed, collect, full};
use substrate::json::{Value, json};
use substrate::{Ctx, ids};

use super::access::Resolved;
use super::call::Call;
use super::verb::Sub;
use super::{Server, body};
use crate::kinds::{self, KindRef};
use crate::state::Identity;
use crate::state::value::{self, list, text};
use crate::wire::protobuf;

/// Maximum size of a logged request or answer, in bytes.
const LIMIT: usize = 64 << 20;
const HEADER: &str = "audit-id";

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

    fn name(self) -> &'static str {
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
struct Asked<'a> {
    user: &'a Identity,
    verb: &'a str,
    path: &'a str,
    call: Option<&'a Call>,
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
    fn level(&self, asked: &Asked<'_>) -> (Level, &Value) {
        let rule = list(&self.0, &["rules"]).iter().find(|rule| matches(rule, asked));
        rule.map_or((Level::None, &Value::Null), |rule| {
            (Level::named(text(rule, &["level"])).unwrap_or(Level::None), rule)
        })
    }

    fn omits(&self, rule: &Value, stage: &str) -> bool {
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
    policy: Arc<Policy>,
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

    fn write(&self, event: &Value) {
        let mut line = event.to_string();
        line.push('\n');
        let mut sink = self.sink.lock();
        // A write error of the log does not fail the request; upstream counts such events in a metric.
        let _ = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
    }
}

/// Audit event of one request.
struct Entry {
    audit: Audit,
    ctx: Ctx,
    event: Value,
    omitted: Vec<&'static str>,
}

impl Entry {
    fn write_entry(&self, stage: &'static str, code: Option<u16>) {
        // A process that has ended writes no more.
        if self.ctx.is_down() {
            return;
        }
        if self.omitted.contains(&stage) {
            return;
        }
        let mut event = self.event.clone();
        event["stage"] = stage.into();
        event["stageTimestamp"] = self.ctx.now().wall.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
        if let Some(code) = code {
            event["responseStatus"]["metadata"] = json!({});
            event["responseStatus"]["code"] = code.into();
        }
        self.audit.write(&event);
    }
}

impl Server {
    /// Answers a request and logs it as the policy says.
    pub(super) async fn audited(&self, audit: &Audit, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (mut parts, sent) = request.into_parts();
        let find = |group: &str, version: &str, plural: &str| {
            kinds::find(group, version, plural)
                .map(KindRef::from)
                .or_else(|| self.shared.lock().store.find_kind(group, version, plural))
        };
        let call = Call::parse(&parts, &find).ok().flatten();
        let anonymous =
            || Identity { username: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() };
        let user = self.sender(&parts).unwrap_or_else(|_| Arc::new(anonymous()));
        let method = parts.method.as_str().to_lowercase();
        let verb = call.as_ref().map_or(method.as_str(), |call| call.verb.name());
        let asked = Asked { user: &user, verb, path: parts.uri.path(), call: call.as_ref() };
        let (level, rule) = audit.policy.level(&asked);
        if level == Level::None {
            return self.answer(Request::from_parts(parts, sent)).await;
        }
        let given = parts.headers.get(HEADER).and_then(|v| v.to_str().ok()).filter(|id| !id.is_empty());
        let id = match given {
            Some(id) => id.to_owned(),
            None => ids::uuid(&mut self.shared.lock().reviews).to_string(),
        };
        let omitted = ["RequestReceived", "ResponseStarted"]
            .into_iter()
            .filter(|stage| audit.policy.omits(rule, stage))
            .collect();
        let event = self.event(&parts, call.as_ref(), &user, verb, level, &id);
        let lasts = verb == "watch" || call.as_ref().is_some_and(|call| call.subresource == Sub::Log);
        let reads = lasts || matches!(verb, "get" | "list");
        let entry = Entry { audit: audit.clone(), ctx: self.ctx.clone(), event, omitted };
        let mut open = Open { entry, lasts, reads, answered: None };
        let entry = &mut open.entry;
        entry.write_entry("RequestReceived", None);
        if parts.headers.contains_key("impersonate-user")
            && let Ok(acting) = self.caller(&parts)
        {
            entry.event["impersonatedUser"] = acting.user_info();
        }
        let sent = if level >= Level::Request && !matches!(verb, "get" | "list" | "watch") {
            let bytes = match body::whole(sent, LIMIT).await {
                Ok(bytes) => bytes,
                Err(_) => Bytes::new(),
            };
            entry.event["requestObject"] = object(&bytes, body::content_type(&parts.headers));
            // Keeps the parsed tree that a caller in the same process passed along with the text.
            full(bytes)
        } else {
            sent
        };
        if let Ok(value) = HeaderValue::from_str(&id) {
            parts.headers.insert(HEADER, value);
        }
        let resolved = parts.extensions.get::<Resolved>().cloned().unwrap_or_default();
        let mut response = self.answer(Request::from_parts(parts, sent)).await?;
        let code = response.status().as_u16();
        let notes = resolved.notes();
        if !notes.is_empty() {
            open.entry.event["annotations"] =
                notes.into_iter().map(|(key, wording)| (key, Value::from(wording))).collect();
        }
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HEADER, value);
        }
        // A long-running request is logged when it starts and when it ends.
        if lasts && code == 200 {
            open.entry.write_entry("ResponseStarted", Some(code));
            open.answered = Some(code);
            return Ok(response.map(|body| boxed(Holding::new(body, open))));
        }
        if level == Level::RequestResponse || code >= 400 || verb == "delete" {
            let (parts, body) = response.into_parts();
            let bytes = collect(body, LIMIT).await?;
            let answered = object(&bytes, body::content_type(&parts.headers));
            if answered["kind"] == "Status" {
                let reported = ["status", "message", "reason", "details"].into_iter();
                let reported = reported.filter_map(|name| Some((name, answered.get(name)?.clone())));
                open.entry.event["responseStatus"] = reported.collect();
            }
            if level == Level::RequestResponse {
                open.entry.event["responseObject"] = answered;
            }
            response = Response::from_parts(parts, full(bytes));
        }
        open.answered = Some(code);
        Ok(response)
    }

    fn event(&self, parts: &Parts, call: Option<&Call>, user: &Identity, verb: &str, level: Level, id: &str) -> Value {
        let word = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let target = parts.uri.path_and_query().map_or("", |path| path.as_str());
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": level.name(),
            "auditID": id,
            "requestURI": target,
            "verb": verb,
            "user": user.user_info(),
            "userAgent": word("user-agent"),
            "requestReceivedTimestamp": self.ctx.now().wall.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        });
        if let Some(call) = call {
            let mut reference = json!({"resource": call.kind.plural, "apiVersion": call.kind.version});
            for (field, text) in [
                ("apiGroup", call.kind.group),
                ("namespace", call.namespace.as_deref().unwrap_or_default()),
                ("name", call.named()),
                ("subresource", call.subresource.name()),
            ] {
                if !text.is_empty() {
                    reference[field] = text.into();
                }
            }
            event["objectRef"] = reference;
        }
        event
    }
}

/// Parses the body of a request or an answer; null if it is not an object.
fn object(bytes: &[u8], media: &str) -> Value {
    let media = media.split(';').next().unwrap_or_default().trim();
    let mut object = if media == protobuf::MEDIA {
        protobuf::decode(bytes, ("", "")).unwrap_or_default()
    } else {
        serde_json::from_slice(bytes).unwrap_or_default()
    };
    // As upstream's `omitManagedFields`, which makes events smaller.
    if object["metadata"].is_object() {
        value::metadata(&mut object).remove("managedFields");
    }
    object
}

/// A request in progress, which is logged when this is dropped. If the caller has given up, it is logged as upstream
/// does, whose handlers see that their context was cancelled (`endpoints/handlers/finisher`,
/// `endpoints/filters/audit.go`).
struct Open {
    entry: Entry,
    /// True for a long-running request.
    lasts: bool,
    reads: bool,
    /// HTTP status of its answer.
    answered: Option<u16>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let entry = &mut self.entry;
        if let Some(code) = self.answered {
            return entry.write_entry("ResponseComplete", Some(code));
        }
        let (code, status) = if self.lasts {
            (200, json!({"status": "Success", "message": "Connection closed early"}))
        } else if self.reads {
            (500, json!({"status": "Failure", "message": "context canceled"}))
        } else {
            let message = "Timeout: request did not complete within requested timeout - context canceled";
            (504, json!({"status": "Failure", "message": message, "reason": "Timeout"}))
        };
        entry.event["responseStatus"] = status;
        if self.lasts {
            entry.write_entry("ResponseStarted", Some(code));
        }
        entry.write_entry("ResponseComplete", Some(code));
    }
}
