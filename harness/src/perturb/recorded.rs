//! The record of a run: the calls of the programs, the journal, and the time at which the fault fires.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::events::CsiDone;
use fake_apiserver::events::RequestEnded as KubernetesRequest;
use indexmap::IndexMap;
use mock_ec2::events::RequestEnded as CloudRequest;
use substrate::events::FaultFired;
use substrate::fault::{Effect, Fault, Hit, Lease, Match, Moment, Plane, When};
use substrate::{Event, EventType as _, World};

use super::call::{DRIVER, ObservedCall};
use super::faults::{FAULT, GOES_ON};
use crate::events::{ProgramEnded, ProgramStarted, ScenarioStep};
use crate::model::Calls;
use crate::spec::ProgramSpec;

/// Prefix of the names of faults that only count.
const PROBE: &str = "heard";

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time in milliseconds since the start of the world.
    pub ms: u64,
    /// Description of the event.
    pub text: String,
}

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The calls of the programs, in order.
    pub observed: Vec<ObservedCall>,
    /// Start of each step in milliseconds.
    pub steps: Vec<u64>,
    /// Calls of the programs with their answers, and the faults that affected them.
    pub journal: Vec<Line>,
    /// Start time of each program in milliseconds.
    pub starts: Vec<(String, u64)>,
    /// Time of the first hit of the fault.
    pub fired: Option<u64>,
    /// Number of lines that each program had printed by then.
    pub printed: BTreeMap<String, u64>,
    /// Number of hits of the fault and of its continuation.
    pub hits: u64,
    /// Time of the last hit of the continuation.
    pub last_hit: Option<u64>,
}

impl Recorded {
    /// Returns the time from the first start of a program to its first call; the maximum of all programs.
    pub fn start_up(&self) -> Duration {
        let first = |name: &str, since: u64| {
            let own = |observed: &&ObservedCall| observed.program == name && observed.ms >= since;
            self.observed.iter().find(own).map_or(0, |observed| observed.ms - since)
        };
        let all = self.starts.iter().map(|(name, ms)| first(name, *ms));
        Duration::from_millis(all.max().unwrap_or(0))
    }
}

/// Records a run.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    recorded: Recorded,
    calls: Calls,
}

/// Returns the number of lines that each program has printed.
pub type Printed = Arc<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>;

