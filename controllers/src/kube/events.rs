//! Recording of core/v1 Events (client-go `tools/record`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use substrate::json::{Text, Value, json};
use substrate::process::Ctx;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::client::Client;
use super::error::ApiError;
use super::object::time;
use super::patch::Patch;
use crate::events::{EventLost, EventRecorded};

/// Recorder that writes events in the background. Clones share it.
#[derive(Clone)]
pub struct EventRecorder(Arc<Inner>);

struct Inner {
    ctx: Ctx,
    component: Arc<str>,
    sender: mpsc::UnboundedSender<Occurrence>,
}

struct Occurrence {
    object: Arc<ObjectReference>,
    kind: Text,
    reason: Text,
    message: Text,
    at: Timestamp,
}

impl EventRecorder {
    /// Creates a recorder whose events have `component` as source and reporting component.
    pub fn new(client: &Client, component: &str) -> Self {
        Self::on_host(client, component, "")
    }

    /// Creates a recorder of one host, like the kubelet's.
    pub fn on_host(client: &Client, component: &str, host: &str) -> Self {
        let ctx = client.ctx().clone();
        let (sender, inbox) = mpsc::unbounded_channel();
        let sink = Sink {
            client: client.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            seen: BTreeMap::new(),
            last: 0,
            rng: Box::new(ctx.rng(&format!("events of {component}"))),
        };
        ctx.spawn(sink.run(inbox));
        Self(Arc::new(Inner { ctx, component: component.into(), sender }))
    }

    /// Records that `reason` happened to `object`; `kind` is `Normal` or `Warning`. Never waits, never fails: as
    /// upstream, an event is lost if its write fails.
    pub fn event(&self, object: impl Into<Arc<ObjectReference>>, kind: &str, reason: &str, message: impl Into<String>) {
        let object = object.into();
        let (kind, reason, message) = (Text::from(kind), Text::from(reason), Text::from(message.into()));
        self.0.ctx.emit(EventRecorded {
            source: self.0.component.clone(),
            reason: reason.clone(),
            r#type: kind.clone(),
            object: path(&object).into(),
            message: message.clone(),
        });
        let at = self.0.ctx.now().wall;
        // The sink ends only with the process.
        let _ = self.0.sender.send(Occurrence { object, kind, reason, message, at });
    }
}

/// Returns `pod/default/db-0` or `node/node-a`.
fn path(object: &ObjectReference) -> String {
    let kind = object.kind.as_deref().unwrap_or_default().to_lowercase();
    let name = object.name.as_deref().unwrap_or_default();
    match object.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{kind}/{namespace}/{name}"),
        _ => format!("{kind}/{name}"),
    }
}

/// Returns the key of an Event object: events with the same object, type, reason and message increase its count.
fn key(occurrence: &Occurrence) -> String {
    let Occurrence { object, kind, reason, message, .. } = occurrence;
    let of = [&object.kind, &object.namespace, &object.name, &object.field_path, &object.uid]
        .map(|field| field.as_deref().unwrap_or(""));
    [of[0], of[1], of[2], of[3], of[4], kind, reason, message].join("\0")
}

/// Returns `drawn`, or a number after `last` if both are of one millisecond.
fn ascending(drawn: u64, last: u64) -> u64 {
    if drawn / NANOS == last / NANOS { drawn.max(last + 1) } else { drawn }
}

/// Builds the patch for a repeated Event (`eventObserve`): it always contains count, time and message.
fn repeated(count: i32, occurrence: &Occurrence) -> Result<Patch, ApiError> {
    let old = Event { last_timestamp: Some(time(Timestamp::UNIX_EPOCH)), ..Event::default() };
    let new = Event {
        count: Some(count),
        last_timestamp: Some(time(occurrence.at)),
        message: Some(occurrence.message.to_string()),
        ..Event::default()
    };
    Patch::strategic(&old, &new)
}

struct Seen {
    name: String,
    count: i32,
}

struct Sink {
    client: Client,
    component: String,
    host: String,
    /// Events by [`key`].
    seen: BTreeMap<String, Seen>,
    /// The number at the end of the last name.
    last: u64,
    rng: Box<dyn rand_core::Rng + Send>,
}

/// Size of client-go's cache; older keys start a new count.
const MAX_KEYS: usize = 4096;
/// Nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

impl Sink {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Occurrence>) {
        while let Some(occurrence) = inbox.recv().await {
            self.write(occurrence).await;
        }
    }

    async fn write(&mut self, occurrence: Occurrence) {
        let key = key(&occurrence);
        let namespace =
            occurrence.object.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default").to_owned();
        let api = self.client.namespaced::<Event>(&namespace);
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.count += 1;
            let Ok(patch) = repeated(seen.count, &occurrence) else { return };
            match api.patch_unread(&seen.name, &patch).await {
                // The Event has expired: create a new one with its count.
                Err(e) if e.is_not_found() => {}
                _ => return,
            }
        }
        let count = self.seen.get(&key).map_or(1, |seen| seen.count);
        // The second attempt is for a name that another component drew at the same instant.
        for _ in 0..2 {
            let name = self.name(&occurrence);
            match api.create_written(self.object(&occurrence, &name, &namespace, count)).await {
                Ok(()) => {
                    if self.seen.len() >= MAX_KEYS {
                        self.seen.pop_first();
                    }
                    self.seen.insert(key, Seen { name, count });
                    return;
                }
                Err(e) if e.is_already_exists() => {}
                Err(e) => {
                    let ctx = self.client.ctx();
                    ctx.trace()
                        .emit_lazily(ctx.name(), || EventLost { reason: occurrence.reason, error: e.to_string() });
                    return;
                }
            }
        }
    }

    /// Returns the Event's name. As upstream, it ends in the time in nanoseconds. Virtual time stands still within an
    /// instant, so the part below a millisecond is random: two components may report the same object at once. Clients
    /// list Events by name, so the names of one component within an instant ascend.
    fn name(&mut self, occurrence: &Occurrence) -> String {
        let drawn = occurrence.at.as_millisecond() as u64 * NANOS + between(&mut self.rng, 0, NANOS - 1);
        self.last = ascending(drawn, self.last);
        format!("{}.{:x}", occurrence.object.name.as_deref().unwrap_or_default(), self.last)
    }

    /// Builds the JSON by hand: no other kind is written as often, and this one is never read.
    fn object(&self, occurrence: &Occurrence, name: &str, namespace: &str, count: i32) -> Value {
        let Occurrence { object, kind, reason, message, at } = occurrence;
        let at = json!(time(*at));
        let source = if self.host.is_empty() {
            json!({ "component": self.component })
        } else {
            json!({ "component": self.component, "host": self.host })
        };
        json!({
            "apiVersion": "v1",
            "count": count,
            "firstTimestamp": at.clone(),
            "involvedObject": object,
            "kind": "Event",
            "lastTimestamp": at,
            "message": message,
            "metadata": { "name": name, "namespace": namespace },
            "reason": reason,
            "reportingComponent": self.component,
            "reportingInstance": self.host,
            "source": source,
            "type": kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_within_a_millisecond_ascend() {
        assert_eq!(ascending(5_000_100, 5_000_900), 5_000_901);
        assert_eq!(ascending(5_000_900, 5_000_100), 5_000_900);
        assert_eq!(ascending(6_000_100, 5_000_900), 6_000_100);
        // A clock can go back.
        assert_eq!(ascending(4_000_100, 5_000_900), 4_000_100);
    }
}
