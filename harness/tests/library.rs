//! The test library as used in tests, in simulation. The live half is in e2e/tests/library.rs.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::prelude::*;
use harness::testing::{play, play_text};
use serde_json::json;

const CLAIM_AND_POD: &str = include_str!("../../docs/pod-with-claim.yaml");

/// The steps of the examples: only the reply of AttachVolume is lost.
fn run_example(cluster: &Cluster) -> Result<u64, Error> {
    let lost = cluster.inject(fault::ec2("AttachVolume").first(1).drop_reply())?;
    cluster.apply(CLAIM_AND_POD)?;
    cluster.wait_for("pvc/data", "self.status.phase == 'Bound'")?;
    cluster.wait_for("pod/web", "Running")?;
    assert_eq!(lost.hits(), 1);
    lost.end();
    cluster.wait_for_records("pod/web", 3)?;
    cluster.delete("pod/web")?;
    cluster.wait_for("pod/web", "gone")?;
    cluster.apply(CLAIM_AND_POD)?;
    let found = cluster.bytes_intact("pod/web")?;
    cluster.check()?;
    Ok(found)
}

#[test]
fn a_lost_reply_loses_no_bytes() {
    let cluster = Cluster::simulated().start().unwrap();
    assert!(run_example(&cluster).unwrap() >= 3);
    assert_eq!(cluster.violations(), []);
    assert_eq!(cluster.events_of("fault.fired").unwrap().len(), 1);
}

