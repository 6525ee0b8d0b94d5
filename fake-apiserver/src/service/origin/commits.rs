//! Commits of the origin: a list and a watch of each kind, recorded in the trace as commits of this server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use substrate::body::{BoxError, collect};
use substrate::json::{Text, Value};

use super::lines::Lines;
use super::{OriginState, request};
use crate::events::Commit;
use crate::kinds::{self, KindRef};
use crate::service::Server;
use crate::state::{EventType, key, value};

/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(200);

/// Objects of a kind, as far as they are known, by key: their revisions.
type Known = BTreeMap<String, u64>;

impl Server {
    /// Follows all built-in kinds, and custom kinds from the moment that the origin serves them.
    pub(in crate::service) fn follow_origin(&self) {
        let all = kinds::all().iter().filter(|kind| !kind.is_view() && kind.is_stored());
        for kind in all.filter(|kind| **kind != *kinds::LEASES && **kind != *kinds::EVENTS) {
            self.follow_commits(KindRef::from(kind));
        }
    }

    fn follow_commits(&self, kind: KindRef) {
        let Some(state) = self.shared.origin.clone() else { return };
        if state.followed.lock().insert(kind.index) {
            let server = self.clone();
            self.ctx.spawn(async move { server.follow_kind(&state, &kind).await });
        }
    }

    /// Lists and watches a kind until the origin does not serve it any more.
    async fn follow_kind(&self, state: &OriginState, kind: &KindRef) {
        let mut known = Known::new();
        loop {
            match self.list_and_watch(state, kind, &mut known).await {
                Ok(true) => {}
                Ok(false) => {
                    state.followed.lock().remove(&kind.index);
                    return;
                }
                // The origin is not ready, or has ended. Clients meet the same error, and report it.
                Err(_) => self.ctx.sleep(PAUSE).await,
            }
        }
    }

    /// Records the present objects and then each change; false if the kind is not served. Returns at the end of the watch.
    async fn list_and_watch(&self, state: &OriginState, kind: &KindRef, known: &mut Known) -> Result<bool, BoxError> {
        let response = state.origin.call(&self.ctx, request(&Method::GET, &kind.root(), json(), Bytes::new())?).await?;
        if response.status() == http::StatusCode::NOT_FOUND {
            return Ok(false);
        }
        let status = response.status();
        let list: Value = serde_json::from_slice(&collect(response.into_body(), usize::MAX).await?)?;
        if !status.is_success() {
            return Err(format!("{}: {status}", kind.root()).into());
        }
        let mut gone = known.clone();
        for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            gone.remove(&*place(kind, item));
            self.record(state, kind, known, item.clone(), false)?;
        }
        let revision = value::resource_version(&list).to_owned();
        for key in gone.into_keys() {
            known.remove(&key);
            let at = revision.parse()?;
            self.emit(state, kind, &key, at, EventType::Deleted, &Value::Null);
        }
        let path = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={revision}", kind.root());
        let response = state.origin.call(&self.ctx, request(&Method::GET, &path, json(), Bytes::new())?).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("{path}: {status}").into());
        }
        let mut lines = Lines::of(response.into_body());
        while let Some(line) = lines.next().await {
            let mut event: Value = serde_json::from_slice(&line?)?;
            let deleted = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => false,
                Some("DELETED") => true,
                Some("BOOKMARK") => continue,
                // The revision is too old: list again.
                _ => return Ok(true),
            };
            self.record(state, kind, known, event["object"].take(), deleted)?;
        }
        Ok(true)
    }

    /// Records an object of a kind, unless its revision is known.
    fn record(
        &self,
        state: &OriginState,
        kind: &KindRef,
        known: &mut Known,
        mut object: Value,
        deleted: bool,
    ) -> Result<(), BoxError> {
        let key = place(kind, &object).to_string();
        let revision: u64 = value::resource_version(&object).parse()?;
        let event_type = match known.get(&key) {
            Some(before) if *before >= revision => return Ok(()),
            _ if deleted => EventType::Deleted,
            Some(_) => EventType::Modified,
            None => EventType::Added,
        };
        if deleted {
            known.remove(&key);
        } else {
            known.insert(key.clone(), revision);
        }
        // Items of a list have no type of their own.
        value::set(&mut object, "apiVersion", Some(kind.api_version().into()));
        value::set(&mut object, "kind", Some(kind.kind.into()));
        if **kind == *kinds::CUSTOM_RESOURCE_DEFINITIONS && !deleted {
            let served = self.shared.lock().store.adopt_definition(&object);
            served.into_iter().for_each(|kind| self.follow_commits(kind));
        }
        self.emit(state, kind, &key, revision, event_type, &object);
        Ok(())
    }

    fn emit(
        &self,
        state: &OriginState,
        kind: &KindRef,
        key: &str,
        revision: u64,
        event_type: EventType,
        object: &Value,
    ) {
        self.shared.revision.send_if_modified(|newest| {
            let newer = revision > *newest;
            *newest = revision.max(*newest);
            newer
        });
        let writer = state.writer(kind.index, key);
        let mut commit = Commit {
            group: kind.custom.as_ref().map(|_| kind.group.into()),
            user: writer.agent.as_str().into(),
            verb: writer.verb.into(),
            ..Commit::new(Text::new_static(kind.plural), key, revision, event_type)
        };
        if Commit::has_details(kind) && !object.is_null() {
            commit.say(kind, object);
        }
        self.ctx.emit(commit);
    }
}

fn json() -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))])
}

/// Returns the key of an object.
fn place(kind: &KindRef, object: &Value) -> crate::state::Key {
    key(kind.namespaced.then(|| value::namespace(object)), value::name(object))
}
