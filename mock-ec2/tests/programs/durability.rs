//! The program with a state file, ended under load in each way.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rstest::rstest;
use substrate::{body, dial};

use crate::common::program::{Running, ask, program, run, start, start_by};
use crate::common::{read, signed};

const CREATE: &str = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1";

/// Creates volumes over `connections` connections until they break; returns the ids of answered requests. Sets `begun`
/// after the first answer.
async fn load(endpoint: &str, connections: usize, begun: &AtomicBool) -> Vec<String> {
    let one = async || {
        let mut made = Vec::new();
        let service = dial::http(endpoint).unwrap();
        loop {
            let asked = body::call(service.clone(), signed(&format!("Version=2016-11-15&{CREATE}"))).await;
            let Ok(response) = asked else { return made };
            let status = response.status().as_u16();
            let Ok(bytes) = body::collect(response.into_body(), 1 << 20).await else { return made };
            assert_eq!(status, 200);
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            made.push(text.split("<volumeId>").nth(1).unwrap().split('<').next().unwrap().to_owned());
            begun.store(true, Ordering::SeqCst);
        }
    };
    futures_util::future::join_all((0..connections).map(|_| one())).await.concat()
}

fn volumes(endpoint: &str) -> BTreeSet<String> {
    run(ask(endpoint, "Action=DescribeVolumes")).all("volumeId").into_iter().collect()
}

#[rstest]
#[case("TERM", Some(0), "process")]
#[case("INT", Some(130), "process")]
#[case("KILL", None, "process")]
#[case("KILL", None, "power")]
fn no_answered_write_is_lost(#[case] signal: &'static str, #[case] code: Option<i32>, #[case] sync: &str) {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s.json");
    let flags = ["--state-file", state.to_str().unwrap(), "--state-sync", sync];
    let mut answered = BTreeSet::new();
    for round in 0..4 {
        let (mut running, endpoint) = start(dir.path(), &flags);
        let lost: Vec<_> = answered.difference(&volumes(&endpoint)).cloned().collect();
        assert!(lost.is_empty(), "round {round}: {} of {} answered are lost: {lost:?}", lost.len(), answered.len());
        let begun = AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..9_000 {
                    std::thread::sleep(Duration::from_millis(10));
                    if begun.load(Ordering::SeqCst) {
                        break;
                    }
                }
                std::thread::sleep(Duration::from_millis(100 + 70 * round));
                assert_eq!(running.end(signal), code);
            });
            run(load(&endpoint, 8, &begun))
        });
        assert!(!made.is_empty());
        answered.extend(made);
    }
    let (_running, endpoint) = start(dir.path(), &flags);
    assert!(volumes(&endpoint).is_superset(&answered));
}

/// Limits the size of the program's files to `bytes`, or removes the limit.
fn limit(running: &Running, bytes: &str) {
    let pid = running.0.id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:unlimited")]).status().unwrap();
    assert!(done.success());
}

/// Starts the program such that a write to a file at its size limit returns an error instead of killing it.
fn start_limited(dir: &Path, flags: &[&str]) -> (Running, String) {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program().get_program());
    start_by(command, dir, flags)
}

#[rstest]
#[case("process")]
#[case("power")]
fn a_change_that_cannot_be_written_down_is_not_answered_as_done(#[case] sync: &str) {
    if Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("skipped: needs prlimit");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s.json");
    let flags = ["--state-file", state.to_str().unwrap(), "--state-sync", sync];
    let (mut running, endpoint) = start_limited(dir.path(), &flags);
    let mut answered = BTreeSet::new();
    let mut create = || {
        let made = run(ask(&endpoint, CREATE));
        if made.status == 200 {
            answered.insert(made.first("volumeId").unwrap());
        }
        made
    };
    for _ in 0..5 {
        assert_eq!(create().status, 200);
    }
    // Writes after the answer must not be the ones that fail.
    let length = || std::fs::metadata(&state).unwrap().len();
    loop {
        let before = length();
        let states = run(ask(&endpoint, "Action=DescribeVolumes")).all("status");
        std::thread::sleep(Duration::from_millis(500));
        if length() == before && states.iter().all(|state| state == "available") {
            break;
        }
    }
    // Room for half a record: the write is short, and the next one fails.
    limit(&running, &(length() + 300).to_string());
    let first = create();
    assert_eq!((first.status, first.code().as_str()), (500, "InternalError"), "{}", first.body);
    assert!(first.message().contains("too large"), "{}", first.message());
    let seen = volumes(&endpoint).len();
    for _ in 0..3 {
        let next = create();
        assert_eq!((next.status, next.code().as_str()), (503, "Unavailable"), "{}", next.body);
    }
    assert_eq!(volumes(&endpoint).len(), seen, "reads go on, and nothing is begun");
    limit(&running, "unlimited");
    for _ in 0..3 {
        assert_eq!(create().status, 200);
    }
    running.end("KILL");
    let (_running, endpoint) = start(dir.path(), &flags);
    assert!(volumes(&endpoint).is_superset(&answered));
    assert_eq!(answered.len(), 8);
}

#[test]
fn a_second_program_does_not_share_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s.json");
    let (_first, _) = start(dir.path(), &["--state-file", state.to_str().unwrap()]);
    let second = program().args(["--listen", "127.0.0.1:0", "--state-file"]).arg(&state).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!((second.status.code(), text.contains("another mock-ec2")), (Some(3), true), "{text}");
    let alone = program().args(["--state-sync", "power"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "what it syncs is missing");
}

#[test]
fn a_copy_that_a_kill_cut_is_made_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let [state, files] = ["s.json", "v"].map(|name| dir.path().join(name));
    let flags = ["--state-file", state.to_str().unwrap(), "--volume-dir", files.to_str().unwrap()];
    let (mut running, endpoint) = start(dir.path(), &flags);
    let source = run(ask(&endpoint, CREATE)).first("volumeId").unwrap();
    let data = std::fs::OpenOptions::new().write(true).open(files.join(&source)).unwrap();
    let mib = |n: u64| vec![n as u8 | 1; 1 << 20];
    for n in 0..200 {
        std::os::unix::fs::FileExt::write_all_at(&data, &mib(n), n << 20).unwrap();
    }
    let copy = run(async {
        let service = dial::http(&endpoint).unwrap();
        let form = format!("Version=2016-11-15&Action=CopyVolumes&SourceVolumeId={source}");
        read(body::call(service, signed(&form)).await.unwrap()).await.first("volumeId").unwrap()
    });
    running.end("KILL");
    let (_running, endpoint) = start(dir.path(), &flags);
    let look = format!("Action=DescribeVolumes&VolumeId.1={copy}");
    loop {
        let found = run(ask(&endpoint, &look));
        match found.first("status").as_deref() {
            Some("available") => break,
            status => assert_eq!(status, Some("creating"), "{}", found.body),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let file = std::fs::File::open(files.join(&copy)).unwrap();
    let mut read = vec![0; 1 << 20];
    for n in 0..200 {
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, n << 20).unwrap();
        assert!(read == mib(n), "MiB {n} did not come");
    }
}
