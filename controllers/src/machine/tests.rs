//! Tests of a runtime over a link, with the requests of a kubelet.

use std::path::PathBuf;

use csi_disk::{MemoryDisks, faulty};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use substrate::Process;
use substrate::body::{BoxError, boxed, call, collect, full};
use substrate::channels::{self, Decoder};
use substrate::json::{Value, json};
use substrate::link::{Frames, Link, Streaming};
use substrate::world::{Options, World, simulate};

use super::api::State;
use super::events::{WorkloadFailed, WorkloadStopped, WorkloadSynced};
use super::*;

/// A runtime and its client.
struct Rig {
    world: World,
    disk: Arc<dyn Disk>,
    machine: Process,
    kubelet: Process,
}

impl Rig {
    fn new(world: &World, change: impl Fn(&mut MachineConfig) + Send + Sync + 'static) -> Self {
        let disk = MemoryDisks::new().node("node-a");
        let machine_disk = disk.clone();
        let machine = Process::start(world, "node-a", move |ctx| {
            let mut config = MachineConfig::new("node-a", faulty(&ctx, machine_disk.clone()));
            change(&mut config);
            ctx.world().fabric().bind(&ctx, "runtime-node-a", start(&ctx, config));
            std::future::pending()
        });
        let kubelet = Process::start(world, "kubelet", |_| std::future::pending());
        Self { world: world.clone(), disk, machine, kubelet }
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let ctx = self.kubelet.ctx().expect("a kubelet");
        let request = Request::builder().method(method).uri(path).body(full(body.to_string())).expect("a request");
        let answer = call(Link::connect(&ctx, "runtime-node-a"), request).await.expect("an answer");
        let code = answer.status().as_u16();
        let text = collect(answer.into_body(), 1 << 20).await.expect("a body");
        (code, serde_json::from_slice(&text).unwrap_or_else(|_| String::from_utf8_lossy(&text).as_ref().into()))
    }

    /// Runs a pod that writes every second to a directory of the node.
    async fn run(&self, uid: &str, attempt: u32) -> PodRecord {
        let path = PathBuf::from(format!("/volumes/{uid}"));
        self.disk.make_dir(&path).await.expect("a directory");
        let (code, record) = self.ask(Method::POST, "/v1/pods", &spec(uid, attempt)).await;
        assert_eq!(code, 200, "{record}");
        substrate::json::from_value(record).expect("a record")
    }

    async fn list(&self) -> Vec<PodRecord> {
        substrate::json::from_value(self.ask(Method::GET, "/v1/pods", &Value::Null).await.1).expect("records")
    }

    fn count<T: substrate::EventType>(&self) -> usize {
        self.world.trace().events().iter().filter(|e| e.is::<T>()).count()
    }
}

fn spec(uid: &str, attempt: u32) -> Value {
    json!({
        "pod": format!("default/{uid}"), "uid": uid, "attempt": attempt,
        "containers": [{ "name": "app", "image": "busybox", "attempt": attempt }],
        "volumes": [{
            "name": "data", "volume": format!("vol-{uid}"), "container": "app", "at": "/data", "readonly": false,
            "place": { "filesystem": { "path": format!("/volumes/{uid}") } },
        }],
        "pace": { "write_every_ms": 1000, "records": 10, "idle_every_ms": 30000 },
    })
}

fn in_simulation<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    simulate(Options::default(), test);
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[test]
fn containers_outlive_who_asked_for_them_and_are_found_again() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        let first = rig.run("p", 0).await;
        assert!(matches!(first.state, State::Running { .. }));
        rig.kubelet.crash();
        seconds(5).await;
        rig.kubelet.restart();
        assert_eq!(rig.list().await, std::slice::from_ref(&first));
        assert_eq!(rig.run("p", 0).await, first, "what runs is not started twice");
        assert_eq!(rig.count::<WorkloadSynced>(), 6);
        let (code, lines) = rig.ask(Method::GET, "/v1/pods/p/logs/app?tailLines=1", &Value::Null).await;
        assert_eq!((code, lines), (200, json!("data: wrote record 6\n")));
    });
}

