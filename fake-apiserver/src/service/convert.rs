//! Conversion webhooks (apiextensions `pkg/apiserver/conversion/webhook_converter.go`), for versions of a custom kind
//! that differ in more than their names.
//!
//! Objects are stored in one version. A request for another version is handled like one for the stored version, with
//! the objects converted on their way in and out. The events of a watch are converted frame by frame.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use http::request::Parts;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use substrate::body::{Body, BoxError, boxed, collect, full};
use substrate::ids;
use substrate::json::{Value, json};

use super::call::Call;
use super::fault::RequestFault;
use super::respond::Shown;
use super::verb::{Sub, Verb};
use super::webhook::endpoint;
use super::{Server, accepted, body};
use crate::custom;
use crate::kinds::{self, Kind};
use crate::patch::{self, PatchKind};
use crate::state::value::{self, list, text};
use crate::state::{Listed, Object, Status, check_applied_type, encode, key, shape};

/// Timeout of a webhook call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const LIMIT: usize = 256 << 20;
/// Maximum number of attempts to apply a patch if its object changes in the meantime.
const ATTEMPTS: usize = 5;

/// Returns true if the objects of a call need a conversion webhook.
pub(super) fn concerns(call: &Call) -> bool {
    call.subresource != Sub::Scale
        && call.kind.custom.as_ref().is_some_and(|custom| custom.base.is_some() && custom.webhook.is_some())
}

impl Server {
    /// Handles a request for a version other than the stored one.
    pub(super) async fn serve_converted(
        &self,
        parts: &Parts,
        call: &Call,
        body: Body,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        let shown = Shown::negotiate(call, accepted(parts))?;
        let stored = Call { kind: kinds::stored_ref(&call.kind), ..call.clone() };
        let plain = Shown::plain(stored.kind.clone());
        let response = match call.verb {
            Verb::Get => self.get(&stored, plain, request_fault).await?,
            Verb::List => self.list(&stored, plain, request_fault).await?,
            Verb::Watch => {
                let response = self.watch(&stored, plain, request_fault).await?;
                return Ok(self.clone().follow(response, call.clone(), shown));
            }
            _ => self.write_converted(parts, call, &stored, plain, body, request_fault).await?,
        };
        self.show(response, call, shown).await
    }

    /// Converts the sent object and writes it in the stored version.
    async fn write_converted(
        &self,
        parts: &Parts,
        call: &Call,
        stored: &Call,
        plain: Shown,
        sent: Body,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        if !call.verb.writes() {
            return self.write(parts, stored, plain, sent, request_fault).await;
        }
        let sent = body::read(parts, sent, || (call.kind.api_version(), call.kind.kind)).await?.value;
        let media = body::content_type(&parts.headers);
        let applies = media.split(';').next().unwrap_or_default().trim() == "application/apply-patch+yaml";
        if call.verb == Verb::Patch && !applies {
            return self.patch_converted(parts, call, stored, plain, sent, request_fault).await;
        }
        if applies {
            check_applied_type(&call.kind.api_version(), call.kind.kind, &sent)?;
        }
        let object = self.stored_form(call, sent, !applies).await?;
        let media = if applies { "application/apply-patch+yaml" } else { "application/json" };
        self.write(&typed(parts, media), stored, plain, full(object.to_string()), request_fault).await
    }

    /// Patches the object in the version of the caller.
    async fn patch_converted(
        &self,
        parts: &Parts,
        call: &Call,
        stored: &Call,
        plain: Shown,
        sent: Value,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        let media = body::content_type(&parts.headers);
        let kind = PatchKind::of_content_type(media)
            .filter(|kind| *kind != PatchKind::Strategic)
            .ok_or_else(|| Status::unsupported_media_type(super::write::CUSTOM_PATCH_TYPES))?;
        for attempt in 1.. {
            let key = key(call.namespace.as_deref(), call.named());
            let found = self.shared.lock().store.get(&stored.kind, &key).map(|object| object.value.clone());
            let old: Value = found.ok_or_else(|| Status::not_found(&call.kind, call.named()))?;
            let seen = self.convert(&call.kind, &call.kind.api_version(), vec![old]).await?;
            let before = seen.into_iter().next().unwrap_or_default();
            let patched =
                patch::apply(&call.kind, kind, sent.clone(), &before).map_err(|error| crate::state::refused(&error))?;
            let versioned = value::resource_version(&patched) != value::resource_version(&before);
            let object = self.stored_form(call, patched, true).await?;
            let update = Call { verb: Verb::Update, ..stored.clone() };
            let written = typed(parts, "application/json");
            match self.write(&written, &update, plain.clone(), full(object.to_string()), request_fault.clone()).await {
                Err(status) if status.code == 409 && !versioned && attempt < ATTEMPTS => {}
                other => return other,
            }
        }
        Err(Status::new(500, "InternalError", "a patch was applied without end"))
    }

