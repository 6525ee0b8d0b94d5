//! Client of the machine's container runtime: its pods, from an event stream, and requests to it (upstream PLEG and the
//! CRI client).

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde::Serialize;
use substrate::body::{Body, BoxError, call, collect, full};
use substrate::link::{Frames, Streaming};
use substrate::{Ctx, HttpService, latest};

use crate::kube::Query;
use crate::machine::api::{ContainerSpec, News, PodRecord, PodSpec, StartContainer, Stop, Trouble};

/// Timeout of a call (`runtimeRequestTimeout`).
const TIMEOUT: Duration = Duration::from_secs(120);

/// Longest answer and longest event, in bytes.
pub(super) const LIMIT: usize = 16 << 20;

/// Error of a request to the runtime.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub(crate) enum RuntimeError {
    /// the container runtime answered {0}: {1}
    Refused(StatusCode, String),
    /// the container runtime did not answer: {0}
    Unreached(BoxError),
    /// the container runtime did not answer in time
    TimedOut,
}

impl RuntimeError {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Refused(StatusCode::NOT_FOUND, _))
    }
}

/// Known state of the runtime.
#[derive(Default)]
struct Known {
    pods: BTreeMap<String, PodRecord>,
    /// Number of lists received; 0 before the runtime's first list.
    lists: u64,
}

impl Known {
    /// Applies the answer to a stop of a pod; `before` is the record at the time of the request. A task that waits for
    /// the end must not confuse late events with that end. If the pod was removed meanwhile, the answer itself is late.
    fn stopping(&mut self, before: Option<&PodRecord>, record: PodRecord) {
        let latest = self.pods.get(&record.uid).or(before);
        if latest.is_none_or(|recorded| recorded.attempt < record.attempt) {
            self.pods.insert(record.uid.clone(), record);
        }
    }
}

/// Client of the runtime.
pub(crate) struct Runtime {
    pub(super) service: HttpService,
    known: Mutex<Known>,
    changes: latest::Sender<()>,
}

