//! Calls of drivers: those without an answer, and those that the last event ended.

use std::collections::BTreeMap;

use csi_mock::events::{CsiCall, CsiDone};
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};

use super::CallKey;

/// Calls of drivers. A call ends with its answer or with its process.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: BTreeMap<CallKey, CsiCall>,
    ended: Vec<(CallKey, CsiCall)>,
}

impl Calls {
    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        self.ended.clear();
        if let Some(call) = event.get::<CsiCall>() {
            self.open.insert(CallKey::new(event, call.ordinal), call.clone());
        } else if let Some(done) = event.get::<CsiDone>() {
            self.ended.extend(self.open.remove_entry(&CallKey::new(event, done.ordinal)));
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            self.ended.extend(self.open.extract_if(.., |key, _| key.process == event.process));
        }
    }

    /// Returns the calls without an answer.
    pub fn open(&self) -> impl Iterator<Item = (&CallKey, &CsiCall)> {
        self.open.iter()
    }

    /// Returns the calls that the last event ended.
    pub fn ended(&self) -> impl Iterator<Item = (&CallKey, &CsiCall)> {
        self.ended.iter().map(|(key, call)| (key, call))
    }

    /// Returns the call that the last event, an answer, ended.
    pub fn answered(&self) -> Option<&CsiCall> {
        self.ended.first().map(|(_, call)| call)
    }
}

/// Describes a call: its RPC and its volume.
pub(crate) fn described(call: &CsiCall) -> String {
    format!("{} of {}", call.rpc, call.volume.as_deref().unwrap_or("the driver"))
}

/// Returns the path, name or id in a request; empty if it has none.
pub(crate) fn target(call: &CsiCall) -> &str {
    call.target.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use substrate::world::{Options, simulate};

    use super::*;

    #[test]
    fn a_call_ends_with_its_answer_or_with_its_process() {
        let events = simulate(Options::default(), async |world| {
            let trace = world.trace();
            for (process, ordinal) in [("csi-controller", 1), ("csi-controller", 2), ("node-a/csi-node", 1)] {
                trace.info(&process.into(), CsiCall::new("DeleteVolume", ordinal));
            }
            let (rpc, code) = ("DeleteVolume".into(), "OK".into());
            let (volume, node, message) = (None, None, None);
            trace.info(&"csi-controller".into(), CsiDone { rpc, volume, node, ordinal: 1, code, took_ms: 1, message });
            trace.info(&"csi-controller".into(), ProcessCrashed {});
            trace.events()
        });
        let (mut calls, mut ended) = (Calls::default(), Vec::new());
        for event in &events {
            calls.observe(event);
            ended.extend(calls.ended().map(|(_, call)| (event.n, call.ordinal)));
        }
        assert_eq!(ended, [(4, 1), (5, 2)]);
        assert_eq!(calls.open().map(|(key, _)| &*key.process).collect::<Vec<_>>(), ["node-a/csi-node"]);
    }
}