#[test]
fn a_machine_that_dies_ends_its_containers_without_a_report() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        rig.run("p", 0).await;
        rig.machine.crash();
        seconds(5).await;
        let synced = rig.count::<WorkloadSynced>();
        rig.machine.restart();
        assert_eq!(rig.list().await, []);
        seconds(5).await;
        assert_eq!((rig.count::<WorkloadStopped>(), rig.count::<WorkloadSynced>()), (0, synced));
    });
}

#[test]
fn news_tell_what_becomes_of_pods() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |config| config.container_start = (Duration::from_secs(1), Duration::from_secs(1)));
        rig.run("old", 0).await;
        let ctx = rig.kubelet.ctx().expect("a kubelet");
        let mut request = Request::get("/v1/pods?watch=true").body(full("")).expect("a request");
        request.extensions_mut().insert(Streaming);
        let mut body = call(Link::connect(&ctx, "runtime-node-a"), request).await.expect("news").into_body();
        let mut next = async || -> News {
            let frame = body.frame().await.expect("a line").expect("no break");
            serde_json::from_slice(&frame.into_data().expect("data")).expect("news")
        };
        assert!(matches!(next().await, News::List(pods) if pods.len() == 1));
        rig.run("p", 0).await;
        assert!(matches!(next().await, News::Pod(pod) if pod.uid == "p" && pod.state == State::Starting));
        assert!(matches!(next().await, News::Pod(pod) if matches!(pod.state, State::Running { .. })));
        let (code, _) = rig.ask(Method::DELETE, "/v1/pods/p", &Value::Null).await;
        assert_eq!(code, 409, "it runs");
        let stop = json!({ "grace_ms": 30000 });
        assert_eq!(rig.ask(Method::POST, "/v1/pods/p/stop", &stop).await.0, 200);
        let exit = |pod: &PodRecord| pod.containers[0].exit().map(|exit| exit.code);
        assert!(matches!(next().await, News::Pod(pod) if pod.is_alive() && exit(&pod) == Some(0)));
        assert!(matches!(next().await, News::Pod(pod) if matches!(pod.state, State::Stopped { .. })));
        assert_eq!(rig.ask(Method::DELETE, "/v1/pods/p", &Value::Null).await.0, 200);
        assert!(matches!(next().await, News::Removed(uid) if uid == "p"));
        assert_eq!(rig.ask(Method::POST, "/v1/pods/p/stop", &stop).await.0, 404);
        // A workload in trouble reports it.
        let mut lost = spec("lost", 0);
        lost["volumes"][0]["place"] = json!({ "device": { "published": "/d/a", "global": "/d/b", "link": "/d/c" } });
        assert_eq!(rig.ask(Method::POST, "/v1/pods", &lost).await.0, 200);
        let trouble = loop {
            if let News::Trouble(trouble) = next().await {
                break trouble;
            }
        };
        assert_eq!((&*trouble.uid, &*trouble.reason), ("lost", "WorkloadFailed"));
        assert!(rig.count::<WorkloadFailed>() > 0);
    });
}

#[test]
fn containers_that_are_slow_to_stop_are_killed_when_the_shortest_grace_is_over() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |config| config.container_stop = Duration::from_secs(100));
        rig.run("p", 0).await;
        let ended = async || rig.list().await.remove(0).ended();
        rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 30000 })).await;
        seconds(5).await;
        assert_eq!(ended().await, None);
        // A terminating pod is deleted again with a shorter grace period, which counts from the first request.
        rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 8000 })).await;
        seconds(2).await;
        assert_eq!(ended().await, None);
        seconds(2).await;
        let record = rig.list().await.remove(0);
        assert_eq!(record.containers[0].exit().map(|exit| exit.code), Some(137), "{record:?}");
        let (_, lines) = rig.ask(Method::GET, "/v1/pods/p/logs/app?tailLines=1", &Value::Null).await;
        assert_eq!(lines, json!("killed: the grace period is over\n"));
        // Stopped containers start again only as another attempt.
        assert_eq!(rig.run("p", 0).await, record);
        let again = rig.run("p", 1).await;
        assert_eq!((again.attempt, again.sandbox, again.is_alive()), (1, 1, true));
    });
}

