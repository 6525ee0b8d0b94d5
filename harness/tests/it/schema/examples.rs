//! Every example of the schema as part of a scenario: it is read, is valid by the schema, and passes.

use harness::cluster::{Cluster, ClusterSpec};
use harness::output::Exit;
use harness::runner;
use harness::scenario::{self, Scenario};
use harness::schema::shape::Need;
use harness::schema::{EXAMPLES, SCHEMAS};
use rstest::rstest;
use serde_json::Value;
use substrate::WorldKind;
use substrate::world::{Options, simulate};

use super::validator::Validator;

/// An example in a whole file.
pub struct Example {
    /// The map and the key that it belongs to.
    pub of: String,
    /// The example, as the schema shows it.
    pub shown: &'static str,
    /// The file.
    pub text: String,
}

/// A pod that runs.
const RUNS: &[&str] = &[
    "- {name: start, claim: {name: data}}",
    "- pod: {name: web, claim: data, node: node-a}",
    "- wait: {object: pod/web, is: Running, records: 3}",
];

/// Returns the lines that an example needs before and after it to have an effect.
fn around(shown: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let has = |part: &str| shown.contains(part);
    let begins = |part: &str| shown.starts_with(&format!("- {part}"));
    let made = ["claim:", "class:", "repeat:", "include:", "{name:"];
    match () {
        () if made.iter().any(|word| begins(word)) => (vec![], vec![]),
        () if has("claims: [data, more]") => (vec!["- claim: {name: data}", "- claim: {name: more}"], vec![]),
        () if begins("pod:") => (vec![RUNS[0]], vec![]),
        () if has("bytes-intact") => {
            let moved = ["- delete: {object: pod/web}", "- wait: {object: pod/web, is: gone}", RUNS[1]];
            let records = ["- wait: {object: pod/web, records: 6}"];
            let again = ["- wait: {object: pod/web, is: Running}"];
            (RUNS.iter().copied().chain(records).chain(moved).chain(again).collect(), vec![])
        }
        () => {
            let before: &[&str] = match () {
                () if begins("clear-fault") || begins("expect: {fired") => &[
                    "- fault: {name: slow, match: {plane: ec2, op: DetachVolume}, effect: {delay: 10s}}",
                    "- delete: {object: pod/web}",
                    "- wait: {list: volumeattachments, that: self.size() == 0}",
                ],
                () if begins("heal") => &["- partition: {between: [node-b, apiserver], name: cut}", "- sleep: 15s"],
                // A kubelet that starts writes the file again.
                () if begins("restart") || has("remove: vol_data.json") => &["- crash: node-a/kubelet"],
                () if begins("untaint") => {
                    &["- taint: {node: node-b, key: node.kubernetes.io/out-of-service, effect: NoExecute}"]
                }
                () if has("writes:") => &["- sleep: 30s", "- {name: later, sleep: 1ms}"],
                () if begins("uncordon") => &["- cordon: node-b"],
                () if has("poke: burn") => &[
                    "- ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1, ClientToken: pvc-1234}, \
                     save: other, from: VolumeId}",
                ],
                () if has("poke: stick") => {
                    &["- ec2: {action: ModifyVolume, with: {VolumeId: {volume: pvc/data}, Size: 2}}"]
                }
                () => &[],
            };
            let after: &[&str] = match () {
                () if begins("crash: csi-attacher") => &["- restart: csi-attacher"],
                () if has("remove: vol_data.json") => &["- restart: node-a/kubelet", "- sleep: 1m"],
                () if begins("crash: node-a") => &["- restart: node-a"],
                () if begins("fault") => &["- delete: {object: pod/web}", "- sleep: 1m"],
                () if has("name: cut") => &["- sleep: 15s", "- heal: cut"],
                () if has("one-way") => &["- delete: {object: pod/web}", "- sleep: 30s", "- heal:"],
                () if has("save: own") => &["- ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}}"],
                () if has("poke: burn") => &["- ec2: {action: DeleteVolume, with: {VolumeId: {saved: other}}}"],
                () if has("poke: stick") => &["- ec2: {poke: complete, volume: pvc/data, which: modification}"],
                () if has("until: end") => &["- {name: end, sleep: 1s}"],
                () => &[],
            };
            (RUNS.iter().chain(before).copied().collect(), after.to_vec())
        }
    }
}

