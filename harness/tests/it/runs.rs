//! Whole simulated runs through the Rust API: faults on every plane, faults that never fire, failed expectations,
//! leaks.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use csi_mock::events::CsiDone;
use harness::cluster::{Cluster, ClusterSpec};
use harness::output::Exit;
use harness::runner::{self, Outcome};
use harness::scenario;
use harness::spec::object::{Kind, ObjectRef};
use substrate::events::FaultFired;
use substrate::world::{Options, simulate};

const FIRST_VOLUME: &str = include_str!("../../../scenarios/first-volume.yaml");
const BLOCK: &str = include_str!("../../../scenarios/block.yaml");
const OUT_OF_SERVICE: &str = include_str!("../../../scenarios/out-of-service.yaml");

/// Runs a scenario text in virtual time.
fn run(text: &str, seed: u64) -> (Outcome, Exit) {
    let scenario = scenario::parse("test.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let outcome = simulate(Options { seed, ..Options::default() }, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run(&scenario, &cluster, |_| {}).await
    });
    let exit = harness::report::failure(&scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit)
}

/// Describes the problems of a run that should have passed.
fn why(outcome: &Outcome) -> String {
    format!("{:?} {:?} {:?}", outcome.failure, outcome.violations, outcome.leftovers)
}

/// The scenario first-volume with these faults in force.
fn with_faults(faults: &str) -> String {
    let text = FIRST_VOLUME.replacen("\nsteps:", &format!("\nfaults:\n{faults}\nsteps:"), 1);
    assert_ne!(text, FIRST_VOLUME, "the faults are in the text");
    text
}

#[test]
fn a_volume_arrives_through_faults_on_every_plane() {
    let text = with_faults(
        "
  - {name: attach-reply-lost, match: {plane: ec2, op: AttachVolume}, when: {first: 1}, effect: {drop_reply: true}, at: after_effect}
  - {name: create-throttled, match: {plane: ec2, op: CreateVolume}, when: {first: 1}, effect: {error: RequestLimitExceeded}}
  - {name: stage-aborted, match: {plane: csi, op: NodeStageVolume}, when: {first: 2}, effect: {grpc: ABORTED}}
  - {name: api-storm, match: {plane: k8s, op: patch}, when: {every: 3}, effect: {http: 503}}
  - {name: lossy, match: {plane: link, op: request, where: {to: apiserver}}, when: {every: 20}, effect: {drop_request: true}}
  - {name: cut, match: {plane: link}, when: {after: 3s, for: 20s}, effect: {partition: [node-a, apiserver]}}",
    );
    for seed in 1..=5 {
        let (outcome, exit) = run(&text, seed);
        assert_eq!(
            exit,
            Exit::Passed,
            "seed {seed}: {:?} {:?} {:?}",
            outcome.failure,
            outcome.violations,
            outcome.silent_faults
        );
        assert!(outcome.events.iter().any(|e| e.is::<FaultFired>()));
    }
}

#[test]
fn a_fault_that_never_fires_fails_the_run() {
    let text = with_faults("  - {name: never, match: {plane: ec2, op: RebootInstances}, effect: {http: 503}}");
    let (outcome, exit) = run(&text, 1);
    assert_eq!((outcome.silent_faults[0].name.as_str(), exit), ("never", Exit::Failed));
}

#[test]
fn a_driver_that_cannot_stage_fails_the_expectation_with_what_was_seen() {
    let text = with_faults("  - {name: broken, match: {plane: csi, op: NodeStageVolume}, effect: {grpc: INTERNAL}}");
    let (outcome, exit) = run(&text, 1);
    let failure = outcome.failure.unwrap();
    assert_eq!(exit, Exit::Failed);
    assert!(failure.expected.contains("Running") && failure.seen.contains("Pending"), "{failure:?}");
}

#[test]
fn a_volume_that_the_cloud_cannot_delete_is_a_leak() {
    let text =
        with_faults("  - {name: undeletable, match: {plane: ec2, op: DeleteVolume}, effect: {error: InternalError}}");
    // The fault is cleared before the teardown, so the leak is a volume created by hand.
    let made = "\n  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}}\n";
    let (outcome, exit) = run(&format!("{}{made}", FIRST_VOLUME.trim_end()), 1);
    assert_eq!(exit, Exit::Leaked, "{:?}", outcome.leftovers);
    assert_eq!(outcome.leftovers.cloud_volumes.len(), 1);
    assert!(outcome.violations.iter().all(|v| v.id == "I5"));
    // A volume with the reclaim policy Retain is not a leak.
    let retained = FIRST_VOLUME.replacen("reclaimPolicy: Delete", "reclaimPolicy: Retain", 1);
    assert_ne!(retained, FIRST_VOLUME);
    let (outcome, exit) = run(&retained, 1);
    assert_eq!(exit, Exit::Passed, "{:?}", outcome.leftovers);
    let (outcome, _) = run(&text, 1);
    assert!(outcome.leftovers.is_empty(), "the teardown ends faults: {:?}", outcome.leftovers);
}

