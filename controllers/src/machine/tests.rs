//! Tests of a runtime over a link, with the requests of a kubelet.

use std::path::PathBuf;

use csi_mock::disk::MemoryDisks;
use http::{Method, Request};
use http_body_util::BodyExt;
use substrate::Process;
use substrate::body::{call, collect, full};
use substrate::json::{Value, json};
use substrate::link::{Link, Streaming};
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
            let mut config = MachineConfig::new("node-a", machine_disk.clone());
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
        "containers": [{ "name": "app", "image": "busybox" }],
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
fn a_machine_that_dies_takes_its_containers_with_it_unheard() {
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
        assert!(matches!(next().await, News::Pod(pod) if matches!(pod.state, State::Stopped { killed: false, .. })));
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
        assert!(matches!(record.state, State::Stopped { killed: true, .. }), "{record:?}");
        let (_, lines) = rig.ask(Method::GET, "/v1/pods/p/logs/app?tailLines=1", &Value::Null).await;
        assert_eq!(lines, json!("killed: the grace period is over\n"));
        // Stopped containers start again only as another attempt.
        assert_eq!(rig.run("p", 0).await, record);
        let again = rig.run("p", 1).await;
        assert_eq!((again.attempt, again.sandbox, again.is_alive()), (1, 1, true));
    });
}

#[test]
fn containers_that_are_told_to_stop_before_they_run_never_do() {
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
