//! The origin of a server, and the state about it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{Request, Response};
use substrate::Ctx;
use substrate::body::{Body, BoxError, HttpService, call};

use super::call::Call;
use super::verb::Verb;
use crate::state::key;

/// Another API server, which answers the requests of this one: connects to it. The user of the connection must be allowed
/// everything.
#[derive(Clone)]
pub struct Origin(Arc<Connect>);

/// Connects a process to the origin.
type Connect = dyn Fn(&Ctx) -> Result<HttpService, BoxError> + Send + Sync;

impl Origin {
    /// Creates an origin from a function that connects to it.
    pub fn new(dial: impl Fn(&Ctx) -> Result<HttpService, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the origin does not answer.
    pub async fn call(&self, ctx: &Ctx, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        call((self.0)(ctx)?, request).await
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}

/// The origin of a server, and the state about it.
pub(crate) struct OriginState {
    pub(super) origin: Origin,
    /// Verb and User-Agent of the last write of each object, by the position of its kind and its key.
    pub(super) writers: Mutex<BTreeMap<(usize, String), Writer>>,
    /// Positions of the kinds whose commits are followed.
    pub(super) followed: Mutex<BTreeSet<usize>>,
}

/// Author of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    pub(super) verb: &'static str,
    pub(super) agent: String,
}

impl OriginState {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, writers: Mutex::default(), followed: Mutex::default() }
    }

    /// Records the author of a write, if the object's name is known.
    pub(super) fn note_writer(&self, call: &Call, name: &str) {
        if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) || name.is_empty() {
            return;
        }
        let key = key(call.namespace.as_deref(), name).to_string();
        let writer = Writer { verb: call.verb.name(), agent: call.agent.clone() };
        self.writers.lock().insert((crate::kinds::stored(&call.kind).index, key), writer);
    }

    pub(super) fn writer(&self, kind: usize, key: &str) -> Writer {
        self.writers.lock().get(&(kind, key.to_owned())).cloned().unwrap_or_default()
    }
}
