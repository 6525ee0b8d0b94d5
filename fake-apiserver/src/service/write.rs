//! Writes: from the request to a command, and from its reply to the response.

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use substrate::body::Body;
use substrate::json::Value;

use super::body::Sent;
use super::call::Call;
use super::fault::RequestFault;
use super::options::Options;
use super::parameters::{list_numbers, selector};
use super::respond::{Shown, warn};
use super::verb::{Sub, Verb};
use super::wanted::is_dry_run;
use super::webhook::options as options_of;
use super::{Server, body, certificates, flaws, options};
use crate::kinds;
use crate::patch::PatchKind;
use crate::state::{Asking, Command, FieldValidation, Listed, Part, Reply, Status, Target, WriteOptions, shape};

/// Media types of a PATCH.
const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";
/// Media types of a PATCH of a custom kind, which has no strategic merge.
pub(super) const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
/// Media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

impl Server {
    pub(super) async fn write(
        &self,
        parts: &Parts,
        call: &Call,
        shown: Shown,
        body: Body,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        let manager = manager(call).into();
        let asks_for_certificate = certificates::concerns(call) && call.subresource == Sub::Itself;
        let requester = if asks_for_certificate { Some(self.caller(parts)?) } else { None };
        let applies = call.verb == Verb::Patch && is_apply(parts);
        if call.verb == Verb::Patch
            && !applies
            && PatchKind::of_content_type(body::content_type(&parts.headers)).is_none()
        {
            return Err(Status::unsupported_media_type(PATCH_TYPES));
        }
        let strategic = PatchKind::of_content_type(body::content_type(&parts.headers)) == Some(PatchKind::Strategic);
        if call.verb == Verb::Patch && call.kind.custom.is_some() && strategic {
            return Err(Status::unsupported_media_type(CUSTOM_PATCH_TYPES));
        }
        let Options { dry_run, fields: validation } = options::read(call, applies)?;
        // Subresources that connect to a pod or a node.
        if call.subresource.reaches() {
            return Err(unreached(call.kind.plural, call.subresource));
        }
        let Sent { value: mut sent, text } = body::read(parts, body, || expected(call)).await?;
        if certificates::concerns(call) {
            match (call.verb, call.subresource) {
                (Verb::Create, Sub::Itself) => self.may_request(call, &sent)?,
                (_, Sub::Approval) => self.may_approve(parts, call)?,
                _ => {}
            }
        }
        let whole = matches!(call.verb, Verb::Create | Verb::Update)
            && !matches!(call.subresource, Sub::Binding | Sub::Eviction | Sub::Scale | Sub::Token);
        if !whole && call.verb != Verb::Patch {
            let (api_version, kind) = expected(call);
            shape::decode_posted((&api_version, kind), &mut sent)?;
        }
        let flaws = match call.verb {
            _ if validation == FieldValidation::Ignore => Vec::new(),
            _ if applies => flaws::of_configuration(&text),
            Verb::Patch => flaws::of_patch(&text, PatchKind::of_content_type(body::content_type(&parts.headers))),
            _ if whole => flaws::of_object(&call.kind, &sent, &text),
            _ => Vec::new(),
        };
        let text = if call.verb == Verb::Patch { text.bytes() } else { Bytes::new() };
        let options =
            WriteOptions { dry_run, fields: validation, flaws, text, manager, requester, ..WriteOptions::default() };
        let command = self.command(parts, call, sent, options)?;
        let asking = self.asking(parts, call, is_dry_run(&command))?;
        let asking = asking.as_ref();
        self.may_grant(parts, call, asking, &command)?;
        let now = self.ctx.now();
        // Simulates a transport that repeats a request whose first answer was lost.
        let duplicate = request_fault.times.filter(|times| *times > 1).map(|times| (times - 1, command.clone()));
        let mut message = Vec::new();
        let mut reply = self.admitted(parts, call, asking, command, &mut message).await;
        if let Some((times, command)) = duplicate {
            for _ in 0..times {
                (reply, ..) = self.apply(now, call, asking, command.clone());
            }
        }
        let reply = reply.map_err(|mut status| {
            // The client gets its warnings whether the write succeeds or fails.
            message.append(&mut status.details.warnings);
            status.details.warnings = std::mem::take(&mut message);
            status
        })?;
        if let Some(unserved) = &self.shared.unserved {
            match &reply {
                Reply::Created(_) => {
                    let text = unserved(call.kind.group, call.kind.kind);
                    message.splice(..0, text.filter(|_| !self.shared.workers.work_on(call)));
                }
                _ => self.shared.workers.wrote(call),
            }
        }
        if let Reply::Object(object) = &reply
            && call.subresource == Sub::Approval
            && !dry_run
        {
            self.sign_approved(call, object);
        }
        let mut response = match reply {
            Reply::Object(object) => shown.answer(200, shown.object(&object, now.wall)),
            Reply::Created(object) => shown.answer(201, shown.object(&object, now.wall)),
            Reply::Status(status) => {
                let code =
                    status.get("code").and_then(Value::as_u64).and_then(|c| u16::try_from(c).ok()).unwrap_or(200);
                shown.document(code, &status)
            }
            Reply::Document(code, document) => shown.document(code, &document),
            Reply::List(items) => {
                let listed = Listed { items, revision: self.shared.revision(), token: String::new(), remaining: None };
                shown.list(200, listed, now.wall)
            }
        };
        warn(&mut response, &message);
        Ok(response)
    }