#[test]
fn the_invariants_hold_for_many_seeds_of_a_crash() {
    let text = include_str!("../../../scenarios/node-crash-short.yaml");
    for seed in 1..=10 {
        let (outcome, exit) = run(text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {:?} {:?}", outcome.failure, outcome.violations);
    }
}

/// The out-of-service taint was wrong: the node runs, and only its kubelet is cut off. The device is mounted, so EC2
/// reports the attachment as `busy` until the kubelet is back and unmounts the volume (kubernetes#32881,
/// kubernetes#37854).
#[test]
fn a_volume_that_a_lost_kubelet_keeps_mounted_stays_busy_until_it_unmounts() {
    let cut = "- fault: {name: cut, match: {plane: link}, effect: {partition: [node-a, apiserver]}}";
    let text = OUT_OF_SERVICE.replacen("- name: power loss\n    crash: node-a", cut, 1);
    let back = "
  # Long after the driver gave up waiting for the first time.
  - sleep: 15m
  - expect: {event: {object: pod/web-2, reason: FailedAttachVolume}}
  - clear-fault: cut
  - wait: {object: pod/web-2, is: Running, on: node-b, within: 10m}
  - expect: {attached: {claim: data, node: node-b}}
  - expect: {bytes-intact: pod/web-2, records: 5}
";
    let text = text.replacen("deadline: 10m", "deadline: 60m", 1);
    let (before, _) = text.split_once("  - wait: {object: pod/web-2, is: Running").unwrap();
    let (outcome, exit) = run(&format!("{before}{back}"), 1);
    assert_eq!(exit, Exit::Passed, "{:?} {:?} {:?}", outcome.failure, outcome.violations, outcome.leftovers);
    let at = |kind: &str, field: &str, value: &str| {
        let lines = outcome.events.iter().map(|e| e.line());
        let found = lines.filter(|e| e.kind == kind && e.str(field) == Some(value));
        found.map(|e| e.ms).collect::<Vec<_>>()
    };
    let (busy, gone) = (at("ec2.attachment", "state", "busy"), at("ec2.attachment", "state", "detached"));
    let unmounted = at("disk.unstaged", "node", "node-a")[0];
    assert_eq!(busy.len(), 1, "busy once: {busy:?}");
    assert!(unmounted - busy[0] > 14 * 60_000, "busy from {} to {unmounted}", busy[0]);
    assert!((unmounted..unmounted + 5_000).contains(&gone[0]), "it goes when it is unmounted: {gone:?}, {unmounted}");
}

/// The scenario block with these faults in force.
fn raw_with_faults(faults: &str) -> String {
    let text = BLOCK.replacen("\nsteps:", &format!("\nfaults:\n{faults}\nsteps:"), 1);
    assert_ne!(text, BLOCK, "the faults are in the text");
    text
}

/// The same scenario with the claim as a raw block device.
fn as_raw(text: &str) -> String {
    let raw = text
        .replace(
            "volumeMounts: [{name: data, mountPath: /data}]",
            "volumeDevices: [{name: data, devicePath: /dev/data}]",
        )
        .replace(
            "          accessModes: [ReadWriteOnce]\n",
            "          accessModes: [ReadWriteOnce]\n          volumeMode: Block\n",
        );
    assert!(raw.contains("volumeDevices") && raw.contains("volumeMode: Block"), "{raw}");
    raw
}

#[test]
fn a_raw_device_moves_after_a_power_loss_with_what_was_synced() {
    for text in [OUT_OF_SERVICE, include_str!("../../../scenarios/node-crash-short.yaml")] {
        for seed in 1..=3 {
            let (outcome, exit) = run(&as_raw(text), seed);
            let why = (&outcome.failure, &outcome.violations, &outcome.leftovers);
            assert_eq!(exit, Exit::Passed, "seed {seed}: {why:?}");
            assert!(outcome.events.iter().any(|e| e.kind() == "node-agent.mapped"));
        }
    }
}

/// The raw device of a node moves with all its bytes, at each moment of each call at which the processes of the node
/// end.
#[test]
fn a_raw_device_keeps_its_bytes_wherever_its_node_is_restarted() {
    let rpcs = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];
    for op in rpcs {
        for at in ["before", "after_effect", "before_reply"] {
            let fault = format!("match: {{plane: csi, op: {op}}}, effect: {{crash: self}}, at: {at}");
            let text = raw_with_faults(&format!("  - {{name: f, {fault}, when: {{first: 1}}}}"));
            let (outcome, exit) = run(&text, 1);
            assert_eq!(exit, Exit::Passed, "{fault}: {}", why(&outcome));
        }
    }
}

