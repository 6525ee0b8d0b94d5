//! `/admin/v1/faults` of every server: one API, one format of replies, one access check.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /admin/v1/faults` | `{"faults": [report, …]}`; `?owner=NAME` for those of one owner |
//! | `POST /admin/v1/faults`, a fault as JSON | 201 and its report; 400 `{"error", "field", "nearest"}` |
//! | `GET /admin/v1/faults/{name}` | its report; 404 |
//! | `DELETE /admin/v1/faults/{name}` | its last report; 404 |
//! | `DELETE /admin/v1/faults` | `{"faults": [report, …]}` of the removed faults; `?owner=NAME` for those of one owner |
//! | `GET /admin/v1/faults/hits` | server-sent events `hit`, one for each fault that fires; with `?owner=NAME` the faults of that owner end with the stream |
//! | `GET /admin/v1/faults/catalogue` | the catalogue: operations, attributes, moments, effects, values |
//!
//! A report is `{fault, hits, near_misses, near, last_hit_ms}`. Errors are `{"error": TEXT}`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::body::{Body, BoxError, boxed, full};
use crate::fault::catalogue::Operation;
use crate::fault::{Fault, Following, Hit, Mistake, Plane, Report};
use crate::process::Ctx;
pub use crate::secret::Secret;
use crate::words;

/// Maximum size of a fault in bytes.
pub const BODY_LIMIT: usize = 64 << 10;
/// Maximum number of hits that wait for a slow reader. Further hits are lost to that reader, which can see that from
/// the numbers of hits.
const BACKLOG: usize = 1024;
/// Path of the API.
const ROOT: &str = "/admin/v1/faults";

type OnChange = Arc<dyn Fn() + Send + Sync>;

/// The faults API of a server.
#[derive(Clone)]
pub struct FaultsApi {
    ctx: Ctx,
    planes: &'static [Plane],
    changed: Option<OnChange>,
    /// True if the server ends faults whose `when.until` holds.
    watches: bool,
}

impl std::fmt::Debug for FaultsApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultsApi").field("planes", &self.planes).finish_non_exhaustive()
    }
}

impl FaultsApi {
    /// Creates the API of process `ctx`, for faults of `planes`: the servers of a world share a book, and each shows
    /// its own planes.
    pub fn new(ctx: &Ctx, planes: &'static [Plane]) -> Self {
        Self { ctx: ctx.clone(), planes, changed: None, watches: false }
    }

    /// Calls `changed` when a request has ended faults.
    #[must_use]
    pub fn on_end(self, changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { changed: Some(Arc::new(changed)), ..self }
    }

    /// Accepts faults with a condition on the cluster (`when.until`), which this server then ends. Another server that
    /// shares the book does not accept them, because it would not end them.
    #[must_use]
    pub fn watching(self) -> Self {
        Self { watches: true, ..self }
    }