#[test]
fn containers_stopped_before_they_run_never_run() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |config| config.container_start = (Duration::from_secs(3), Duration::from_secs(3)));
        let stop = async {
            seconds(1).await;
            rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 30000 })).await
        };
        let (record, (code, _)) = tokio::join!(rig.run("p", 0), stop);
        assert_eq!(code, 200);
        assert!(matches!(record.state, State::Stopped { since: None, .. }), "{record:?}");
        seconds(5).await;
        assert_eq!(rig.count::<WorkloadSynced>(), 0);
    });
}

#[test]
fn a_container_that_failed_starts_again_on_request_and_keeps_the_log_before() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        rig.run("p", 0).await;
        seconds(2).await;
        let broken =
            json!({ "name": "eio", "match": { "plane": "disk", "op": "sync" }, "effect": { "io_error": "EIO" } });
        let broken =
            world.faults().add(world.clock().now().mono, substrate::json::from_value(broken).expect("a fault"));
        seconds(2).await;
        let exited = rig.list().await.remove(0);
        let code = |record: &PodRecord| record.containers[0].exit().map(|exit| exit.code);
        assert_eq!((code(&exited), exited.is_alive()), (Some(1), true), "{exited:?}");
        assert_eq!((rig.count::<WorkloadFailed>(), rig.count::<WorkloadStopped>()), (1, 1));
        seconds(60).await;
        assert_eq!(rig.list().await, [exited], "it does not start by itself");
        broken.expect("added");
        world.faults().remove("eio");
        let start = async |attempt: u32| {
            let path = "/v1/pods/p/containers/app/start";
            rig.ask(Method::POST, path, &json!({ "attempt": attempt })).await
        };
        let (answered, record) = start(1).await;
        let record: PodRecord = substrate::json::from_value(record).expect("a record");
        assert_eq!((answered, code(&record), record.containers[0].attempt), (200, None, 1));
        assert_eq!(record.containers[0].last.map(|exit| exit.code), Some(1));
        assert_eq!(start(1).await.0, 200, "it may be repeated");
        seconds(2).await;
        let log = async |query: &str| rig.ask(Method::GET, &format!("/v1/pods/p/logs/app?{query}"), &Value::Null).await;
        let (_, before) = log("attempt=0&tailLines=1").await;
        assert_eq!(before, json!("exits with code 1\n"));
        let (_, now) = log("tailLines=1").await;
        assert!(now.as_str().is_some_and(|line| line.starts_with("data: wrote record")), "{now}");
        rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 30000 })).await;
        seconds(1).await;
        assert_eq!(start(2).await.0, 409, "the pod has stopped");
    });
}

#[test]
fn a_modelled_container_is_stopped_alone_and_starts_again_with_another_image() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |config| config.container_stop = Duration::from_secs(100));
        let mut both = spec("p", 0);
        both["containers"] = json!([
            { "name": "app", "image": "busybox", "attempt": 0 },
            { "name": "side", "image": "busybox", "attempt": 0 },
        ]);
        rig.disk.make_dir(&PathBuf::from("/volumes/p")).await.expect("a directory");
        assert_eq!(rig.ask(Method::POST, "/v1/pods", &both).await.0, 200);
        let codes = async || -> Vec<Option<i32>> {
            let record = rig.list().await.remove(0);
            record.containers.iter().map(|container| container.exit().map(|exit| exit.code)).collect()
        };
        let stop = async || {
            let path = "/v1/pods/p/containers/app/stop";
            rig.ask(Method::POST, path, &json!({ "grace_ms": 8000 })).await.0
        };
        seconds(3).await;
        assert_eq!(stop().await, 200);
        seconds(5).await;
        assert_eq!(codes().await, [None, None]);
        seconds(4).await;
        assert_eq!(codes().await, [Some(137), None]);
        assert_eq!(stop().await, 409, "it does not run");
        let renewed = json!({ "name": "app", "image": "busybox:2", "attempt": 1 });
        let start = json!({ "attempt": 1, "renewed": renewed });
        let (code, record) = rig.ask(Method::POST, "/v1/pods/p/containers/app/start", &start).await;
        assert_eq!((code, &record["containers"][0]["image"]), (200, &json!("busybox:2")), "{record}");
        seconds(20).await;
        assert_eq!(codes().await, [None, None], "the former grace period is that of the former start");
        let (_, log) = rig.ask(Method::GET, "/v1/pods/p/logs/app", &Value::Null).await;
        assert!(
            log.as_str().is_some_and(|log| log.starts_with("started as a modelled workload of image \"busybox:2\""))
        );
    });
}