#[test]
fn faults_of_disks_meet_raw_devices_too() {
    for (seed, fault, reported) in [
        (1, "match: {plane: disk, op: write_at}, effect: {io_error: EIO}", "workload.failed"),
        (2, "match: {plane: disk, op: sync}, effect: {io_error: EIO}", "workload.failed"),
        (3, "match: {plane: disk, op: write_at}, effect: {torn_write: true}", "workload.failed"),
        (4, "match: {plane: disk, op: read_at}, effect: {delay: 3s}", "workload.started"),
        (5, "match: {plane: disk, op: map}, effect: {wrong_device: true}", "node-agent.operation-failed"),
        (6, "match: {plane: disk, op: unmap}, effect: {io_error: EBUSY}", "node-agent.operation-failed"),
    ] {
        let text = raw_with_faults(&format!("  - {{name: f, {fault}, when: {{first: 1}}}}"));
        let (outcome, exit) = run(&text, seed);
        let why = (&outcome.failure, &outcome.violations, &outcome.leftovers);
        assert_eq!(exit, Exit::Passed, "{fault}: {why:?}");
        assert!(outcome.events.iter().any(|e| e.kind() == reported), "{fault}: {reported}");
    }
}

#[test]
fn staging_takes_time_where_the_cloud_does() {
    let took = |latency: &str| {
        let (outcome, exit) = run(&FIRST_VOLUME.replacen("\nsteps:", &format!("\nlatency: {latency}\n\nsteps:"), 1), 1);
        assert_eq!(exit, Exit::Passed, "{:?} {:?}", outcome.failure, outcome.violations);
        let mut done = outcome.events.iter().filter_map(|e| e.get::<CsiDone>());
        done.find(|done| done.rpc == "NodeStageVolume").unwrap().took_ms
    };
    assert_eq!(took("instant"), 0);
    // The range that operators report for a new volume.
    assert!((1_900..=10_000).contains(&took("aws")));
}

#[test]
fn a_component_that_a_fault_crashes_comes_back_and_the_volume_arrives() {
    for (crashed, fault) in [
        ("csi-controller", "match: {plane: csi, op: ControllerPublishVolume}, effect: {crash: self}, at: after_effect"),
        ("node-a/csi-node", "match: {plane: csi, op: NodeStageVolume}, effect: {crash: self}, at: after_effect"),
        ("node-a/kubelet", "match: {plane: csi, op: NodeStageVolume}, effect: {crash: node-a/kubelet}"),
        ("node-a", "match: {plane: csi, op: NodePublishVolume}, effect: {reboot: node-a}"),
        ("mock-ec2", "match: {plane: ec2, op: AttachVolume}, effect: {crash: self}, at: after_effect"),
        (
            "fake-apiserver",
            "match: {plane: k8s, op: create, where: {resource: volumeattachments}}, effect: {crash: self}, at: after_effect",
        ),
        ("csi-provisioner", "match: {plane: csi, op: CreateVolume}, effect: {crash: csi-provisioner}"),
        ("kube-scheduler", "match: {plane: csi, op: CreateVolume}, effect: {crash: controllers}"),
    ] {
        let (outcome, exit) = run(&with_faults(&format!("  - {{name: f, {fault}, when: {{first: 1}}}}")), 1);
        assert_eq!(exit, Exit::Passed, "{fault}: {}", why(&outcome));
        let reported =
            |kind: &str| outcome.events.iter().filter(|e| e.kind() == kind && &*e.process == crashed).count();
        // A second crash is that of the end of the run.
        assert!(reported("process.crashed") >= 1 && reported("process.started") == 2, "{fault}");
    }
}

#[test]
fn an_effect_that_cannot_happen_on_its_plane_is_refused_with_its_place() {
    let text = with_faults("  - {name: f, match: {plane: k8s, op: get}, effect: {io_error: EIO}}");
    let error = scenario::parse("test.yaml", &text).unwrap_err().render(false, 100);
    assert!(error.contains("effect.io_error: cannot happen to `get` on the plane k8s; possible there"), "{error}");
}

