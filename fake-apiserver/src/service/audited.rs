//! Writes audit events of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Request, Response};
use substrate::body::{Body, BoxError, Holding, boxed, collect, full};
use substrate::json::{Value, json};
use substrate::{Ctx, ids};

use super::access::Resolved;
use super::audit::{Asked, Audit, Level};
use super::call::Call;
use super::verb::Sub;
use super::{Server, body};
use crate::kinds::{self, KindRef};
use crate::state::Identity;
use crate::state::value;
use crate::wire::protobuf;

/// Maximum size of a logged request or answer, in bytes.
const LIMIT: usize = 64 << 20;
const HEADER: &str = "audit-id";

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
            let bytes = body::whole(sent, LIMIT).await.unwrap_or_default();
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
