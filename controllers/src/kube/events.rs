//! Recording of core/v1 Events (client-go `tools/record`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::json::json;
use substrate::process::Ctx;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::api::Patch;
use super::client::Client;
use super::error::ApiError;
use super::object::time;

/// Records events in the background. Clones are the same recorder.
#[derive(Clone)]
pub struct EventRecorder(Arc<Inner>);

struct Inner {
    ctx: Ctx,
    component: String,
    sender: mpsc::UnboundedSender<Occurrence>,
}

struct Occurrence {
    object: ObjectReference,
    kind: String,
    reason: String,
    message: String,
    at: Timestamp,
}

impl EventRecorder {
    /// A recorder whose events have `component` as source and reporting component.
    pub fn new(client: &Client, component: &str) -> Self {
        Self::on_host(client, component, "")
    }

    /// A recorder of one host, as the kubelet's is.
    pub fn on_host(client: &Client, component: &str, host: &str) -> Self {
        let ctx = client.ctx().clone();
        let (sender, inbox) = mpsc::unbounded_channel();
        let sink = Sink {
            client: client.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            seen: BTreeMap::new(),
            rng: Box::new(ctx.rng(&format!("events of {component}"))),
        };
        ctx.spawn(sink.run(inbox));
        Self(Arc::new(Inner { ctx, component: component.to_owned(), sender }))
    }

    /// Records that `reason` happened to `object`; `kind` is `Normal` or `Warning`. Never waits, never fails: as
    /// upstream, an event that cannot be written is lost.
    pub fn event(&self, object: &ObjectReference, kind: &str, reason: &str, message: impl Into<String>) {
        let message = message.into();
        self.0.ctx.emit(
            "k8s.event",
            json!({ "source": self.0.component, "reason": reason, "type": kind, "object": path(object), "message": message }),
        );
        let (kind, reason) = (kind.to_owned(), reason.to_owned());
        let at = self.0.ctx.now().wall;
        // The sink ends only with the process.
        let _ = self.0.sender.send(Occurrence { object: object.clone(), kind, reason, message, at });
    }
}

/// `pod/default/db-0` or `node/node-a`.
fn path(object: &ObjectReference) -> String {
    let kind = object.kind.as_deref().unwrap_or_default().to_lowercase();
    let name = object.name.as_deref().unwrap_or_default();
    match object.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{kind}/{namespace}/{name}"),
        _ => format!("{kind}/{name}"),
    }
}

/// An event of the same key is the same Event object with a higher count.
type Key = (String, String, String, String, String);

struct Seen {
    name: String,
    count: i32,
}

struct Sink {
    client: Client,
    component: String,
    host: String,
    seen: BTreeMap<Key, Seen>,
    rng: Box<dyn rand_core::Rng + Send>,
}

/// client-go's cache keeps as many keys; older ones are counted anew.
const MAX_KEYS: usize = 4096;

impl Sink {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Occurrence>) {
        while let Some(occurrence) = inbox.recv().await {
            self.write(occurrence).await;
        }
    }

    async fn write(&mut self, occurrence: Occurrence) {
        let object = &occurrence.object;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let id = format!("{}/{}/{}", text(&object.namespace), text(&object.name), text(&object.uid));
        let key: Key =
            (text(&object.kind), id, occurrence.kind.clone(), occurrence.reason.clone(), occurrence.message.clone());
        let namespace = object.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned());
        let api = self.client.namespaced::<Event>(&namespace);
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.count += 1;
            let patch = json!({
                "count": seen.count,
                "lastTimestamp": time(occurrence.at),
                "message": occurrence.message,
            });
            match api.patch_unread(&seen.name, &Patch::Strategic(patch)).await {
                // Its time to live is over: it starts anew, with its count.
                Err(e) if e.is_not_found() => {}
                _ => return,
            }
        }
        let count = self.seen.get(&key).map_or(1, |seen| seen.count);
        // A second try only meets a name that another component drew at the same instant.
        for _ in 0..2 {
            let event = self.object(&occurrence, &namespace, count);
            let name = text(&event.metadata.name);
            match api.create_unread(&event).await {
                Ok(()) => {
                    if self.seen.len() >= MAX_KEYS {
                        self.seen.pop_first();
                    }
                    self.seen.insert(key, Seen { name, count });
                    return;
                }
                Err(e) if e.is_already_exists() => {}
                Err(e @ (ApiError::Status(_) | ApiError::Decode(_) | ApiError::Transport(_))) => {
                    self.client.ctx().trace().trace(
                        self.client.ctx().name(),
                        "event.lost",
                        || json!({ "reason": occurrence.reason, "error": e.to_string() }),
                    );
                    return;
                }
            }
        }
    }

    fn object(&mut self, occurrence: &Occurrence, namespace: &str, count: i32) -> Event {
        // As upstream, the name ends in the nanoseconds of the moment. Virtual time stands still within an instant,
        // so the part below a millisecond is drawn: two components may speak of one object at once.
        let nanos = occurrence.at.as_millisecond() as u64 * 1_000_000 + between(&mut self.rng, 0, 999_999);
        let base = occurrence.object.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{base}.{nanos:x}")),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: occurrence.object.clone(),
            type_: Some(occurrence.kind.clone()),
            reason: Some(occurrence.reason.clone()),
            message: Some(occurrence.message.clone()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: (!self.host.is_empty()).then(|| self.host.clone()),
            }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.host.clone()),
            first_timestamp: Some(time(occurrence.at)),
            last_timestamp: Some(time(occurrence.at)),
            count: Some(count),
            ..Event::default()
        }
    }
}
