//! Calls of admission webhooks (apiserver `admission/plugin/webhook`): first the mutating ones, one after the other,
//! then the validating ones.
//!
//! A write with webhooks is planned first: the webhooks receive the resulting object. Their result is written only if
//! the stored object has not changed in the meantime.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{Method, Request, header};
use substrate::body::{BoxError, collect, full};
use substrate::ids;
use substrate::json::{self, Value, json};

use super::Server;
use super::access::note;
use super::call::Call;
use super::dials::Endpoint;
use super::verb::Verb;
use crate::go_json;
use crate::kinds::Kind;
use crate::state::matching::Attributes;
use crate::state::selector::Selector;
use crate::state::value::{list, text};
use crate::state::{Asking, Command, ListOptions, Mutated, Part, Reply, Stage, Status, Store, scale_of, value};

/// Maximum number of attempts to plan a write if its object changes in the meantime.
const ATTEMPTS: usize = 5;
/// Maximum length of an answer in bytes.
const ANSWER_LIMIT: usize = 3 << 20;

/// One webhook of one configuration.
struct Hook {
    name: String,
    /// The webhook's entry in the configuration.
    source: Value,
    endpoint: Result<Endpoint, String>,
}

/// A planned write.
#[derive(Clone)]
struct Plan {
    operation: &'static str,
    object: Value,
    old: Value,
    /// Revision of the old object; 0 if there is none.
    revision: u64,
}

impl Plan {
    /// Plans a POST to a subresource, with namespace and name from the URL.
    fn posted(api_version: &str, kind: &str, namespace: &str, name: &str, sent: &Value) -> Self {
        let mut object = sent.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion", api_version.into());
            fields.insert("kind", kind.into());
        }
        let metadata = value::metadata(&mut object);
        metadata.insert("name", name.into());
        metadata.insert("namespace", namespace.into());
        Self { operation: "CREATE", object, old: Value::Null, revision: 0 }
    }
}

/// Answer of a webhook.
#[derive(Default)]
struct Verdict {
    patch: Option<Value>,
}

impl Server {
    /// Applies a command after calling the matching webhooks. Adds the warnings of webhooks to `warnings`.
    pub(super) async fn admitted(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        command: Command,
        warnings: &mut Vec<String>,
    ) -> Result<Reply, Status> {
        if let Command::DeleteCollection { kind, namespace, selector, .. } = &command {
            Box::pin(self.admit_collection(parts, call, asking, (kind, namespace.as_deref(), selector), warnings))
                .await?;
            return self.settled(parts, call, asking, command, warnings);
        }
        let [mutates, judges] = {
            let state = self.shared.lock();
            [true, false].map(|mutating| state.store.webhook_configurations(mutating).next().is_some())
        };
        for attempt in 1.. {
            let (mut next, mut changed) = (command.clone(), false);
            if mutates && let Some(mut plan) = self.plan(asking, &command, Stage::Mutated)? {
                let planned = plan.object.clone();
                Box::pin(self.mutate(parts, call, asking, &mut plan, warnings)).await?;
                changed = plan.object != planned;
                if changed {
                    next = rewritten(&command, plan);
                }
            }
            match self.judged(parts, call, asking, next, judges, warnings).await {
                // The object changed in the meantime, so the webhooks saw an outdated one.
                Err(status) if status.code == 409 && changed && attempt < ATTEMPTS && !is_create(&command) => {}
                other => return other,
            }
        }
        Err(Status::new(500, "InternalError", "gave up planning the write"))
    }

