//! Tries rows of the fault catalogue in whole simulated clusters. Each accepted combination of plane, operation, moment
//! and effect is added to a scenario that reaches the operation. The fault must fire, and the trace must show its
//! effect compared with the run without it. An ordinary run tries a sample; `MOORING_CATALOGUE=whole` tries every row.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use harness::cluster::{Cluster, ClusterSpec, names};
use harness::scenario;
use serde_json::json;
use substrate::fault::catalogue::Operation;
use substrate::fault::{Fault, Kind, Moment, Plane};
use substrate::world::{World, simulate};
use tokio::sync::Notify;

mod evidence;
mod exceptions;
mod rows;
mod scenario_runs;

use evidence::{ObservedEvent, Scene};
use exceptions::{UNREACHED, UNSEEN};
use rows::{PLANES, ROW, Row};
use scenario_runs::{Met, ScenarioRun, all_scenario_runs, is_row, options, play};

/// Occurrences of the operation at which a row is tried. One is not enough: an answer that is not used, or that is the
/// same as before, changes nothing.
const TURNS: [u64; 4] = [1, 2, 4, 9];

/// Observations of a run with a fault.
#[derive(Default)]
struct Seen {
    /// Index of the next event of the run without the fault.
    at: usize,
    /// First operation that matched the fault, and its attributes.
    hit: Option<(String, BTreeMap<String, String>)>,
    fired: Option<ObservedEvent>,
    /// The value of `at` when the fault fired.
    from: usize,
    /// First difference: the event of the run without the fault, and the event seen instead.
    differs: Option<(Option<ObservedEvent>, Option<ObservedEvent>)>,
    /// Events after the fault fired.
    after: Vec<ObservedEvent>,
    shown: bool,
}

impl Seen {
    /// Returns true if the effect that the row of the fault promises is visible.
    fn shows(&self, scenario_run: &ScenarioRun, fault: &Fault, over: bool) -> bool {
        let (Some(fired), Some((op, about))) = (&self.fired, &self.hit) else { return false };
        let missed = self.differs.as_ref().and_then(|(usual, _)| usual.as_ref());
        let (before, usual) = scenario_run.events.split_at(self.from.min(scenario_run.events.len()));
        let (after, differs) = (&self.after, self.differs.is_some());
        Scene { fault, op, about, fired, before, usual, after, missed, differs, over }.shows()
    }
}

/// Time after the firing of a fault in which its effect must show, in milliseconds.
const TIMEOUT: u64 = 15 * 60_000;

/// Runs the scenario with `fault` until `enough` holds, at most for [`TIMEOUT`] after the fault fired.
fn compare(
    scenario_run: &'static ScenarioRun,
    fault: &Fault,
    enough: impl Fn(&Seen) -> bool + Send + Sync + 'static,
) -> Seen {
    let (seen, stop): (Arc<Mutex<Seen>>, Arc<Notify>) = <_>::default();
    let (state, stopped, first) = (seen.clone(), stop.clone(), seen.clone());
    let begin = |world: &World| {
        world.faults().add(world.clock().mono(), fault.clone()).unwrap();
        world.faults().follow(move |hit| {
            let about = || hit.attributes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            first.lock().hit.get_or_insert_with(|| (hit.op.clone(), about()));
        });
    };
    play(&scenario_run.scenario, &stop, begin, move |event| {
        let mut seen = state.lock();
        if is_row(event) {
            if seen.fired.is_none() {
                (seen.fired, seen.from) = (Some(ObservedEvent::of(event)), seen.at);
            }
            return;
        }
        let usual = scenario_run.events.get(seen.at);
        seen.at += 1;
        let Some(fired) = seen.fired.as_ref().map(|fired| fired.ms) else {
            // Before the fault fires nothing may differ. Comparing a part of the event is enough here.
            let same = usual.is_some_and(|t| t.ms == event.ms && t.kind == event.kind() && t.process == event.process);
            if !same && seen.differs.is_none() {
                seen.differs = Some((usual.cloned(), Some(ObservedEvent::of(event))));
                stopped.notify_one();
            }
            return;
        };
        let observed = ObservedEvent::of(event);
        if seen.differs.is_none() && usual != Some(&observed) {
            seen.differs = Some((usual.cloned(), Some(observed.clone())));
        }
        seen.after.push(observed);
        if event.ms > fired + TIMEOUT || enough(&seen) {
            stopped.notify_one();
        }
    });
    let mut seen = std::mem::take(&mut *seen.lock());
    if seen.differs.is_none() && seen.at < scenario_run.events.len() {
        seen.differs = Some((scenario_run.events.get(seen.at).cloned(), None));
    }
    seen
}

