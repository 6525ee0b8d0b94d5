//! Commits of the origin: a list and a watch of each kind, recorded in the trace as commits of this server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use substrate::body::{BoxError, collect};
use substrate::json::{Text, Value};

use super::{Behind, request};
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
        let Some(behind) = self.shared.behind.clone() else { return };
        if behind.followed.lock().insert(kind.index) {
            let server = self.clone();
            self.ctx.spawn(async move { server.follow_kind(&behind, &kind).await });
        }
    }

    /// Lists and watches a kind until the origin does not serve it any more.
    async fn follow_kind(&self, behind: &Behind, kind: &KindRef) {
        let mut known = Known::new();
        loop {
            match self.list_and_watch(behind, kind, &mut known).await {
                Ok(true) => {}
                Ok(false) => {
                    behind.followed.lock().remove(&kind.index);
                    return;
                }
                Err(_) => self.ctx.sleep(PAUSE).await,
            }
        }
    }

    /// Records the present objects and then each change; false if the kind is not served. Returns at the end of the watch.
    async fn list_and_watch(&self, behind: &Behind, kind: &KindRef, known: &mut Known) -> Result<bool, BoxError> {
        let response =
            behind.origin.call(&self.ctx, request(&Method::GET, &kind.root(), json(), Bytes::new())?).await?;
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
            self.record(behind, kind, known, item.clone(), false);
        }
        let revision = value::resource_version(&list).to_owned();
        for key in gone.into_keys() {
            known.remove(&key);
            let at = revision.parse()?;
            self.emit(behind, kind, &key, at, EventType::Deleted, &Value::Null);
        }
        let path = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={revision}", kind.root());
        let response = behind.origin.call(&self.ctx, request(&Method::GET, &path, json(), Bytes::new())?).await?;
        let (mut body, mut rest) = (response.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            rest.extend_from_slice(&frame?.into_data().unwrap_or_default());
            while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let mut event: Value = serde_json::from_slice(&rest.split_to(at + 1))?;
                let Some(event_type) = event.get("type").and_then(Value::as_str).map(str::to_owned) else { continue };
                if event_type == "ERROR" {
                    return Ok(true);
                }
                if event_type != "BOOKMARK" {
                    self.record(behind, kind, known, event["object"].take(), event_type == "DELETED");
                }
            }
        }
        Ok(true)
    }

    /// Records an object of a kind, unless its revision is known.
    fn record(&self, behind: &Behind, kind: &KindRef, known: &mut Known, mut object: Value, deleted: bool) {
        let key = place(kind, &object).to_string();
        let Ok(revision) = value::resource_version(&object).parse::<u64>() else { return };
        let event_type = match known.get(&key) {
            Some(before) if *before >= revision => return,
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
        self.emit(behind, kind, &key, revision, event_type, &object);
    }

    fn emit(&self, behind: &Behind, kind: &KindRef, key: &str, revision: u64, event_type: EventType, object: &Value) {
        self.shared.revision.send_if_modified(|newest| {
            let newer = revision > *newest;
            *newest = revision.max(*newest);
            newer
        });
        let writer = behind.writer(kind.index, key);
        let mut commit = Commit {
            group: kind.custom.as_ref().map(|_| kind.group.into()),
            user: writer.agent.as_str().into(),
            verb: writer.verb.into(),
            ..Commit::new(Text::new_static(kind.plural), key, revision, event_type)
        };
        if Commit::says(kind) && !object.is_null() {
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