    /// Returns true if `path` belongs to the API.
    pub fn is(path: &str) -> bool {
        path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request on a path for which [`FaultsApi::is`] holds; `body` has at most [`BODY_LIMIT`] bytes.
    pub fn call(&self, parts: &Parts, body: &Bytes) -> Response<Body> {
        if body.len() > BODY_LIMIT {
            return error(StatusCode::PAYLOAD_TOO_LARGE, &format!("a fault has at most {BODY_LIMIT} bytes"));
        }
        let path = parts.uri.path();
        let name = path.strip_prefix(ROOT).unwrap_or_default().trim_matches('/');
        let owner = owner(parts.uri.query().unwrap_or_default());
        match (&parts.method, name) {
            (&Method::GET, "") => reply(StatusCode::OK, &json!({ "faults": self.own(owner.as_deref()) })),
            (&Method::POST, "") => match self.add(&parts.headers, body) {
                Ok(report) => reply(StatusCode::CREATED, &report),
                Err(refusal) => *refusal,
            },
            (&Method::DELETE, "") => {
                let names: Vec<String> = self.own(owner.as_deref()).into_iter().map(|r| r.fault.name).collect();
                let ended: Vec<Report> = names.iter().filter_map(|name| self.ctx.faults().remove(name)).collect();
                self.tell();
                reply(StatusCode::OK, &json!({ "faults": ended }))
            }
            (&Method::GET, "hits") => self.hits(owner),
            (&Method::GET, "catalogue") => reply(StatusCode::OK, &catalogue(self.ctx.faults().known().operations())),
            (&Method::GET, name) => match self.own(None).into_iter().find(|r| r.fault.name == name) {
                Some(report) => reply(StatusCode::OK, &report),
                None => unknown(name),
            },
            (&Method::DELETE, name) => {
                let is_own = self.own(None).iter().any(|r| r.fault.name == name);
                match is_own.then(|| self.ctx.faults().remove(name)).flatten() {
                    Some(report) => {
                        self.tell();
                        reply(StatusCode::OK, &report)
                    }
                    None => unknown(name),
                }
            }
            (method, _) => error(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not possible on {path}")),
        }
    }

    /// Returns the API as a router, to be merged with others of a server.
    pub fn router(self) -> axum::Router {
        let answer = move |request: axum::extract::Request| {
            let api = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let read = axum::body::to_bytes(body, BODY_LIMIT).await;
                let response = match read {
                    Ok(bytes) => api.call(&parts, &bytes),
                    Err(_) => error(StatusCode::PAYLOAD_TOO_LARGE, &format!("a fault has at most {BODY_LIMIT} bytes")),
                };
                response.map(axum::body::Body::new)
            }
        };
        axum::Router::new()
            .route(ROOT, axum::routing::any(answer.clone()))
            .route("/admin/v1/faults/{*name}", axum::routing::any(answer))
    }

    fn own(&self, owner: Option<&str>) -> Vec<Report> {
        let mut reports = self.ctx.faults().list();
        reports.retain(|r| {
            self.planes.contains(&r.fault.matches.plane)
                && owner.is_none_or(|owner| r.fault.lease.owner.as_deref() == Some(owner))
        });
        reports
    }

    fn add(&self, headers: &HeaderMap, body: &Bytes) -> Result<Report, Box<Response<Body>>> {
        if !is_json(headers) {
            let message = "Content-Type: must be application/json";
            return Err(Box::new(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)));
        }
        let bad = |e: serde_json::Error| match other_than_one(body) {
            Some(mistake) => Box::new(refusal(&mistake)),
            None => Box::new(refusal(&unreadable(body, &e))),
        };
        let fault: Fault = serde_json::from_slice(body).map_err(bad)?;
        let plane = fault.matches.plane;
        if !self.planes.contains(&plane) {
            let own: Vec<&str> = self.planes.iter().map(|p| p.name()).collect();
            let message = format!("this server acts on faults of the plane {}, not {}", own.join(", "), plane.name());
            return Err(Box::new(refusal(&Mistake::new("match.plane", message))));
        }
        if fault.when.until.is_some() && !self.watches {
            let message = "this server does not look at the cluster: add the fault at the admin API of the whole \
                           cluster (`mooring fault add`), or end it by deleting it or with a lease.ttl";
            return Err(Box::new(refusal(&Mistake::key("when.until", message))));
        }
        let name = fault.name.clone();
        self.ctx.faults().add(self.ctx.clock().mono(), fault).map_err(|mistake| Box::new(refusal(&mistake)))?;
        self.ctx.faults().get(&name).ok_or_else(|| Box::new(unknown(&name)))
    }

    fn tell(&self) {
        if let Some(changed) = &self.changed {
            changed();
        }
    }

    /// Returns the stream of hits. The faults of `owner` end with it.
    fn hits(&self, owner: Option<String>) -> Response<Body> {
        let (hits, stream) = mpsc::channel::<Hit>(BACKLOG);
        let planes = self.planes;
        let following = self.ctx.faults().follow_for_now(move |hit, plane| {
            if planes.contains(&plane) {
                // A slow reader misses some hits.
                let _ = hits.try_send(hit.clone());
            }
        });
        let end = Ended { api: self.clone(), owner, _following: following };
        let lines = futures_util::stream::unfold((stream, end), |(mut stream, end)| async move {
            let hit = stream.recv().await?;
            let data = crate::encode::text(&hit);
            let line = Bytes::from(format!("event: hit\ndata: {data}\n\n"));
            Some((line, (stream, end)))
        });
        // A comment at once, so that the reader sees that the stream is open.
        let first = futures_util::stream::iter([Bytes::from_static(b": hits\n\n")]);
        let frames = first.chain(lines).map(|line| Ok::<_, BoxError>(Frame::data(line)));
        let mut response = Response::new(boxed(StreamBody::new(frames)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        response
    }
}

/// Ends the faults of an owner and stops following hits when it is dropped.
struct Ended {
    api: FaultsApi,
    owner: Option<String>,
    _following: Following,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            for report in self.api.own(Some(owner)) {
                self.api.ctx.faults().remove(&report.fault.name);
            }
            self.api.tell();
        }
    }
}

