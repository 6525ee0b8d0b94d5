//! Output of pods, and the node's log endpoint.

use http::Request;
use http_body_util::BodyExt;
use substrate::Ctx;
use substrate::body::{Body, call, collect, empty};
use substrate::link::Streaming;

use super::*;

/// Client of the node's server.
pub(super) fn reader(world: &World) -> Ctx {
    Process::start(world, "reader", |_| std::future::pending()).ctx().expect("a process")
}

pub(super) async fn ask(ctx: &Ctx, path: &str, follow: bool) -> http::Response<Body> {
    let mut request = Request::get(path).body(empty()).expect("a request");
    if follow {
        request.extensions_mut().insert(Streaming);
    }
    call(Link::connect(ctx, "kubelet-node-a"), request).await.expect("an answer")
}

async fn text(ctx: &Ctx, query: &str) -> (u16, String) {
    let response = ask(ctx, &format!("/containerLogs/default/{query}"), false).await;
    let code = response.status().as_u16();
    let bytes = collect(response.into_body(), 1 << 20).await.expect("a body");
    (code, String::from_utf8(bytes.to_vec()).expect("text"))
}

#[test]
fn a_pod_logs_its_workload_until_it_has_stopped() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.plug().await;
        rig.claim_and_pod("p");
        rig.until("volumesInUse", 11, || rig.in_use()).await;
        let waiting = "container \"app\" in pod \"p\" is waiting to start: ContainerCreating";
        assert_eq!(text(&ctx, "p/app").await, (400, waiting.to_owned()));
        rig.attach();
        rig.until("records", 15, || rig.count("workload.synced") == 3).await;
        let (code, lines) = text(&ctx, "p/app").await;
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(code, 200);
        let first = [
            "started as a modelled workload of image \"busybox\"",
            "data: volume vol-1 is mounted at /data",
            "data: found no records",
            "data: wrote record 1",
        ];
        assert_eq!(lines[..4], first);
        let (_, stamped) = text(&ctx, "p/app?tailLines=1&timestamps=true").await;
        let (stamp, line) = stamped.trim_end().split_once(' ').expect("a stamp");
        assert!(stamp.parse::<jiff::Timestamp>().is_ok() && line.starts_with("data: wrote record"), "{stamped}");

        let mut followed = ask(&ctx, "/containerLogs/default/p/app?follow=true&tailLines=0", true).await.into_body();
        rig.until("records", 15, || rig.count("workload.synced") == 5).await;
        rig.delete_gracefully("p");
        let mut seen = String::new();
        while let Some(frame) = followed.frame().await {
            let data = frame.expect("no break").into_data().expect("data");
            seen.push_str(std::str::from_utf8(&data).expect("text"));
        }
        assert!(seen.starts_with("data: wrote record 4\n") || seen.starts_with("data: wrote record 5\n"), "{seen}");
        assert!(seen.ends_with("asked to stop (SIGTERM)\nstopped\n"), "{seen}");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(text(&ctx, "p/app").await, (404, "pod \"p\" does not exist".to_owned()));
    });
}

#[test]
fn a_node_lists_its_pods() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let response = ask(&ctx, "/pods", false).await;
        assert_eq!(response.headers()[http::header::CONTENT_TYPE], "application/json");
        let bytes = collect(response.into_body(), 1 << 20).await.expect("a body");
        let list: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        let item = &list["items"][0];
        assert_eq!((&list["kind"], &item["kind"]), (&"PodList".into(), &serde_json::Value::Null));
        assert_eq!((&item["metadata"]["name"], list["items"].as_array().map(Vec::len)), (&"p".into(), Some(1)));
    });
}

#[test]
fn a_node_has_no_log_files() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        assert_eq!(ask(&ctx, "/logs/", false).await.status().as_u16(), 404);
    });
}

#[test]
fn a_request_that_cannot_be_met_is_refused_as_kubelet_does() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        for (query, code, message) in [
            ("q/app", 404, "pod \"q\" does not exist"),
            ("p/other", 404, "container \"other\" not found in pod \"p\""),
            ("p/app?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
            ("p/app?tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
            ("p/app?previous=true", 400, "previous terminated container \"app\" in pod \"p\" not found"),
            ("p/app/more", 404, "404 page not found"),
        ] {
            assert_eq!(text(&ctx, query).await, (code, message.to_owned()), "{query}");
        }
        // The logs of a machine are lost when it goes down.
        rig.node.restart();
        rig.until("second start", 15, || rig.count("workload.started") == 2).await;
        let (_, lines) = text(&ctx, "p/app").await;
        assert!(lines.contains("data: found") && lines.contains("verified"), "{lines}");
        assert!(!lines.contains("found no records"), "{lines}");
        let gone = "unable to retrieve container logs for mooring://uid-of-p/app";
        rig.until("reported", 2, || {
            rig.toy.get("pods", "default", "p")["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
        assert_eq!(text(&ctx, "p/app?previous=true").await, (400, gone.to_owned()));
    });
}
