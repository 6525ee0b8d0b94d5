//! The scenarios that the rows are tried in, each with its trace without a fault and the operations that it reaches.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use harness::cluster::{Cluster, ClusterSpec};
use harness::runner;
use harness::scenario::{self, Scenario};
use serde_json::json;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::fault::catalogue::ALL;
use substrate::fault::{Fault, Moment, Plane};
use substrate::world::{Options, World, simulate};
use substrate::{Event, EventType, Level};
use tokio::sync::Notify;

use crate::catalogue::evidence::ObservedEvent;
use crate::catalogue::rows::{PLANES, ROW};

/// A claim, a pod that writes to it, and their later changes.
pub const EXPANSION: &str = include_str!("../../../../scenarios/expansion.yaml");
pub const FIRST_VOLUME: &str = include_str!("../../../../scenarios/first-volume.yaml");
/// Cloud operations that no control loop calls.
pub const BY_HAND: &str = include_str!("by-hand.yaml");
pub const BLOCK: &str = include_str!("../../../../scenarios/block.yaml");
/// Two volumes that are created, grow and are deleted at the same time.
pub const BOTH_AT_ONCE: &str = include_str!("both-at-once.yaml");

/// The scenarios that take long.
pub const LONG: [&str; 3] = ["files-and-power", "bytes-and-power", "two-volumes"];

