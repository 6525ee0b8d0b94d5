//! The scheduler's Events of events.k8s.io/v1 (client-go `tools/events`). Occurrences that differ only in their text
//! are one Event, with a series from the second on.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use rand_core::Rng;
use substrate::process::Ctx;
use substrate::seed::{between, unit};
use tokio::sync::mpsc;

use crate::events::{EventLost, EventRecorded};
use crate::kube::{ApiError, Client, Guard, Kind, reference};
use crate::tick_schedule::TickSchedule;

/// Idle time after which a series ends (`finishTime`), and period of that check.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// Period of writing an ongoing series (`refreshTime`).
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// Attempts at a write while the API server is unreachable, and the wait between them, plus up to a quarter
/// (`maxTriesPerEvent`, `defaultSleepDuration`).
const TRIES: u32 = 12;
const BETWEEN: (Duration, f64) = (Duration::from_secs(10), 0.25);
/// Largest text of an Event (`NoteLengthLimit`), and the end of a shortened one.
const MAX_NOTE: usize = 1024;
const CUT: &str = " ...";

/// Recorder that writes events in the background. Clones share it.
#[derive(Clone)]
pub struct Recorder {
    ctx: Ctx,
    controller: Arc<str>,
    instance: Arc<str>,
    sender: mpsc::UnboundedSender<Event>,
    names: Arc<Mutex<Box<dyn Rng + Send>>>,
}

impl Recorder {
    /// Creates a recorder whose events have `controller` as reporting controller.
    pub fn new(client: &Client, controller: &str) -> Self {
        let ctx = client.ctx().clone();
        let (sender, inbox) = mpsc::unbounded_channel();
        let writer = Arc::new(Writer { client: client.clone(), cache: Mutex::default() });
        ctx.spawn(writer.run(inbox));
        Self {
            // Upstream uses the host name.
            instance: format!("{controller}-{}", ctx.name()).into(),
            controller: controller.into(),
            names: Arc::new(Mutex::new(Box::new(ctx.rng(&format!("events of {controller}"))))),
            ctx,
            sender,
        }
    }

    /// Records an action on a pod (`action`) and its reason. Never waits, never fails.
    pub fn event(&self, pod: &Pod, kind: &'static str, reason: &'static str, action: &'static str, note: &str) {
        let note = shortened(note);
        self.ctx.emit(EventRecorded {
            source: self.controller.clone(),
            reason: reason.into(),
            r#type: kind.into(),
            object: format!("pod/{}/{}", pod.namespace(), pod.name()).into(),
            message: note.as_str().into(),
        });
        let at = self.ctx.now().wall;
        let event = Event {
            metadata: ObjectMeta {
                name: Some(self.name(pod, at)),
                namespace: Some(pod.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(at)),
            reporting_controller: Some(self.controller.to_string()),
            reporting_instance: Some(self.instance.to_string()),
            action: Some(action.to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(reference(pod)),
            note: Some(note),
            type_: Some(kind.to_owned()),
            ..Event::default()
        };
        // The writer ends only with the process.
        let _ = self.sender.send(event);
    }

    /// Returns the pod's name with the time in nanoseconds; the part below a millisecond is random in virtual time.
    fn name(&self, pod: &Pod, at: Timestamp) -> String {
        let mut rng = self.names.lock();
        let millis = u64::try_from(at.as_millisecond()).unwrap_or_default();
        let nanos = millis.saturating_mul(1_000_000).saturating_add(between(&mut *rng, 0, 999_999));
        format!("{}.{nanos:x}", pod.name())
    }
}

fn shortened(note: &str) -> String {
    if note.len() <= MAX_NOTE {
        return note.to_owned();
    }
    let end = (0..=MAX_NOTE - CUT.len()).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
    format!("{}{CUT}", &note[..end])
}

/// Key of an Event (`eventKey`). It contains the object's version, but not the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: Option<String>,
    action: Option<String>,
    reason: Option<String>,
    regarding: [Option<String>; 4],
}

impl Key {
    fn of(event: &Event) -> Self {
        let identity = |reference: &ObjectReference| {
            let ObjectReference { namespace, name, uid, resource_version, .. } = reference.clone();
            [namespace, name, uid, resource_version]
        };
        Self {
            kind: event.type_.clone(),
            action: event.action.clone(),
            reason: event.reason.clone(),
            regarding: event.regarding.as_ref().map(identity).unwrap_or_default(),
        }
    }
}

/// Event as it was last written, or will be.
struct Known {
    event: Event,
    /// Time of the last occurrence.
    at: Duration,
}

#[derive(Default)]
struct Cache(BTreeMap<Key, Known>);

impl Cache {
    /// Adds an occurrence. Returns the Event to write: the first occurrence at once, the second as the start of a
    /// series. Later ones are only counted until the next write of the series.
    fn take(&mut self, event: Event, wall: Timestamp, now: Duration) -> Option<Event> {
        let key = Key::of(&event);
        let Some(known) = self.0.get_mut(&key) else {
            self.0.insert(key, Known { event: event.clone(), at: now });
            return Some(event);
        };
        known.at = now;
        if let Some(series) = &mut known.event.series {
            series.count = series.count.saturating_add(1);
            series.last_observed_time = MicroTime(wall);
            return None;
        }
        known.event.series = Some(EventSeries { count: 2, last_observed_time: MicroTime(wall) });
        Some(known.event.clone())
    }