impl Recorder {
    /// Starts to record `programs` in `world`.
    ///
    /// # Errors
    /// If a counting fault is refused; the catalogue accepts all of them.
    pub fn begin(world: &World, programs: &[ProgramSpec], printed: Printed) -> Result<Self, String> {
        let recorder = Self::default();
        let mut probes: BTreeMap<String, (Plane, String)> = BTreeMap::new();
        for (number, program) in programs.iter().enumerate() {
            for (plane, key, value) in places(program) {
                let fault = probe(number, plane, key, &value);
                probes.insert(fault.name.clone(), (plane, program.name.clone()));
                world.faults().add(world.clock().mono(), fault).map_err(|e| e.to_string())?;
            }
        }
        let observed = recorder.clone();
        world.faults().follow(move |hit| observed.hit(hit, &probes, &printed));
        world.trace().subscribe(KubernetesRequest::KIND);
        world.trace().subscribe(CloudRequest::KIND);
        let names: Vec<String> = programs.iter().map(|program| program.name.clone()).collect();
        let seen = recorder.clone();
        world.trace().observe(move |event| seen.event(event, &names));
        Ok(recorder)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Returns the record so far.
    pub fn recorded(&self) -> Recorded {
        self.state().recorded.clone()
    }

    /// Returns the number of calls of `program` since `ms`, without watch events.
    pub fn calls_since(&self, program: &str, ms: u64) -> u64 {
        let state = self.state();
        let own = state.recorded.observed.iter().rev().take_while(|observed| observed.ms >= ms);
        own.filter(|observed| observed.program == program && observed.what != super::call::What::Event).count() as u64
    }

    /// Returns the time of the last write of a program, in milliseconds.
    pub fn last_write(&self) -> u64 {
        let state = self.state();
        let writes = state.recorded.observed.iter().rev().find(|observed| {
            use super::call::What;
            !matches!(observed.what, What::Event | What::Read | What::CloudRead)
        });
        writes.map_or(0, |observed| observed.ms)
    }

    /// Returns true if the fault of the trial has fired.
    pub fn has_fired(&self) -> bool {
        self.state().recorded.fired.is_some()
    }

    /// Returns the time of the last start of a program, in milliseconds.
    pub fn last_start(&self) -> u64 {
        self.state().recorded.starts.last().map_or(0, |(_, ms)| *ms)
    }

    fn hit(&self, hit: &Hit, probes: &BTreeMap<String, (Plane, String)>, printed: &Printed) {
        if let Some((plane, program)) = probes.get(&hit.fault) {
            if let Some(observed) = ObservedCall::of(hit, *plane, program) {
                self.state().recorded.observed.push(observed);
            }
            return;
        }
        if hit.fault == FAULT || hit.fault == GOES_ON {
            let first = self.state().recorded.fired.is_none();
            let lines = if first { printed() } else { BTreeMap::new() };
            let mut state = self.state();
            state.recorded.hits += 1;
            if first {
                state.recorded.fired = Some(hit.ms);
                state.recorded.printed = lines;
            }
            if hit.fault == GOES_ON {
                state.recorded.last_hit = Some(hit.ms);
            }
        }
    }

    fn event(&self, event: &Event, names: &[String]) {
        let is_own = |caller: &str| names.iter().any(|name| name == caller);
        let mut state = self.state();
        state.calls.observe(event);
        if let Some(ScenarioStep { does, .. }) = event.get() {
            state.recorded.steps.push(event.ms);
            return state.note(event.ms, format!("user: {does}"));
        }
        if let Some(request) = event.get::<KubernetesRequest>() {
            let reads = !request.reads.is_empty();
            let failed = request.status.is_none_or(|status| status >= 400);
            // Otherwise a polling controller would fill the journal with its lists and watches.
            if !is_own(&request.caller) || (reads && !failed) || request.resource == "leases" {
                return;
            }
            let status = request.status.map_or_else(|| "broken".to_owned(), |status| status.to_string());
            let below =
                if request.subresource.is_empty() { String::new() } else { format!(" {}", request.subresource) };
            let text = format!(
                "{}: {} {} {}{below}: {status}",
                request.caller, request.verb, request.resource, request.object
            );
            state.note(event.ms, text);
        } else if let Some(request) = event.get::<CloudRequest>() {
            if is_own(&request.caller) {
                let code = request.error.as_ref().map_or("OK", |code| code.as_str());
                state.note(event.ms, format!("{}: {}: {code}", request.caller, request.action));
            }
        } else if let Some(done) = event.get::<CsiDone>() {
            let Some(call) = state.calls.answered() else { return };
            if let Some(caller) = call.caller.as_ref().filter(|caller| is_own(caller)) {
                let node = call.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
                let text = format!("{caller}: {}{node}: {}", call.rpc, done.code);
                state.note(event.ms, text);
            }
        } else if let Some(fired) = event.get::<FaultFired>() {
            if fired.fault == FAULT {
                let effect = substrate::encode::text(&fired.effect);
                state.note(event.ms, format!("fault: {} {effect}", fired.op));
            }
        } else if let Some(ProgramStarted { starts, .. }) = event.get() {
            state.recorded.starts.push((event.process.to_string(), event.ms));
            state.note(event.ms, format!("{} starts for the {} time", event.process, ordinal(*starts)));
        } else if let Some(ProgramEnded { how, .. }) = event.get() {
            state.note(event.ms, format!("{} {how}", event.process));
        }
    }
}

impl State {
    fn note(&mut self, ms: u64, text: String) {
        self.recorded.journal.push(Line { ms, text });
    }
}

/// Returns the matches with which the calls of a program are counted.
fn places(program: &ProgramSpec) -> Vec<(Plane, &'static str, String)> {
    let mut places: Vec<(Plane, &'static str, String)> =
        [Plane::K8s, Plane::Ec2].map(|plane| (plane, "caller", program.name.clone())).to_vec();
    places.push(match program.is_driver() {
        true => (Plane::Link, "to", DRIVER.to_owned()),
        false => (Plane::Csi, "caller", program.name.clone()),
    });
    places
}

fn probe(number: usize, plane: Plane, key: &str, value: &str) -> Fault {
    let attributes: IndexMap<String, String> = [(key.to_owned(), value.to_owned())].into_iter().collect();
    Fault {
        name: format!("{PROBE}-{number}-{}", plane.name()),
        matches: Match { plane, op: (plane == Plane::Link).then(|| "request".into()), attributes },
        when: When::default(),
        effect: Effect::Count(true),
        at: Moment::Before,
        lease: Lease::default(),
    }
}

fn ordinal(n: u32) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}
