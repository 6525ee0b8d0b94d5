//! Every row of the fault catalogue, in whole simulated clusters: each (plane, operation, moment, effect) that it accepts
//! is put into a story that reaches the operation, fires, and the trace from there on is another than without it.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use harness::cluster::{Cluster, ClusterSpec, names};
use harness::runner;
use harness::scenario::{self, Scenario};
use serde_json::json;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::fault::catalogue::{ALL, Operation, Possible, Values};
use substrate::fault::{Fault, Kind, Moment, Plane, Span, When};
use substrate::world::{Options, World, simulate};
use substrate::{Event, EventType, Level};
use tokio::sync::Notify;

#[path = "catalogue/evidence.rs"]
mod evidence;

use evidence::{Scene, Told};

/// The planes of operations that are met one by one; clocks are read, and told of once.
const PLANES: [Plane; 6] = [Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Link, Plane::Disk, Plane::Process];
/// The name of the fault of a row.
const ROW: &str = "row";
/// The turns at which a row is tried: an answer that nobody needs, or that is the same as before, changes nothing.
const TURNS: [u64; 4] = [1, 2, 4, 9];

/// A claim, a pod that writes to it, and what becomes of them.
const EXPANSION: &str = include_str!("../../scenarios/expansion.yaml");
const FIRST_VOLUME: &str = include_str!("../../scenarios/first-volume.yaml");
/// What no loop asks the cloud for.
const BY_HAND: &str = include_str!("catalogue/by-hand.yaml");
const BLOCK: &str = include_str!("../../scenarios/block.yaml");

/// The stories that take long.
const LONG: [&str; 3] = ["files-and-power", "bytes-and-power", "two-volumes"];

/// The stories, each with a name. Faults end before a teardown does, so each story deletes what it has made.
fn stories() -> Vec<Scenario> {
    const END: &str = "  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone, within: 5m}
  - delete: {object: pvc/data}
  - wait: {object: pvc/data, is: gone, within: 5m}
  - sleep: 20s
teardown: false
";
    let one = |text: &str| text.replacen("nodes: {count: 3}", "nodes: {count: 1}", 1);
    // The filesystem is given to a group, and the kubelet finds what it had mounted when it starts again.
    let restart = "  - crash: node-a/kubelet\n  - sleep: 2s\n  - restart: node-a/kubelet\n  - sleep: 30s\n";
    let group = one(FIRST_VOLUME).replacen("name: first-volume", "name: group-and-restart", 1).replacen(
        "        containers:",
        "        securityContext: {fsGroup: 2000}\n        containers:",
        1,
    ) + restart;
    // The same of a raw device, without a move.
    let (raw, _) = BLOCK.split_once("  - name: move").unwrap();
    let raw = raw.replacen("nodes: {count: 2}", "nodes: {count: 1}", 1) + restart;
    // Machines lose their power, and with it what was not synced.
    let named = |text: &str, name: &str| {
        let (_, rest) = text.split_once("name: ").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        format!("name: {name}\n{rest}")
    };
    let power = "  - crash: node-a\n  - sleep: 2s\n  - restart: node-a\n  - sleep: 40s\n";
    let files_and_power = named(&one(FIRST_VOLUME), "files-and-power") + power;
    let bytes_and_power = named(&raw, "bytes-and-power") + power;
    // A second volume comes to the same instance.
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
        scenario::parse("story.yaml", &format!("{text}{END}")).unwrap_or_else(|e| panic!("{}", e.render(false, 100)))
    };
    let by_hand = scenario::parse("by-hand.yaml", BY_HAND).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    texts.iter().map(read).chain([by_hand]).collect()
}

/// An operation at a moment.
type Met = (Plane, String, Moment);

/// What a story tells without a fault, and what it reaches. It is told by a run in which everything is counted, which a
/// test compares with a run without any fault.
struct Story {
    scenario: Scenario,
    /// Everything that observers see.
    told: Vec<Told>,
    /// How many events had been told when an operation came to a moment first, and how often it did.
    reaches: BTreeMap<Met, (usize, u64)>,
}

fn is_row(event: &Event) -> bool {
    event.get::<FaultFired>().is_some_and(|fired| fired.fault.starts_with(ROW))
}

fn options() -> Options {
    Options { watchdog: Some(Duration::from_secs(60)), level: Level::Trace, ..Options::default() }
}

