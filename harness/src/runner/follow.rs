//! Follows objects like a client: a list, then a watch from its revision on, so that no revision is missed.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::cel::over::Item;
use http_body_util::BodyExt;
use substrate::Clock;
use substrate::body::Body;
use substrate::json::Value;
use tokio::sync::Notify;

use crate::cluster::objects::Objects;
use crate::runner::object_key::key;
use crate::scenario::predicate::Subject;

/// Pause before a broken watch is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// Time limit for the last revisions to arrive.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a line in bytes.
const LINE_LIMIT: usize = 16 << 20;

/// Objects by key.
pub(super) type Items = BTreeMap<String, Arc<Item>>;

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) key: String,
    pub(super) number: u64,
    deleted: bool,
}

/// Checked revisions, for the task that waits for the end.
#[derive(Debug)]
pub(super) struct Progress {
    path: String,
    state: Mutex<Seen>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    /// Revision of each object that exists.
    objects: BTreeMap<String, u64>,
    /// All revisions up to this one have been checked.
    to: u64,
    /// Reason for which the watch cannot continue.
    lost: Option<String>,
}

impl Progress {
    /// Waits until everything that exists now has been checked.
    ///
    /// # Errors
    /// Returns the reason if that is impossible.
    pub(super) async fn catch_up(&self, objects: &Objects) -> Result<(), String> {
        let unwatched = |why: String| format!("it could not be watched to its end: {why}");
        let (list, revision) = objects.list_tree(&self.path).await.map_err(|e| unwatched(e.to_string()))?;
        let listed: BTreeSet<String> = list.iter().map(key).collect();
        let newest = list.iter().map(number).max().unwrap_or(0);
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                {
                    let seen = self.state();
                    if let Some(why) = &seen.lost {
                        return Err(unwatched(why.clone()));
                    }
                    // An object that is not in the list is newer than the list, or its deletion has yet to arrive.
                    let gone = seen.objects.iter().all(|(key, number)| listed.contains(key) || *number > revision);
                    if seen.to >= newest && gone {
                        return Ok(());
                    }
                }
                changed.await;
            }
        };
        let late = || Err(unwatched("the last revisions did not arrive".to_owned()));
        tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| late())
    }

    fn state(&self) -> MutexGuard<'_, Seen> {
        self.state.lock()
    }
}

/// A list that is kept up to date.
pub(super) struct Follower {
    source: Objects,
    clock: Clock,
    objects: Items,
    revision: u64,
    stream: Option<Body>,
    buffer: Vec<u8>,
    waiting: VecDeque<Revision>,
    progress: Arc<Progress>,
}

impl Follower {
    /// Lists the objects and opens the watch.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub(super) async fn begin(objects: &Objects, clock: &Clock, subject: Subject) -> Result<Self, String> {
        let selector = match &subject {
            Subject::Object(object) => format!("?fieldSelector=metadata.name%3D{}", object.name),
            Subject::List(..) => String::new(),
        };
        let path = format!("{}{selector}", subject.collection_path());
        let (list, revision) =
            objects.list_tree(&path).await.map_err(|e| format!("{subject} could not be listed: {e}"))?;
        let objects_there = list.into_iter().map(|object| (key(&object), Arc::new(Item::new(object)))).collect();
        let mut follower = Self::after(objects, clock, path, objects_there, revision);
        follower.open().await.map_err(|e| format!("{subject} could not be watched: {e}"))?;
        Ok(follower)
    }

    /// Follows the list that the API server has returned for a path. [`Follower::next`] opens the watch.
    pub(super) fn after(objects: &Objects, clock: &Clock, path: String, list: Items, revision: u64) -> Self {
        let seen = list.iter().map(|(key, item)| (key.clone(), number(item.value()))).collect();
        let state = Mutex::new(Seen { objects: seen, to: revision, lost: None });
        Self {
            source: objects.clone(),
            clock: clock.clone(),
            objects: list,
            revision,
            stream: None,
            buffer: Vec::new(),
            waiting: VecDeque::new(),
            progress: Arc::new(Progress { path, state, changed: Notify::new() }),
        }
    }

    /// Newest revision of the list and of the changes after it.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Checked revisions.
    pub(super) fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Objects after the last revision that [`Follower::next`] returned.
    pub(super) fn objects(&self) -> &Items {
        &self.objects
    }

    /// Records that a revision has been checked.
    pub(super) fn seen(&self, revision: &Revision) {
        {
            let mut seen = self.progress.state();
            seen.to = seen.to.max(revision.number);
            if revision.deleted {
                seen.objects.remove(&revision.key);
            } else {
                seen.objects.insert(revision.key.clone(), revision.number);
            }
        }
        self.progress.changed.notify_waiters();
    }

    /// Returns the next revision. None if revisions were lost; the progress has the reason. A caller that drops the future
    /// loses no revision.
    pub(super) async fn next(&mut self) -> Option<Revision> {
        loop {
            if let Some(revision) = self.waiting.pop_front() {
                return Some(revision);
            }
            let Some(body) = &mut self.stream else {
                match self.open().await {
                    Ok(()) => {}
                    Err(e) if e.is_gone() => {
                        return self.lose("revisions were lost while no stream was open".to_owned());
                    }
                    // The next attempt may reach the API server again.
                    Err(_) => self.pause().await,
                }
                continue;
            };
            let Some(line) = next_line(body, &mut self.buffer).await else {
                self.buffer.clear();
                self.stream = None;
                self.pause().await;
                continue;
            };
            if let Err(why) = self.take(&line) {
                return self.lose(why);
            }
        }
    }

    async fn pause(&mut self) {
        self.clock.sleep_until(self.clock.mono() + PAUSE).await;
    }

    fn lose(&self, why: String) -> Option<Revision> {
        self.progress.state().lost = Some(why);
        self.progress.changed.notify_waiters();
        None
    }

    async fn open(&mut self) -> Result<(), crate::cluster::ObjectError> {
        let path = &self.progress.path;
        let trigger = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{trigger}watch=true&allowWatchBookmarks=true&resourceVersion={}", self.revision);
        self.stream = Some(self.source.open(&path).await?);
        Ok(())
    }

    /// Applies a line of the watch.
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let mut event: Value = serde_json::from_slice(line).map_err(|e| format!("a watch event is not JSON: {e}"))?;
        let object = event["object"].take();
        let reported = event["type"].as_str().unwrap_or_default();
        if reported == "ERROR" {
            if object["code"] == 410 {
                return Err("revisions were lost: the watch expired".to_owned());
            }
            // After any other error the server ends the watch, which is opened again.
            return Ok(());
        }
        self.revision = number(&object).max(self.revision);
        if reported == "BOOKMARK" {
            return Ok(());
        }
        let revision = Revision { key: key(&object), number: number(&object), deleted: reported == "DELETED" };
        if revision.deleted {
            self.objects.remove(&revision.key);
        } else {
            self.objects.insert(revision.key.clone(), Arc::new(Item::new(object)));
        }
        self.waiting.push_back(revision);
        Ok(())
    }
}

/// Revision of an object or a list; 0 without one.
pub(super) fn number(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reads the next line of a stream; none if it has ended or broken.
async fn next_line(body: &mut Body, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(at) = buffer.iter().position(|byte| *byte == b'\n') {
            let rest = buffer.split_off(at + 1);
            let line = std::mem::replace(buffer, rest);
            if line.len() > 1 {
                return Some(line);
            }
            continue;
        }
        if buffer.len() > LINE_LIMIT {
            return None;
        }
        let frame = body.frame().await?.ok()?;
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
    }
}
