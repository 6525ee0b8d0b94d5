//! Client of a running Mooring's admin API.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use substrate::HttpService;
use substrate::body::{Body, call, collect, full};

use super::state_directory::{self, State, StateDirectory};
use crate::cli::compose;
use crate::cli::refusal::{Refusal, lacking, next};
use crate::cluster::Objects;
use crate::output::{Exit, Failure};
use substrate::admin::Secret;

/// Maximum size of an answer in bytes: the whole state, or the whole trace.
const LIMIT: usize = 512 << 20;
/// Time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running Mooring.
pub(in crate::cli) struct Running {
    /// Its state directory.
    pub place: StateDirectory,
    /// Its ready file.
    pub ready: Value,
}

impl Running {
    /// Returns the running Mooring at `place`.
    ///
    /// # Errors
    /// If it is not up, with a list of those that are.
    pub(in crate::cli) fn at(place: StateDirectory) -> Result<Self, Refusal> {
        let name = place.name().to_owned();
        match place.state() {
            Some(State::Up(ready)) => Ok(Self { place, ready }),
            Some(State::Starting) => Err(next(
                lacking(format!("the Mooring called {name} is not ready yet")),
                "`mooring wait --ready` waits for it",
            )),
            Some(State::Killed) => Err(next(
                lacking(format!("the Mooring called {name} was killed")),
                "`mooring clean` removes what it left behind",
            )),
            None => {
                let up: Vec<String> = state_directory::all()?
                    .into_iter()
                    .filter(|other| matches!(other.state(), Some(State::Up(_))))
                    .map(|other| other.name().to_owned())
                    .collect();
                let action = match up.as_slice() {
                    [] if compose::is_there() => "the containers of compose.yaml run: --compose means them, of status, \
                                                  logs, timeline, fault, wait and env; see docs/compose.md. `mooring up \
                                                  --detach` starts one without docker"
                        .to_owned(),
                    [] => "`mooring up --detach` starts one".to_owned(),
                    up => format!("name one that is up: --name {}", up.join(", --name ")),
                };
                Err(next(lacking(format!("no Mooring called {name} is up")), action))
            }
        }
    }

    /// A text field of its ready file.
    pub(in crate::cli) fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_default()
    }

    /// Client of its admin API.
    ///
    /// # Errors
    /// If its address is invalid.
    pub(in crate::cli) fn client(&self) -> Result<Client, Refusal> {
        let admin = self.text("admin");
        let base = admin.strip_suffix("/admin/v1").unwrap_or(admin);
        Client::new(base, self.place.token())
    }

    /// Client of its objects, and the runtime for the client.
    ///
    /// # Errors
    /// If its address is invalid.
    pub(in crate::cli) fn objects(&self) -> Result<(tokio::runtime::Runtime, Objects), Refusal> {
        let runtime = runtime()?;
        let service = {
            let _inside = runtime.enter();
            substrate::dial::http(self.text("kubernetesHttp")).map_err(|e| lacking(e.to_string()))?
        };
        Ok((runtime, Objects::new(service)))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Refusal> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|e| lacking(format!("cannot start the runtime: {e}")))
}

/// Client of an admin API.
pub(in crate::cli) struct Client {
    runtime: tokio::runtime::Runtime,
    service: HttpService,
    token: Option<Secret>,
    timeout: Duration,
}

impl Client {
    /// Client of the admin API of the server at `base`.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(in crate::cli) fn new(base: &str, token: Option<Secret>) -> Result<Self, Refusal> {
        let runtime = runtime()?;
        let service = {
            let _inside = runtime.enter();
            substrate::dial::http(base).map_err(|e| lacking(format!("the admin API: {e}")))?
        };
        Ok(Self { runtime, service, token, timeout: TIMEOUT })
    }

    /// Extends the time limit for answers by `more`.
    pub(in crate::cli) fn with_more_time(mut self, more: Duration) -> Self {
        self.timeout += more;
        self
    }

    /// Sends a request below `/admin/v1` and returns the answer's bytes.
    ///
    /// # Errors
    /// If the server does not answer, or if the admin API refuses the request.
    pub(in crate::cli) fn bytes(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, Refusal> {
        let request = self.request(method, path, body)?;
        let sending = async {
            let answer = call(self.service.clone(), request).await.map_err(silent)?;
            let status = answer.status();
            Ok((status, collect(answer.into_body(), LIMIT).await.map_err(silent)?))
        };
        let (status, bytes) = crate::block_on(
            &self.runtime,
            Box::pin(async {
                let answer = tokio::time::timeout(self.timeout, sending).await;
                answer.unwrap_or_else(|_| {
                    Err(lacking(format!("the admin API does not answer within {:?}", self.timeout)))
                })
            }),
        )?;
        if status.is_success() { Ok(bytes) } else { Err(refused(status, &bytes)) }
    }

    /// Passes the pieces of an answer to `take` as they arrive, until the answer ends or `take` fails.
    ///
    /// # Errors
    /// If the server does not answer, or if the admin API refuses the request.
    pub(in crate::cli) fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), Refusal> {
        let request = self.request(Method::GET, path, None)?;
        crate::block_on(
            &self.runtime,
            Box::pin(async {
                let answer = call(self.service.clone(), request).await.map_err(silent)?;
                let status = answer.status();
                let mut body = answer.into_body();
                if !status.is_success() {
                    return Err(refused(status, &collect(body, LIMIT).await.map_err(silent)?));
                }
                // The stream breaks when the Mooring ends; `take` fails when its reader has closed the pipe.
                while let Some(Ok(frame)) = body.frame().await {
                    if frame.data_ref().is_some_and(|piece| take(piece).is_err()) {
                        break;
                    }
                }
                Ok(())
            }),
        )
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Request<Body>, Refusal> {
        let mut request = Request::builder().method(method).uri(format!("/admin/v1{path}")).header("host", "localhost");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        request.body(full(text)).map_err(|e| silent(e.into()))
    }

    /// The same for an answer in JSON.
    ///
    /// # Errors
    /// As [`Client::bytes`].
    pub(in crate::cli) fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let bytes = self.bytes(method, path, body)?;
        serde_json::from_slice(&bytes).map_err(|e| lacking(format!("the admin API's answer is not JSON: {e}")))
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// As [`Client::bytes`].
    pub(in crate::cli) fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.json(Method::GET, path, None)
    }
}

/// Error for a server that does not answer.
fn silent(error: substrate::BoxError) -> Refusal {
    lacking(format!("the admin API does not answer: {error}"))
}

/// Error for an answer with a failure status.
fn refused(status: StatusCode, bytes: &[u8]) -> Refusal {
    let answer: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let message = answer["error"].as_str().map_or_else(|| String::from_utf8_lossy(bytes).into_owned(), str::to_owned);
    let wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT);
    (if wrong { Exit::Usage } else { Exit::Environment }, Failure::new("refused", message))
}