    /// Converts an object to its stored form: drops fields that its own version does not have, and fills in the
    /// defaults of that version if it is `whole`.
    async fn stored_form(&self, call: &Call, mut object: Value, whole: bool) -> Result<Value, Status> {
        if call.query.get("fieldValidation") == "Strict" {
            shape::decode_strictly(&call.kind, &mut object)?;
        } else {
            shape::decode(&call.kind, &mut object)?;
        }
        let version = call.kind.api_version();
        let sent = text(&object, &["apiVersion"]);
        if !sent.is_empty() && sent != version {
            let why =
                format!("the API version in the data ({sent}) does not match the expected API version ({version})");
            return Err(Status::bad_request(why));
        }
        value::set(&mut object, "apiVersion", Some(version.into()));
        value::set(&mut object, "kind", Some(call.kind.kind.into()));
        if let Some(custom) = call.kind.custom.as_ref().filter(|_| whole) {
            custom.schema.fill(&mut object);
            let mut errors = Vec::new();
            custom::validate(&custom.schema, &object, None, &crate::field_path::FieldPath::OBJECT, &mut errors);
            if !errors.is_empty() {
                return Err(Status::invalid(&call.kind, value::name(&object), errors));
            }
        }
        let stored = kinds::stored(&call.kind).api_version();
        Ok(self.convert(&call.kind, &stored, vec![object]).await?.into_iter().next().unwrap_or_default())
    }

    /// Converts an answer to the version of the caller. Objects of other kinds stay as they are.
    async fn show(&self, response: Response<Body>, call: &Call, shown: Shown) -> Result<Response<Body>, Status> {
        let (mut parts, body) = response.into_parts();
        let failed = |error: BoxError| Status::new(500, "InternalError", error.to_string());
        let bytes = collect(body, LIMIT).await.map_err(failed)?;
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let stored = kinds::stored(&call.kind);
        let (version, now) = (call.kind.api_version(), self.ctx.now().wall);
        let kind = text(&answer, &["kind"]);
        let body = if kind == stored.kind {
            let seen = self.convert(&call.kind, &version, vec![answer]).await?;
            let object = Object::transient(seen.into_iter().next().unwrap_or_default());
            shown.answer(200, shown.object(&object, now)).into_body()
        } else if kind == stored.list_kind() {
            let metadata = &answer["metadata"];
            let items = self.convert(&call.kind, &version, list(&answer, &["items"]).to_vec()).await?;
            let listed = Listed {
                items: items.into_iter().map(Object::transient).collect(),
                revision: text(metadata, &["resourceVersion"]).parse().unwrap_or_default(),
                token: text(metadata, &["continue"]).to_owned(),
                remaining: metadata["remainingItemCount"].as_u64().and_then(|n| usize::try_from(n).ok()),
            };
            shown.list(200, listed, now).into_body()
        } else {
            full(bytes)
        };
        parts.headers.remove(header::CONTENT_LENGTH);
        Ok(Response::from_parts(parts, body))
    }

    /// Converts the stream of a watch, event by event.
    fn follow(self, response: Response<Body>, call: Call, shown: Shown) -> Response<Body> {
        struct Follow {
            server: Server,
            call: Call,
            shown: Shown,
            body: Option<Body>,
            partial: BytesMut,
        }
        let (parts, body) = response.into_parts();
        let begin = Follow { server: self, call, shown, body: Some(body), partial: BytesMut::new() };
        let stream = unfold(begin, |mut follow| async move {
            loop {
                let frame = match follow.body.as_mut()?.frame().await? {
                    Ok(frame) => frame,
                    Err(error) => {
                        follow.body = None;
                        return Some((Err(error), follow));
                    }
                };
                follow.partial.extend_from_slice(&frame.into_data().unwrap_or_default());
                let Some(end) = follow.partial.iter().rposition(|b| *b == b'\n') else { continue };
                let lines = follow.partial.split_to(end + 1);
                let translated = match follow.server.events(&lines, &follow.call, follow.shown.clone()).await {
                    Ok(translated) => {
                        follow.shown.omit_columns();
                        translated
                    }
                    // Like any failure of a started stream: one event, then the end.
                    Err(status) => {
                        follow.body = None;
                        follow.shown.error_event(&status)
                    }
                };
                return Some((Ok(Frame::data(translated)), follow));
            }
        });
        Response::from_parts(parts, boxed(StreamBody::new(stream)))
    }