/// Runs the scenario with `fault` until the effect that its row promises is visible.
fn look(scenario_run: &'static ScenarioRun, fault: &Fault) -> Seen {
    let row = fault.clone();
    let mut seen = compare(scenario_run, fault, move |seen| seen.shows(scenario_run, &row, false));
    seen.shown = seen.shows(scenario_run, fault, true);
    seen
}

/// Tries a row. Returns none if its effect was seen, otherwise a message.
fn visit(row: &Row) -> Option<String> {
    let scenario_runs = row.scenario_runs();
    // The effect `count` has its own test below.
    if scenario_runs.is_empty() || row.possible.effect == Kind::Count {
        return None;
    }
    let mut tried = String::new();
    for turn in TURNS {
        for (scenario_run, times) in scenario_runs.iter().filter(|(_, times)| turn <= *times) {
            let seen = look(scenario_run, &row.fault(turn));
            let name = &scenario_run.scenario.name;
            let Some(fired) = &seen.fired else {
                return Some(format!("{row}: it never fired in {name}, turn {turn} of {times}: {:?}", seen.differs));
            };
            if seen.shown {
                return None;
            }
            let differs = match seen.differs {
                Some((Some(usual), _)) => {
                    format!("at {} {} has no {} at {}", fired.ms, usual.process, usual.kind, usual.ms)
                }
                Some((None, _)) => "more comes than without it".to_owned(),
                None => "the same trace".to_owned(),
            };
            let _ = write!(tried, " {name}/{turn}: {differs};");
            if row.lasts() {
                break;
            }
        }
    }
    for (scenario_run, _) in scenario_runs.iter().filter(|_| row.goes_on()) {
        // A cluster in which every list is stale from the start makes no progress.
        let begin = (row.operation.plane != Plane::K8s).then_some(0);
        for since in [begin, scenario_run.restart()].into_iter().flatten() {
            let seen = look(scenario_run, &row.fault_since(since));
            if seen.shown {
                return None;
            }
            let _ = write!(tried, " {} from {since} on;", scenario_run.scenario.name);
        }
    }
    Some(format!("{row}: nothing of it is seen ({tried}), and it says: {}", row.possible.shows))
}

/// Tries rows of these planes.
fn visit_all(planes: &[Plane]) {
    visit_those(planes, |_| true);
}

/// Environment variable that selects the rows. `whole` selects all of them, as in the nightly run.
const WHICH: &str = "MOORING_CATALOGUE";

