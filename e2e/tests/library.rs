//! The test library in the live world: the steps of harness/tests/library.rs, clients from outside, and no leaks.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{CLAIM_AND_POD, alone_with, eventually, have, seat};
use harness::prelude::*;

/// Returns a live cluster at ten times real speed.
fn live() -> harness::testing::Builder {
    Cluster::live().time_scale(10.0)
}

/// Waits for the turn of a test: one counts the threads of this program, so the clusters of the others must have ended.
fn turn() -> [std::fs::File; 2] {
    [alone_with("library").unwrap(), seat().unwrap()]
}

#[test]
fn a_lost_reply_loses_no_bytes_live() {
    let _turn = turn();
    let cluster = live().start().unwrap();
    let lost = cluster.inject(fault::ec2("AttachVolume").first(1).drop_reply()).unwrap();
    cluster.apply(CLAIM_AND_POD).unwrap();
    cluster.wait_for("pod/web", "Running").unwrap();
    assert_eq!(lost.hits(), 1);
    lost.end();
    cluster.wait_for_records("pod/web", 3).unwrap();
    cluster.delete("pod/web").unwrap();
    cluster.wait_for("pod/web", "gone").unwrap();
    cluster.apply(CLAIM_AND_POD).unwrap();
    assert!(cluster.bytes_intact("pod/web").unwrap() >= 3);
    cluster.check().unwrap();
}

/// The user's own controller, over sockets.
#[tokio::test]
async fn a_process_of_the_users_runs_in_a_live_cluster() {
    let _turn = turn();
    let cluster = live().directories().start_async().await.unwrap();
    cluster
        .spawn("labeller", async |ctx| {
            let path = "/api/v1/namespaces/default/configmaps";
            let mut watch = ctx.kubernetes().watch(path).await?;
            while let Some(change) = watch.next().await? {
                if change.object["metadata"]["name"] == "settings" && change.r#type == "ADDED" {
                    ctx.ec2().call("DescribeVolumes", &[]).await?;
                    ctx.kubernetes().patch("cm/settings", &serde_json::json!({"data": {"seen": "yes"}})).await?;
                }
            }
            Ok::<(), Error>(())
        })
        .unwrap();
    cluster.apply_async("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").await.unwrap();
    cluster.wait_for_async("cm/settings", "has(self.data) && self.data.seen == 'yes'").await.unwrap();
    cluster.crash("labeller").unwrap();
    cluster.restart_async("labeller").await.unwrap();
    assert_eq!(cluster.events_of("process.crashed").unwrap().len(), 1);
}

/// Returns the loop devices with backing files below `directory`.
fn loops_below(directory: &Path) -> Vec<String> {
    let listed =
        Command::new("losetup").args(["--list", "--noheadings", "--output", "NAME,BACK-FILE"]).output().unwrap();
    let below = directory.display().to_string();
    String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.contains(&below)).map(str::to_owned).collect()
}

/// Returns true if anything is mounted below `directory` in the mount namespace of any thread of this process.
fn is_mounted_below(directory: &Path) -> bool {
    let below = directory.display().to_string();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path().join("mountinfo"));
    // A thread may exit meanwhile.
    threads.filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| text.contains(&below))
}

/// Returns the threads of this process that belong to a cluster.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path().join("comm"));
    tasks.filter_map(|file| std::fs::read_to_string(file).ok()).filter(|name| name.starts_with("mooring")).count()
}

#[test]
fn a_test_that_panics_leaves_nothing_live() {
    let _turn = turn();
    let (tell, reported) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let cluster = live().start().unwrap();
        let kubeconfig = cluster.kubeconfig().unwrap();
        let directory = kubeconfig.parent().unwrap().to_owned();
        cluster.apply(CLAIM_AND_POD).unwrap();
        cluster.wait_for("pod/web", "Running").unwrap();
        tell.send((directory.clone(), loops_below(&directory).len(), is_mounted_below(&directory), threads())).unwrap();
        assert!(cluster.get("pod/other").unwrap().is_some(), "the assertion of a user");
    })
    .join();
    assert!(outcome.is_err());
    let (directory, loops, mounted, running) = reported.recv().unwrap();
    assert!(running >= 2, "there was a cluster");
    if have("root") {
        assert_eq!((loops, mounted), (1, true), "there was something to leave");
    }
    assert!(!directory.exists(), "{} is left", directory.display());
    // A thread that has been joined is listed a moment longer, and its mounts and loop devices go with it. The other tests
    // of this program start a cluster only in their turn.
    eventually(|| {
        ensure!(threads() == 0, "{} threads", threads());
        ensure!(loops_below(&directory).is_empty(), "{:?}", loops_below(&directory));
        ensure!(!is_mounted_below(&directory), "something is mounted below {}", directory.display());
        Ok(())
    })
    .unwrap();
}