/// Returns the scenarios, each with its own name. Faults end before a teardown, so each scenario deletes its objects.
pub fn scenario_runs() -> Vec<Scenario> {
    const END: &str = "  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone, within: 5m}
  - delete: {object: pvc/data}
  - wait: {object: pvc/data, is: gone, within: 5m}
  - sleep: 20s
teardown: false
";
    let one = |text: &str| text.replacen("nodes: {count: 3}", "nodes: {count: 1}", 1);
    // The filesystem has an fsGroup, and the kubelet finds its mounts when it starts again.
    let restart = "  - crash: node-a/kubelet\n  - sleep: 2s\n  - restart: node-a/kubelet\n  - sleep: 30s\n";
    let group = one(FIRST_VOLUME).replacen("name: first-volume", "name: group-and-restart", 1).replacen(
        "        containers:",
        "        securityContext: {fsGroup: 2000}\n        containers:",
        1,
    ) + restart;
    // The same for a raw block device, without a move.
    let (raw, _) = BLOCK.split_once("  - name: move").unwrap();
    let raw = raw.replacen("nodes: {count: 2}", "nodes: {count: 1}", 1) + restart;
    // Machines lose their power, and with it the data that was not synced.
    let named = |text: &str, name: &str| {
        let (_, rest) = text.split_once("name: ").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        format!("name: {name}\n{rest}")
    };
    let power = "  - crash: node-a\n  - sleep: 2s\n  - restart: node-a\n  - sleep: 40s\n";
    let files_and_power = named(&one(FIRST_VOLUME), "files-and-power") + power;
    let bytes_and_power = named(&raw, "bytes-and-power") + power;
    // A second volume is attached to the same instance.
    let (_, first) = FIRST_VOLUME.split_once("steps:\n").unwrap();
    let (first, _) = first.split_once("  - wait:").unwrap();
    let second = first.replace("name: claim", "name: claim-2").replace("name: pod", "name: pod-2");
    let second = second.replace("{name: data}", "{name: more}").replace("{name: web}", "{name: other}");
    let second = second.replace("{claimName: data}", "{claimName: more}");
    let two = named(&one(FIRST_VOLUME), "two-volumes")
        + &second
        + "  - wait: {object: pod/other, records: 3, within: 5m}\n  - delete: {object: pod/other}\n"
        + "  - wait: {object: pod/other, is: gone, within: 5m}\n  - delete: {object: pvc/more}\n"
        + "  - wait: {object: pvc/more, is: gone, within: 5m}\n";
    let texts = [one(FIRST_VOLUME), EXPANSION.to_owned(), raw, group, files_and_power, bytes_and_power, two];
    let read = |text: &String| {
        scenario::parse("test.yaml", &format!("{text}{END}")).unwrap_or_else(|e| panic!("{}", e.render(false, 100)))
    };
    let whole =
        |(name, text): (&str, &str)| scenario::parse(name, text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let whole = [("by-hand.yaml", BY_HAND), ("both-at-once.yaml", BOTH_AT_ONCE)].into_iter().map(whole);
    texts.iter().map(read).chain(whole).collect()
}

/// An operation at a moment.
pub type Met = (Plane, String, Moment);

/// A scenario with its trace without a fault, and the operations that it reaches. Both come from a run in which every
/// operation is counted; a test compares its trace with that of a run without any fault.
pub struct ScenarioRun {
    pub scenario: Scenario,
    /// All events that observers receive.
    pub events: Vec<ObservedEvent>,
    /// Number of events before an operation first reached a moment, and how often it did.
    pub reaches: BTreeMap<Met, (usize, u64)>,
}

pub fn is_row(event: &Event) -> bool {
    event.get::<FaultFired>().is_some_and(|fired| fired.fault.starts_with(ROW))
}

pub fn options() -> Options {
    Options { watchdog: Some(Duration::from_secs(60)), level: Level::Trace, ..Options::default() }
}

/// Runs a scenario to its end or until `enough` is notified. Calls `begin` first and `see` for every event.
pub fn play(
    scenario: &Scenario,
    enough: &Notify,
    begin: impl FnOnce(&World),
    see: impl Fn(&Event) + Send + Sync + 'static,
) {
    simulate(options(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        // Events of the destruction of the world do not count.
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        world.trace().observe(move |event| {
            if !is_over.load(Ordering::Relaxed) {
                see(event);
            }
        });
        begin(&world);
        tokio::select! { biased;
            () = enough.notified() => {}
            _ = runner::run(scenario, &cluster, |_| {}) => {}
        }
        over.store(true, Ordering::Relaxed);
    });
}

impl ScenarioRun {
    fn of(scenario: Scenario) -> Self {
        let found: Arc<Mutex<BTreeMap<Met, (usize, u64)>>> = Arc::default();
        let events: Arc<Mutex<Vec<ObservedEvent>>> = Arc::default();
        let (seen, recorded, counted) = (events.clone(), events.clone(), found.clone());
        let begin = |world: &World| {
            for fault in counts() {
                // A plane without operations at this moment refuses the fault.
                let _ = world.faults().add(world.clock().mono(), fault);
            }
            world.faults().follow_while(move |hit, plane| {
                let now = recorded.lock().len();
                counted.lock().entry((plane, hit.op.clone(), hit.at)).or_insert((now, 0)).1 += 1;
                true
            });
        };
        play(&scenario, &Notify::new(), begin, move |event| {
            if !is_row(event) {
                seen.lock().push(ObservedEvent::of(event));
            }
        });
        let (events, reaches) = (std::mem::take(&mut *events.lock()), found.lock().clone());
        Self { scenario, events, reaches }
    }

    /// Returns true for the scenarios with power loss or with two volumes.
    pub fn is_long(&self) -> bool {
        LONG.contains(&self.scenario.name.as_str())
    }

    /// Returns the time in milliseconds of the first restart of a process, which then reads all state again.
    pub fn restart(&self) -> Option<u64> {
        let again =
            |t: &&ObservedEvent| t.kind == ProcessStarted::KIND && t.fields.iter().any(|(_, times)| *times == 2);
        self.events.iter().find(again).map(|t| t.ms)
    }
}

/// Returns a fault for each plane and moment that counts every operation.
pub fn counts() -> Vec<Fault> {
    let moments = |plane| ALL.iter().map(move |at| (plane, *at));
    let fault = |(plane, at): (Plane, Moment)| {
        let fault = json!({
            "name": format!("{ROW}-{}-{}", plane.name(), at.name()),
            "match": { "plane": plane },
            "effect": { "count": true },
            "at": at,
        });
        serde_json::from_value(fault).unwrap()
    };
    PLANES.into_iter().flat_map(moments).map(fault).collect()
}

pub fn all_scenario_runs() -> &'static [ScenarioRun] {
    static RUNS: OnceLock<Vec<ScenarioRun>> = OnceLock::new();
    RUNS.get_or_init(|| scenario_runs().into_iter().map(ScenarioRun::of).collect())
}