impl Runtime {
    pub fn new(service: HttpService) -> Self {
        Self { service, known: Mutex::default(), changes: latest::Sender::new(()) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Returns the machine's record of a pod.
    pub fn get(&self, uid: &str) -> Option<PodRecord> {
        self.known().pods.get(uid).cloned()
    }

    /// Returns the record of a pod whose containers run or are about to.
    pub fn alive(&self, uid: &str) -> Option<PodRecord> {
        self.get(uid).filter(PodRecord::is_alive)
    }

    /// Returns all records, ordered by uid.
    pub fn list(&self) -> Vec<PodRecord> {
        self.known().pods.values().cloned().collect()
    }

    /// Returns the uids of pods whose containers run.
    pub fn all_alive(&self) -> BTreeSet<String> {
        self.known().pods.values().filter(|pod| pod.is_alive()).map(|pod| pod.uid.clone()).collect()
    }

    /// Returns a receiver that gets every change from now on.
    pub fn changes(&self) -> latest::Receiver<()> {
        self.changes.subscribe()
    }

    /// Wakes the receivers of changes: a pod has another container.
    pub fn wake(&self) {
        self.changes.send_replace(());
    }

    /// Returns the number of lists received.
    pub fn lists(&self) -> u64 {
        self.known().lists
    }

    /// Waits for the first list.
    pub async fn synced(&self) {
        let mut changes = self.changes();
        while self.lists() == 0 {
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    /// Waits until the pod's containers have ended.
    pub async fn ended(&self, uid: &str) {
        let mut changes = self.changes();
        while self.alive(uid).is_some() {
            let _ = changes.changed().await;
        }
    }

    /// Runs a pod's containers. The result arrives on the event stream. They may run even after an error.
    pub async fn run(&self, ctx: &Ctx, spec: &PodSpec) -> Result<(), RuntimeError> {
        self.ask(ctx, Method::POST, "/v1/pods", Some(spec)).await.map(drop)
    }

    /// Asks a pod's containers to stop. Returns false if the runtime does not know the pod. The result arrives on the
    /// event stream.
    pub async fn stop(&self, ctx: &Ctx, uid: &str, grace: Duration) -> Result<bool, RuntimeError> {
        let before = self.get(uid);
        let stop = Stop { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) };
        let answer = match self.ask(ctx, Method::POST, &format!("/v1/pods/{uid}/stop"), Some(&stop)).await {
            Ok(answer) => answer,
            Err(error) if error.is_missing() => return Ok(false),
            Err(error) => return Err(error),
        };
        let record: PodRecord = serde_json::from_slice(&answer).map_err(|e| RuntimeError::Unreached(e.into()))?;
        self.known().stopping(before.as_ref(), record);
        Ok(true)
    }

    /// Starts a container again after its exit; `renewed` replaces it. The result arrives on the event stream.
    pub async fn start(
        &self,
        ctx: &Ctx,
        uid: &str,
        container: &str,
        attempt: u32,
        renewed: Option<ContainerSpec>,
    ) -> Result<(), RuntimeError> {
        let path = format!("/v1/pods/{uid}/containers/{container}/start");
        self.ask(ctx, Method::POST, &path, Some(&StartContainer { attempt, renewed })).await.map(drop)
    }

    /// Adds a container to a running pod. The result arrives on the event stream.
    pub async fn add(&self, ctx: &Ctx, uid: &str, added: &ContainerSpec) -> Result<(), RuntimeError> {
        self.ask(ctx, Method::POST, &format!("/v1/pods/{uid}/containers"), Some(added)).await.map(drop)
    }

    /// Asks one container to stop. The result arrives on the event stream.
    pub async fn stop_container(
        &self,
        ctx: &Ctx,
        uid: &str,
        container: &str,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        let path = format!("/v1/pods/{uid}/containers/{container}/stop");
        let stop = Stop { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) };
        self.ask(ctx, Method::POST, &path, Some(&stop)).await.map(drop)
    }

    /// Starts a program in a container. Returns its output as messages of [`substrate::channels`]. It ends with
    /// `input`.
    pub async fn exec(
        &self,
        uid: &str,
        container: &str,
        command: &[String],
        input: Body,
    ) -> Result<Body, RuntimeError> {
        let mut query = Query::new(String::new());
        command.iter().for_each(|word| query.add("command", word));
        let answer = connect(&self.service, "exec", (uid, container), query.0.trim_start_matches('?'), input).await;
        let answer = answer.map_err(RuntimeError::Unreached)?;
        let code = answer.status();
        if code.is_success() {
            return Ok(answer.into_body());
        }
        let text = collect(answer.into_body(), LIMIT).await.map_err(RuntimeError::Unreached)?;
        Err(RuntimeError::Refused(code, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Removes a pod whose containers have stopped.
    pub async fn remove(&self, ctx: &Ctx, uid: &str) -> Result<(), RuntimeError> {
        match self.ask(ctx, Method::DELETE, &format!("/v1/pods/{uid}"), None::<&()>).await {
            Err(error) if error.is_missing() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn ask(
        &self,
        ctx: &Ctx,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, RuntimeError> {
        let body = match body.map(serde_json::to_vec).transpose() {
            Ok(text) => full(text.unwrap_or_default()),
            Err(error) => return Err(RuntimeError::Unreached(error.into())),
        };
        let exchange = async {
            let response = send(&self.service, method, path, body, false).await?;
            let code = response.status();
            let text = collect(response.into_body(), LIMIT).await?;
            Ok::<_, BoxError>((code, text))
        };
        match tokio::time::timeout(ctx.scaled(TIMEOUT), exchange).await {
            Err(_) => Err(RuntimeError::TimedOut),
            Ok(Err(error)) => Err(RuntimeError::Unreached(error)),
            Ok(Ok((code, text))) if code.is_success() => Ok(text),
            Ok(Ok((code, text))) => Err(RuntimeError::Refused(code, String::from_utf8_lossy(&text).into_owned())),
        }
    }

    /// Applies one event. Returns a workload's message, which is for the pod.
    pub(super) fn take(&self, news: News) -> Option<Trouble> {
        let mut known = self.known();
        match news {
            News::List(pods) => {
                known.pods = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
                known.lists += 1;
            }
            News::Pod(pod) => drop(known.pods.insert(pod.uid.clone(), pod)),
            News::Removed(uid) => drop(known.pods.remove(&uid)),
            News::Trouble(trouble) => return Some(trouble),
        }
        drop(known);
        self.changes.send_replace(());
        None
    }
}

/// Sends a request to a runtime. `streaming` leaves the answer's body open.
pub(super) async fn send(
    runtime: &HttpService,
    method: Method,
    path: &str,
    body: Body,
    streaming: bool,
) -> Result<Response<Body>, BoxError> {
    let request = Request::builder().method(method).uri(path).header(http::header::HOST, "localhost");
    let mut request = request.header(http::header::CONTENT_TYPE, "application/json").body(body)?;
    if streaming {
        request.extensions_mut().insert(Streaming);
    }
    call(runtime.clone(), request).await
}

/// Connects with a program in a container of a machine's `runtime`. `verb` is `exec` or `attach`. The container is given
/// by the uid of its pod and by its name. `query` has kubelet's parameters.
pub(super) async fn connect(
    runtime: &HttpService,
    verb: &str,
    (uid, container): (&str, &str),
    query: &str,
    input: Body,
) -> Result<Response<Body>, BoxError> {
    let request = Request::post(format!("/v1/pods/{uid}/{verb}/{container}?{query}"));
    let request = request.header(http::header::HOST, "localhost").extension(Streaming).extension(Frames);
    call(runtime.clone(), request.body(input)?).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::api::State;

    fn record(attempt: u32, state: State) -> PodRecord {
        PodRecord { pod: "default/web".into(), uid: "u1".into(), attempt, sandbox: 1, state, containers: Vec::new() }
    }

    #[test]
    fn a_late_answer_to_a_stop_does_not_bring_back_what_was_removed() {
        let before = record(0, State::Starting);
        let mut removed = Known::default();
        removed.stopping(Some(&before), record(0, State::Starting));
        assert_eq!(removed.pods, BTreeMap::new());
        // An unknown pod or attempt counts as alive until the runtime reports its end.
        for recorded in [None, Some(&before)] {
            let mut late = Known::default();
            late.stopping(recorded, record(1, State::Starting));
            assert_eq!(late.pods.keys().collect::<Vec<_>>(), ["u1"]);
        }
    }
}