/// Checks the access to the admin endpoints: if there is a token, every request must carry it.
///
/// # Errors
/// The 401 to answer with.
pub fn gate(headers: &HeaderMap, token: Option<&Secret>) -> Result<(), Box<Response<Body>>> {
    let Some(token) = token else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    if given.and_then(|v| v.strip_prefix("Bearer ")).is_some_and(|given| token.matches(given)) {
        return Ok(());
    }
    Err(Box::new(error(StatusCode::UNAUTHORIZED, "Authorization: must be `Bearer` and the admin token")))
}

/// Returns true if a body is declared as JSON, which a web page cannot send across origins without a CORS preflight.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).and_then(|v| v.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Creates a JSON answer.
pub fn reply(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let text = crate::encode::text(value);
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Creates the answer of an error: `{"error": TEXT}`.
pub fn error(status: StatusCode, message: &str) -> Response<Body> {
    reply(status, &json!({ "error": message }))
}

fn refusal(mistake: &Mistake) -> Response<Body> {
    let mut value = json!({ "error": mistake.to_string(), "field": mistake.field });
    if let Some(nearest) = &mistake.nearest {
        value["nearest"] = nearest.as_str().into();
    }
    reply(StatusCode::BAD_REQUEST, &value)
}

fn unknown(name: &str) -> Response<Body> {
    error(StatusCode::NOT_FOUND, &format!("no fault called `{name}` is in force"))
}

fn owner(query: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == "owner").map(|(_, value)| value.to_owned())
}

/// Returns the catalogue as JSON.
pub fn catalogue(operations: impl Iterator<Item = &'static Operation>) -> Value {
    let operation = |o: &'static Operation| {
        let attributes: serde_json::Map<String, Value> =
            o.attributes.iter().map(|a| (a.name.to_owned(), a.describe().into())).collect();
        let effects: Vec<Value> = o
            .possible()
            .filter(|p| !p.at.is_empty())
            .map(|p| {
                let at: Vec<&str> = p.at.iter().map(|m| m.name()).collect();
                json!({ "effect": p.effect.name(), "at": at, "values": p.values.describe(), "shows": p.shows })
            })
            .collect();
        json!({
            "plane": o.plane.name(), "op": o.name, "classes": o.classes, "about": o.about,
            "where": attributes, "effects": effects,
        })
    };
    json!({ "operations": operations.map(operation).collect::<Vec<_>>() })
}

/// Returns the mistake of a fault with no effect or several, which the parser of a single effect cannot report.
fn other_than_one(body: &[u8]) -> Option<Mistake> {
    let fault: serde_json::Value = serde_json::from_slice(body).ok()?;
    let effects: Vec<&str> = fault.get("effect")?.as_object()?.keys().map(String::as_str).collect();
    match effects.as_slice() {
        [_] => None,
        [] => Some(Mistake::new("effect", "has no key; write one, as in {\"error\": \"InternalError\"}")),
        several => {
            let message = format!("has {} keys ({}); each needs a fault of its own", several.len(), several.join(", "));
            Some(Mistake::new("effect", message))
        }
    }
}

/// Returns the reason why a body is not a fault: the field, the error, and the nearest valid word.
fn unreadable(body: &[u8], error: &serde_json::Error) -> Mistake {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let Ok(fault) = serde_json::from_slice::<Value>(body) else {
        return Mistake::new("fault", format!("this is not JSON: {error}"));
    };
    let mut quoted = text.split('`').skip(1).step_by(2);
    let word = quoted.next().or_else(|| text.split('"').nth(1)).unwrap_or_default();
    let field = field_of(&fault, word).filter(|field| !field.is_empty()).unwrap_or_else(|| "fault".to_owned());
    let is_unknown = text.starts_with("unknown variant ") || text.starts_with("unknown field ");
    if !is_unknown {
        return Mistake::new(field, text);
    }
    let known: Vec<&str> = quoted.collect();
    let nearest = words::nearest(word, known.iter().copied()).map(str::to_owned);
    let message = format!("`{word}` is unknown; there are {}", known.join(", "));
    Mistake { word: Some(word.to_owned()), nearest, ..Mistake::new(field, message) }
}