    /// Converts some lines of a watch.
    async fn events(&self, lines: &[u8], call: &Call, mut shown: Shown) -> Result<Bytes, Status> {
        let parse = |line| serde_json::from_slice::<Value>(line).ok();
        let events: Vec<Value> = lines.split(|b| *b == b'\n').filter_map(parse).collect();
        let is_object = |event: &&Value| !matches!(text(event, &["type"]), "BOOKMARK" | "ERROR");
        let objects = events.iter().filter(is_object).map(|event| event["object"].clone()).collect();
        let mut converted = self.convert(&call.kind, &call.kind.api_version(), objects).await?.into_iter();
        let (mut translated, now) = (BytesMut::new(), self.ctx.now().wall);
        for event in &events {
            let kind = text(event, &["type"]);
            let object = match kind {
                "ERROR" => encode(&event["object"]),
                "BOOKMARK" => {
                    let metadata = &event["object"]["metadata"];
                    let revision = text(metadata, &["resourceVersion"]).parse().unwrap_or_default();
                    shown.bookmark(revision, metadata.get("annotations").is_some())
                }
                _ => shown.object(&Object::transient(converted.next().unwrap_or_default()), now),
            };
            shown.omit_columns();
            translated.extend_from_slice(&shown.event(kind, &object));
        }
        Ok(translated.freeze())
    }

    /// Converts objects to the desired version.
    async fn convert(&self, kind: &Kind, desired: &str, objects: Vec<Value>) -> Result<Vec<Value>, Status> {
        if objects.is_empty() {
            return Ok(objects);
        }
        let translated = self.ask_to_convert(kind, desired, &objects).await;
        translated.map_err(|why| {
            let of = text(&objects[0], &["apiVersion"]);
            let message = format!("conversion webhook for {of}, Kind={} failed: {why}", kind.kind);
            Status::new(500, "InternalError", message)
        })
    }

    async fn ask_to_convert(&self, kind: &Kind, desired: &str, objects: &[Value]) -> Result<Vec<Value>, String> {
        let webhook = kind.custom.as_ref().and_then(|custom| custom.webhook.as_ref()).ok_or("there is none")?;
        let (uid, endpoint) = {
            let mut state = self.shared.lock();
            (ids::uuid(&mut state.reviews).to_string(), endpoint(&state.store, &webhook["clientConfig"]))
        };
        let review = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects}});
        let limit = self.ctx.now().mono + TIMEOUT;
        let answer = tokio::select! { biased;
            answer = self.post(&endpoint, &review) => answer?,
            () = self.ctx.sleep_until(limit) => return Err(format!("no answer within {}s", TIMEOUT.as_secs())),
        };
        let response = &answer["response"];
        if text(response, &["uid"]) != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, &["uid"])));
        }
        if response["result"]["status"] != "Success" {
            let why = text(response, &["result", "message"]);
            return Err(if why.is_empty() {
                "response.result.status was not 'Success'".to_owned()
            } else {
                why.to_owned()
            });
        }
        let converted = list(response, &["convertedObjects"]).to_vec();
        if converted.len() != objects.len() {
            return Err(format!("expected {} objects, got {}", objects.len(), converted.len()));
        }
        for (i, (new, old)) in converted.iter().zip(objects).enumerate() {
            check(new, old, desired).map_err(|why| format!("invalid object at index {i}: {why}"))?;
        }
        Ok(converted)
    }
}

/// Checks that a conversion has kept the fields that it must not change.
fn check(new: &Value, old: &Value, desired: &str) -> Result<(), String> {
    if text(new, &["apiVersion"]) != desired {
        return Err(format!("expected {desired}, got {:?}", text(new, &["apiVersion"])));
    }
    if new["kind"] != old["kind"] {
        return Err("the kind must not change".to_owned());
    }
    for field in ["name", "namespace", "uid", "generateName", "resourceVersion", "creationTimestamp", "ownerReferences"]
    {
        if new["metadata"].get(field) != old["metadata"].get(field) {
            return Err(format!("metadata.{field} must not change"));
        }
    }
    Ok(())
}

/// Returns the head of a request for a body of another media type.
fn typed(parts: &Parts, media: &'static str) -> Parts {
    let mut head = parts.clone();
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    head.headers.remove(header::CONTENT_LENGTH);
    // The tree that was passed along with the body is outdated.
    head.extensions = http::Extensions::new();
    if let Some(certificate) = parts.extensions.get::<substrate::listen::PeerCertificate>() {
        head.extensions.insert(certificate.clone());
    }
    if let Some(outside) = parts.extensions.get::<super::Outside>() {
        head.extensions.insert(*outside);
    }
    head
}