    /// Drops Events without an occurrence since `before`. Returns the series among them for a last write.
    fn finish(&mut self, before: Duration) -> Vec<Event> {
        let over: Vec<_> = self.0.iter().filter(|(_, known)| known.at < before).map(|(key, _)| key.clone()).collect();
        let over = over.iter().filter_map(|key| self.0.remove(key)).map(|known| known.event);
        over.filter(|event| event.series.is_some()).collect()
    }

    fn series(&self) -> Vec<Event> {
        self.0.values().map(|known| &known.event).filter(|event| event.series.is_some()).cloned().collect()
    }
}

struct Writer {
    client: Client,
    cache: Mutex<Cache>,
}

impl Writer {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock()
    }

    async fn run(self: Arc<Self>, mut inbox: mpsc::UnboundedReceiver<Event>) {
        let ctx = self.client.ctx().clone();
        let begun = ctx.now().mono;
        let (finish, refresh) =
            (TickSchedule::new(begun, ctx.scaled(FINISH)), TickSchedule::new(begun, ctx.scaled(REFRESH)));
        let later = |ticks: &TickSchedule| ticks.at_or_after(ctx.now().mono, Some(ctx.now().mono));
        let (mut next_finish, mut next_refresh) = (later(&finish), later(&refresh));
        loop {
            // Without Events there is no timer.
            let idle = self.cache().0.is_empty();
            tokio::select! { biased;
                event = inbox.recv() => {
                    let Some(event) = event else { return pending().await };
                    if idle {
                        (next_finish, next_refresh) = (later(&finish), later(&refresh));
                    }
                    let now = ctx.now();
                    let due = self.cache().take(event, now.wall, now.mono);
                    due.into_iter().for_each(|event| self.clone().write(event));
                }
                () = ctx.sleep_until(next_finish), if !idle => {
                    let over = self.cache().finish(ctx.now().mono.saturating_sub(ctx.scaled(FINISH)));
                    over.into_iter().for_each(|event| self.clone().write(event));
                    next_finish = later(&finish);
                }
                () = ctx.sleep_until(next_refresh), if !idle => {
                    let series = self.cache().series();
                    series.into_iter().for_each(|event| self.clone().write(event));
                    next_refresh = later(&refresh);
                }
            }
        }
    }

    /// Writes an Event in the background: as a patch of its series, or as a new object (`attemptRecording`).
    fn write(self: Arc<Self>, event: Event) {
        let ctx = self.client.ctx().clone();
        ctx.clone().spawn(async move {
            let mut rng = ctx.rng(&format!("retries of event {}", event.name()));
            for _ in 0..TRIES {
                match self.record(&event).await {
                    Ok(()) => return,
                    // The first Event of the series was written meanwhile.
                    Err(e) if e.is_already_exists() && event.series.is_some() => {}
                    Err(e @ ApiError::Transport(_)) => lost(&ctx, &event, &e),
                    Err(e) => return lost(&ctx, &event, &e),
                }
                ctx.sleep(BETWEEN.0 + BETWEEN.0.mul_f64(BETWEEN.1 * unit(&mut rng))).await;
            }
        });
    }

    async fn record(&self, event: &Event) -> Result<(), ApiError> {
        let api = self.client.namespaced::<Event>(event.namespace());
        if event.series.is_some() {
            let before = Event { series: None, ..event.clone() };
            match api.strategic_patch(&before, event, Guard::None).await {
                // The Event has expired: create a new one.
                Err(e) if e.is_not_found() => {}
                written => return written.map(drop),
            }
        }
        api.create(event).await.map(drop)
    }
}

fn lost(ctx: &Ctx, event: &Event, error: &ApiError) {
    let reason = event.reason.as_deref().unwrap_or_default().into();
    ctx.trace().emit_lazily(ctx.name(), || EventLost { reason, error: error.to_string() });
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn event(version: &str, note: &str) -> Event {
        let regarding = ObjectReference {
            name: Some("p".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectReference::default()
        };
        Event { regarding: Some(regarding), note: Some(note.to_owned()), ..Event::default() }
    }

    #[test]
    fn the_second_occurrence_begins_a_series_and_more_are_counted() {
        let (mut cache, wall) = (Cache::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(cache.take(event("1", "why"), wall, S(0)).and_then(|e| e.series), None);
        let second = cache.take(event("1", "another why"), wall, S(1)).expect("a series");
        assert_eq!((second.note.as_deref(), second.series.map(|s| s.count)), (Some("why"), Some(2)));
        assert_eq!(cache.take(event("1", "why"), wall, S(2)), None);
        assert_eq!(cache.series()[0].series.as_ref().map(|s| s.count), Some(3));
        assert!(cache.take(event("2", "why"), wall, S(3)).is_some_and(|e| e.series.is_none()), "another version");
    }

    #[test]
    fn an_ended_event_is_forgotten_and_its_series_written_once_more() {
        let (mut cache, wall) = (Cache::default(), Timestamp::UNIX_EPOCH);
        for at in 0..3 {
            cache.take(event("1", "why"), wall, S(at));
        }
        cache.take(event("2", "why"), wall, S(5));
        assert_eq!(cache.finish(S(2)), Vec::new());
        let last: Vec<_> = cache.finish(S(6)).into_iter().map(|e| e.series.map(|s| s.count)).collect();
        assert_eq!((last, cache.0.len()), (vec![Some(3)], 0));
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = "é".repeat(600);
        let short = shortened(&long);
        assert!(short.len() <= MAX_NOTE && short.ends_with(CUT), "{}", short.len());
        assert_eq!(shortened("why"), "why");
    }
}