#[test]
fn a_container_exits_as_planned() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        let mut planned = spec("p", 0);
        planned["pace"]["records"] = 0.into();
        planned["containers"] = json!([
            { "name": "prepare", "image": "busybox", "attempt": 0, "init": true },
            { "name": "app", "image": "busybox", "attempt": 0, "exit": { "after_ms": 5000, "code": 7 } },
            { "name": "side", "image": "busybox", "attempt": 0 },
        ]);
        rig.disk.make_dir(&PathBuf::from("/volumes/p")).await.expect("a directory");
        assert_eq!(rig.ask(Method::POST, "/v1/pods", &planned).await.0, 200);
        let codes = async || -> Vec<Option<i32>> {
            let record = rig.list().await.remove(0);
            record.containers.iter().map(|container| container.exit().map(|exit| exit.code)).collect()
        };
        seconds(4).await;
        assert_eq!(codes().await, [Some(0), None, None]);
        seconds(2).await;
        assert_eq!(codes().await, [Some(0), Some(7), None]);
        assert_eq!(rig.count::<WorkloadStopped>(), 1, "its writer has ended with it");
        assert_eq!(rig.count::<WorkloadSynced>(), 0, "no records were asked for");
    });
}

#[test]
fn a_command_that_is_stopped_has_another_code_than_a_server() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        let mut planned = spec("p", 0);
        planned["volumes"] = json!([]);
        planned["containers"] = json!([
            { "name": "command", "image": "busybox", "attempt": 0, "exit": { "after_ms": 60_000, "code": 0 } },
            { "name": "server", "image": "busybox", "attempt": 0 },
        ]);
        assert_eq!(rig.ask(Method::POST, "/v1/pods", &planned).await.0, 200);
        assert_eq!(rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 5000 })).await.0, 200);
        seconds(2).await;
        let codes = rig.list().await.remove(0).containers.into_iter().map(|one| one.exit().map(|exit| exit.code));
        assert_eq!(codes.collect::<Vec<_>>(), [Some(143), Some(0)]);
    });
}

#[test]
fn containers_behind_a_failing_init_container_wait_for_their_kubelet() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        let mut planned = spec("p", 0);
        planned["volumes"] = json!([]);
        planned["containers"] = json!([
            { "name": "done", "image": "busybox", "attempt": 0, "init": true },
            { "name": "first", "image": "busybox", "attempt": 0, "init": true, "exit": { "after_ms": 0, "code": 1 } },
            { "name": "second", "image": "busybox", "attempt": 0, "init": true },
            { "name": "app", "image": "busybox", "attempt": 0, "exit": { "after_ms": 0, "code": 2 } },
        ]);
        assert_eq!(rig.ask(Method::POST, "/v1/pods", &planned).await.0, 200);
        let codes = async || -> Vec<Option<i32>> {
            let record = rig.list().await.remove(0);
            record.containers.iter().map(|container| container.exit().map(|exit| exit.code)).collect()
        };
        seconds(1).await;
        assert_eq!(codes().await, [Some(0), None, None, None]);
        for (name, after) in [("first", [Some(1), None]), ("second", [Some(1), Some(0)])] {
            let start = format!("/v1/pods/p/containers/{name}/start");
            assert_eq!(rig.ask(Method::POST, &start, &json!({ "attempt": 0 })).await.0, 200);
            seconds(1).await;
            assert_eq!(codes().await[1..3], after);
        }
        assert_eq!(codes().await[3], None);
    });
}

