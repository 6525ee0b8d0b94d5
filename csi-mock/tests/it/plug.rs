//! The device plug against a scripted device stream.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use csi_disk::plug::{self, PlugConfig};
use csi_disk::{Disk, MemoryDisks, Stage, faulty};
use futures_util::StreamExt;
use http::Uri;
use substrate::HttpService;
use substrate::process::Ctx;
use tokio::sync::mpsc;

use crate::support::*;

const VOLUME: &str = "vol-0123456789abcdef0";
const OTHER: &str = "vol-0123456789abcdef1";

/// Returns a cloud that serves the next receiver to each connection, and answers 503 when none is left.
fn cloud(streams: Vec<mpsc::UnboundedReceiver<String>>) -> (HttpService, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let streams = Arc::new(Mutex::new(streams.into_iter()));
    let seen = asked.clone();
    let handle = move |uri: Uri| {
        seen.lock().push(uri.to_string());
        let next = streams.lock().next();
        async move {
            let Some(lines) = next else { return Err(http::StatusCode::SERVICE_UNAVAILABLE) };
            let lines = futures_util::stream::unfold(lines, |mut lines| async move {
                let line = lines.recv().await?;
                Some((Ok::<_, std::io::Error>(Bytes::from(line)), lines))
            });
            Ok(Body::from_stream(lines.boxed()))
        }
    };
    let router = Router::new().route("/admin/v1/devices", axum::routing::get(handle));
    (substrate::body::from_router(router), asked)
}

fn attached(volume: &str, device: &str) -> String {
    format!(
        "{{\"type\":\"attached\",\"volume\":\"{volume}\",\"device\":\"{device}\",\"file\":\"f\",\"size_bytes\":1048576}}\n"
    )
}

fn line(kind: &str, volume: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"volume\":\"{volume}\",\"forced\":false}}\n")
}

async fn settle(ctx: &Ctx) {
    ctx.sleep(Duration::from_millis(1)).await;
}

#[test]
fn devices_come_and_go_with_the_stream() {
    run(async |world, ctx| {
        let disk = MemoryDisks::new().node("node-a");
        let (tell, stream) = mpsc::unbounded_channel();
        let (ec2, asked) = cloud(vec![stream]);
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk.clone())));
        // A line may arrive in pieces, and unknown types are skipped.
        let text = attached(VOLUME, "/dev/xvdaa");
        tell.send(text[..20].to_owned()).unwrap();
        tell.send(format!("{}{{\"type\":\"synced\"}}\n{{\"type\":\"news\"}}\n", &text[20..])).unwrap();
        settle(&ctx).await;
        assert_eq!(asked.lock()[0], format!("/admin/v1/devices?instance={NODE_A}"));
        assert_eq!(disk.find(VOLUME).await.unwrap().unwrap().name, "/dev/xvdaa");
        tell.send(line("detaching", VOLUME)).unwrap();
        settle(&ctx).await;
        assert_eq!(disk.find(VOLUME).await.unwrap(), None);
        tell.send(line("detached", VOLUME)).unwrap();
        settle(&ctx).await;
        assert_eq!(kinds(&world, "disk."), ["disk.plugged", "disk.unplugged"]);
        assert_eq!(events(&world, "disk.plugged")[0].str("device"), Some("/dev/xvdaa"));
    });
}

#[test]
fn a_mounted_device_stays_while_detaching_and_is_pulled_when_detached() {
    run(async |_, ctx| {
        let disk = MemoryDisks::new().node("node-a");
        let (tell, stream) = mpsc::unbounded_channel();
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(cloud(vec![stream]).0, NODE_A, "node-a", disk.clone())));
        tell.send(attached(VOLUME, "/dev/xvdaa")).unwrap();
        settle(&ctx).await;
        let stage = Stage { volume: VOLUME.into(), path: "/stage".into(), fs_type: "ext4".into(), ..Stage::default() };
        disk.stage(&stage).await.unwrap();
        tell.send(line("detaching", VOLUME)).unwrap();
        settle(&ctx).await;
        assert!(disk.find(VOLUME).await.unwrap().is_some());
        tell.send(line("detached", VOLUME)).unwrap();
        settle(&ctx).await;
        assert_eq!(disk.find(VOLUME).await.unwrap(), None);
        assert!(disk.append("/stage/f".as_ref(), b"x").await.unwrap_err().is_eio());
    });
}

