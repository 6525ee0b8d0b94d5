//! The state file after a clean stop, a crash at any byte, and a reset.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use http::Request;
use mock_ec2::LatencyProfile::{Aws, Instant};
use mock_ec2::{Config, LatencyProfile, StateFile, StateSync};
use rstest::rstest;
use serde_json::{Value, json};
use substrate::body;

use crate::common::{Cloud, SIGNED, config, play};

fn kept(latency: LatencyProfile, path: &Path, sync: StateSync) -> Config {
    Config { state_file: Some(StateFile { path: path.to_owned(), sync }), ..config(latency) }
}

/// Returns the settled cloud as clients see it: every row, without fields that a restart may change.
async fn settled(cloud: &Cloud) -> Value {
    cloud.sleep(10_800_000).await;
    cloud.ask("Action=DescribeVolumes&Version=2016-11-15").await;
    let mut dump = cloud.ec2.dump();
    let dump = dump.as_object_mut().unwrap();
    for volatile in ["requests", "nextDeadlineMs"] {
        dump.remove(volatile);
    }
    Value::Object(dump.clone())
}

/// Returns the settled cloud of the state file `path`.
fn taken_over(path: &Path) -> Value {
    play(1, kept(Instant, path, StateSync::Process), |cloud| async move { settled(&cloud).await })
}

/// Makes many kinds of changes, and returns the id of a volume; calls `each` after each answer.
async fn live(cloud: &Cloud, mut each: impl FnMut()) -> String {
    let ask = async |form: String| {
        let answer = cloud.ask(&format!("Version=2016-11-15&{form}")).await;
        assert_eq!(answer.status, 200, "{form}: {}", answer.body);
        answer
    };
    let [a, b] = ["node-a", "node-b"].map(|name| cloud.instance(name));
    let create = "Action=CreateVolume&AvailabilityZone=us-east-1a&VolumeType=gp3";
    let made = ask(format!("{create}&Size=4&ClientToken=t")).await.first("volumeId").unwrap();
    each();
    let other = ask(format!("{create}&Size=9")).await.first("volumeId").unwrap();
    each();
    let mut rest = vec![
        format!("Action=AttachVolume&VolumeId={made}&InstanceId={a}&Device=/dev/xvdaa"),
        format!("Action=CreateTags&ResourceId.1={made}&Tag.1.Key=k&Tag.1.Value=v"),
        format!("Action=CreateSnapshot&VolumeId={made}&Description=why"),
        format!("Action=ModifyVolume&VolumeId={other}&Size=20"),
        format!("Action=DetachVolume&VolumeId={made}"),
        format!("Action=AttachVolume&VolumeId={made}&InstanceId={b}&Device=/dev/xvdab"),
        "Action=RunInstances&ImageId=ami-0123456789abcdef0&MinCount=2&MaxCount=2&ClientToken=r".to_owned(),
        format!("Action=CreateImage&InstanceId={a}&Name=golden&NoReboot=true"),
        "Action=CreateKeyPair&KeyName=mine&KeyType=ed25519".to_owned(),
        "Action=CreateVpc&CidrBlock=172.16.0.0/16".to_owned(),
        "Action=EnableSnapshotBlockPublicAccess&State=block-new-sharing".to_owned(),
        format!("Action=CreateReplaceRootVolumeTask&InstanceId={a}"),
        format!("Action=StopInstances&InstanceId.1={a}"),
        format!("Action=DeleteTags&ResourceId.1={made}&Tag.1.Key=k"),
        format!("Action=DeleteVolume&VolumeId={other}"),
        format!("Action=TerminateInstances&InstanceId.1={b}"),
    ];
    // The deleted volume goes to the recycle bin.
    let rule = json!({
        "ResourceType": "EBS_VOLUME",
        "RetentionPeriod": { "RetentionPeriodValue": 7, "RetentionPeriodUnit": "DAYS" },
    });
    let request = Request::post("/rules").header("authorization", SIGNED.replace("/ec2/", "/rbin/"));
    assert_eq!(cloud.answer(request.body(body::full(rule.to_string())).unwrap()).await.status, 201);
    each();
    for form in rest.drain(..) {
        cloud.sleep(100_000).await;
        ask(form).await;
        each();
    }
    let switches = json!({ "volumeQuota": 77 });
    assert_eq!(cloud.admin("POST", "switches", Some(switches)).await.0, 200);
    each();
    made
}

