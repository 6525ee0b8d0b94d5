//! Cache of one kind, kept up to date by list and watch (client-go `tools/cache` reflector and store).
//!
//! The cache itself is not generic: objects are type-erased until a reader takes them out. So the compiler builds the
//! cache once for two dozen kinds.

use parking_lot::{Mutex, MutexGuard};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand_core::Rng;
use substrate::json::Text;
use substrate::latest;
use substrate::mutant;
use substrate::process::Ctx;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::api::{self, Api, ListParams, ObjectList};
use super::backoff::Backoff;
use super::client::Client;
use super::error::ApiError;
use super::memo::Memo;
use super::object::Kind;
use super::watch::{self, Lines, WatchEvent, WatchParams};
use crate::events::InformerError;

/// Change of the cache.
#[derive(Clone, Debug)]
pub enum Delta<K> {
    /// The object is new (`old` absent) or changed. A watch may skip states in between.
    Applied {
        /// Previous state, if any.
        old: Option<Arc<K>>,
        /// Current state.
        new: Arc<K>,
    },
    /// The object was deleted; its last known state.
    Deleted(Arc<K>),
}

/// Type-erased object.
pub(super) trait Cached: Any + Send + Sync {
    fn namespace(&self) -> &str;
    fn name(&self) -> &str;
    fn resource_version(&self) -> &str;
}

impl<K: Kind> Cached for K {
    fn namespace(&self) -> &str {
        Kind::namespace(self)
    }

    fn name(&self) -> &str {
        Kind::name(self)
    }

    fn resource_version(&self) -> &str {
        Kind::resource_version(self)
    }
}

pub(super) type Object = Arc<dyn Cached>;

/// Returns the object as its type.
pub(super) fn owned<K: Any + Send + Sync>(object: &Object) -> Option<Arc<K>> {
    let object: Arc<dyn Any + Send + Sync> = object.clone();
    object.downcast().ok()
}

/// Returns a reference to the object as its type.
fn seen<K: Kind>(object: &Object) -> Option<&K> {
    let object: &dyn Any = &**object;
    object.downcast_ref()
}

#[derive(Clone)]
pub(super) enum Change {
    Applied { old: Option<Object>, new: Object },
    Deleted(Object),
}

/// Receiver of the changes of a cache.
pub struct Changes<K> {
    from: mpsc::UnboundedReceiver<Change>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Changes<K> {
    /// Waits for the next change; None when the cache is gone.
    pub async fn recv(&mut self) -> Option<Delta<K>> {
        self.from.recv().await.and_then(Self::of)
    }

    /// Returns the next change, if there is one already.
    pub fn try_recv(&mut self) -> Option<Delta<K>> {
        self.from.try_recv().ok().and_then(Self::of)
    }

    fn of(change: Change) -> Option<Delta<K>> {
        Some(match change {
            Change::Applied { old, new } => Delta::Applied { old: old.and_then(|old| owned(&old)), new: owned(&new)? },
            Change::Deleted(object) => Delta::Deleted(owned(&object)?),
        })
    }
}

/// Cache of one kind. Clones share it.
pub struct Informer<K> {
    cache: Arc<Cache>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), kind: PhantomData }
    }
}

impl<K: Kind> Informer<K> {
    /// Starts the cache of the selection by `api` and `params`. Within one client (and its
    /// [`named`](super::Client::named) siblings) it is started once and shared.
    pub fn start(ctx: &Ctx, api: Api<K>, params: ListParams) -> Self {
        let reads = Reads {
            kind: K::KIND,
            one: |memo, bytes| memo.object::<K>(bytes).map(|object| object as Object),
            list: |bytes| {
                let list: ObjectList<K> = api::read_list(bytes)?;
                let items = list.items.into_iter().map(|object| Arc::new(object) as Object).collect();
                Ok(ObjectList { items, resource_version: list.resource_version })
            },
        };
        let cache = Cache::start(ctx, api.client(), TypeId::of::<K>(), api.collection(), params, reads);
        Self { cache, kind: PhantomData }
    }

