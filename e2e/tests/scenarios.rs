//! Every scenario passes in both worlds; the migration also with every component a process of its own.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::Path;
use std::process::Command;

use e2e::have;
use serde_json::Value;

/// Runs a scenario of the repository, which passes, and returns its envelope.
fn run(scenario: &str, more: &[&str]) -> Value {
    let (code, envelope) = run_file(&e2e::scenario(scenario), more);
    let status = envelope["status"].as_str().unwrap_or_default();
    assert!(code == Some(0) && status == "passed", "{scenario} {more:?}: {:#}", envelope["error"]);
    envelope
}

/// Runs a scenario file and returns the exit code and the envelope.
fn run_file(file: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let _alone = more.contains(&"--live").then(|| e2e::alone().unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_mooring-under-test"))
        .arg("run")
        .arg(file)
        .args(["--output", "json", "--timeout", "150s"])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let envelope = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), envelope)
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
fn a_filesystem_grows_under_a_running_pod() {
    run("expansion.yaml", &[]);
    run("expansion.yaml", &["--latency", "aws", "--seed", "2"]);
    // On loop devices the kernel lets a mounted ext4 grow only where the process has CAP_SYS_RESOURCE.
    run("expansion.yaml", &[&["--live", "--backend", "directory"], &FASTER[..]].concat());
}

#[test]
fn a_raw_device_moves_with_its_bytes() {
    run("block.yaml", &[]);
    run("block.yaml", &["--latency", "aws", "--seed", "2"]);
    if have("root") {
        let envelope = run("block.yaml", &[&["--live", "--backend", "loop"], &FASTER[..]].concat());
        assert_eq!(envelope["data"]["summary"]["backend"], "loop");
        run("block.yaml", &[&["--live", "--processes", "--backend", "loop"], &FASTER[..]].concat());
    }
}

/// The node's power is cut while its pod has the device open; what was synced is on the other node.
#[test]
fn a_raw_device_survives_the_power_loss_of_its_node_live() {
    if !have("root") {
        return;
    }
    let text = std::fs::read_to_string(e2e::scenario("out-of-service.yaml")).unwrap();
    let raw = text
        .replace(
            "volumeMounts: [{name: data, mountPath: /data}]",
            "volumeDevices: [{name: data, devicePath: /dev/data}]",
        )
        .replace(
            "          accessModes: [ReadWriteOnce]\n",
            "          accessModes: [ReadWriteOnce]\n          volumeMode: Block\n",
        );
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), raw).unwrap();
    for processes in [&[][..], &["--processes"]] {
        let (code, envelope) = run_file(file.path(), &[&["--live", "--backend", "loop"], processes].concat());
        assert_eq!(code, Some(0), "{processes:?}: {:#}", envelope["error"]);
    }
}

#[test]
fn directories_say_that_they_have_no_raw_devices_live() {
    let (code, envelope) =
        run_file(&e2e::scenario("block.yaml"), &["--live", "--backend", "directory", "--time-scale", "30"]);
    let text = envelope.to_string();
    assert!(code == Some(1) && text.contains("cannot do this: publish a raw device: there is none"), "{envelope:#}");
}

#[test]
fn the_migration_runs_with_every_component_a_process_of_its_own_live() {
    let backend = if have("root") { "loop" } else { "directory" };
    run("migration.yaml", &[&["--live", "--processes", "--backend", backend], &FASTER[..]].concat());
}

/// One of each component that has faults of its own; a fault that never fires fails the run.
const FAULTS: &str = "
faults:
- name: cloud-is-busy
  match: {plane: ec2, op: AttachVolume}
  when: {first: 1}
  effect: {error: RequestLimitExceeded}
- name: driver-gives-up
  match: {plane: csi, op: ControllerPublishVolume}
  when: {first: 1}
  effect: {grpc: UNAVAILABLE}
- name: node-gives-up
  match: {plane: csi, op: NodeStageVolume}
  when: {first: 1}
  effect: {grpc: INTERNAL}
- name: api-is-down
  match: {plane: k8s, op: create, where: {resource: volumeattachments}}
  when: {first: 1}
  effect: {http: 503}
";

/// `first-volume.yaml` with `faults`.
fn with_faults(faults: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = std::fs::read_to_string(e2e::scenario("first-volume.yaml")).unwrap();
    std::fs::write(file.path(), text + faults).unwrap();
    file
}

const PROCESSES: [&str; 6] = ["--live", "--processes", "--backend", "directory", "--time-scale", "10"];

#[test]
fn faults_act_in_the_process_that_owns_their_plane_live() {
    let file = with_faults(FAULTS);
    for world in [&[][..], &PROCESSES[..]] {
        let (code, envelope) = run_file(file.path(), world);
        assert_eq!(code, Some(0), "{world:?}: {:#}", envelope["error"]);
        assert_eq!(envelope["data"]["silentFaults"], serde_json::json!([]), "{world:?}");
    }
}

#[test]
fn a_fault_is_in_force_again_in_a_process_that_starts_again_live() {
    let fault = "faults:\n- {name: after, match: {plane: csi, op: NodeStageVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}\n";
    let text = std::fs::read_to_string(e2e::scenario("first-volume.yaml")).unwrap() + fault;
    let text = text.replace("nodes: {count: 3}", "nodes: {count: 1}");
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text.replace("steps:\n", "steps:\n  - crash: node-a\n  - restart: node-a\n")).unwrap();
    for world in [&[][..], &PROCESSES[..]] {
        let (code, envelope) = run_file(file.path(), world);
        assert_eq!(code, Some(0), "{world:?}: {:#}", envelope["error"]);
    }
}

#[test]
fn a_fault_that_never_fires_in_its_process_fails_the_run_live() {
    let snapshot = "faults:\n- {name: never, match: {plane: ec2, op: CreateSnapshot}, effect: {http: 503}}\n";
    let (code, envelope) = run_file(with_faults(snapshot).path(), &PROCESSES);
    assert_eq!((code, &envelope["data"]["silentFaults"]), (Some(1), &serde_json::json!(["never"])), "{envelope:#}");
    // What passes between processes passes outside of this one.
    let link = "faults:\n- {name: slow, match: {plane: link}, effect: {delay: 1s}}\n";
    let (code, envelope) = run_file(with_faults(link).path(), &PROCESSES);
    let error = envelope["error"]["message"].as_str().unwrap_or_default();
    assert!(code == Some(1) && error.contains("match.plane"), "{envelope:#}");
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