#[rstest]
#[case(Instant, StateSync::Process)]
#[case(Aws, StateSync::Process)]
#[case(Aws, StateSync::Power)]
fn all_that_was_answered_is_taken_over_without_a_clean_stop(#[case] latency: LatencyProfile, #[case] sync: StateSync) {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["s.json", "copy.json"].map(|name| dir.path().join(name));
    let (file, kill) = (path.clone(), copy.clone());
    // The cloud is not stopped: the file is used as it is after the last answer.
    let (volume, before) = play(1, kept(latency, &path, sync), |cloud| async move {
        let volume = live(&cloud, || ()).await;
        fs::copy(&file, &kill).unwrap();
        (volume, settled(&cloud).await)
    });
    let mut after = taken_over(&copy);
    after["latency"] = before["latency"].clone();
    assert!(after == before, "{after:#}\n{before:#}");
    play(1, kept(Instant, &copy, sync), |cloud| async move {
        // Tokens are remembered, and ids continue.
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&VolumeType=gp3&Size=4";
        let again = cloud.ask(&format!("{create}&ClientToken=t")).await;
        assert_eq!(again.first("volumeId").as_deref(), Some(volume.as_str()), "{}", again.body);
        let new = cloud.ask(create).await.first("volumeId").unwrap();
        assert!(!before.to_string().contains(&new));
    });
}

