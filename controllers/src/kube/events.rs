//! Recording of core/v1 Events (client-go `tools/record`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use substrate::json::{Text, Value, json};
use substrate::process::Ctx;
use substrate::seed::between;
use tokio::sync::mpsc;

use super::client::Client;
use super::correlator::{Correlated, Correlator, REFILL, SIMILAR_WITHIN};
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

/// Call of [`EventRecorder::event`].
pub(super) struct Occurrence {
    pub(super) object: Arc<ObjectReference>,
    pub(super) kind: Text,
    pub(super) reason: Text,
    pub(super) message: Text,
    pub(super) at: Timestamp,
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
            correlator: Correlator::new(ctx.scaled(SIMILAR_WITHIN), ctx.scaled(REFILL)),
            names: Names { last: 0, rng: Box::new(ctx.rng(&format!("events of {component}"))) },
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

/// Returns `drawn`, or a number after `last` if both are of one millisecond.
fn ascending(drawn: u64, last: u64) -> u64 {
    if drawn / NANOS == last / NANOS { drawn.max(last + 1) } else { drawn }
}

/// Builds the patch for a repeated Event (`eventObserve`): it always contains count, time and message.
fn repeated(event: &Correlated, at: Timestamp) -> Result<Patch, ApiError> {
    let old = Event { last_timestamp: Some(time(Timestamp::UNIX_EPOCH)), ..Event::default() };
    let new = Event {
        count: Some(event.count),
        last_timestamp: Some(time(at)),
        message: Some(event.message.to_string()),
        ..Event::default()
    };
    Patch::strategic(&old, &new)
}

/// Names of Events. As upstream, they end in the time in nanoseconds. Virtual time stands still within an instant, so the
/// part below a millisecond is random: two components may report the same object at once. Clients list Events by name, so
/// the names of one component within an instant ascend.
struct Names {
    /// The number at the end of the last name.
    last: u64,
    rng: Box<dyn rand_core::Rng + Send>,
}

impl Names {
    fn next(&mut self, occurrence: &Occurrence) -> String {
        let drawn = occurrence.at.as_millisecond() as u64 * NANOS + between(&mut self.rng, 0, NANOS - 1);
        self.last = ascending(drawn, self.last);
        format!("{}.{:x}", occurrence.object.name.as_deref().unwrap_or_default(), self.last)
    }
}

struct Sink {
    client: Client,
    component: String,
    host: String,
    correlator: Correlator,
    names: Names,
}

/// Nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

impl Sink {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Occurrence>) {
        while let Some(occurrence) = inbox.recv().await {
            self.write(occurrence).await;
        }
    }

    /// Writes an Event (`recordEvent`), unless its source reports too many about the object.
    async fn write(&mut self, occurrence: Occurrence) {
        let Some(mut event) = self.correlator.correlate(&occurrence, || self.names.next(&occurrence)) else { return };
        let namespace =
            occurrence.object.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default").to_owned();
        let api = self.client.namespaced::<Event>(&namespace);
        if event.count > 1 {
            let Ok(patch) = repeated(&event, occurrence.at) else { return };
            match api.patch_unread(&event.name, &patch).await {
                // The Event has expired: create it again with its count.
                Err(e) if e.is_not_found() => {}
                _ => return,
            }
        }
        // The second attempt is for a name that another component drew at the same instant.
        for _ in 0..2 {
            match api.create_written(self.object(&occurrence, &event, &namespace)).await {
                Ok(()) => return,
                Err(e) if e.is_already_exists() => {
                    event.name = self.names.next(&occurrence);
                    self.correlator.renamed(&event.key, &event.name);
                }
                Err(e) => {
                    let ctx = self.client.ctx();
                    ctx.trace()
                        .emit_lazily(ctx.name(), || EventLost { reason: occurrence.reason, error: e.to_string() });
                    return;
                }
            }
        }
    }

    /// Builds the JSON by hand: no other kind is written as often, and this one is never read.
    fn object(&self, occurrence: &Occurrence, event: &Correlated, namespace: &str) -> Value {
        let Occurrence { object, kind, reason, at, .. } = occurrence;
        let Correlated { message, name, count, first, is_combined, .. } = event;
        // Upstream builds a combined Event without its reporter.
        let (component, host) = if *is_combined { ("", "") } else { (self.component.as_str(), self.host.as_str()) };
        let source = if self.host.is_empty() {
            json!({ "component": self.component })
        } else {
            json!({ "component": self.component, "host": self.host })
        };
        json!({
            "apiVersion": "v1",
            "count": count,
            "firstTimestamp": time(*first),
            "involvedObject": object,
            "kind": "Event",
            "lastTimestamp": time(*at),
            "message": message,
            "metadata": { "name": name, "namespace": namespace },
            "reason": reason,
            "reportingComponent": component,
            "reportingInstance": host,
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