    /// Calls the validating webhooks, if there are any, and stores the object.
    async fn judged(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        command: Command,
        judges: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Reply, Status> {
        if judges && let Some(plan) = self.plan(asking, &command, Stage::Judged)? {
            Box::pin(self.judge(parts, call, asking, &plan, warnings)).await?;
        }
        self.settled(parts, call, asking, command, warnings)
    }

    /// Calls the webhooks of a DELETE of a collection: mutating ones once, validating ones for each object.
    async fn admit_collection(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        (kind, namespace, selector): (&Kind, Option<&str>, &Selector),
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let doomed = {
            let state = self.shared.lock();
            if !state.store.has_webhooks() {
                return Ok(());
            }
            state.store.list(crate::kinds::stored(kind), namespace, selector, &ListOptions::default())?.items
        };
        let mut whole = Plan { operation: "DELETE", object: Value::Null, old: Value::Null, revision: 0 };
        self.mutate(parts, call, asking, &mut whole, warnings).await?;
        for object in doomed {
            let old = object.unfolded().value.clone();
            let plan = Plan { operation: "DELETE", object: Value::Null, old, revision: object.revision };
            self.judge(parts, call, asking, &plan, warnings).await?;
        }
        Ok(())
    }

    fn settled(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        command: Command,
        warnings: &mut Vec<String>,
    ) -> Result<Reply, Status> {
        let (reply, wording, noted) = self.apply(self.ctx.now(), call, asking, command);
        for (key, text) in noted {
            note(parts, key, text);
        }
        // A planned write runs its checks twice.
        for text in wording {
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
        reply
    }

    /// Returns an object as a command would write it, and as it is stored; `None` if the command writes no object.
    pub(super) fn planned(&self, asking: Option<&Asking>, command: &Command) -> Result<Option<(Value, Value)>, Status> {
        Ok(self.plan(asking, command, Stage::Kept)?.map(|plan| (plan.object, plan.old)))
    }

    /// Returns the object that a command would write, at the end of a stage; `None` for commands without webhooks.
    fn plan(&self, asking: Option<&Asking>, command: &Command, stage: Stage) -> Result<Option<Plan>, Status> {
        let now = self.ctx.now();
        let mut state = self.shared.lock();
        let store: &mut Store = &mut state.store;
        let old_of = |store: &Store, target: &crate::state::Target| {
            store
                .get(crate::kinds::stored(&target.kind), &target.key())
                .map_or(Value::Null, |o| o.value.read().into_owned())
        };
        let mut dry = command.clone();
        let (operation, old) = match &mut dry {
            Command::Create { options, .. } => {
                (options.dry_run, options.stage) = (true, stage);
                ("CREATE", Value::Null)
            }
            Command::Update { target, options, .. }
            | Command::Patch { target, options, .. }
            | Command::Apply { target, options, .. } => {
                (options.dry_run, options.stage) = (true, stage);
                let old = old_of(store, target);
                let scaled = target.part == Part::Scale && !old.is_null();
                let old = if scaled { scale_of(&target.kind, &old)? } else { old };
                (if old.is_null() { "CREATE" } else { "UPDATE" }, old)
            }
            // Webhooks receive a posted object as it was sent.
            Command::Bind { namespace, name, binding, .. } => {
                return Ok(Some(Plan::posted("v1", "Binding", namespace, name, binding)));
            }
            Command::Evict { namespace, name, eviction, .. } => {
                return Ok(Some(Plan::posted("policy/v1", "Eviction", namespace, name, eviction)));
            }
            Command::RequestToken { namespace, name, request, .. } => {
                return Ok(Some(Plan::posted("authentication.k8s.io/v1", "TokenRequest", namespace, name, request)));
            }
            Command::Delete { target, .. } => {
                let old = old_of(store, target);
                let plan = Plan { operation: "DELETE", object: Value::Null, old, revision: 0 };
                return Ok((!plan.old.is_null()).then_some(plan));
            }
            Command::DeleteCollection { .. } => return Ok(None),
        };
        let reply = store.apply_for(now, asking, dry);
        // If the write succeeds, the same warnings are added again at its end.
        let wording = store.take_warnings();
        let reply = reply.map_err(|mut status| {
            status.details.warnings = wording;
            status
        });
        let revision = value::resource_version(&old).parse().unwrap_or(0);
        match reply? {
            Reply::Object(object) | Reply::Created(object) => {
                Ok(Some(Plan { operation, object: object.value.clone(), old, revision }))
            }
            // A Scale.
            Reply::Document(_, object) => Ok(Some(Plan { operation, object, old, revision })),
            Reply::Status(_) | Reply::List(_) => Ok(None),
        }
    }

    /// Calls the mutating webhooks. Those with reinvocationPolicy IfNeeded are called again if a later one changed the
    /// object.
    async fn mutate(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        plan: &mut Plan,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let hooks = self.concerned(call, plan, true);
        let mut seen: Vec<(usize, Value)> = Vec::new();
        for (i, hook) in hooks.iter().enumerate() {
            self.ask(parts, call, asking, plan, hook, warnings).await?;
            seen.push((i, plan.object.clone()));
        }
        for (i, was) in seen {
            let again = text(&hooks[i].source, &["reinvocationPolicy"]) == "IfNeeded";
            if again && was != plan.object {
                self.ask(parts, call, asking, plan, &hooks[i], warnings).await?;
            }
        }
        Ok(())
    }

    async fn judge(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        plan: &Plan,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        for hook in self.concerned(call, plan, false) {
            // A validating webhook cannot change the object.
            self.ask(parts, call, asking, &mut plan.clone(), &hook, warnings).await?;
        }
        Ok(())
    }

    /// Returns the webhooks that match a request, in the order of their configurations' names.
    fn concerned(&self, call: &Call, plan: &Plan, mutating: bool) -> Vec<Hook> {
        let state = self.shared.lock();
        let attributes = attributes(call, plan);
        let mut hooks = Vec::new();
        for configuration in state.store.webhook_configurations(mutating) {
            for source in list(&configuration.value, &["webhooks"]) {
                if state.store.concerns(source, "rules", &attributes) {
                    let endpoint = endpoint(&state.store, &source["clientConfig"]);
                    hooks.push(Hook { name: text(source, &["name"]).to_owned(), source: source.clone(), endpoint });
                }
            }
        }
        hooks
    }

    /// Calls one webhook, if its match conditions hold, and applies its patch.
    async fn ask(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        plan: &mut Plan,
        hook: &Hook,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let ignores = text(&hook.source, &["failurePolicy"]) == "Ignore";
        let conditions = list(&hook.source, &["matchConditions"]);
        let holds = self.shared.lock().store.conditions_hold(asking, conditions, &attributes(call, plan));
        match holds {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(_) if ignores => return Ok(()),
            Err(why) => return Err(Status::forbidden(&call.kind, call.named(), &why)),
        }
        let uid = ids::uuid(&mut self.shared.lock().reviews).to_string();
        let user = match asking {
            Some(asking) => asking.user.clone(),
            None => self.caller(parts)?,
        };
        let review = review(call, plan, &uid, &user.user_info());
        let seconds = hook.source["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30);
        let limit = self.ctx.now().mono + Duration::from_secs(seconds);
        let answer = tokio::select! { biased;
            answer = self.post(&hook.endpoint, &review) => answer,
            () = self.ctx.sleep_until(limit) => Err(format!("no answer within {seconds}s")),
        };
        let verdict = answer.and_then(|answer| {
            let verdict = read(&answer, &uid)?;
            // A webhook that refuses may warn, too.
            let wording = list(&answer["response"], &["warnings"]).iter().filter_map(Value::as_str);
            warnings.extend(wording.map(str::to_owned));
            let annotations = answer["response"]["auditAnnotations"].as_object().into_iter().flatten();
            for (key, wording) in annotations {
                note(parts, format!("{}/{key}", hook.name), wording.as_str().unwrap_or_default());
            }
            Ok(verdict)
        });
        let verdict = match verdict {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(denied)) => return Err(refuse(&hook.name, &denied)),
            Err(_) if ignores => return Ok(()),
            Err(why) => return Err(failed(&hook.name, &why)),
        };
        if let Some(patch) = verdict.patch {
            let patch: json_patch::Patch = json::from_value(patch)
                .map_err(|error| failed(&hook.name, &format!("the patch is not a JSON Patch: {error}")))?;
            let mut patched = serde_json::Value::from(plan.object.take());
            json_patch::patch(&mut patched, &patch)
                .map_err(|error| failed(&hook.name, &format!("the patch cannot be applied: {error}")))?;
            plan.object = patched.into();
        }
        Ok(())
    }

    /// Sends a review to a webhook and returns its answer.
    pub(super) async fn post(&self, endpoint: &Result<Endpoint, String>, review: &Value) -> Result<Value, String> {
        let endpoint = endpoint.as_ref().map_err(Clone::clone)?;
        let dial = self.shared.dial.as_ref().ok_or("this server reaches no webhooks: it runs in simulation")?;
        let reported = |error: BoxError| format!("failed to call webhook: Post {:?}: {error}", endpoint.url);
        let service = dial(&self.ctx, endpoint).map_err(reported)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&endpoint.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(full(review.to_string()))
            .map_err(|error| reported(error.into()))?;
        let response = substrate::body::call(service, request).await.map_err(reported)?;
        let code = response.status();
        let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(|error| error.to_string())?;
        if !code.is_success() {
            return Err(format!("failed to call webhook: the server answered {code}"));
        }
        go_json::read(&bytes).map_err(|error| format!("the answer is not a review: {error}"))
    }
}

fn is_create(command: &Command) -> bool {
    matches!(command, Command::Create { .. })
}

fn attributes<'a>(call: &'a Call, plan: &'a Plan) -> Attributes<'a> {
    Attributes {
        kind: &call.kind,
        subresource: call.subresource.name(),
        named: call.named(),
        operation: plan.operation,
        namespace: call.namespace.as_deref(),
        object: &plan.object,
        old: &plan.old,
    }
}

/// Returns the command that writes the object as webhooks changed it.
fn rewritten(command: &Command, Plan { object, revision, .. }: Plan) -> Command {
    let mut command = command.clone();
    if let Command::Create { options, .. }
    | Command::Update { options, .. }
    | Command::Patch { options, .. }
    | Command::Apply { options, .. } = &mut command
    {
        options.mutated = Some(Arc::new(Mutated { object, revision }));
        return command;
    }
    match command {
        Command::Bind { namespace, name, dry_run, .. } => Command::Bind { namespace, name, binding: object, dry_run },
        Command::Evict { namespace, name, dry_run, .. } => {
            Command::Evict { namespace, name, eviction: object, dry_run }
        }
        Command::RequestToken { namespace, name, dry_run, .. } => {
            Command::RequestToken { namespace, name, request: object, dry_run }
        }
        other => other,
    }
}

/// Returns the options of a request (`CreateOptions`, `UpdateOptions` …, by its verb).
pub(super) fn options(call: &Call) -> Value {
    let kind = match call.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        _ => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    let dry_run: Vec<&str> = call.query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options["dryRun"] = json!(dry_run);
    }
    for field in ["fieldManager", "fieldValidation"] {
        if kind != "DeleteOptions" && !call.query.get(field).is_empty() {
            options[field] = call.query.get(field).into();
        }
    }
    if kind == "PatchOptions" && call.query.get("force") == "true" {
        options["force"] = true.into();
    }
    options
}

fn review(call: &Call, plan: &Plan, uid: &str, user: &Value) -> Value {
    let kind = &call.kind;
    let asked = attributes(call, plan);
    let (group, version, of) = asked.object_kind();
    let of = json!({"group": group, "version": version, "kind": of});
    let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let mut request = json!({
        "uid": uid,
        "kind": of,
        "resource": resource,
        "requestKind": of,
        "requestResource": resource,
        "operation": plan.operation,
        "userInfo": user,
        "object": plan.object,
        "oldObject": plan.old,
        "dryRun": call.query.all("dryRun").next().is_some(),
        "options": options(call),
    });
    let name = asked.name().to_owned();
    for (field, text) in [
        ("name", name.as_str()),
        ("namespace", call.namespace.as_deref().unwrap_or_default()),
        ("subResource", call.subresource.name()),
        ("requestSubResource", call.subresource.name()),
    ] {
        if !text.is_empty() {
            request[field] = text.into();
        }
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}

/// Parses an answer: the verdict of the webhook, or the reason of its refusal.
fn read(answer: &Value, uid: &str) -> Result<Result<Verdict, Value>, String> {
    let response = &answer["response"];
    if answer["kind"] != "AdmissionReview" || !response.is_object() {
        return Err("the answer is not an AdmissionReview with a response".to_owned());
    }
    if text(response, &["uid"]) != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, &["uid"])));
    }
    if response["allowed"] != true {
        return Ok(Err(response["status"].clone()));
    }
    let mut verdict = Verdict::default();
    let patch = text(response, &["patch"]);
    if !patch.is_empty() {
        if text(response, &["patchType"]) != "JSONPatch" {
            return Err("invalid response.patchType: must be JSONPatch".to_owned());
        }
        let bytes = STANDARD.decode(patch).map_err(|error| format!("response.patch is not base64: {error}"))?;
        verdict.patch = Some(go_json::read(&bytes).map_err(|error| format!("response.patch: {error}"))?);
    }
    Ok(Ok(verdict))
}