#[test]
fn a_client_attached_to_a_modelled_container_gets_its_lines_and_its_end() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        rig.run("p", 0).await;
        let (code, why) = rig.ask(Method::POST, "/v1/pods/p/attach/app?stdin=true&stdout=true", &Value::Null).await;
        assert!(code == 409 && why.to_string().contains("container app is a modelled workload"), "{why}");
        let ctx = rig.kubelet.ctx().expect("a kubelet");
        let open = boxed(StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>()));
        let request = Request::post("/v1/pods/p/attach/app?stdout=true").extension(Streaming).extension(Frames);
        let request = request.body(open).expect("a request");
        let answer = call(Link::connect(&ctx, "runtime-node-a"), request).await.expect("an answer");
        let (mut body, mut decoder, mut messages) = (answer.into_body(), Decoder::default(), Vec::new());
        let read = async {
            while let Some(Ok(frame)) = body.frame().await {
                decoder.add(frame.data_ref().map_or(&[][..], |data| data));
                while let Some((channel, content)) = decoder.take().expect("a message") {
                    messages.push((channel, String::from_utf8_lossy(&content).into_owned()));
                }
            }
        };
        let stop = async {
            seconds(3).await;
            rig.ask(Method::POST, "/v1/pods/p/stop", &json!({ "grace_ms": 30000 })).await
        };
        tokio::join!(read, stop);
        let (channel, result) = messages.pop().expect("a result");
        assert!(channel == channels::RESULT && result.contains("Success"), "{result}");
        assert_eq!(messages.pop(), Some((channels::STDOUT, "stopped\n".to_owned())));
        assert!(messages.iter().any(|(_, line)| line.starts_with("data: wrote record")), "{messages:?}");
        assert!(messages.iter().all(|(_, line)| !line.starts_with("started")), "{messages:?}");
    });
}

#[test]
fn a_request_that_says_nothing_is_refused() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, |_| {});
        let mut nameless = spec("p", 0);
        nameless["uid"] = json!("../p");
        for (method, path, body, code, message) in [
            (Method::POST, "/v1/pods", json!({ "pod": "default/p" }), 400, "missing field"),
            (Method::POST, "/v1/pods", nameless, 400, "uid: invalid name `../p`"),
            (Method::POST, "/v1/pods/p/stop", json!({ "grace": 1 }), 400, "unknown field `grace`"),
            (Method::GET, "/v1/pods/p/logs/app", Value::Null, 404, "no container `app`"),
            (Method::GET, "/v1/pods/p/logs/app?attempt=3", Value::Null, 404, "no start 3 of container `app`"),
            (Method::GET, "/v1/pods/p/logs/app?attempt=x", Value::Null, 400, "attempt: `x` is not a number of starts"),
            (Method::POST, "/v1/pods/p/containers/app/start", json!({ "attempt": 1 }), 409, "the pod does not run"),
            (Method::POST, "/v1/pods/p/attach/app?stdout=true", Value::Null, 409, "the pod is not on this machine"),
            (Method::GET, "/v1/pods/p/logs/app?tailLines=x", Value::Null, 400, "Unable to decode query"),
            (Method::PUT, "/v1/pods", Value::Null, 405, "PUT is not allowed"),
            (Method::GET, "/v2", Value::Null, 404, "nothing at /v2"),
        ] {
            let (answered, why) = rig.ask(method, path, &body).await;
            let text = why.as_str().map_or_else(|| why.to_string(), str::to_owned);
            assert!(answered == code && text.contains(message), "{path}: {answered} {text}");
        }
        assert_eq!(rig.list().await, []);
    });
}
