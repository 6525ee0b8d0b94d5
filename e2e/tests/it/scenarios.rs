//! Every scenario passes in both worlds.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use e2e::have;
use serde_json::Value;

/// Runs a scenario of the repository, which must pass, and returns its envelope.
fn run(scenario: &str, more: &[&str]) -> Value {
    let (code, envelope) = run_file(&e2e::scenario(scenario), more);
    let status = envelope["status"].as_str().unwrap_or_default();
    assert!(code == Some(0) && status == "passed", "{scenario} {more:?}: {:#}", envelope["error"]);
    envelope
}

/// Runs a scenario file and returns the exit code and the envelope.
fn run_file(file: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let _seat = more.contains(&"--live").then(|| e2e::seat().unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_mooring-under-test"))
        .arg("run")
        .arg(file)
        .args(["--output", "json", "--timeout", "5m"])
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

/// Reduces half a minute of upstream's timers to a few seconds; the other files set their own scale.
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
    // On loop devices the kernel lets a mounted ext4 grow only with CAP_SYS_RESOURCE.
    run("expansion.yaml", &[&["--live", "--backend", "directory"], &FASTER[..]].concat());
}

#[test]
fn a_volume_of_a_snapshot_has_its_records_on_directories_live() {
    let live = ["--live", "--backend", "directory"];
    run("features/restore-from-snapshot.yaml", &[&live[..], &FASTER[..]].concat());
}

#[test]
fn a_raw_device_moves_with_its_bytes() {
    run("block.yaml", &[]);
    run("block.yaml", &["--latency", "aws", "--seed", "2"]);
    if have("root") {
        let envelope = run("block.yaml", &[&["--live", "--backend", "loop"], &FASTER[..]].concat());
        assert_eq!(envelope["data"]["summary"]["backend"], "loop");
    }
}

macro_rules! live_incidents {
    ($($name:ident: $file:literal),+ $(,)?) => {
        const LIVE: &[&str] = &[$($file),+];
        mod live_incidents {
            $(#[test] fn $name() {
                let backend = if super::have("root") { "loop" } else { "directory" };
                super::run(concat!("incidents/", $file), &["--live", "--backend", backend]);
            })+
        }
    };
}

live_incidents! {
    healthy_node_loses_a_mounted_volume_after_six_minutes: "healthy-node-loses-a-mounted-volume-after-six-minutes.yaml",
    kubelet_restarts_while_volumes_are_mounted: "kubelet-restarts-while-volumes-are-mounted.yaml",
    new_node_takes_more_volumes_than_its_limit: "new-node-takes-more-volumes-than-its-limit.yaml",
    node_advertises_more_volumes_than_it_takes: "node-advertises-more-volumes-than-it-takes.yaml",
    pod_lands_on_a_node_whose_volume_still_detaches: "pod-lands-on-a-node-whose-volume-still-detaches.yaml",
    sidecar_dies_between_attaching_and_telling: "sidecar-dies-between-attaching-and-telling.yaml",
    stage_or_unstage_of_a_volume_times_out: "stage-or-unstage-of-a-volume-times-out.yaml",
    volume_missing_from_volumes_attached_after_controller_restart: "volume-missing-from-volumes-attached-after-controller-restart.yaml",
    volume_moves_within_seconds_of_the_out_of_service_taint: "volume-moves-within-seconds-of-the-out-of-service-taint.yaml",
}

#[test]
fn incidents_that_are_for_the_live_world_too_run_there() {
    let live = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().contains("worlds: [simulated, live]");
    let files = std::fs::read_dir(e2e::scenario("incidents")).unwrap().map(|entry| entry.unwrap().path());
    let names: BTreeSet<String> =
        files.filter(live).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, LIVE.iter().map(|name| (*name).to_owned()).collect());
}

/// The node's power is cut while its pod has the device open; synced data is on the other node afterwards.
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
    let (code, envelope) = run_file(file.path(), &["--live", "--backend", "loop"]);
    assert_eq!(code, Some(0), "{:#}", envelope["error"]);
}

#[test]
fn directories_say_that_they_have_no_raw_devices_live() {
    let (code, envelope) =
        run_file(&e2e::scenario("block.yaml"), &["--live", "--backend", "directory", "--time-scale", "30"]);
    let text = envelope.to_string();
    let message = "pvc/data needs a block device, and the directory backend has none";
    assert!(code == Some(3) && text.contains(message), "{envelope:#}");
}