/// Returns the rows for a test run: all if [`WHICH`] says so, otherwise a sample. In the sample each operation occurs
/// at each of its moments, and each effect of a plane at each of its moments. The rows are sorted by a digest, so that
/// operations differ in their effects.
fn sample(mut rows: Vec<Row>) -> Vec<Row> {
    match std::env::var(WHICH).as_deref() {
        Ok("whole") => return rows,
        Ok(other) => panic!("{WHICH}={other}: it may be `whole`, or not set"),
        Err(_) => {}
    }
    let digest = |row: &Row| {
        row.to_string()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |d, byte| (d ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    rows.sort_by_cached_key(digest);
    let mut seen = BTreeSet::new();
    rows.retain(|row| {
        let plane = format!("{} {}", row.operation.plane.name(), row.possible.effect.name());
        let new = [row.operation(), plane].map(|what| seen.insert((what, row.at.name())));
        new.contains(&true)
    });
    rows
}

/// Tries rows of these planes whose operation satisfies `among`.
fn visit_those(planes: &[Plane], among: impl Fn(&Operation) -> bool) {
    let all: Vec<Row> = Row::of(planes).into_iter().filter(|row| among(row.operation)).collect();
    let (of, rows) = (all.len(), sample(all));
    let mut wrong = Vec::new();
    let mut visited = 0;
    for row in &rows {
        visited += usize::from(!row.scenario_runs().is_empty());
        let found = visit(row);
        let unseen = UNSEEN.iter().any(|(words, _)| *words == row.to_string());
        match (found, unseen) {
            (Some(why), false) => {
                eprintln!("{why}");
                wrong.push(why);
            }
            (None, true) => wrong.push(format!("{row}: it is in the list of what is not seen, and is seen")),
            _ => {}
        }
    }
    eprintln!("{visited} of {} rows reached, of {of} rows in all", rows.len());
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn rows_of_the_cloud() {
    visit_all(&[Plane::Ec2]);
}

#[test]
fn rows_of_kubernetes_that_read() {
    visit_those(&[Plane::K8s], |operation| operation.classes.contains(&"read"));
}

#[test]
fn rows_of_kubernetes_that_write_and_tell() {
    visit_those(&[Plane::K8s], |operation| !operation.classes.contains(&"read"));
}

#[test]
fn rows_of_the_driver() {
    visit_all(&[Plane::Csi]);
}

#[test]
fn rows_of_disks() {
    visit_all(&[Plane::Disk]);
}

#[test]
fn rows_of_links_and_processes() {
    visit_all(&[Plane::Link, Plane::Process]);
}

/// The effect `count` changes nothing. Every operation is reached by a scenario, or is listed in [`UNREACHED`].
#[test]
fn a_count_fault_changes_nothing() {
    for scenario_run in all_scenario_runs() {
        let events: Arc<Mutex<Vec<ObservedEvent>>> = Arc::default();
        let seen = events.clone();
        play(&scenario_run.scenario, &Notify::new(), |_| {}, move |event| seen.lock().push(ObservedEvent::of(event)));
        let events = std::mem::take(&mut *events.lock());
        assert!(events.len() > 100);
        let differs = events.iter().zip(&scenario_run.events).find(|(plain, counted)| plain != counted);
        assert_eq!((differs, events.len()), (None, scenario_run.events.len()), "{}", scenario_run.scenario.name);
    }
    let met: BTreeSet<Met> = all_scenario_runs().iter().flat_map(|s| s.reaches.keys().cloned()).collect();
    let is_met = |row: &Row| met.contains(&(row.operation.plane, row.operation.name.to_owned(), row.at));
    let rows = Row::of(&PLANES);
    let all: BTreeSet<String> = rows.iter().map(Row::operation).collect();
    let reached: BTreeSet<String> = rows.iter().filter(|row| is_met(row)).map(Row::operation).collect();
    let listed: BTreeSet<String> = UNREACHED.iter().map(|(plane, op, _)| format!("{} {op}", plane.name())).collect();
    let unreached: BTreeSet<String> = all.difference(&reached).cloned().collect();
    assert_eq!(unreached, listed, "not listed: {:?}", unreached.difference(&listed));
    // If an operation is reached, each of its moments is.
    let missing: Vec<String> =
        rows.iter().filter(|row| reached.contains(&row.operation()) && !is_met(row)).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The moment within an operation at which a process ends makes a difference, and so does the process.
#[test]
fn each_process_and_each_moment_of_its_end_differs() {
    let calls = [
        (Plane::Csi, "NodeStageVolume", "node-a/csi-node"),
        (Plane::Csi, "ControllerPublishVolume", "csi-controller"),
        (Plane::Ec2, "AttachVolume", "mock-ec2"),
        (Plane::K8s, "update", "fake-apiserver"),
        (Plane::Disk, "stage", "node-a/csi-node"),
    ];
    let run = |plane: Plane, op: &str, at: Moment, effect: serde_json::Value| {
        let fault = json!({
            "name": ROW, "match": { "plane": plane, "op": op }, "when": { "first": 1 }, "effect": effect, "at": at,
        });
        let fault = serde_json::from_value(fault).unwrap();
        let seen = compare(&all_scenario_runs()[0], &fault, |seen| seen.after.len() >= 60);
        assert!(seen.fired.is_some() && seen.after.len() >= 20, "{op} {at:?}");
        seen.after
    };
    for (plane, op, process) in calls {
        let catalogue = names::catalogue(&ClusterSpec::of_nodes(1));
        let operation = catalogue.operations().find(|o| o.plane == plane && o.name == op).unwrap();
        let ends: Vec<_> =
            operation.moments.iter().map(|at| (at, run(plane, op, *at, json!({ "crash": "self" })))).collect();
        let ((_, first), later) = ends.split_first().unwrap();
        for (at, one) in &ends {
            assert!(one.iter().any(|t| t.kind == "process.crashed" && &*t.process == process), "{op} {at:?}");
        }
        // The driver loses the memory of what it did between its last two moments.
        for (at, one) in later {
            assert_ne!(one, first, "{process} ends in {op} at {at:?} as before it");
        }
    }
    let others = ["kube-controller-manager", "kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer"];
    let on_node = ["csi-controller", "node-a/kubelet", "node-a/csi-node", "mock-ec2", "fake-apiserver", "controllers"];
    let mut ends: Vec<(String, Vec<ObservedEvent>)> = Vec::new();
    for who in others.into_iter().chain(on_node) {
        for at in [Moment::Before, Moment::AfterEffect] {
            ends.push((format!("{who} {at:?}"), run(Plane::Csi, "NodeStageVolume", at, json!({ "crash": who }))));
        }
    }
    ends.push((
        "machine".to_owned(),
        run(Plane::Csi, "NodeStageVolume", Moment::Before, json!({ "reboot": "node-a" })),
    ));
    for (i, (who, one)) in ends.iter().enumerate() {
        for (other, another) in &ends[..i] {
            assert_ne!(one, another, "the end of {who} in NodeStageVolume is that of {other}");
        }
    }
}

/// A skewed clock shows in the timestamps that its process writes.
#[test]
fn rows_of_clocks() {
    let times = |skewed: bool| {
        simulate(options(), async |world| {
            let cluster =
                Cluster::simulate(&world, ClusterSpec { leader_elect: true, ..ClusterSpec::of_nodes(1) }).unwrap();
            if skewed {
                for row in Row::of(&[Plane::Clock]).iter().filter(|row| row.possible.effect == Kind::Skew) {
                    world.faults().add(world.clock().mono(), row.fault(1)).unwrap();
                }
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
            let leases = cluster.objects().list(scenario::Kind::of_word("lease").unwrap()).await.unwrap();
            let fired = world.trace().events().iter().filter(|e| is_row(e)).count();
            let time =
                |lease: &substrate::json::Value| lease["spec"]["renewTime"].as_str()?.parse::<jiff::Timestamp>().ok();
            (leases.iter().filter_map(time).map(|t| t.as_second()).collect::<Vec<_>>(), fired)
        })
    };
    let ((usual, not_fired), (ahead, fired)) = (times(false), times(true));
    assert!(usual.len() > 3 && not_fired == 0 && fired > 0, "{usual:?} {not_fired} {fired}");
    assert_eq!(ahead, usual.iter().map(|t| t + 3600).collect::<Vec<_>>());
}