    /// Waits for the first list.
    pub async fn synced(&self) {
        self.cache.synced().await;
    }

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        owned(self.cache.state().objects.get(namespace)?.get(name)?)
    }

    /// Returns all objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        let state = self.cache.state();
        let mut list = Vec::with_capacity(state.len());
        state.each(&mut |object| list.extend(owned(object)));
        list
    }

    /// Returns the objects of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.cache.state();
        state.objects.get(namespace).into_iter().flat_map(BTreeMap::values).filter_map(owned).collect()
    }

    /// Visits the objects in order without copying the list.
    pub fn each(&self, mut read: impl FnMut(&K)) {
        self.cache.state().each(&mut |object| {
            if let Some(object) = seen(object) {
                read(object);
            }
        });
    }

    /// Stores an object that this process has just written, without a notification, so that the older state is not
    /// processed before the watch catches up (`cache.Store.Update`). A newer cached object stays.
    pub fn update(&self, object: &Arc<K>) {
        self.cache.update(object.clone());
    }

    /// Returns the newest version that the cache has seen (`LastStoreSyncResourceVersion`); 0 before the first list.
    pub fn version(&self) -> u128 {
        self.cache.state().version
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.cache.state().len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a receiver of all changes from now on, after the present objects as [`Delta::Applied`] without `old`.
    pub fn subscribe(&self) -> Changes<K> {
        Changes { from: self.cache.subscribe(), kind: PhantomData }
    }
}

/// Type-erased cache.
pub(super) struct Cache {
    state: Mutex<State>,
    synced: latest::Sender<bool>,
}

struct State {
    /// Objects by namespace and name. Most names are stored inline in the tree nodes, which keeps lookups local.
    objects: BTreeMap<Text, BTreeMap<Text, Object>>,
    subscribers: Vec<mpsc::UnboundedSender<Change>>,
    /// Version of the last list, event or bookmark.
    version: u128,
}

/// Decoders of a kind's objects.
#[derive(Clone, Copy)]
pub(super) struct Reads {
    pub(super) kind: &'static str,
    pub(super) one: fn(&Memo, &Bytes) -> Result<Object, serde_json::Error>,
    pub(super) list: fn(&[u8]) -> Result<ObjectList<Object>, ApiError>,
}

impl Cache {
    fn start(
        ctx: &Ctx,
        client: &Client,
        kind: TypeId,
        collection: String,
        params: ListParams,
        reads: Reads,
    ) -> Arc<Self> {
        let selection = format!(
            "{collection}?{}&{}",
            params.field_selector.as_deref().unwrap_or_default(),
            params.label_selector.as_deref().unwrap_or_default()
        );
        let mut shared = client.shared().informers.lock();
        let key = (kind, selection);
        if let Some(running) = shared.get(&key) {
            return running.clone();
        }
        let rng = Box::new(ctx.rng(&format!("informer {}", key.1)));
        let (cache, reflector) = Self::kept(ctx, client.informer_client(), collection, params, reads, rng);
        shared.insert(key, cache.clone());
        drop(shared);
        ctx.spawn(reflector.run());
        cache
    }

    /// Creates a cache that the client does not share, and the future that keeps it up to date.
    pub(super) fn alone(
        ctx: &Ctx,
        client: &Client,
        collection: String,
        reads: Reads,
    ) -> (Arc<Self>, impl Future<Output = ()> + use<>) {
        let rng = Box::new(ctx.rng(&format!("metadata of {collection}")));
        let (cache, reflector) = Self::kept(ctx, client.clone(), collection, ListParams::default(), reads, rng);
        (cache, reflector.run())
    }

    fn kept(
        ctx: &Ctx,
        client: Client,
        collection: String,
        params: ListParams,
        reads: Reads,
        rng: Box<dyn Rng + Send>,
    ) -> (Arc<Self>, Reflector) {
        let cache = Arc::new(Self {
            state: Mutex::new(State { objects: BTreeMap::new(), subscribers: Vec::new(), version: 0 }),
            synced: latest::Sender::new(false),
        });
        let (ctx, backoff) = (ctx.clone(), Backoff::reflector());
        let reflector = Reflector { ctx, client, collection, params, reads, rng, backoff, cache: cache.clone() };
        (cache, reflector)
    }