#[test]
fn after_a_break_the_plug_catches_up() {
    run(async |_, ctx| {
        let disk = MemoryDisks::new().node("node-a");
        let (first, stream_1) = mpsc::unbounded_channel();
        let (second, stream_2) = mpsc::unbounded_channel();
        let ec2 = cloud(vec![stream_1, stream_2]).0;
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk.clone())));
        first.send(attached(VOLUME, "/dev/xvdaa") + "{\"type\":\"synced\"}\n").unwrap();
        settle(&ctx).await;
        drop(first);
        second.send(attached(OTHER, "/dev/xvdab") + "{\"type\":\"synced\"}\n").unwrap();
        ctx.sleep(Duration::from_millis(200)).await;
        assert_eq!(disk.find(VOLUME).await.unwrap(), None, "detached while the plug was away");
        assert!(disk.find(OTHER).await.unwrap().is_some());
    });
}

/// Wraps a disk whose operation `op` on [`VOLUME`] fails the first `times` times.
fn failing(ctx: &Ctx, disk: Arc<dyn Disk>, op: &str, times: u32) -> Arc<dyn Disk> {
    let fault = serde_json::json!({
        "name": "fails", "match": { "plane": "disk", "op": op, "where": { "volume": VOLUME } },
        "when": { "first": times }, "effect": { "io_error": "EBUSY" },
    });
    let disk = faulty(ctx, disk);
    ctx.faults().add(Duration::ZERO, serde_json::from_value(fault).unwrap()).unwrap();
    disk
}

#[test]
fn a_failed_plug_is_retried_and_blocks_no_other_volume() {
    run(async |world, ctx| {
        let disk = MemoryDisks::new().node("node-a");
        let reported = attached(VOLUME, "/dev/xvdaa") + &attached(OTHER, "/dev/xvdab") + "{\"type\":\"synced\"}\n";
        let (tell, streams): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::unbounded_channel()).unzip();
        tell.iter().for_each(|tell| tell.send(reported.clone()).unwrap());
        let (ec2, asked) = cloud(streams);
        let disk = failing(&ctx, disk, "find", 3);
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk.clone())));
        settle(&ctx).await;
        let plugged = async || disk.devices().await.unwrap().into_iter().map(|d| d.volume).collect::<Vec<_>>();
        assert_eq!(plugged().await, [OTHER]);
        assert_eq!(events(&world, "disk.error").len(), 1);
        // With growing waits: after 100, 200 and 400 ms.
        ctx.sleep(Duration::from_millis(650)).await;
        assert_eq!(plugged().await, [OTHER]);
        assert_eq!(asked.lock().len(), 3);
        ctx.sleep(Duration::from_millis(100)).await;
        assert_eq!(plugged().await, [VOLUME, OTHER]);
        assert_eq!(asked.lock().len(), 4);
        ctx.sleep(Duration::from_secs(60)).await;
        assert_eq!(asked.lock().len(), 4, "nothing is left to be tried");
    });
}

#[test]
fn a_device_that_could_not_be_pulled_is_pulled_on_the_next_connection() {
    run(async |_, ctx| {
        let disk = MemoryDisks::new().node("node-a");
        let (first, stream_1) = mpsc::unbounded_channel();
        let (second, stream_2) = mpsc::unbounded_channel();
        let (ec2, asked) = cloud(vec![stream_1, stream_2]);
        let disk = failing(&ctx, disk, "unplug", 1);
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk.clone())));
        first.send(attached(VOLUME, "/dev/xvdaa") + "{\"type\":\"synced\"}\n").unwrap();
        second.send("{\"type\":\"synced\"}\n".to_owned()).unwrap();
        settle(&ctx).await;
        first.send(line("detached", VOLUME)).unwrap();
        settle(&ctx).await;
        assert!(disk.find(VOLUME).await.unwrap().is_some());
        ctx.sleep(Duration::from_millis(200)).await;
        assert_eq!(disk.find(VOLUME).await.unwrap(), None);
        assert_eq!(asked.lock().len(), 2);
    });
}

#[test]
fn connections_that_fail_are_tried_again_more_and_more_slowly() {
    run(async |_, ctx| {
        let (ec2, asked) = cloud(Vec::new());
        let disk = MemoryDisks::new().node("node-a");
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk)));
        ctx.sleep(Duration::from_secs(60)).await;
        let tries = asked.lock().len();
        assert!((12..=20).contains(&tries), "{tries}");
    });
}
