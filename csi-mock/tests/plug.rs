//! The device plug against a scripted device stream.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use csi_mock::disk::{MemoryDisks, Stage};
use csi_mock::plug::{self, PlugConfig};
use futures_util::StreamExt;
use http::Uri;
use substrate::HttpService;
use substrate::process::Ctx;
use support::*;
use tokio::sync::mpsc;

const VOLUME: &str = "vol-0123456789abcdef0";
const OTHER: &str = "vol-0123456789abcdef1";

/// Each connection takes the next of the receivers; when there is none left, the cloud answers 503.
fn cloud(streams: Vec<mpsc::UnboundedReceiver<String>>) -> (HttpService, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let streams = Arc::new(Mutex::new(streams.into_iter()));
    let seen = asked.clone();
    let handle = move |uri: Uri| {
        seen.lock().unwrap().push(uri.to_string());
        let next = streams.lock().unwrap().next();
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
        // A line may arrive in pieces, and unknown kinds are passed over.
        let text = attached(VOLUME, "/dev/xvdaa");
        tell.send(text[..20].to_owned()).unwrap();
        tell.send(format!("{}{{\"type\":\"synced\"}}\n{{\"type\":\"news\"}}\n", &text[20..])).unwrap();
        settle(&ctx).await;
        assert_eq!(asked.lock().unwrap()[0], format!("/admin/v1/devices?instance={NODE_A}"));
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

#[test]
fn connections_that_fail_are_tried_again_more_and_more_slowly() {
    run(async |_, ctx| {
        let (ec2, asked) = cloud(Vec::new());
        let disk = MemoryDisks::new().node("node-a");
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(ec2, NODE_A, "node-a", disk)));
        ctx.sleep(Duration::from_secs(60)).await;
        let tries = asked.lock().unwrap().len();
        assert!((12..=20).contains(&tries), "{tries}");
    });
}