    /// Returns the user and options of a call, if policies or webhooks need them.
    fn asking(&self, parts: &Parts, call: &Call, dry_run: bool) -> Result<Option<Asking>, Status> {
        if !self.shared.lock().store.has_admission() {
            return Ok(None);
        }
        Ok(Some(Asking { user: self.caller(parts)?, dry_run, options: options_of(call) }))
    }

    fn command(&self, parts: &Parts, call: &Call, sent: Value, options: WriteOptions) -> Result<Command, Status> {
        let part = match call.subresource {
            Sub::Status => Part::Status,
            Sub::Finalize => Part::Finalize,
            Sub::EphemeralContainers => Part::EphemeralContainers,
            Sub::Resize => Part::Resize,
            Sub::Approval => Part::Approval,
            Sub::Scale => Part::Scale,
            _ => Part::Main,
        };
        let target = || Target {
            kind: call.kind.clone(),
            namespace: call.namespace.clone(),
            name: call.named().to_owned(),
            part,
        };
        let pod = || (call.namespace.clone().unwrap_or_default(), call.named().to_owned());
        Ok(match (call.verb, call.subresource) {
            // The deprecated way to bind a pod: the body names it.
            (Verb::Create, Sub::Itself) if call.kind == kinds::BINDINGS => {
                let (namespace, name) = (pod().0, crate::state::value::name(&sent).to_owned());
                Command::Bind { namespace, name, binding: sent, dry_run: options.dry_run }
            }
            (Verb::Create, Sub::Itself) => {
                Command::Create { kind: call.kind.clone(), namespace: call.namespace.clone(), object: sent, options }
            }
            (Verb::Create, Sub::Binding) => {
                let (namespace, name) = pod();
                Command::Bind { namespace, name, binding: sent, dry_run: options.dry_run }
            }
            (Verb::Create, Sub::Eviction) => {
                let (namespace, name) = pod();
                Command::Evict { namespace, name, eviction: sent, dry_run: options.dry_run }
            }
            (Verb::Create, Sub::Token) => {
                let (namespace, name) = pod();
                Command::RequestToken { namespace, name, request: sent, dry_run: options.dry_run }
            }
            (Verb::Update, _) => Command::Update { target: target(), object: sent, options },
            (Verb::Patch, _) if is_apply(parts) => {
                let force = call.query.flag("force").unwrap_or(false);
                Command::Apply { target: target(), applied: sent, force, options }
            }
            (Verb::Patch, _) => {
                let patch_kind = PatchKind::of_content_type(body::content_type(&parts.headers))
                    .ok_or_else(|| Status::unsupported_media_type(PATCH_TYPES))?;
                Command::Patch { target: target(), patch_kind, patch: sent, options }
            }
            (Verb::Delete, _) => Command::Delete { target: target(), options: options::of_delete(call, &sent)? },
            _ => {
                list_numbers(call)?;
                Command::DeleteCollection {
                    kind: call.kind.clone(),
                    namespace: call.namespace.clone(),
                    selector: selector(call)?,
                    options: options::of_delete(call, &sent)?,
                }
            }
        })
    }
}

/// Returns the refusal of a connection to a pod or a node, which run no processes.
pub(super) fn unreached(plural: &str, subresource: Sub) -> Status {
    let why = "modelled pods and nodes run no processes";
    Status::new(501, "NotImplemented", format!("{plural}/{}: {why}", subresource.name()))
}

fn is_apply(parts: &Parts) -> bool {
    body::content_type(&parts.headers).split(';').next().unwrap_or_default().trim() == APPLY
}

/// Returns the field manager: the named one, or else the part of the User-Agent before the slash.
fn manager(call: &Call) -> &str {
    match call.query.get("fieldManager") {
        "" => call.agent.split('/').next().unwrap_or_default(),
        named => named,
    }
}

/// Returns the expected apiVersion and kind of a request's body.
pub(super) fn expected(call: &Call) -> (String, &'static str) {
    match (call.verb, call.subresource) {
        (Verb::Delete | Verb::DeleteCollection, _) => ("v1".to_owned(), "DeleteOptions"),
        (Verb::Create, Sub::Binding) => ("v1".to_owned(), "Binding"),
        (Verb::Create, Sub::Eviction) => ("policy/v1".to_owned(), "Eviction"),
        (Verb::Create, Sub::Token) => ("authentication.k8s.io/v1".to_owned(), "TokenRequest"),
        (_, Sub::Scale) => ("autoscaling/v1".to_owned(), "Scale"),
        _ => (call.kind.api_version(), call.kind.kind),
    }
}
