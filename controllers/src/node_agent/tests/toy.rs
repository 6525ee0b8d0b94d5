//! A toy API server for the agent's own tests: objects, merge patches and watches only. Tests of the whole cluster
//! cover the rest of the real server.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use substrate::body::{Body, HttpService, boxed, collect, from_service, full};
use substrate::json::{Value, json};
use tokio::sync::mpsc;

/// Resource, namespace, name.
type Key = (String, String, String);

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<Key, Value>,
    history: Vec<(u64, &'static str, Key, Value)>,
    watchers: Vec<(String, Selector, mpsc::UnboundedSender<Bytes>)>,
}

/// Dotted path and value pairs that must all match.
type Selector = Vec<(String, String)>;

/// The server. Clones share its state.
#[derive(Clone, Default)]
pub struct Toy(Arc<Mutex<State>>);

fn matches(object: &Value, selector: &[(String, String)]) -> bool {
    selector.iter().all(|(path, value)| {
        let found = path.split('.').fold(object, |at, part| &at[part]);
        found.as_str().unwrap_or_default() == value
    })
}

/// RFC 7386, except that lists of objects with a `type` merge by it.
fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields.iter().filter(|(k, _)| !k.starts_with('$')) {
                match value {
                    Value::Null => drop(target.as_object_mut().and_then(|t| t.remove(key))),
                    _ => merge(&mut target[key], value),
                }
            }
        }
        Value::Array(items) if items.iter().any(|i| i["type"].is_string()) => {
            if !target.is_array() {
                *target = json!([]);
            }
            let list = target.as_array_mut().expect("a list");
            for item in items {
                if item["$patch"] == "delete" {
                    list.retain(|t| t["type"] != item["type"]);
                    continue;
                }
                match list.iter_mut().find(|t| t["type"] == item["type"]) {
                    Some(there) => merge(there, item),
                    None => list.push(item.clone()),
                }
            }
        }
        other => *target = other.clone(),
    }
}

impl Toy {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn key(resource: &str, namespace: &str, name: &str) -> Key {
        (resource.to_owned(), namespace.to_owned(), name.to_owned())
    }

    /// Returns an object; null if it does not exist.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Value {
        self.state().objects.get(&Self::key(resource, namespace, name)).cloned().unwrap_or_default()
    }

    /// Creates or replaces an object.
    pub fn put(&self, resource: &str, namespace: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        self.state().commit(&Self::key(resource, namespace, &name), Some(object));
    }

    /// Changes an object.
    pub fn patch(&self, resource: &str, namespace: &str, name: &str, patch: &Value) {
        let mut object = self.get(resource, namespace, name);
        merge(&mut object, patch);
        self.state().commit(&Self::key(resource, namespace, name), Some(object));
    }

    /// Removes an object.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.state().commit(&Self::key(resource, namespace, name), None);
    }

    /// Returns all events as `reason message`.
    pub fn events(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let state = self.state();
        let events = state.objects.iter().filter(|((resource, ..), _)| resource == "events");
        events.map(|(_, e)| format!("{} {}", text(&e["reason"]), text(&e["message"]))).collect()
    }

    pub fn service(&self) -> HttpService {
        let toy = self.clone();
        from_service(tower::service_fn(move |request: Request<Body>| {
            let toy = toy.clone();
            async move { Ok::<_, Infallible>(toy.answer(request).await) }
        }))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = collect(body, 1 << 20).await.expect("a body");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.replace("%3D", "=")))
            .collect();
        let mut path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
        path.drain(..if path[0] == "api" { 2 } else { 3 });
        let mut namespace = "";
        if path[0] == "namespaces" && path.len() > 2 {
            namespace = path[1];
            path.drain(..2);
        }
        let (resource, name) = (path[0], path.get(1).copied().unwrap_or_default());
        let selector: Selector = query
            .get("fieldSelector")
            .and_then(|s| s.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into_iter()
            .collect();
        let key = Self::key(resource, namespace, name);
        let mut state = self.state();
        match parts.method {
            Method::GET if query.contains_key("watch") => state.watch(resource, selector, &query),
            Method::GET if name.is_empty() => {
                let all = state.objects.iter().filter(|((r, ..), _)| r == resource);
                let items: Vec<&Value> = all.map(|(_, o)| o).filter(|o| matches(o, &selector)).collect();
                json_answer(
                    200,
                    &json!({ "metadata": { "resourceVersion": state.version.to_string() }, "items": items }),
                )
            }
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let key = Self::key(resource, namespace, &name);
                if state.objects.contains_key(&key) {
                    return status(409, "AlreadyExists");
                }
                json_answer(201, &state.commit(&key, Some(body)))
            }
            _ if !state.objects.contains_key(&key) => status(404, "NotFound"),
            Method::GET => json_answer(200, &state.objects[&key]),
            Method::PUT => json_answer(200, &state.commit(&key, Some(body))),
            Method::PATCH => {
                let mut object = state.objects[&key].clone();
                merge(&mut object, &body);
                json_answer(200, &state.commit(&key, Some(object)))
            }
            _ => {
                state.commit(&key, None);
                json_answer(200, &json!({}))
            }
        }
    }
}

impl State {
    fn commit(&mut self, key: &Key, object: Option<Value>) -> Value {
        self.version += 1;
        let old = self.objects.remove(key);
        let kind = match (&old, &object) {
            (_, None) => "DELETED",
            (None, _) => "ADDED",
            _ => "MODIFIED",
        };
        let mut new = object.clone().or_else(|| old.clone()).unwrap_or_default();
        new["metadata"]["resourceVersion"] = self.version.to_string().into();
        if new["metadata"]["uid"].is_null() {
            new["metadata"]["uid"] =
                old.map_or_else(|| format!("uid-{}", self.version).into(), |old| old["metadata"]["uid"].clone());
        }
        if object.is_some() {
            self.objects.insert(key.clone(), new.clone());
        }
        self.history.push((self.version, kind, key.clone(), new.clone()));
        let line = line(kind, &new);
        self.watchers.retain(|(resource, selector, sender)| {
            *resource != key.0 || !matches(&new, selector) || sender.send(line.clone()).is_ok()
        });
        new
    }

    fn watch(&mut self, resource: &str, selector: Selector, query: &BTreeMap<String, String>) -> Response<Body> {
        let from: u64 = query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or_default();
        let (sender, receiver) = mpsc::unbounded_channel();
        for (version, kind, key, object) in &self.history {
            if *version > from && key.0 == resource && matches(object, &selector) {
                let _ = sender.send(line(kind, object));
            }
        }
        self.watchers.push((resource.to_owned(), selector, sender));
        let frames = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::UnboundedReceiver<Bytes>| {
            let line = receiver.recv().await?;
            Some((full(line).frame().await?, receiver))
        });
        let body = StreamBody::new(Box::pin(frames));
        Response::new(boxed(body))
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({ "type": kind, "object": object })).into()
}

fn json_answer(code: u16, value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    response
}

fn status(code: u16, reason: &str) -> Response<Body> {
    json_answer(code, &json!({ "kind": "Status", "code": code, "reason": reason, "message": reason }))
}
