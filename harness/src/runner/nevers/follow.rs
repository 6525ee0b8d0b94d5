//! Follows objects as a client does: a list, then a watch from its revision on, so that no revision is missed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use substrate::Clock;
use substrate::body::Body;
use substrate::json::Value;
use tokio::sync::Notify;

use super::key;
use crate::runner::objects::Objects;
use crate::scenario::predicate::Subject;

/// How long is waited before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the last revisions may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest line that is read.
const LINE_LIMIT: usize = 16 << 20;

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) key: String,
    pub(super) number: u64,
    deleted: bool,
}

/// What has been looked at, for whoever waits for the end.
#[derive(Debug)]
pub(super) struct Progress {
    path: String,
    state: Mutex<Seen>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    /// The revision of each object that is there.
    objects: BTreeMap<String, u64>,
    /// All revisions up to this one have been looked at.
    to: u64,
    /// Why the stream cannot go on.
    lost: Option<String>,
}

impl Progress {
    /// Waits until all has been looked at that is there now.
    ///
    /// # Errors
    /// Why that is not to be.
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
                    // What is there and was not listed has come later; otherwise it has yet to be told of that it went.
                    let gone = seen.objects.iter().all(|(key, number)| listed.contains(key) || *number > revision);
                    if seen.to >= newest && gone {
                        return Ok(());
                    }
                }
                changed.await;
            }
        };
        let late = || Err(unwatched("the last revisions did not arrive".to_owned()));
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| late())
    }

    fn state(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list that is kept up to date.
pub(super) struct Follower {
    source: Objects,
    clock: Clock,
    objects: BTreeMap<String, Value>,
    revision: u64,
    stream: Option<Body>,
    buffer: Vec<u8>,
    waiting: VecDeque<Revision>,
    progress: Arc<Progress>,
}

impl Follower {
    /// Lists what is there and opens the watch.
    ///
    /// # Errors
    /// What the API server says.
    pub(super) async fn begin(objects: &Objects, clock: &Clock, subject: Subject) -> Result<Self, String> {
        let selector = match &subject {
            Subject::Object(object) => format!("?fieldSelector=metadata.name%3D{}", object.name),
            Subject::List(..) => String::new(),
        };
        let path = format!("{}{selector}", subject.collection_path());
        let (list, revision) =
            objects.list_tree(&path).await.map_err(|e| format!("{subject} could not be listed: {e}"))?;
        let objects_there: BTreeMap<String, Value> = list.into_iter().map(|object| (key(&object), object)).collect();
        let seen = objects_there.iter().map(|(key, object)| (key.clone(), number(object))).collect();
        let state = Mutex::new(Seen { objects: seen, to: revision, lost: None });
        let mut follower = Self {
            source: objects.clone(),
            clock: clock.clone(),
            objects: objects_there,
            revision,
            stream: None,
            buffer: Vec::new(),
            waiting: VecDeque::new(),
            progress: Arc::new(Progress { path, state, changed: Notify::new() }),
        };
        follower.open().await.map_err(|e| format!("{subject} could not be watched: {e}"))?;
        Ok(follower)
    }

    /// What has been looked at.
    pub(super) fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// What is there, after the last revision that [`Follower::next`] gave.
    pub(super) fn objects(&self) -> &BTreeMap<String, Value> {
        &self.objects
    }

    /// Says that a revision has been looked at.
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

    /// The next revision; nothing when revisions were lost, which the progress tells.
    pub(super) async fn next(&mut self) -> Option<Revision> {
        loop {
            if let Some(revision) = self.waiting.pop_front() {
                return Some(revision);
            }
            let line = match &mut self.stream {
                Some(body) => next_line(body, &mut self.buffer).await,
                None => None,
            };
            let Some(line) = line else {
                self.buffer.clear();
                self.stream = None;
                self.clock.sleep_until(self.clock.mono() + PAUSE).await;
                match self.open().await {
                    Err(e) if e.is_gone() => {
                        return self.lose("revisions were lost while no stream was open".to_owned());
                    }
                    // The next try may find the API server again.
                    Err(_) | Ok(()) => {}
                }
                continue;
            };
            match self.take(&line) {
                Ok(()) => {}
                Err(why) => return self.lose(why),
            }
        }
    }

    fn lose(&self, why: String) -> Option<Revision> {
        self.progress.state().lost = Some(why);
        self.progress.changed.notify_waiters();
        None
    }

    async fn open(&mut self) -> Result<(), crate::runner::ObjectError> {
        let path = &self.progress.path;
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}watch=true&allowWatchBookmarks=true&resourceVersion={}", self.revision);
        self.stream = Some(self.source.open(&path).await?);
        Ok(())
    }

    /// Takes in a line of the stream.
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let mut event: Value = serde_json::from_slice(line).map_err(|e| format!("a watch event is no JSON: {e}"))?;
        let object = event["object"].take();
        let told = event["type"].as_str().unwrap_or_default();
        if told == "ERROR" {
            if object["code"] == 410 {
                return Err("revisions were lost: the watch expired".to_owned());
            }
            // Any other end of a stream is one after which it is opened again.
            self.stream = None;
            return Ok(());
        }
        self.revision = number(&object).max(self.revision);
        if told == "BOOKMARK" {
            return Ok(());
        }
        let revision = Revision { key: key(&object), number: number(&object), deleted: told == "DELETED" };
        if revision.deleted {
            self.objects.remove(&revision.key);
        } else {
            self.objects.insert(revision.key.clone(), object);
        }
        self.waiting.push_back(revision);
        Ok(())
    }
}

/// The revision of an object.
fn number(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The next line of a stream; nothing when it has ended or broken.
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
