//! Every scenario passes in both worlds; the migration also with every component a process of its own.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Command;

use e2e::have;
use serde_json::Value;

/// Runs a scenario and returns its envelope.
fn run(scenario: &str, more: &[&str]) -> Value {
    let _alone = more.contains(&"--live").then(|| e2e::alone().unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_mooring-under-test"))
        .arg("run")
        .arg(e2e::scenario(scenario))
        .args(["--output", "json", "--timeout", "150s"])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let envelope: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let status = envelope["status"].as_str().unwrap_or_default();
    assert!(output.status.success() && status == "passed", "{scenario} {more:?}: {:#}", envelope["error"]);
    envelope
}

macro_rules! scenarios {
    ($($name:ident: $file:literal $live:expr),+ $(,)?) => {
        mod simulated {
            $(#[test] fn $name() { super::run($file, &[]); })+
        }
        mod live_on_loop_devices {
            $(#[test] fn $name() {
                if super::have("root") {
                    let envelope = super::run($file, &[&["--live", "--backend", "loop"], &$live[..]].concat());
                    assert_eq!(envelope["data"]["summary"]["backend"], "loop");
                }
            })+
        }
        mod live_on_directories {
            $(#[test] fn $name() { super::run($file, &[&["--live", "--backend", "directory"], &$live[..]].concat()); })+
        }
    };
}

/// What takes half a minute by upstream's timers takes a few seconds; the other files scale themselves.
const FASTER: [&str; 2] = ["--time-scale", "10"];
const AS_WRITTEN: [&str; 0] = [];

scenarios! {
    first_volume: "first-volume.yaml" super::FASTER,
    migration: "migration.yaml" super::FASTER,
    node_crash: "node-crash.yaml" super::AS_WRITTEN,
    node_crash_short: "node-crash-short.yaml" super::AS_WRITTEN,
    out_of_service: "out-of-service.yaml" super::AS_WRITTEN,
}

#[test]
fn the_migration_runs_with_every_component_a_process_of_its_own_live() {
    let backend = if have("root") { "loop" } else { "directory" };
    run("migration.yaml", &[&["--live", "--processes", "--backend", backend], &FASTER[..]].concat());
}

#[test]
fn a_volume_takes_as_long_as_operators_see_with_the_aws_profile() {
    for seed in 1..=5 {
        let envelope = run("first-volume.yaml", &["--latency", "aws", "--seed", &seed.to_string()]);
        let volume = &envelope["data"]["timeline"]["volumes"][0];
        let total = volume["runningAfterMs"].as_u64().unwrap_or_else(|| panic!("no running phase in {volume:#}"));
        assert!((15_000..=45_000).contains(&total), "seed {seed}: {total} ms");
    }
}