/// Creates the 4xx with the webhook's message (`ToStatusErr`).
fn refuse(hook: &str, denied: &Value) -> Status {
    let denial = format!("admission webhook {hook:?} denied the request");
    let message = match (text(denied, &["message"]), text(denied, &["reason"])) {
        ("", "") => format!("{denial} without explanation"),
        ("", reason) => format!("{denial}: {reason}"),
        (message, _) => format!("{denial}: {message}"),
    };
    let code =
        denied["code"].as_u64().and_then(|c| u16::try_from(c).ok()).filter(|c| (400..600).contains(c)).unwrap_or(403);
    let reason = if code == 403 { "Forbidden" } else { "" };
    Status::new(code, reason, message)
}

fn failed(hook: &str, why: &str) -> Status {
    Status::new(500, "InternalError", format!("Internal error occurred: failed calling webhook {hook:?}: {why}"))
}

/// Normalizes a path like client-go, which uses Go's `path.Join("/", path)`: without empty parts, `.`, `..` and the
/// last slash. envtest writes two slashes before the path of each webhook, and Go's servers redirect such a path.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the address in a client configuration: a URL, or the first endpoint of a service.
pub(super) fn endpoint(store: &Store, client: &Value) -> Result<Endpoint, String> {
    let ca_pem = STANDARD
        .decode(text(client, &["caBundle"]))
        .map_err(|error| format!("clientConfig.caBundle is not base64: {error}"))?;
    let url = text(client, &["url"]);
    if !url.is_empty() {
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let url = format!("{scheme}://{authority}{}", cleaned(path));
        return Ok(Endpoint { url, server_name: None, ca_pem });
    }
    let service = &client["service"];
    let (namespace, name) = (text(service, &["namespace"]), text(service, &["name"]));
    let port = service["port"].as_i64().unwrap_or(443);
    let address = store
        .service_endpoint(namespace, name, port)
        .ok_or_else(|| format!("no endpoints available for service {name:?} in namespace {namespace:?}"))?;
    let path = cleaned(text(service, &["path"]));
    Ok(Endpoint {
        url: format!("https://{address}{path}"),
        server_name: Some(format!("{name}.{namespace}.svc")),
        ca_pem,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_is_cleaned_as_go_cleans_it() {
        for (path, clean) in [
            ("", "/"),
            ("/", "/"),
            ("a", "/a"),
            ("//a", "/a"),
            ("/a//b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
        ] {
            assert_eq!(super::cleaned(path), clean, "{path:?}");
        }
    }
}