/// Returns the path of the field whose value is `word`, or which has it as a key.
fn field_of(value: &Value, word: &str) -> Option<String> {
    let within = |path: &str, rest: String| if rest.is_empty() { path.to_owned() } else { format!("{path}.{rest}") };
    match value {
        Value::String(text) => (text == word).then(String::new),
        Value::Array(list) => list.iter().find_map(|item| field_of(item, word)),
        Value::Object(map) => {
            let deeper = map.iter().find_map(|(key, value)| Some(within(key, field_of(value, word)?)));
            deeper.or_else(|| map.contains_key(word).then(String::new))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;

    use super::*;
    use crate::body::collect;
    use crate::fault::{Moment, Point};
    use crate::process::Process;
    use crate::world::{Options, World, simulate};

    fn api(world: &World) -> FaultsApi {
        let ctx = Process::start(world, "server", |_| std::future::pending()).ctx().unwrap();
        FaultsApi::new(&ctx, &[Plane::Link])
    }

    fn send(api: &FaultsApi, method: &str, path: &str, body: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        api.call(&request.body(()).unwrap().into_parts().0, &Bytes::from(body.to_owned()))
    }

    async fn json_of(response: Response<Body>) -> (u16, Value) {
        let status = response.status().as_u16();
        let bytes = collect(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn an_unknown_word_is_refused_with_its_field_and_nearest() {
        for (match_, more, field, expected) in [
            ("", r#""effect": {"dely": "20s"}"#, "effect", "`dely` is unknown; there are error, http,"),
            ("", r#""effect": {"delay": "20"}"#, "effect.delay", "`20` is not a duration: write a number and a unit"),
            ("", r#""effect": {"hang": "yes"}"#, "effect.hang", "invalid type: string"),
            ("", r#""effect": {"hang": true}, "at": "befor""#, "at", "there are before, after_effect, before_reply"),
            ("", r#""effect": {"hang": true}, "when": {"frist": 1}"#, "when", "did you mean `first`?"),
            ("", r#""effect": {"hang": true}, "nmae": 1"#, "fault", "did you mean `name`?"),
            (r#", "plan": "ec2""#, r#""effect": {"hang": true}"#, "match", "did you mean `plane`?"),
        ] {
            let body = format!(r#"{{"name": "f", "match": {{"plane": "link"{match_}}}, {more}}}"#);
            let error = serde_json::from_str::<Fault>(&body).unwrap_err();
            let mistake = unreadable(body.as_bytes(), &error);
            assert_eq!(mistake.field, field, "{mistake}");
            assert!(mistake.to_string().contains(expected) && !mistake.to_string().contains("column"), "{mistake}");
        }
        let body = r#"{"name": "f","#;
        let error = serde_json::from_str::<Fault>(body).unwrap_err();
        assert!(unreadable(body.as_bytes(), &error).message.starts_with("this is not JSON"));
    }

    #[test]
    fn a_cluster_condition_is_accepted_only_while_the_cluster_is_watched() {
        simulate(Options::default(), async |world| {
            // As in a cluster, whose servers share one book.
            world.faults().watch();
            let until = r#"{"name": "f", "match": {"plane": "link", "op": "request"},
                            "when": {"until": "pvc/data=Bound"}, "effect": {"drop_request": true}}"#;
            let server = api(&world);
            let (status, wording) = json_of(send(&server, "POST", ROOT, until)).await;
            assert_eq!((status, wording["field"].as_str()), (400, Some("when.until")), "{wording}");
            assert!(
                wording["error"].as_str().is_some_and(|wording| wording.contains("mooring fault add")),
                "{wording}"
            );
            assert_eq!(send(&server.watching(), "POST", ROOT, until).status(), 201);
        });
    }

    const LOST: &str = r#"{"name": "lost", "match": {"plane": "link", "op": "request"},
                           "effect": {"drop_request": true}, "lease": {"owner": "me"}}"#;

    #[test]
    fn faults_are_added_shown_and_ended_and_mistakes_name_field_and_word() {
        simulate(Options::default(), async |world| {
            let api = api(&world);
            let (status, report) = json_of(send(&api, "POST", "/admin/v1/faults", LOST)).await;
            assert_eq!((status, &report["fault"]["name"], &report["hits"]), (201, &json!("lost"), &json!(0)));
            let bad = LOST.replace("drop_request", "drop_reqest");
            assert_eq!(json_of(send(&api, "POST", "/admin/v1/faults", &bad)).await.0, 400);
            let bad = LOST.replace("\"request\"", "\"requst\"");
            let (status, error) = json_of(send(&api, "POST", "/admin/v1/faults", &bad)).await;
            assert_eq!((status, &error["field"], &error["nearest"]), (400, &json!("match.op"), &json!("request")));
            for effect in [r#"{"drop_request": true, "delay": "1s"}"#, "{}"] {
                let bad = LOST.replace(r#"{"drop_request": true}"#, effect);
                let (status, error) = json_of(send(&api, "POST", "/admin/v1/faults", &bad)).await;
                assert_eq!((status, &error["field"]), (400, &json!("effect")), "{error}");
                assert_eq!(error["error"].as_str().unwrap().contains("delay"), effect != "{}", "{error}");
            }
            let (_, list) = json_of(send(&api, "GET", "/admin/v1/faults?owner=you", "")).await;
            assert_eq!(list["faults"], json!([]));
            let (_, ended) = json_of(send(&api, "DELETE", "/admin/v1/faults?owner=me", "")).await;
            assert_eq!(ended["faults"][0]["fault"]["name"], "lost");
            assert_eq!(json_of(send(&api, "DELETE", "/admin/v1/faults/lost", "")).await.0, 404);
            assert_eq!(json_of(send(&api, "PATCH", "/admin/v1/faults/lost", "")).await.0, 405);
            let (_, catalogue) = json_of(send(&api, "GET", "/admin/v1/faults/catalogue", "")).await;
            assert_eq!(catalogue["operations"][0]["op"], "request");
        });
    }

    #[test]
    fn hits_are_streamed_and_the_owners_faults_end_with_the_stream() {
        simulate(Options::default(), async |world| {
            let api = api(&world);
            send(&api, "POST", "/admin/v1/faults", LOST);
            let mut hits = send(&api, "GET", "/admin/v1/faults/hits?owner=me", "").into_body();
            let next = async |hits: &mut Body| {
                use http_body_util::BodyExt;
                let frame = hits.frame().await.unwrap().unwrap().into_data().unwrap();
                String::from_utf8(frame.to_vec()).unwrap()
            };
            assert_eq!(next(&mut hits).await, ": hits\n\n");
            let point = Point {
                plane: Plane::Link,
                op: "request",
                attributes: &[("from", "a"), ("to", "b")],
                moment: Moment::Before,
            };
            assert!(world.fault(&"a".into(), &point).is_some());
            let text = next(&mut hits).await;
            assert!(text.starts_with("event: hit\ndata: {\"ms\":0,\"fault\":\"lost\",\"hits\":1,"), "{text}");
            assert!(text.contains(r#""where":{"from":"a","to":"b"}"#), "{text}");
            drop(hits);
            assert!(world.faults().is_empty(), "its owner is gone");
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
    }

    #[test]
    fn a_dropped_stream_of_hits_has_no_follower() {
        simulate(Options::default(), async |world| {
            let api = api(&world);
            let before = world.faults().followers();
            let streams: Vec<_> = (0..3).map(|_| send(&api, "GET", "/admin/v1/faults/hits", "")).collect();
            assert_eq!(world.faults().followers(), before + 3);
            // No fault fires in the meantime.
            drop(streams);
            assert_eq!(world.faults().followers(), before);
        });
    }

    #[test]
    fn a_token_that_is_asked_for_must_be_there() {
        let (token, mut headers) = (Secret::new("abc"), HeaderMap::new());
        assert!(gate(&headers, None).is_ok() && gate(&headers, Some(&token)).is_err());
        headers.insert("authorization", "Bearer abc".parse().unwrap());
        assert!(gate(&headers, Some(&token)).is_ok());
    }
}
