//! A cache of one kind, kept by list and watch (client-go `tools/cache` reflector and store).

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand_core::Rng;
use substrate::json::Text;
use substrate::latest;
use substrate::mutant;
use substrate::process::Ctx;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::api::{Api, ListParams};
use super::backoff::Backoff;
use super::error::ApiError;
use super::object::Kind;
use super::watch::{self, WatchEvent, WatchParams};
use crate::events::InformerError;

/// A change of the cache.
#[derive(Clone, Debug)]
pub enum Delta<K> {
    /// The object is new (`old` absent) or changed. A watch may skip states in between.
    Applied {
        /// The state before, when there was one.
        old: Option<Arc<K>>,
        /// The state now.
        new: Arc<K>,
    },
    /// The object is gone; its last known state.
    Deleted(Arc<K>),
}

/// A cache of one kind. Clones are the same cache.
pub struct Informer<K>(Arc<Inner<K>>);

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    synced: latest::Sender<bool>,
}

/// Most names stand within the nodes of the trees, so that a search stays there.
type Objects<K> = BTreeMap<Text, BTreeMap<Text, Arc<K>>>;

struct State<K> {
    objects: Objects<K>,
    subscribers: Vec<mpsc::UnboundedSender<Delta<K>>>,
}

impl<K: Kind> Informer<K> {
    /// The cache of what `api` and `params` select. Within one client (and its [`named`](super::Client::named)
    /// siblings) it is started once and shared.
    pub fn start(ctx: &Ctx, api: Api<K>, params: ListParams) -> Self {
        let client = api.client().clone();
        let selection = format!(
            "{}?{}&{}",
            api.collection(),
            params.field_selector.as_deref().unwrap_or_default(),
            params.label_selector.as_deref().unwrap_or_default()
        );
        let mut shared = client.shared().informers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<K>(), selection);
        if let Some(running) = shared.get(&key).and_then(|any| any.downcast_ref::<Self>()) {
            return running.clone();
        }
        let informer = Self(Arc::new(Inner {
            state: Mutex::new(State { objects: BTreeMap::new(), subscribers: Vec::new() }),
            synced: latest::Sender::new(false),
        }));
        let reflector = Reflector {
            ctx: ctx.clone(),
            api: api.over(client.informer_client()),
            params,
            rng: Box::new(ctx.rng(&format!("informer {}", key.1))),
            backoff: Backoff::reflector(),
            informer: informer.clone(),
        };
        shared.insert(key, Box::new(informer.clone()));
        drop(shared);
        ctx.spawn(reflector.run());
        informer
    }

    /// Waits until the first list is in.
    pub async fn synced(&self) {
        // The sender lives in `self`.
        let _ = self.0.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// An object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.state().objects.get(namespace)?.get(name).cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.state().objects.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Reads the objects in order without copying the list.
    pub fn each(&self, mut read: impl FnMut(&Arc<K>)) {
        self.state().objects.values().flat_map(BTreeMap::values).for_each(&mut read);
    }

    /// Puts an object that this process has just written into the cache, without telling anybody, so that it is not
    /// worked on in its older state until the watch has caught up (`cache.Store.Update`). One that is newer there stays.
    pub fn update(&self, object: &Arc<K>) {
        let version = |of: &K| of.resource_version().parse::<u128>().unwrap_or_default();
        let mut state = self.state();
        let names = state.objects.get_mut(object.namespace());
        if let Some(slot) = names.and_then(|names| names.get_mut(object.name()))
            && version(slot) < version(object)
        {
            slot.clone_from(object);
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state().objects.values().map(BTreeMap::len).sum()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All changes from now on, after the present objects as [`Delta::Applied`] without `old`.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Delta<K>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        for new in state.objects.values().flat_map(BTreeMap::values) {
            // The receiver is still here.
            let _ = sender.send(Delta::Applied { old: None, new: new.clone() });
        }
        state.subscribers.push(sender);
        receiver
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, new: Arc<K>) {
        let mut state = self.state();
        let old = match state.objects.get_mut(new.namespace()) {
            Some(names) => match names.get_mut(new.name()) {
                Some(slot) => Some(std::mem::replace(slot, new.clone())),
                None => names.insert(new.name().into(), new.clone()),
            },
            None => {
                let names = BTreeMap::from([(new.name().into(), new.clone())]);
                state.objects.insert(new.namespace().into(), names);
                None
            }
        };
        state.tell(Delta::Applied { old, new });
    }

    fn delete(&self, object: Arc<K>) {
        let mut state = self.state();
        if let Some(names) = state.objects.get_mut(object.namespace()) {
            names.remove(object.name());
            if names.is_empty() {
                state.objects.remove(object.namespace());
            }
        }
        state.tell(Delta::Deleted(object));
    }

    /// Takes over a list: what is missing in it is gone, what has another version is changed. `keeps`: a planted defect has
    /// what is missing stay.
    fn replace(&self, items: Vec<K>, keeps: bool) {
        let mut next: Objects<K> = BTreeMap::new();
        let mut state = self.state();
        let mut changes = Vec::new();
        for object in items {
            let old = state.objects.get_mut(object.namespace()).and_then(|names| names.remove(object.name()));
            let object = match old {
                Some(old) if old.resource_version() == object.resource_version() => old,
                old => {
                    let new = Arc::new(object);
                    changes.push(Delta::Applied { old, new: new.clone() });
                    new
                }
            };
            next.entry(object.namespace().into()).or_default().insert(object.name().into(), object);
        }
        let mut gone = std::mem::replace(&mut state.objects, next);
        if keeps {
            for (namespace, names) in std::mem::take(&mut gone) {
                state.objects.entry(namespace).or_default().extend(names);
            }
        }
        changes.extend(gone.into_values().flat_map(BTreeMap::into_values).map(Delta::Deleted));
        for change in changes {
            state.tell(change);
        }
        drop(state);
        self.0.synced.send_replace(true);
    }
}

impl<K: Kind> State<K> {
    fn tell(&mut self, change: Delta<K>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

struct Reflector<K> {
    ctx: Ctx,
    api: Api<K>,
    params: ListParams,
    rng: Box<dyn Rng + Send>,
    backoff: Backoff,
    informer: Informer<K>,
}

impl<K: Kind> Reflector<K> {
    async fn run(mut self) {
        // A relist after 410 asks for the newest state, not for what a cache may have (client-go `relistResourceVersion`).
        let mut from = Some("0");
        loop {
            match self.api.list_at(&self.params, from).await {
                Ok(list) => {
                    self.informer.replace(list.items, mutant!(self.ctx, "informer-keeps-deleted"));
                    self.follow(list.resource_version).await;
                    from = None;
                }
                Err(e) => {
                    if e.is_expired() {
                        from = None;
                    }
                    self.trouble("list", &e);
                }
            }
            self.wait().await;
        }
    }

    /// Watches from `version` until a new list is needed.
    async fn follow(&mut self, mut version: String) {
        loop {
            let opened = self.ctx.now().mono;
            let params = WatchParams {
                list: self.params.clone(),
                resource_version: version.clone(),
                bookmarks: true,
                // client-go: between 5 and 10 minutes, so that load spreads.
                timeout_seconds: Some(between(&mut self.rng, 300, 600)),
            };
            let end = match self.api.watch(&params).await {
                Err(e) => Err(e),
                Ok(mut stream) => loop {
                    match stream.next_line().await {
                        Ok(Some(line)) => match self.read(&line) {
                            Ok(event) => self.take(event, &mut version),
                            Err(e) => break Err(e),
                        },
                        Ok(None) => break Ok(()),
                        Err(e) => break Err(e),
                    }
                },
            };
            match end {
                // A stream that ends at once must not become a hot loop.
                Ok(()) if self.ctx.now().mono - opened >= Duration::from_secs(1) => {}
                Ok(()) => self.wait().await,
                Err(e) => {
                    self.trouble("watch", &e);
                    match e {
                        ApiError::Status(status) if status.code != 429 && status.code < 500 => return,
                        ApiError::Decode(_) => return,
                        _ => self.wait().await,
                    }
                }
            }
        }
    }

    fn read(&self, line: &Bytes) -> Result<WatchEvent<Arc<K>>, ApiError> {
        let memo = &self.api.client().shared().memo;
        watch::parse(line, |bytes| memo.object(bytes))
    }

    fn take(&self, event: WatchEvent<Arc<K>>, version: &mut String) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                object.resource_version().clone_into(version);
                self.informer.apply(object);
            }
            WatchEvent::Deleted(object) => {
                object.resource_version().clone_into(version);
                self.informer.delete(object);
            }
            WatchEvent::Bookmark(at) => *version = at,
        }
    }

    fn trouble(&self, verb: &str, e: &ApiError) {
        self.ctx.trace().mention(self.ctx.name(), || InformerError {
            of: K::KIND.into(),
            verb: verb.into(),
            error: e.to_string(),
        });
    }

    async fn wait(&mut self) {
        let step = self.backoff.next(self.ctx.now().mono, &mut self.rng);
        self.ctx.sleep(step).await;
    }
}