/// A fault of each plane and each kind of process; a fault that never fires fails the run.
const FAULTS: &str = "
- {name: cloud, match: {plane: ec2, op: AttachVolume}, when: {first: 1}, effect: {error: RequestLimitExceeded}}
- {name: api, match: {plane: k8s, op: create, where: {resource: volumeattachments}}, when: {first: 1}, effect: {http: 503}}
- {name: controller, match: {plane: csi, op: ControllerPublishVolume}, when: {first: 1}, effect: {grpc: UNAVAILABLE}}
- {name: node, match: {plane: csi, op: NodeStageVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}
- {name: mounts, match: {plane: disk, op: stage, where: {process: node-a/csi-node}}, when: {first: 1}, effect: {io_error: EIO}}
- {name: bytes, match: {plane: disk, op: sync, where: {process: node-a}}, when: {nth: 2}, effect: {delay: 200ms}}
- {name: slots, match: {plane: disk, op: plug, where: {process: node-a}}, when: {first: 1}, effect: {delay: 200ms}}
- {name: agent, match: {plane: disk, where: {process: node-a/kubelet}}, when: {first: 1}, effect: {delay: 200ms}}
- {name: reply, match: {plane: link, op: request, where: {from: csi-attacher, to: csi-controller}}, at: after_effect, when: {first: 1}, effect: {drop_reply: true}}
- {name: plugin, match: {plane: link, op: request, where: {from: node-a/kubelet, to: csi-node-a}}, when: {first: 1}, effect: {delay: 100ms}}
- {name: runtime, match: {plane: link, op: request, where: {from: node-a/kubelet, to: runtime-node-a}}, when: {first: 1}, effect: {delay: 100ms}}
- {name: person, match: {plane: link, op: request, where: {from: user, to: apiserver}}, when: {nth: 3}, effect: {delay: 100ms}}
- {name: cut, match: {plane: link}, when: {for: 60s}, effect: {partition: [node-b/kubelet, apiserver]}}
- {name: clock, match: {plane: clock, op: wall, where: {process: node-a/kubelet}}, when: {for: 1m}, effect: {skew: +2s}}
";

/// `first-volume.yaml` on two nodes with its pod on node-a, with `faults`, and with `steps` while the pod starts.
fn with_faults(faults: &str, steps: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = std::fs::read_to_string(e2e::scenario("first-volume.yaml")).unwrap();
    let bound = "  - wait: {object: pvc/data, is: Bound";
    let (containers, on) = ("        containers:\n", "        nodeSelector: {kubernetes.io/hostname: node-a}\n");
    for part in [bound, containers, "nodes: {count: 3}"] {
        assert_eq!(text.matches(part).count(), 1, "{part}");
    }
    let text = text.replace("nodes: {count: 3}", "nodes: {count: 2}").replace(containers, &format!("{on}{containers}"));
    let text = text.replace(bound, &format!("{steps}{bound}"));
    std::fs::write(file.path(), format!("{text}faults:{faults}")).unwrap();
    file
}

const WORLDS: [&[&str]; 2] = [&[], &["--live", "--backend", "directory", "--time-scale", "10"]];

/// Runs a scenario file, which must pass, and returns the kind, process and fault of each event of `kinds`.
fn events_of(file: &Path, world: &[&str], kinds: &[&str]) -> Vec<[String; 3]> {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let path = trace.path().display().to_string();
    let (code, envelope) = run_file(file, &[world, &["--trace", &path][..]].concat());
    assert_eq!(code, Some(0), "{world:?}: {:#}", envelope["error"]);
    let text = std::fs::read_to_string(trace.path()).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events_of =
        |event: &Value| ["kind", "process", "fault"].map(|key| event[key].as_str().unwrap_or_default().to_owned());
    events.map(|event| events_of(&event)).filter(|[kind, ..]| kinds.contains(&kind.as_str())).collect()
}

#[test]
fn faults_act_in_the_process_that_they_are_about_in_both_worlds_live() {
    let file = with_faults(FAULTS, "");
    let processes = |world: &[&str]| {
        let events_of = events_of(file.path(), world, &["fault.fired"]);
        // Either end of a cut link may try first.
        let place = |process: String, fault: &str| if fault == "cut" { "a link".to_owned() } else { process };
        events_of.into_iter().map(|[_, process, fault]| [place(process, &fault), fault]).collect::<BTreeSet<_>>()
    };
    let [simulated, live] = WORLDS.map(processes);
    assert_eq!(simulated.len(), FAULTS.matches("name:").count(), "{simulated:?}");
    assert_eq!(live, simulated);
}

/// A process or machine that a fault ends starts again, once: the process in which the fault fires, another process, a
/// machine.
#[test]
fn a_process_ended_by_a_fault_restarts_once_live() {
    let cases = [
        ("NodeStageVolume", "crash: self", &["node-a/csi-node"][..]),
        ("ControllerPublishVolume", "crash: csi-attacher", &["csi-attacher"]),
        ("NodePublishVolume", "crash: node-a", &["node-a/csi-node", "node-a/kubelet"]),
        ("NodePublishVolume", "reboot: node-a", &["node-a", "node-a/csi-node", "node-a/kubelet"]),
    ];
    for (op, effect, ended) in cases {
        let fault = format!(
            "\n- {{name: end, match: {{plane: csi, op: {op}}}, at: after_effect, when: {{first: 1}}, effect: {{{effect}}}}}\n"
        );
        let file = with_faults(&fault, "");
        for world in WORLDS {
            let events_of =
                events_of(file.path(), world, &["fault.fired", "process.crashed", "process.started", "disk.crashed"]);
            let of = |kind: &str| {
                events_of.iter().filter(|[k, ..]| k == kind).map(|[_, p, _]| p.as_str()).collect::<Vec<_>>()
            };
            assert_eq!(of("fault.fired").len(), 1, "{effect} {world:?}: {events_of:?}");
            assert_eq!(of("disk.crashed").len(), usize::from(effect.starts_with("reboot")), "{effect} {world:?}");
            for process in ended {
                // Except in simulation, everything ends once more with the cluster.
                let end =
                    of("process.crashed").iter().filter(|p| *p == process).count() - usize::from(!world.is_empty());
                let start = of("process.started").iter().filter(|p| *p == process).count();
                assert_eq!((end, start), (1, 2), "{process}, {effect} {world:?}: {events_of:?}");
            }
        }
    }
}

/// A fault on process start applies to a process that another fault ended.
#[test]
fn a_process_knows_of_faults_before_it_starts_live() {
    let faults = "
- {name: end, match: {plane: csi, op: ControllerPublishVolume}, when: {first: 1}, effect: {crash: csi-attacher}}
- {name: slow, match: {plane: process, op: start, where: {process: csi-attacher}}, when: {first: 1}, effect: {delay: 2s}}
";
    let file = with_faults(faults, "");
    for world in WORLDS {
        let fired: Vec<[String; 3]> = events_of(file.path(), world, &["fault.fired"]);
        let fired: Vec<[&str; 2]> =
            fired.iter().map(|[_, process, fault]| [process.as_str(), fault.as_str()]).collect();
        assert_eq!(fired, [["csi-controller", "end"], ["csi-attacher", "slow"]], "{world:?}");
    }
}

/// The attachment waits until another pod runs. That pod comes when the attachment has failed twice.
#[test]
fn a_fault_ends_when_its_condition_holds_in_both_worlds_live() {
    let helper = "  - expect: {call: {plane: csi, op: ControllerPublishVolume, times: {at-least: 2}}, within: 5m}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: helper}
      spec: {containers: [{name: writer, image: mooring/writer}]}
";
    let fault = "\n- {name: not-yet, match: {plane: csi, op: ControllerPublishVolume}, when: {until: pod/helper=Running}, effect: {grpc: UNAVAILABLE}}\n";
    let file = with_faults(fault, helper);
    for world in WORLDS {
        let fired = events_of(file.path(), world, &["fault.fired"]);
        assert!(
            fired.len() > 1 && fired.iter().all(|[_, process, _]| process == "csi-controller"),
            "{world:?}: {fired:?}"
        );
    }
}

#[test]
fn a_fault_is_in_force_again_in_a_process_that_starts_again_live() {
    let fault =
        "\n- {name: after, match: {plane: csi, op: NodeStageVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}\n";
    let file = with_faults(fault, "  - crash: node-a\n  - restart: node-a\n");
    for world in WORLDS {
        let fired = events_of(file.path(), world, &["fault.fired"]);
        assert_eq!(fired.len(), 1, "{world:?}");
    }
}

#[test]
fn a_fault_that_never_fires_in_its_process_fails_the_run_live() {
    let snapshot = "\n- {name: never, match: {plane: ec2, op: CreateSnapshot}, effect: {http: 503}}\n";
    let file = with_faults(snapshot, "");
    for world in WORLDS {
        let (code, envelope) = run_file(file.path(), world);
        let silent = envelope["data"]["silentFaults"].as_array().unwrap();
        let names: Vec<&str> = silent.iter().filter_map(|fault| fault["name"].as_str()).collect();
        assert_eq!((code, names), (Some(1), vec!["never"]), "{world:?}: {envelope:#}");
    }
}

/// Checkers see the same in both worlds, the watch streams included.
#[test]
fn both_worlds_check_the_same_live() {
    for world in WORLDS {
        let (code, envelope) = run_file(&e2e::scenario("first-volume.yaml"), world);
        assert_eq!(code, Some(0), "{world:?}: {:#}", envelope["error"]);
        let checked = &envelope["data"]["checked"];
        let streams = checked["I7"].as_u64().unwrap_or_else(|| panic!("{checked:#}"));
        assert!(streams > 50, "{world:?}: {checked:#}");
    }
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