/// Runs a story until its end or until `enough`, after `begin`, and shows `see` every event.
fn play(
    scenario: &Scenario,
    enough: &Notify,
    begin: impl FnOnce(&World),
    see: impl Fn(&Event) + Send + Sync + 'static,
) {
    simulate(options(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        // What is told while the world is taken apart is no part of the story.
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

impl Story {
    fn of(scenario: Scenario) -> Self {
        let found: Arc<Mutex<BTreeMap<Met, (usize, u64)>>> = Arc::default();
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let (seen, heard, counted) = (told.clone(), told.clone(), found.clone());
        let begin = |world: &World| {
            for fault in counts() {
                // A plane in which nothing asks at this moment refuses it.
                let _ = world.faults().add(world.clock().mono(), fault);
            }
            world.faults().follow_while(move |hit, plane| {
                let now = heard.lock().unwrap().len();
                counted.lock().unwrap().entry((plane, hit.op.clone(), hit.at)).or_insert((now, 0)).1 += 1;
                true
            });
        };
        play(&scenario, &Notify::new(), begin, move |event| {
            if !is_row(event) {
                seen.lock().unwrap().push(Told::of(event));
            }
        });
        let (told, reaches) = (std::mem::take(&mut *told.lock().unwrap()), found.lock().unwrap().clone());
        Self { scenario, told, reaches }
    }

    /// Whether it is a story of lost power, or of two volumes.
    fn is_long(&self) -> bool {
        LONG.contains(&self.scenario.name.as_str())
    }

    /// When a process starts again, which then looks at everything anew.
    fn restart(&self) -> Option<u64> {
        let again = |t: &&Told| t.kind == ProcessStarted::KIND && t.fields.iter().any(|(_, times)| *times == 2);
        self.told.iter().find(again).map(|t| t.ms)
    }
}

/// A fault for each plane and moment that counts everything.
fn counts() -> Vec<Fault> {
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

fn all_stories() -> &'static [Story] {
    static STORIES: OnceLock<Vec<Story>> = OnceLock::new();
    STORIES.get_or_init(|| stories().into_iter().map(Story::of).collect())
}

/// One row of the catalogue.
#[derive(Clone, Copy)]
struct Row {
    operation: &'static Operation,
    possible: Possible,
    at: Moment,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { plane, name, .. } = self.operation;
        write!(f, "{} {name} {} {}", plane.name(), self.possible.effect.name(), self.at.name())
    }
}

impl Row {
    /// Its operation, in words.
    fn operation(&self) -> String {
        format!("{} {}", self.operation.plane.name(), self.operation.name)
    }

    /// All rows of the operations of these planes.
    fn of(planes: &[Plane]) -> Vec<Self> {
        let catalogue = names::catalogue(&ClusterSpec::of_nodes(2));
        let operations = catalogue.operations().filter(|o| planes.contains(&o.plane));
        let rows = operations.flat_map(|operation| {
            let possible: Vec<Possible> = operation.possible().collect();
            possible
                .into_iter()
                .flat_map(move |possible| possible.at.iter().map(move |at| Self { operation, possible, at: *at }))
        });
        rows.collect()
    }

    /// Whether it lasts, and has no turns.
    fn lasts(&self) -> bool {
        matches!(self.possible.effect, Kind::Partition | Kind::PartitionOneWay | Kind::Skew)
    }

    /// Whether it changes something only if it goes on: from when on what is stale has changed, or until the power goes.
    fn goes_on(&self) -> bool {
        matches!(self.possible.effect, Kind::StaleRead | Kind::LoseUnsynced)
    }

    /// The fault of the row from `since` on, each time.
    fn fault_since(&self, since: u64) -> Fault {
        let mut fault = self.fault(1);
        let lasting = (self.operation.plane == Plane::K8s).then_some(Span(Duration::from_secs(10)));
        fault.when = When { after: Some(Span(Duration::from_millis(since))), lasting, ..When::default() };
        fault
    }

    /// The fault of the row at the `turn`th time.
    fn fault(&self, turn: u64) -> Fault {
        let name = self.operation.name;
        let value = match self.possible.values {
            Values::Flag => json!(true),
            // A kubelet waits a second for the registrar.
            Values::Span if ["GetInfo", "NotifyRegistrationStatus"].contains(&name) => json!("400ms"),
            Values::Span => json!("7s"),
            Values::Number { least, .. } if self.possible.effect == Kind::Duplicate => json!(least),
            Values::Number { least, most } if self.possible.effect == Kind::StaleRead => {
                json!((least + 19).min(most))
            }
            Values::Number { least, most } => json!(least.midpoint(most)),
            Values::OneOf(words) | Values::Folded(words) => json!(words[name.len() % words.len()]),
            Values::Text | Values::Code(_) => json!("SomeWord"),
            Values::Process => json!("self"),
            Values::Node => json!("node-a"),
            Values::Ends => json!(["node-a", "apiserver"]),
            Values::Skew => json!("+1h"),
        };
        let mut fault = json!({
            "name": ROW,
            "match": { "plane": self.operation.plane, "op": name },
            "effect": { (self.possible.effect.name()): value },
            "at": self.at,
        });
        match (self.lasts(), turn) {
            (true, _) => {}
            (false, 1) => fault["when"] = json!({ "first": 1 }),
            (false, nth) => fault["when"] = json!({ "nth": nth }),
        }
        serde_json::from_value(fault).unwrap()
    }

    /// The stories that reach the operation at this moment, the one that does so first before the others.
    fn stories(&self) -> Vec<(&'static Story, u64)> {
        let key = (self.operation.plane, self.operation.name.to_owned(), self.at);
        let mut found: Vec<_> = all_stories()
            .iter()
            .filter_map(|story| story.reaches.get(&key).map(|(at, times)| (at, *times, story)))
            .collect();
        // The later stories are there for what goes on, and for what no other reaches.
        if !self.goes_on() && found.iter().any(|(.., story)| !story.is_long()) {
            found.retain(|(.., story)| !story.is_long());
        }
        found.sort_by_key(|(at, ..)| **at);
        found.into_iter().map(|(_, times, story)| (story, times)).collect()
    }
}

/// What is known of a run with a fault.
#[derive(Default)]
struct Seen {
    /// The next event of the run without the fault.
    at: usize,
    /// The operation that the fault met first, and what it is about.
    hit: Option<(String, BTreeMap<String, String>)>,
    fired: Option<Told>,
    /// The next event of the run without the fault when it fired.
    from: usize,
    /// What came first that is different: what there was, and what there is.
    differs: Option<(Option<Told>, Option<Told>)>,
    /// What came after the fault fired.
    after: Vec<Told>,
    shown: bool,
}

impl Seen {
    /// Whether what the fault's row says is there.
    fn shows(&self, story: &Story, fault: &Fault, over: bool) -> bool {
        let (Some(fired), Some((op, about))) = (&self.fired, &self.hit) else { return false };
        let missed = self.differs.as_ref().and_then(|(usual, _)| usual.as_ref());
        let (before, usual) = story.told.split_at(self.from.min(story.told.len()));
        let (after, differs) = (&self.after, self.differs.is_some());
        Scene { fault, op, about, fired, before, usual, after, missed, differs, over }.shows()
    }
}

/// As long after a fault has fired as what it does is waited for.
const PATIENCE: u64 = 15 * 60_000;

/// Runs `story` with `fault` until `enough` is told, in [`PATIENCE`] or to its end.
fn compare(story: &'static Story, fault: &Fault, enough: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Seen {
    let (seen, stop): (Arc<Mutex<Seen>>, Arc<Notify>) = <_>::default();
    let (state, stopped, first) = (seen.clone(), stop.clone(), seen.clone());
    let begin = |world: &World| {
        world.faults().add(world.clock().mono(), fault.clone()).unwrap();
        world.faults().follow(move |hit| {
            let about = || hit.attributes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            first.lock().unwrap().hit.get_or_insert_with(|| (hit.op.clone(), about()));
        });
    };
    play(&story.scenario, &stop, begin, move |event| {
        let mut seen = state.lock().unwrap();
        if is_row(event) {
            if seen.fired.is_none() {
                (seen.fired, seen.from) = (Some(Told::of(event)), seen.at);
            }
            return;
        }
        let usual = story.told.get(seen.at);
        seen.at += 1;
        let Some(fired) = seen.fired.as_ref().map(|fired| fired.ms) else {
            // Before it fires nothing is different, which less than all tells.
            let same = usual.is_some_and(|t| t.ms == event.ms && t.kind == event.kind() && t.process == event.process);
            if !same && seen.differs.is_none() {
                seen.differs = Some((usual.cloned(), Some(Told::of(event))));
                stopped.notify_one();
            }
            return;
        };
        let told = Told::of(event);
        if seen.differs.is_none() && usual != Some(&told) {
            seen.differs = Some((usual.cloned(), Some(told.clone())));
        }
        seen.after.push(told);
        if event.ms > fired + PATIENCE || enough(&seen) {
            stopped.notify_one();
        }
    });
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    if seen.differs.is_none() && seen.at < story.told.len() {
        seen.differs = Some((story.told.get(seen.at).cloned(), None));
    }
    seen
}

/// Runs `story` with `fault` until what its row says is there.
fn look(story: &'static Story, fault: &Fault) -> Seen {
    let row = fault.clone();
    let mut seen = compare(story, fault, move |seen| seen.shows(story, &row, false));
    seen.shown = seen.shows(story, fault, true);
    seen
}

/// Visits a row: nothing when it does what it says, else what is wrong with it.
fn visit(row: &Row) -> Option<String> {
    let stories = row.stories();
    // A test of its own looks at what is only counted.
    if stories.is_empty() || row.possible.effect == Kind::Count {
        return None;
    }
    let mut tried = String::new();
    for turn in TURNS {
        for (story, times) in stories.iter().filter(|(_, times)| turn <= *times) {
            let seen = look(story, &row.fault(turn));
            let name = &story.scenario.name;
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
    for (story, _) in stories.iter().filter(|_| row.goes_on()) {
        // A cluster in which every list is stale for ever comes to no end.
        let begin = (row.operation.plane != Plane::K8s).then_some(0);
        for since in [begin, story.restart()].into_iter().flatten() {
            let seen = look(story, &row.fault_since(since));
            if seen.shown {
                return None;
            }
            let _ = write!(tried, " {} from {since} on;", story.scenario.name);
        }
    }
    Some(format!("{row}: nothing of it is seen ({tried}), and it says: {}", row.possible.shows))
}

/// Visits all rows of these planes.
fn visit_all(planes: &[Plane]) {
    visit_those(planes, |_| true);
}

/// Visits the rows of these planes whose operation is among these.
fn visit_those(planes: &[Plane], among: impl Fn(&Operation) -> bool) {
    let rows: Vec<Row> = Row::of(planes).into_iter().filter(|row| among(row.operation)).collect();
    let mut wrong = Vec::new();
    let mut visited = 0;
    for row in &rows {
        visited += usize::from(!row.stories().is_empty());
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
    eprintln!("{visited} of {} rows", rows.len());
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

const NOT_TOLD: &str = "both answers have the same fields, and no step tells what is in them";

/// Rows that fire and that no trace of these stories shows, and why.
const UNSEEN: &[(&str, &str)] = &[
    (
        "k8s watch stale_read before",
        "the informers of a cluster list, and watch from there: no stream of theirs begins with what is there",
    ),
    ("k8s patch duplicate before", "a patch that says the same twice makes no revision, and the answer is the same"),
    ("ec2 DescribeSnapshotTierStatus stale_read before", NOT_TOLD),
    ("ec2 GetEbsDefaultKmsKeyId stale_read before", NOT_TOLD),
    ("ec2 GetEbsEncryptionByDefault stale_read before", NOT_TOLD),
    ("ec2 Devices wrong_device before", "a simulated disk has no files, and so none that could be another volume's"),
];

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

const NO_SNAPSHOTS: &str = "the loops that take snapshots are not there yet";
const NO_CALLER: &str = "no loop and no driver of a cluster calls it in these stories";
const LIST: &str = "it only lists, by the table that DescribeVpcs goes by";
const OTHER_SERVICE: &str = "it is of another service than EC2, for which no step signs";
const NO_CLASS: &str = "no step gives a claim another VolumeAttributesClass";

/// Operations that no story reaches, and why.
const UNREACHED: &[(Plane, &str, &str)] = &[
    (Plane::Csi, "ControllerGetVolume", NO_CALLER),
    (Plane::Csi, "ControllerModifyVolume", NO_CLASS),
    (Plane::Csi, "CreateSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "CreateVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "DeleteSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "DeleteVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GetCapacity", NO_CALLER),
    (Plane::Csi, "GetMetadataAllocated", NO_SNAPSHOTS),
    (Plane::Csi, "GetMetadataDelta", NO_SNAPSHOTS),
    (Plane::Csi, "GetSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GetVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GroupControllerGetCapabilities", NO_SNAPSHOTS),
    (Plane::Csi, "ListSnapshots", NO_SNAPSHOTS),
    (Plane::Csi, "ListVolumes", NO_CALLER),
    (Plane::Csi, "NodeGetVolumeStats", NO_CALLER),
    (Plane::Csi, "ValidateVolumeCapabilities", NO_CALLER),
    (Plane::Disk, "usage", "only NodeGetVolumeStats asks for it"),
    (Plane::Ec2, "Imds", "no component asks the metadata service in a simulation"),
    (Plane::Ec2, "DescribeAccountAttributes", LIST),
    (Plane::Ec2, "DescribeAddresses", LIST),
    (Plane::Ec2, "DescribeDhcpOptions", LIST),
    (Plane::Ec2, "DescribeImages", LIST),
    (Plane::Ec2, "DescribeInstanceCreditSpecifications", LIST),
    (Plane::Ec2, "DescribeInstanceTypeOfferings", LIST),
    (Plane::Ec2, "DescribeInternetGateways", LIST),
    (Plane::Ec2, "DescribeKeyPairs", LIST),
    (Plane::Ec2, "DescribeLaunchTemplates", LIST),
    (Plane::Ec2, "DescribeNatGateways", LIST),
    (Plane::Ec2, "DescribeNetworkAcls", LIST),
    (Plane::Ec2, "DescribeNetworkInterfaces", LIST),
    (Plane::Ec2, "DescribeRouteTables", LIST),
    (Plane::Ec2, "DescribeSecurityGroups", LIST),
    (Plane::Ec2, "DescribeSubnets", LIST),
    (Plane::Ec2, "DescribeVpcAttribute", LIST),
    (Plane::Ec2, "DescribeVpcEndpoints", LIST),
    (Plane::Ec2, "ListSnapshotsInRecycleBin", LIST),
    (Plane::Ec2, "DescribeAutoScalingGroups", OTHER_SERVICE),
    (Plane::Ec2, "DescribeLaunchConfigurations", OTHER_SERVICE),
    (Plane::Ec2, "GetCallerIdentity", OTHER_SERVICE),
    (Plane::K8s, "deletecollection", "no loop deletes collections, and no step does"),
];

/// What is only counted changes nothing, whatever it is; and every operation is in a story, or in the list of those that
/// are in none.
#[test]
fn what_is_counted_is_told_and_changes_nothing() {
    for story in all_stories() {
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let seen = told.clone();
        play(&story.scenario, &Notify::new(), |_| {}, move |event| seen.lock().unwrap().push(Told::of(event)));
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert!(told.len() > 100);
        let differs = told.iter().zip(&story.told).find(|(plain, counted)| plain != counted);
        assert_eq!((differs, told.len()), (None, story.told.len()), "{}", story.scenario.name);
    }
    let met: BTreeSet<Met> = all_stories().iter().flat_map(|s| s.reaches.keys().cloned()).collect();
    let is_met = |row: &Row| met.contains(&(row.operation.plane, row.operation.name.to_owned(), row.at));
    let rows = Row::of(&PLANES);
    let all: BTreeSet<String> = rows.iter().map(Row::operation).collect();
    let reached: BTreeSet<String> = rows.iter().filter(|row| is_met(row)).map(Row::operation).collect();
    let listed: BTreeSet<String> = UNREACHED.iter().map(|(plane, op, _)| format!("{} {op}", plane.name())).collect();
    let unreached: BTreeSet<String> = all.difference(&reached).cloned().collect();
    assert_eq!(unreached, listed, "not listed: {:?}", unreached.difference(&listed));
    // Of an operation that is reached every moment is.
    let missing: Vec<String> =
        rows.iter().filter(|row| reached.contains(&row.operation()) && !is_met(row)).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Where a process ends within an operation makes a difference, and so does which process it is.
#[test]
fn each_process_and_each_moment_of_its_end_is_a_story_of_its_own() {
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
        let seen = compare(&all_stories()[0], &fault, |seen| seen.after.len() >= 60);
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
        // What a driver remembers between its last two moments dies with it.
        for (at, one) in later {
            assert_ne!(one, first, "{process} ends in {op} at {at:?} as before it");
        }
    }
    let others = ["kube-controller-manager", "kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer"];
    let on_node = ["csi-controller", "node-a/kubelet", "node-a/csi-node", "mock-ec2", "fake-apiserver", "controllers"];
    let mut ends: Vec<(String, Vec<Told>)> = Vec::new();
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

/// A clock that is wrong shows in what its process writes, and in nothing that others do.
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
            let time = |lease: &serde_json::Value| lease["spec"]["renewTime"].as_str()?.parse::<jiff::Timestamp>().ok();
            (leases.iter().filter_map(time).map(|t| t.as_second()).collect::<Vec<_>>(), fired)
        })
    };
    let ((usual, not_fired), (ahead, fired)) = (times(false), times(true));
    assert!(usual.len() > 3 && not_fired == 0 && fired > 0, "{usual:?} {not_fired} {fired}");
    assert_eq!(ahead, usual.iter().map(|t| t + 3600).collect::<Vec<_>>());
}