/// The private address of the EC2 instance is the InternalIP of the node, and the hostIP of its pods.
#[test]
fn a_node_has_the_private_address_of_its_instance() {
    let spec = ClusterSpec::of_nodes(3);
    let found: Vec<(String, String)> = simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, spec).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let request = http::Request::get("/admin/v1/state").header("host", "localhost");
        let request = request.body(substrate::body::empty()).unwrap();
        let answer = substrate::body::call(cluster.ec2().clone(), request).await.unwrap();
        let state = substrate::body::collect(answer.into_body(), 1 << 20).await.unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let mut found = Vec::new();
        for instance in state["instances"].as_array().unwrap() {
            let name = instance["tags"]["Name"].as_str().unwrap();
            let node = ObjectRef::new(Kind::node(), None, name);
            let node = cluster.objects().get(&node).await.unwrap().unwrap();
            let address = &node["status"]["addresses"][0];
            assert_eq!(address["type"], "InternalIP");
            let text = |value: Option<&str>| value.unwrap().to_owned();
            found.push((text(instance["privateIp"].as_str()), text(address["address"].as_str())));
        }
        found
    });
    assert_eq!(found.len(), 3);
    for (cloud, node) in found {
        assert_eq!(cloud, node);
    }
}

/// Logs of a pod are read from its node through the API server. If the node has no power, the request fails at once.
#[test]
fn logs_come_from_the_node_and_are_the_same_again() {
    let scenario = scenario::parse("test.yaml", FIRST_VOLUME).unwrap();
    let manifests: Vec<_> = ["claim", "pod"].into_iter().map(|name| manifest(&scenario, name)).collect();
    let read = || {
        simulate(Options::default(), async |world| {
            let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
            for manifest in scenario.objects.iter().chain(&manifests) {
                cluster.objects().apply(manifest).await.unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            let text = cluster.objects().logs("default/web", "timestamps=true").await.unwrap();
            let node = world.trace().lines().into_iter().rfind(|e| e.kind == "workload.started").unwrap();
            cluster.crash(node.str("node").unwrap()).await.unwrap();
            let refused = cluster.objects().logs("default/web", "").await.unwrap_err().to_string();
            (text, refused)
        })
    };
    let (text, refused) = read();
    assert!(text.contains("data: found no records") && text.contains("data: wrote record 10\n"), "{text}");
    assert!(refused.starts_with("Get \"https://10."), "{refused}");
    assert!(refused.ends_with(":10250: connect: connection refused"), "{refused}");
    assert_eq!(read(), (text, refused));
}

/// Sends a request of an operator to the cloud.
async fn admin_action(cluster: &Cluster, path: &str, body: &'static str) {
    let request = http::Request::post(path)
        .header("host", "localhost")
        .header("content-type", if body.is_empty() { "application/json" } else { "application/x-www-form-urlencoded" })
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=mooring/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0",
        )
        .body(substrate::body::full(body))
        .unwrap();
    let response = substrate::body::call(cluster.ec2().clone(), request).await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.status());
}

#[test]
fn a_machine_that_the_cloud_crashes_or_stops_runs_no_node_until_it_has_power_again() {
    simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_nodes(2)).unwrap();
        let seconds = |n| tokio::time::sleep(std::time::Duration::from_secs(n));
        seconds(20).await;
        let found = world.trace().lines().into_iter().find(|e| e.kind == "cluster.node").unwrap();
        let (node, instance) = (found.str("node").unwrap().to_owned(), found.str("instance").unwrap().to_owned());
        let reported =
            |kind: &str| world.trace().events().iter().filter(|e| e.kind() == kind && *e.process == *node).count();
        admin_action(&cluster, &format!("/admin/v1/instances/{instance}/crash"), "").await;
        seconds(1).await;
        assert_eq!((cluster.down_nodes(), reported("process.crashed")), (vec![node.clone()], 1));
        seconds(300).await;
        assert_eq!(reported("process.started"), 1, "it does not come back by itself");
        let reboot = format!("Action=RebootInstances&Version=2016-11-15&InstanceId.1={instance}");
        admin_action(&cluster, "/", reboot.leak()).await;
        seconds(40).await;
        assert_eq!((cluster.down_nodes(), reported("process.started")), (Vec::<String>::new(), 2));
        let stop = format!("Action=StopInstances&Version=2016-11-15&InstanceId.1={instance}");
        admin_action(&cluster, "/", stop.leak()).await;
        seconds(60).await;
        assert_eq!(cluster.down_nodes(), std::slice::from_ref(&node));
        let start = format!("Action=StartInstances&Version=2016-11-15&InstanceId.1={instance}");
        admin_action(&cluster, "/", start.leak()).await;
        seconds(90).await;
        assert_eq!((cluster.down_nodes(), reported("process.started")), (Vec::<String>::new(), 3));
    });
}

fn manifest(scenario: &scenario::model::Scenario, step: &str) -> scenario::model::Manifest {
    let found = scenario.steps.iter().find(|s| s.name.as_deref() == Some(step)).unwrap();
    match &found.action {
        scenario::model::Action::Apply(manifests) => manifests[0].clone(),
        other => panic!("{other:?}"),
    }
}