#[test]
fn a_device_that_was_mounted_before_a_restart_is_busy_until_its_node_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let mounts = async |cloud: &Cloud, volumes: &[&str]| {
        let of_node = format!("instances/{}/mounts", cloud.instance("node-a"));
        assert_eq!(cloud.admin("PUT", &of_node, Some(json!({ "volumes": volumes }))).await.0, 200);
    };
    let volume = play(1, kept(Aws, &path, StateSync::Process), |cloud| async move {
        let volume = cloud.volume().await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.sleep(30_000).await;
        mounts(&cloud, &[&volume]).await;
        cloud.detach(&volume).await;
        assert_eq!(cloud.attachment_status(&volume).await, "detaching");
        volume
    });
    play(1, kept(Aws, &path, StateSync::Process), |cloud| async move {
        cloud.sleep(120_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "busy");
        mounts(&cloud, &[]).await;
        cloud.sleep(30_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn a_crash_at_any_byte_of_a_record_leaves_what_was_answered_before() {
    let dir = tempfile::tempdir().unwrap();
    let [path, cut] = ["s.json", "cut.json"].map(|name| dir.path().join(name));
    let file = path.clone();
    let ends = play(1, kept(Aws, &path, StateSync::Process), |cloud| async move {
        let mut ends = vec![fs::metadata(&file).unwrap().len()];
        live(&cloud, || ends.push(fs::metadata(&file).unwrap().len())).await;
        ends
    });
    let whole = fs::read(&path).unwrap();
    assert!(ends.is_sorted() && ends.len() > 12 && *ends.last().unwrap() as usize <= whole.len(), "{ends:?}");
    let take = |length: usize| {
        fs::write(&cut, &whole[..length]).unwrap();
        taken_over(&cut)
    };
    let mut distinct = 0;
    for (from, to) in ends.iter().zip(&ends[1..]) {
        let (from, to) = (*from as usize, *to as usize);
        // Between two answers there may be several records, of transitions.
        let mut states: Vec<Value> = Vec::new();
        let stops = whole[from..to].iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| from + at + 1);
        for (begin, end) in [from].into_iter().chain(stops.clone()).zip(stops) {
            let before = take(begin);
            // Each byte at the start and the end of a record, and some between.
            let bytes = (begin + 1..end).filter(|at| at - begin < 11 && at % 3 == 0 || end - at < 3 || at % 397 == 0);
            for at in bytes {
                assert_eq!(take(at), before, "cut at byte {at} of the record from {begin} to {end}");
            }
            states.push(before);
        }
        let after = take(to);
        distinct += usize::from(states.first() != Some(&after));
    }
    assert!(distinct > 10, "each answered change shows: {distinct}");
}

#[test]
fn a_crash_during_a_rewrite_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let before = play(1, kept(Instant, &path, StateSync::Process), |cloud| async move {
        live(&cloud, || ()).await;
        settled(&cloud).await
    });
    let whole = fs::read(&path).unwrap();
    for share in [0, 1, whole.len() / 2, whole.len()] {
        fs::write(&path, &whole).unwrap();
        fs::write(dir.path().join("s.json.new"), &whole[..share]).unwrap();
        assert_eq!(taken_over(&path), before, "{share} bytes of the new file");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_reset_empties_the_file_and_a_clean_stop_writes_it_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let file = path.clone();
    let read = move || fs::read_to_string(&file).unwrap();
    let look = read.clone();
    play(1, kept(Instant, &path, StateSync::Process), |cloud| async move {
        let volume = live(&cloud, || ()).await;
        assert!(look().contains(&volume) && look().lines().count() > 10);
        cloud.ec2.save(cloud.ctx.now()).unwrap();
        assert!(look().contains(&volume) && look().lines().count() == 1);
        assert_eq!(cloud.admin("POST", "reset", None).await.0, 200);
        assert!(!look().contains(&volume) && look().lines().count() == 1, "{}", look());
        let volume = cloud.volume().await;
        assert!(look().contains(&volume));
    });
    let _ = read();
    let volumes = taken_over(&path)["volumes"].as_array().unwrap().iter().filter(|v| v["root"] == false).count();
    assert_eq!(volumes, 1);
}

#[test]
fn bytes_of_a_deleted_volume_go_once_that_is_written_down_and_those_of_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let [path, volumes] = ["s.json", "v"].map(|name| dir.path().join(name));
    let with_bytes = |config: Config| Config { volume_dir: Some(volumes.clone()), keep_files: true, ..config };
    let (file, files) = (path.clone(), volumes.clone());
    let left = play(1, with_bytes(kept(Instant, &path, StateSync::Process)), |cloud| async move {
        let [gone, stays] = [cloud.volume().await, cloud.volume().await];
        fs::write(files.join(&stays), "precious").unwrap();
        let delete = format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={gone}");
        assert_eq!(cloud.ask(&delete).await.status, 200);
        cloud.sleep(1_000).await;
        assert!(!files.join(&gone).exists());
        let reported = fs::read_to_string(&file).unwrap();
        assert!(reported.lines().any(|line| line.contains(&format!(r#""gone":["{gone}"]"#))), "{reported}");
        stays
    });
    play(1, with_bytes(kept(Instant, &path, StateSync::Process)), |cloud| async move {
        assert_eq!(cloud.volume_status(&left).await, "available");
        assert_eq!(fs::read(volumes.join(&left)).unwrap(), b"precious");
        // A file lost in a power failure, although the state has the volume.
        let other = cloud.volume().await;
        assert!(volumes.join(&other).exists());
    });
}

#[test]
fn a_file_has_one_user_and_a_bad_one_fails() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let make = || mock_ec2::Ec2::new(&substrate::Seed::root(1), kept(Instant, &path, StateSync::Process));
    let first = make().unwrap();
    assert!(make().unwrap_err().to_string().contains("another mock-ec2"));
    drop(first);
    drop(make().unwrap());
    fs::write(&path, "{\"version\": 1}").unwrap();
    assert!(make().unwrap_err().to_string().contains("missing field"));
    let nowhere = dir.path().join("no/such/dir/s.json");
    let error = mock_ec2::Ec2::new(&substrate::Seed::root(1), kept(Instant, &nowhere, StateSync::Process)).unwrap_err();
    assert!(error.to_string().contains("no/such/dir"), "{error}");
}