/// Inside a runtime of one thread, blocking methods neither panic nor block each other.
#[tokio::test]
async fn blocking_and_async_methods_work_in_a_test_of_one_thread() {
    let cluster = Cluster::simulated().start().unwrap();
    assert!(run_example(&cluster).unwrap() >= 3);
    let other = Cluster::simulated().start_async().await.unwrap();
    other.apply_async(CLAIM_AND_POD).await.unwrap();
    other.wait_for_async("pod/web", "Running").await.unwrap();
    assert!(other.bytes_intact("pod/web").is_ok());
    assert!(other.get_async("pvc/data").await.unwrap().unwrap()["spec"]["volumeName"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_run_beside_each_other_in_a_test_of_several_threads() {
    let mut runs = tokio::task::JoinSet::new();
    for seed in 1..=4 {
        runs.spawn(async move {
            let cluster = Cluster::simulated().seed(seed).start_async().await?;
            cluster.apply_async(CLAIM_AND_POD).await?;
            cluster.wait_for_async("pod/web", "Running").await?;
            cluster.advance(Duration::from_secs(1))?;
            cluster.check_async().await
        });
    }
    for outcome in runs.join_all().await {
        outcome.unwrap();
    }
}

/// A wait that is dropped by its caller does not hold up the next command.
#[tokio::test]
async fn a_wait_without_a_caller_is_dropped() {
    let cluster = Cluster::simulated().start_async().await.unwrap();
    let waiting = cluster.wait_within_async("pod/none", "Running", Duration::from_secs(1 << 40));
    tokio::select! {
        biased;
        waited = waiting => panic!("{waited:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert!(cluster.elapsed_async().await.is_ok());
}

#[test]
fn time_stands_still_between_commands() {
    let cluster = Cluster::simulated().start().unwrap();
    cluster.advance(Duration::from_secs(600)).unwrap();
    let before = cluster.elapsed().unwrap();
    std::thread::yield_now();
    assert_eq!(cluster.elapsed().unwrap(), before);
    assert!(before >= Duration::from_secs(600));
}

/// A small attacher of the test, which writes the status as csi-attacher does.
async fn attach(ctx: Ctx, attached: Arc<AtomicU64>) -> Result<(), Error> {
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    let mut watch = ctx.kubernetes().watch(path).await?;
    while let Some(change) = watch.next().await? {
        let (name, spec) = (&change.object["metadata"]["name"], &change.object["spec"]);
        if change.r#type == "DELETED" || change.object["status"]["attached"] == true {
            continue;
        }
        let volume = format!("pv/{}", spec["source"]["persistentVolumeName"].as_str().unwrap());
        let volume = ctx.kubernetes().get(&volume).await?.unwrap();
        let handle = volume["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned();
        let node = ctx.kubernetes().get(&format!("csinode/{}", spec["nodeName"].as_str().unwrap())).await?.unwrap();
        let instance = node["spec"]["drivers"][0]["nodeID"].as_str().unwrap().to_owned();
        let with = [("VolumeId", handle.as_str()), ("InstanceId", &instance), ("Device", "/dev/xvdba")];
        ctx.ec2().call("AttachVolume", &with).await?;
        let attachment = format!("volumeattachment/{}", name.as_str().unwrap());
        let status = json!({"status": {"attached": true, "attachmentMetadata": {"devicePath": "/dev/xvdba"}}});
        ctx.kubernetes().patch_subresource(&attachment, "status", &status).await?;
        attached.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn the_users_own_controller_runs_crashes_and_is_broken_by_name() {
    let cluster = Cluster::simulated().without(["csi-attacher"]).start().unwrap();
    let attached = Arc::<AtomicU64>::default();
    let counts = attached.clone();
    cluster.spawn("my-attacher", move |ctx| attach(ctx, counts.clone())).unwrap();
    cluster.crash("my-attacher").unwrap();
    cluster.apply(CLAIM_AND_POD).unwrap();
    let waited = cluster.wait_within("pod/web", "Running", Duration::from_secs(60)).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::TimedOut);
    assert!(waited.to_string().contains("my-attacher was crashed and not restarted"), "{waited}");
    // A fault is matched by the name of the process. The process ends with the error and is started again.
    let refused = fault::k8s("patch").matching("caller", "my-attacher").first(1).error("InternalError");
    let refused = cluster.inject(refused).unwrap();
    cluster.restart("my-attacher").unwrap();
    cluster.advance(Duration::from_secs(10)).unwrap();
    assert_eq!((refused.hits(), attached.load(Ordering::Relaxed)), (1, 0));
    let failed = cluster.events_of("process.failed").unwrap();
    assert!(failed.iter().any(|event| &*event.process == "my-attacher"), "{failed:?}");
    drop(refused);
    let starts = cluster.events_of("process.started").unwrap();
    assert_eq!(starts.iter().filter(|event| &*event.process == "my-attacher").count(), 2);
    cluster.restart("my-attacher").unwrap();
    cluster.wait_for("volumeattachments", "self.exists(a, a.status.attached)").unwrap_err();
}

#[test]
fn a_fault_crashes_the_users_process_and_it_starts_again() {
    let cluster = Cluster::simulated().start().unwrap();
    let starts = Arc::<AtomicU64>::default();
    let counts = starts.clone();
    cluster
        .spawn("looker", move |ctx| {
            counts.fetch_add(1, Ordering::Relaxed);
            async move {
                while ctx.kubernetes().get("node/node-a").await?.is_some() {
                    ctx.sleep(Duration::from_secs(1)).await;
                }
                Ok::<(), Error>(())
            }
        })
        .unwrap();
    let crash = fault::link("request").matching("from", "looker").nth(3).crash("self");
    let crash = cluster.inject(crash).unwrap();
    cluster.advance(Duration::from_secs(20)).unwrap();
    assert_eq!((crash.hits(), starts.load(Ordering::Relaxed)), (1, 2));
    let again = cluster.spawn("looker", async |_| {}).unwrap_err();
    assert!(again.to_string().contains("there is a process or a server called looker already"), "{again}");
}

#[test]
fn a_process_panic_is_reported() {
    let cluster = Cluster::simulated().start().unwrap();
    cluster.spawn("careless", async |_| panic!("index out of bounds")).unwrap();
    let error = cluster.wait_within("pod/web", "Running", Duration::from_secs(5)).unwrap_err();
    assert!(error.to_string().contains("careless has panicked: index out of bounds"), "{error}");
}

#[test]
fn a_process_that_never_rests_fails_its_own_test() {
    let cluster = Cluster::simulated().wall_limit(Duration::from_secs(2)).start().unwrap();
    cluster
        .spawn("spinner", async |_| {
            loop {
                tokio::task::yield_now().await;
            }
        })
        .unwrap();
    let error = cluster.advance(Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GivenUp);
    assert!(error.to_string().starts_with("the command took longer than 2s of wall time"), "{error}");
    assert!(!error.to_string().contains("does not end"), "{error}");
    let next = cluster.get("pod/web").unwrap_err();
    assert_eq!(next.kind(), ErrorKind::GivenUp, "{next}");
}

#[test]
fn virtual_time_without_end_fails_its_own_test() {
    let cluster = Cluster::simulated().wall_limit(Duration::from_secs(2)).start().unwrap();
    let error = cluster.advance(Duration::from_secs(1 << 33)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GivenUp, "{error}");
}

/// A process that neither awaits nor returns cannot be ended. The test still fails, and the test program continues.
#[test]
fn a_process_that_blocks_the_thread_fails_its_own_test() {
    let cluster = Cluster::simulated().wall_limit(Duration::from_secs(2)).start().unwrap();
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    cluster
        .spawn("blocker", move |_| {
            let held = held.clone();
            async move {
                let _ = held.lock().recv();
            }
        })
        .unwrap();
    let error = cluster.advance(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("neither awaits nor returns"), "{error}");
    drop(cluster);
    drop(go_on);
}

#[test]
fn a_process_that_calls_its_cluster_gets_an_error() {
    let cluster = Arc::new(Cluster::simulated().start().unwrap());
    let (tell, reported) = std::sync::mpsc::channel();
    let within = Arc::downgrade(&cluster);
    cluster
        .spawn("selfish", move |_| {
            let message = within.upgrade().map(|cluster| cluster.get("pod/web").unwrap_err().to_string());
            tell.send(message.unwrap_or_default()).unwrap();
            async {}
        })
        .unwrap();
    cluster.advance(Duration::from_secs(1)).unwrap();
    let message = reported.recv().unwrap();
    assert!(
        message.contains("a process of the cluster called the cluster") && message.contains("ctx.kubernetes()"),
        "{message}"
    );
}

#[test]
fn a_mistake_names_the_field_and_the_fix() {
    fn started(of: harness::testing::Builder) -> String {
        of.start().unwrap_err().to_string()
    }
    assert!(started(Cluster::simulated().without(["csi-atacher"])).contains("did you mean `csi-attacher`?"));
    assert!(started(Cluster::simulated().latency("fast")).contains("latency(): "));
    assert!(started(Cluster::simulated().zones(["eu-west-1a"])).contains("`eu-west-1a` does not lie in us-east-1"));
    assert!(started(Cluster::simulated().flag("kube-scheduler", "no-flag", "1")).contains("flag(): "));
    assert!(started(Cluster::simulated().replicas("etcd", 2)).contains("`etcd` has no replicas"));
    assert!(started(Cluster::simulated().link(5, 1)).contains("link(5, 1): from 1 to 60000"));
    assert!(started(Cluster::simulated().nodes(5_000)).contains("at most 1000 nodes"));
    let cluster = Cluster::simulated().start().unwrap();
    let mistake = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        error.to_string()
    };
    let wrong = cluster.inject(fault::ec2("AttachVolum").first(1).drop_reply()).unwrap_err();
    assert!(mistake(wrong).contains("did you mean `AttachVolume`?"));
    let wrong = cluster.inject(fault::k8s("patch").grpc("UNAVAILABLE")).unwrap_err();
    assert!(mistake(wrong).contains("effect.grpc: cannot happen to `patch` on the plane k8s"));
    let wrong = cluster.inject(fault::csi("NodeStageVolume").matching("proces", "x").grpc("INTERNAL")).unwrap_err();
    assert!(mistake(wrong).contains("did you mean `process`?"));
    assert!(mistake(fault::yaml("{name: f}").unwrap_err()).contains("this is not a fault"));
    assert!(mistake(cluster.wait_for("pvc/data", "Runing").unwrap_err()).contains("is never Runing; its states are"));
    assert!(mistake(cluster.wait_for("pvc/data", "slef.a == 1").unwrap_err()).contains("did you mean `self`?"));
    assert!(mistake(cluster.wait_for("podd/web", "Running").unwrap_err()).contains("did you mean `pod`?"));
    assert!(mistake(cluster.apply("kind: Pod").unwrap_err()).starts_with("line 1: the manifest has no `apiVersion`"));
    assert!(mistake(cluster.crash("csi-atacher").unwrap_err()).contains("there is no node or process csi-atacher"));
    assert!(mistake(cluster.events_of("fault.fire").unwrap_err()).contains("did you mean `fault.fired`?"));
    assert!(mistake(cluster.bytes_intact("pvc/data").unwrap_err()).contains("is not a pod"));
    assert!(mistake(cluster.kubeconfig().unwrap_err()).contains("a simulated cluster has no sockets"));
    let kept = cluster.inject(fault::ec2("AttachVolume").count()).unwrap();
    assert!(mistake(cluster.check().unwrap_err()).contains("these faults are in force: ec2-AttachVolume-count"));
    drop(kept);
    cluster.crash("node-a").unwrap();
    assert!(mistake(cluster.check().unwrap_err()).contains("node-a was crashed: restart it first"));
    let refused =
        cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}").unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Refused, Some(422)), "{refused}");
}

#[test]
fn every_kind_of_fault_is_in_the_table() {
    let cluster = Cluster::simulated().start().unwrap();
    let second = Duration::from_secs(1);
    for fault in [
        fault::link("request").matching("to", "ec2").every(2).drop_request(),
        fault::ec2("AttachVolume").probability(0.5).error("IncorrectState"),
        fault::ec2("AttachVolume").after(second).lasting(second).delay(second),
        fault::ec2("AttachVolume").stick("attaching"),
        fault::k8s("list").stale_read(3),
        fault::k8s("watch-event").cut_watch(),
        fault::k8s("watch").expire_watch(),
        fault::k8s("create").duplicate(2),
        fault::k8s("create").before_reply().http(500),
        fault::csi("NodeStageVolume").until("pvc/data=Bound").hang(),
        fault::csi("Node*").of("node-a/csi-node").grpc("UNAVAILABLE"),
        fault::disk("write_at").io_error("EIO"),
        fault::process("start").delay(second),
        fault::k8s("get").crash("csi-attacher"),
        fault::k8s("get").name("power").reboot("node-a"),
        fault::partition("node-a", "apiserver"),
        fault::partition_one_way("csi-attacher", "csi-controller"),
        fault::skew("node-a/kubelet", "+90s"),
        fault::yaml("{name: f, match: {plane: k8s, op: get}, effect: {count: true}}").unwrap(),
    ] {
        let name = fault.name().to_owned();
        let injected = cluster.inject(fault).unwrap();
        assert_eq!(injected.name(), name);
    }
    // The guards have ended all of them. Two faults with the same name get different names.
    let (one, two) = (fault::k8s("get").count(), fault::k8s("get").count());
    let (one, two) = (cluster.inject(one).unwrap(), cluster.inject(two).unwrap());
    assert_eq!((one.name(), two.name()), ("k8s-get-count", "k8s-get-count-2"));
    one.keep();
    drop(two);
    let left = cluster.check().unwrap_err();
    assert!(left.to_string().contains("in force: k8s-get-count;"), "{left}");
}

#[test]
fn a_failure_shows_the_seed_the_timeline_and_the_command() {
    let cluster = Cluster::simulated().seed(7).start().unwrap();
    cluster.apply(CLAIM_AND_POD).unwrap();
    cluster.wait_for("pod/web", "Running").unwrap();
    let error = cluster.wait_for("pod/web", "self.spec.nodeName == 'node-z'").unwrap_err();
    assert!(error.to_string().starts_with("pod/web does not satisfy `self.spec.nodeName == 'node-z'` after 5m: "));
    let reported = format!("{error:?}");
    for part in [
        "seed 7, 307.",
        "of virtual time",
        "harness/tests/library.rs:",
        "NodeStage",
        "the last 20 trace lines",
        "run it again: MOORING_SEED=7 cargo test -p harness --test library -- --exact a_failure_shows_the_seed_the_timeline_and_the_command",
    ] {
        assert!(reported.contains(part), "{part} is missing in\n{reported}");
    }
}

/// Runs one ignored test of this program as a child process, so that a test can look at a whole process.
fn child(test: &str, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env_remove("MOORING_SEED");
    command.envs(variables.iter().copied()).output().unwrap()
}

#[test]
#[ignore = "run by `one_seed_gives_one_trace_in_two_processes`"]
fn traced() {
    let cluster = Cluster::simulated().trace(std::env::var("TRACE_TO").unwrap()).start().unwrap();
    cluster
        .spawn("watcher", async |ctx| {
            let mut watch = ctx.kubernetes().watch("/apis/storage.k8s.io/v1/volumeattachments").await?;
            while watch.next().await?.is_some() {
                ctx.ec2().call("DescribeVolumes", &[]).await?;
                ctx.sleep(Duration::from_millis(ctx.seed("pause") % 50)).await;
            }
            Ok::<(), Error>(())
        })
        .unwrap();
    run_example(&cluster).unwrap();
}

#[test]
fn one_seed_gives_one_trace_in_two_processes() {
    let dir = tempfile::tempdir().unwrap();
    let trace = |name: &str, seed: &str| {
        let path = dir.path().join(name);
        let output = child("traced", &[("TRACE_TO", path.to_str().unwrap()), ("MOORING_SEED", seed)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(path).unwrap()
    };
    let (one, two, other) = (trace("one", "7"), trace("two", "7"), trace("other", "8"));
    for (n, (a, b)) in one.lines().zip(two.lines()).enumerate() {
        assert_eq!(a, b, "line {} is the first that differs", n + 1);
    }
    assert_eq!(one.len(), two.len());
    assert!(one.lines().count() > 500 && one.contains("\"process\":\"watcher\""));
    assert_ne!(one, other, "another seed is another run");
}

#[test]
#[ignore = "run by `a_test_that_panics_shows_its_run_and_leaves_no_thread`"]
fn panics() {
    let before = threads();
    let outcome = std::panic::catch_unwind(|| {
        let cluster = Cluster::simulated().nodes(1).start().unwrap();
        cluster.spawn("waits", async |_| std::future::pending::<()>().await).unwrap();
        let _fault = cluster.inject(fault::ec2("AttachVolume").hang()).unwrap();
        cluster.apply(CLAIM_AND_POD).unwrap();
        assert!(cluster.get("pod/web").unwrap().is_none(), "the assertion of a user");
    });
    assert!(outcome.is_err());
    assert_eq!(threads(), before, "threads are left");
}

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn a_test_that_panics_shows_its_run_and_leaves_no_thread() {
    let output = child("panics", &[("MOORING_SEED", "3")]);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    assert!(reported.contains("the assertion of a user"), "{reported}");
    let report = reported.split_once("seed 3, ").unwrap().1;
    assert!(report.contains("run it again: MOORING_SEED=3 cargo test -p harness --test library"), "{reported}");
}

#[test]
fn a_bad_seed_in_the_environment_fails() {
    let output = child("traced", &[("TRACE_TO", "/dev/null"), ("MOORING_SEED", "1..5")]);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        reported.contains("MOORING_SEED=1..5: a cluster has one seed") && reported.contains("MOORING_SEEDS"),
        "{reported}"
    );
}

#[test]
fn scenarios_run_in_tests() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/first-volume.yaml");
    let played = play(file).unwrap();
    assert!(played.elapsed > Duration::from_secs(1) && played.events.len() > 50);
    let text = "name: t\nnodes: {count: 1}\nsteps:\n- wait: {object: pod/none, is: Running, within: 5s}\n";
    let failed = play_text("t.yaml", text).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Broken);
    let reported = format!("{failed:?}");
    assert!(
        reported.contains("t.yaml:4:3") && reported.contains("run it again: mooring run t.yaml --seed 1"),
        "{reported}"
    );
    let wrong = play_text("t.yaml", "name: t\nstep: []\n").unwrap_err();
    assert!(wrong.kind() == ErrorKind::Usage && wrong.to_string().contains("did you mean `steps`?"), "{wrong}");
}

#[test]
fn custom_kinds_are_known_once_they_are_applied() {
    let cluster = Cluster::simulated().start().unwrap();
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tapes.example.com}\n\
        spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Tape, plural: tapes, singular: tape}\n  versions:\n\
        \x20 - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n";
    cluster.apply(definition).unwrap();
    cluster.wait_for("crd/tapes.example.com", "self.status.conditions.exists(c, c.type == 'Established')").unwrap();
    cluster.apply("{apiVersion: example.com/v1, kind: Tape, metadata: {name: one}, spec: {length: 9}}").unwrap();
    cluster.patch("tape/one", &json!({"spec": {"length": 10}})).unwrap();
    cluster.wait_for("tape/one", "self.spec.length == 10").unwrap();
    assert_eq!(cluster.list("tapes").unwrap().len(), 1);
    cluster.delete("tape/one").unwrap();
    cluster.wait_for("tape/one", "gone").unwrap();
}
