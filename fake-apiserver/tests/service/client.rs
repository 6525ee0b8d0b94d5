//! A server in virtual time, and a client that uses only HTTP.

use std::future::Future;
use std::time::Duration;

use fake_apiserver::{Apiserver, Config};
use http::{Method, Request};
use http_body_util::BodyExt;
use substrate::body::{Body, HttpService, call, collect, empty, full};
use substrate::json::{Value, json};
use substrate::world::{Options, simulate};
use substrate::{Ctx, Level, Process, Seed, World};
use tokio::sync::oneshot;

/// Client of one server.
#[derive(Clone)]
pub struct Client {
    service: HttpService,
    /// The server's process.
    pub ctx: Ctx,
    /// Its handle.
    pub process: Process,
    /// The world.
    pub world: World,
}

/// Runs `test` against a new server.
pub fn in_simulation<T, F>(test: impl FnOnce(Client) -> F) -> T
where
    F: Future<Output = T>,
{
    in_simulation_with(Config::default(), test)
}

/// Runs `test` against a new server with this `config`.
pub fn in_simulation_with<T, F>(config: Config, test: impl FnOnce(Client) -> F) -> T
where
    F: Future<Output = T>,
{
    simulate(Options { level: Level::Trace, ..Options::default() }, |world| async move {
        let client = serve(&world, &Apiserver::new(&Seed::root(1), config)).await;
        test(client).await
    })
}

/// Starts a process that serves `apiserver`.
pub async fn serve(world: &World, apiserver: &Apiserver) -> Client {
    serve_as(world, "fake-apiserver", apiserver).await
}

/// Starts the process `name`, which serves `apiserver`.
pub async fn serve_as(world: &World, name: &str, apiserver: &Apiserver) -> Client {
    let (sender, receiver) = oneshot::channel();
    let slot = std::sync::Arc::new(parking_lot::Mutex::new(Some(sender)));
    let apiserver = apiserver.clone();
    let process = Process::start(world, name, move |ctx| {
        let service = apiserver.start(&ctx);
        if let Some(sender) = slot.lock().take() {
            let _ = sender.send((service, ctx.clone()));
        }
        async move { ctx.downed().await }
    });
    let (service, ctx) = receiver.await.unwrap();
    Client { service, ctx, process, world: world.clone() }
}

impl Client {
    /// Sends a request. Returns the HTTP status and the answer as JSON, or as a string if it is not JSON.
    pub async fn send(&self, method: Method, uri: &str, media: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", media)
            .header("user-agent", "test")
            .body(body.map_or_else(empty, |b| full(b.to_string())))
            .unwrap();
        self.request(request).await
    }

    /// Sends a request as it is.
    pub async fn request(&self, request: Request<Body>) -> (u16, Value) {
        let response = call(self.service.clone(), request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = collect(response.into_body(), 64 << 20).await.unwrap();
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes)));
        (code, value)
    }

    pub async fn get(&self, uri: &str) -> (u16, Value) {
        self.send(Method::GET, uri, "", None).await
    }

    pub async fn post(&self, uri: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, uri, "application/json", Some(body)).await
    }

    pub async fn put(&self, uri: &str, body: Value) -> (u16, Value) {
        self.send(Method::PUT, uri, "application/json", Some(body)).await
    }

    pub async fn merge(&self, uri: &str, body: Value) -> (u16, Value) {
        self.send(Method::PATCH, uri, "application/merge-patch+json", Some(body)).await
    }

    pub async fn delete(&self, uri: &str) -> (u16, Value) {
        self.send(Method::DELETE, uri, "", None).await
    }

    pub async fn delete_with(&self, uri: &str, body: Value) -> (u16, Value) {
        self.send(Method::DELETE, uri, "application/json", Some(body)).await
    }

    /// Returns the service of the server.
    pub fn service(&self) -> HttpService {
        self.service.clone()
    }

    /// Opens a watch.
    pub async fn watch(&self, uri: &str) -> Lines {
        self.watch_as(uri, "application/json").await
    }

    /// Opens a watch in some representation.
    pub async fn watch_as(&self, uri: &str, accept: &str) -> Lines {
        let request = Request::get(uri).header("user-agent", "test").header("accept", accept).body(empty()).unwrap();
        let response = call(self.service.clone(), request).await.unwrap();
        Lines::of(response)
    }
}

/// The lines of a watch.
pub struct Lines {
    pub code: u16,
    body: Body,
    buffer: Vec<u8>,
}

impl Lines {
    /// Wraps the body of an answer.
    pub fn of(response: http::Response<Body>) -> Self {
        Self { code: response.status().as_u16(), body: response.into_body(), buffer: Vec::new() }
    }

    /// Returns the next event; `None` if the stream has ended or sends nothing for `limit`.
    pub async fn next_within(&mut self, limit: Duration) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(limit, self.body.frame()).await.ok()??;
            self.buffer.extend_from_slice(&frame.ok()?.into_data().unwrap());
        }
    }

    /// Returns the next event that is there already.
    pub async fn next(&mut self) -> Option<Value> {
        self.next_within(Duration::from_millis(1)).await
    }

    /// Returns `TYPE name` of every event that is there already.
    pub async fn events_seen(&mut self) -> Vec<String> {
        let mut received = Vec::new();
        while let Some(event) = self.next().await {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            received.push(format!("{} {name}", event["type"].as_str().unwrap()).trim().to_owned());
        }
        received
    }
}

/// Returns a valid claim.
pub fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Returns a valid pod.
pub fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}