    pub(super) async fn synced(&self) {
        // The sender lives in `self`.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Records that the cache has all changes up to this version.
    fn reached(&self, version: &str) {
        if let Ok(version) = version.parse() {
            self.state().version = version;
        }
    }

    fn update(&self, object: Object) {
        let version = |of: &Object| of.resource_version().parse::<u128>().unwrap_or_default();
        let mut state = self.state();
        let names = state.objects.get_mut(object.namespace());
        if let Some(slot) = names.and_then(|names| names.get_mut(object.name()))
            && version(slot) < version(&object)
        {
            *slot = object;
        }
    }

    pub(super) fn subscribe(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.each(&mut |new| {
            // The receiver is still here.
            let _ = sender.send(Change::Applied { old: None, new: new.clone() });
        });
        state.subscribers.push(sender);
        receiver
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn apply(&self, new: Object) {
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
        state.deliver(Change::Applied { old, new });
    }

    fn delete(&self, object: Object) {
        let mut state = self.state();
        if let Some(names) = state.objects.get_mut(object.namespace()) {
            names.remove(object.name());
            if names.is_empty() {
                state.objects.remove(object.namespace());
            }
        }
        state.deliver(Change::Deleted(object));
    }

    /// Applies a list: missing objects are deleted, objects of another version are changed. `keeps` is a seeded bug
    /// that keeps missing objects.
    fn replace(&self, items: Vec<Object>, keeps: bool) {
        let mut next: BTreeMap<Text, BTreeMap<Text, Object>> = BTreeMap::new();
        let mut state = self.state();
        let mut changes = Vec::new();
        for object in items {
            let old = state.objects.get_mut(object.namespace()).and_then(|names| names.remove(object.name()));
            let object = match old {
                Some(old) if old.resource_version() == object.resource_version() => old,
                old => {
                    changes.push(Change::Applied { old, new: object.clone() });
                    object
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
        changes.extend(gone.into_values().flat_map(BTreeMap::into_values).map(Change::Deleted));
        for change in changes {
            state.deliver(change);
        }
        drop(state);
        self.synced.send_replace(true);
    }
}

impl State {
    fn len(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    fn each(&self, read: &mut dyn FnMut(&Object)) {
        self.objects.values().flat_map(BTreeMap::values).for_each(read);
    }

    fn deliver(&mut self, change: Change) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

struct Reflector {
    ctx: Ctx,
    client: Client,
    collection: String,
    params: ListParams,
    reads: Reads,
    rng: Box<dyn Rng + Send>,
    backoff: Backoff,
    cache: Arc<Cache>,
}

impl Reflector {
    async fn run(mut self) {
        // A relist after 410 asks for the latest state, not for the server's cache (client-go `relistResourceVersion`).
        let mut from = Some("0");
        loop {
            match self.list(from).await {
                Ok(list) => {
                    self.cache.replace(list.items, mutant!(self.ctx, "informer-keeps-deleted"));
                    self.cache.reached(&list.resource_version);
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
                // client-go's range, between 5 and 10 minutes, which spreads the load.
                timeout_seconds: Some(between(&mut self.rng, 300, 600)),
            };
            let end = match Lines::open(&self.client, &params.path(self.collection.clone())).await {
                Err(e) => Err(e),
                Ok(mut stream) => loop {
                    match stream.next().await {
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

    fn list(&self, version: Option<&str>) -> impl Future<Output = Result<ObjectList<Object>, ApiError>> + use<> {
        let text = api::request_list(&self.client, self.collection.clone(), &self.params, version);
        let read = self.reads.list;
        async move { read(&text.await?) }
    }

    fn read(&self, line: &Bytes) -> Result<WatchEvent<Object>, ApiError> {
        let memo = &self.client.shared().memo;
        watch::parse(line, |bytes| (self.reads.one)(memo, bytes))
    }

    fn take(&self, event: WatchEvent<Object>, version: &mut String) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                object.resource_version().clone_into(version);
                self.cache.apply(object);
            }
            WatchEvent::Deleted(object) => {
                object.resource_version().clone_into(version);
                self.cache.delete(object);
            }
            WatchEvent::Bookmark(at) => *version = at,
        }
        self.cache.reached(version);
    }

    fn trouble(&self, verb: &str, e: &ApiError) {
        self.ctx.trace().emit_lazily(self.ctx.name(), || InformerError {
            of: self.reads.kind.into(),
            verb: verb.into(),
            error: e.to_string(),
        });
    }

    async fn wait(&mut self) {
        let step = self.backoff.next(self.ctx.now().mono, &mut self.rng);
        self.ctx.sleep(step).await;
    }
}