/// Returns all examples.
pub fn all() -> Vec<Example> {
    let mut all = Vec::new();
    for map in EXAMPLES {
        for key in map.keys {
            all.extend(key.examples.iter().map(|shown| {
                let (mut name, mut nodes) = ("name: example", "nodes: {count: 2}");
                // A transition can be stuck only if it takes time.
                let mut head = match () {
                    () if shown.contains("poke: stick") => "latency: aws",
                    // Only a simulated cluster records writes.
                    () if shown.contains("writes:") => "worlds: [simulated]",
                    () => "",
                };
                let (mut objects, mut steps) = (String::new(), String::new());
                match (map.name, key.name) {
                    ("scenario", "name") => name = shown,
                    ("scenario", "nodes") => nodes = shown,
                    ("scenario", "steps") => steps = (*shown).to_owned(),
                    ("scenario", "objects") => head = shown,
                    ("scenario", _) => (head, steps) = (shown, format!("steps:\n  {}", RUNS.join("\n  "))),
                    ("item", _) => objects = format!("objects:\n  {shown}"),
                    _ => {
                        let (before, after) = around(shown);
                        let lines: Vec<&str> = before.into_iter().chain([*shown]).chain(after).collect();
                        steps = format!("steps:\n  {}", lines.join("\n  "));
                    }
                }
                let text = [name, nodes, "deadline: 2h", head, &objects, &steps].join("\n");
                // A key may occur only once in a file.
                let text = if head.starts_with("deadline") { text.replacen("deadline: 2h\n", "", 1) } else { text };
                Example { of: format!("{}.{}", map.name, key.name), shown, text }
            }));
        }
    }
    all
}

/// Reads a file that has fragments beside it.
fn read(text: &str) -> Scenario {
    let dir = tempfile::tempdir().unwrap();
    let fragments = dir.path().join("fragments");
    std::fs::create_dir(&fragments).unwrap();
    std::fs::write(fragments.join("objects.yaml"), "- claim: {name: included}\n").unwrap();
    std::fs::write(fragments.join("steps.yaml"), "- sleep: 2s\n").unwrap();
    let path = dir.path().join("t.yaml");
    std::fs::write(&path, text).unwrap();
    scenario::load(&path).unwrap_or_else(|error| panic!("{}\n{text}", error.render(false, 120)))
}

#[test]
fn every_step_and_demand_has_an_example_that_has_it() {
    for map in EXAMPLES {
        for key in map.keys {
            let needed = key.need != Need::May || ["scenario", "step"].contains(&map.name);
            assert!(!needed || !key.examples.is_empty(), "{}.{} has no example", map.name, key.name);
            for example in key.examples {
                assert!(example.contains(&format!("{}:", key.name)), "{}.{}: {example}", map.name, key.name);
            }
        }
    }
}

#[test]
fn every_example_is_read_and_fits_the_schema() {
    let schema = SCHEMAS[0].value();
    let mut validator = Validator::new(&schema);
    let (text, mut seen) = (schema.to_string(), 0);
    for example in all() {
        read(&example.text);
        let value: Value = substrate::yaml::from_str(&example.text).unwrap();
        assert_eq!(validator.wrong(&value), Vec::<String>::new(), "{}: {}", example.of, example.text);
        let shown = Value::String(example.shown.to_owned()).to_string();
        assert!(text.contains(shown.trim_matches('"')), "{} is not in the schema", example.shown);
        seen += 1;
    }
    assert!(seen > 90, "{seen}");
}

#[rstest]
#[case("scenario")]
#[case("item")]
#[case("step")]
#[case("expect")]
#[case("never")]
#[case("ec2")]
fn every_example_passes_in_simulation(#[case] map: &str) {
    let (mut failed, mut passed) = (Vec::new(), 0);
    for example in all().into_iter().filter(|example| example.of.split('.').next() == Some(map)) {
        // A deviation of upstream needs its own scenario; the scenarios that declare one show it.
        if example.of.contains("violation") {
            continue;
        }
        let scenario = read(&example.text);
        // A program runs only live; the tests of `programs` cover it.
        if !scenario.runs_in(WorldKind::Simulated) {
            continue;
        }
        let outcome = simulate(Options::default(), async |world| {
            let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
            runner::run(&scenario, &cluster, |_| {}).await
        });
        if let Some((exit, why)) = harness::report::failure(&scenario, &outcome)
            && exit != Exit::Passed
        {
            failed.push(format!("{}: {}\n  {why:?}", example.of, example.shown));
        } else {
            passed += 1;
        }
    }
    assert!(failed.is_empty() && passed > 5, "{passed} pass\n{}", failed.join("\n"));
}
