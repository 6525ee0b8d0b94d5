//! Formats an event as a line of its component's log, in klog's form: severity and time, the kind of the event where
//! klog has the source line, the text of the kind, and its fields.

use std::collections::BTreeMap;
use std::fmt::Write;

use controllers::events::EventRecorded;
use controllers::machine::events::WorkloadSynced;
use fake_apiserver::events::{
    Commit, ListShown, ListWasStale, ObjectShown, ObjectStored, RequestEnded as KubernetesRequest, WatchClosed,
    WatchOpened, WatchSent, WatchSpoiled,
};
use jiff::Timestamp;
use substrate::events::{FaultFired, LinkReply, LinkRequest};
use substrate::json::Value;
use substrate::{Event, EventKind, EventType};

/// Kinds that are too frequent: messages, streams and their events, requests of the API server and their content, each
/// record of a writer.
const UNPRINTED: [&str; 12] = [
    LinkRequest::KIND,
    LinkReply::KIND,
    WatchOpened::KIND,
    WatchSent::KIND,
    WatchSpoiled::KIND,
    ListWasStale::KIND,
    WatchClosed::KIND,
    KubernetesRequest::KIND,
    ObjectStored::KIND,
    ObjectShown::KIND,
    ListShown::KIND,
    WorkloadSynced::KIND,
];

/// Log text of each kind of event.
#[derive(Debug)]
pub(crate) struct Wording(BTreeMap<&'static str, &'static str>);

impl Wording {
    /// Takes the first sentence of each kind's description.
    pub fn new(kinds: &[EventKind]) -> Self {
        let first = |about: &'static str| about.trim().split(". ").next().unwrap_or_default().trim_end_matches('.');
        Self(kinds.iter().map(|kind| (kind.kind, first(kind.about))).collect())
    }

    /// Returns the log line of an event. None for kinds that are not logged.
    pub fn line(&self, at: Timestamp, event: &Event) -> Option<String> {
        let kind = event.kind();
        let of_housekeeping =
            event.get::<Commit>().is_some_and(|commit| matches!(&*commit.resource, "leases" | "events"));
        if UNPRINTED.contains(&kind) || of_housekeeping {
            return None;
        }
        let fields = event.line().fields;
        let mut line = String::with_capacity(160);
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{}{}       1 {kind}] {}",
            severity(event, |name| fields.get(name).cloned()),
            at.strftime("%m%d %H:%M:%S.%6f"),
            quoted(self.0.get(kind).copied().unwrap_or(kind)),
        );
        for (name, value) in fields.iter() {
            let _ = write!(line, " {name}={}", shown(value));
        }
        Some(line)
    }
}

/// Severity letter of klog: E for an event with an error or a failed code, W for a Warning event or a fault.
fn severity(event: &Event, field: impl Fn(&str) -> Option<Value>) -> char {
    let failed = |name: &str| field(name).is_some_and(|value| !matches!(value, Value::Null) && value != "");
    let refused = field("code").is_some_and(|code| code != "OK");
    let warns = event.get::<EventRecorded>().is_some_and(|recorded| recorded.r#type == "Warning");
    match (failed("error") || refused, warns || event.is::<FaultFired>()) {
        (true, _) => 'E',
        (false, true) => 'W',
        (false, false) => 'I',
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
    }
}

/// Quotes a text on one line.
fn quoted(text: &str) -> String {
    substrate::encode::text(text)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::time::Duration;

    use csi_mock::events::CsiDone;
    use substrate::{Level, Now, Trace};

    use super::*;

    /// Returns the log lines of the recorded events.
    fn lines(record: impl FnOnce(&Trace, &Arc<str>)) -> Vec<String> {
        let wording = Wording::new(&crate::events::all());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let trace = Trace::new(substrate::Clock::live(), Level::Info);
        let sink = reported.clone();
        trace.observe(move |event| sink.lock().extend(wording.line(Now::at(Duration::from_millis(1_500)).wall, event)));
        record(&trace, &"c".into());
        std::mem::take(&mut *reported.lock())
    }

    #[test]
    fn a_line_is_klogs() {
        let done = |code: &str, message: Option<&str>| CsiDone {
            rpc: "ControllerPublishVolume".into(),
            volume: Some("vol-1".into()),
            node: None,
            ordinal: 3,
            code: code.into(),
            took_ms: 12,
            message: message.map(str::to_owned),
        };
        let reported = lines(|trace, c| {
            trace.info(c, done("OK", None));
            trace.info(c, done("INTERNAL", Some("a \"b\"\nc")));
        });
        assert_eq!(
            reported[0],
            "I0101 00:00:01.500000       1 csi.done] \"A call of the driver ended\" code=\"OK\" ordinal=3 \
             rpc=\"ControllerPublishVolume\" took_ms=12 volume=\"vol-1\""
        );
        assert!(reported[1].starts_with('E') && reported[1].contains(r#" message="a \"b\"\nc" "#), "{}", reported[1]);
    }

    #[test]
    fn warnings_are_warnings_and_what_happens_all_the_time_is_left_out() {
        let reported = lines(|trace, c| {
            let (source, object) = ("x".into(), "pod/default/web".into());
            trace.info(
                c,
                EventRecorded { source, reason: "R".into(), r#type: "Warning".into(), object, message: "m".into() },
            );
            trace.show_observers(c, || WatchClosed { stream: 1 });
        });
        assert_eq!(reported.len(), 1);
        assert!(
            reported[0].starts_with("W0101 ") && reported[0].ends_with("source=\"x\" type=\"Warning\""),
            "{}",
            reported[0]
        );
    }
}
