//! Copies of bytes and the process that makes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use parking_lot::Mutex;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mock_ec2::{Config, Ec2, LatencyProfile};
use substrate::world::Options;
use substrate::{HttpService, Process, Seed, World, body};

use crate::common::{self, config, read, signed};

/// Data in the source, in MiB: more than a copy transfers before its process is crashed.
const MIB: usize = 300;

async fn ask(service: &HttpService, form: &str) -> common::Answer {
    read(body::call(service.clone(), signed(&format!("Version=2016-11-15&{form}"))).await.unwrap()).await
}

/// Waits until a volume is available.
async fn available(service: &HttpService, volume: &str) {
    let look = format!("Action=DescribeVolumes&VolumeId.1={volume}");
    while ask(service, &look).await.first("status").as_deref() != Some("available") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the file `path` stops growing, and returns its size on disk.
async fn rests(path: &Path) -> u64 {
    let mut before = u64::MAX;
    loop {
        let now = std::fs::metadata(path).unwrap().blocks() * 512;
        if now == before {
            return now;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Returns true if files here share blocks, so that copies transfer no bytes.
fn shares(dir: &Path) -> bool {
    let [a, b] = ["a", "b"].map(|name| std::fs::File::create(dir.join(name)).unwrap());
    rustix::fs::ioctl_ficlone(&b, &a).is_ok()
}

#[test]
fn a_copy_ends_with_its_process_and_the_next_one_makes_it() {
    let dir = tempfile::tempdir().unwrap();
    if shares(dir.path()) {
        eprintln!("skipped: files share their blocks here, so nothing is copied");
        return;
    }
    let volumes = dir.path().join("v");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::live(Options::default());
        let config = Config { volume_dir: Some(volumes.clone()), ..config(LatencyProfile::Instant) };
        let ec2 = Ec2::new(&Seed::root(1), config).unwrap();
        let served: Arc<Mutex<Option<HttpService>>> = Arc::default();
        let (cloud, slot) = (ec2.clone(), served.clone());
        let process = Process::start(&world, "mock-ec2", move |ctx| {
            *slot.lock() = Some(cloud.start(&ctx));
            std::future::pending()
        });
        let service = || served.lock().clone().unwrap();
        let create = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1";
        let source = ask(&service(), create).await.first("volumeId").unwrap();
        let write = std::fs::OpenOptions::new().write(true).open(volumes.join(&source)).unwrap();
        let block = |number: usize| vec![number as u8 | 1; 1 << 20];
        for number in 0..MIB {
            write.write_all_at(&block(number), (number as u64) << 20).unwrap();
        }

        let (mut made, mut copied) = (String::new(), u64::MAX);
        for _ in 0..10 {
            let answer = ask(&service(), &format!("Action=CopyVolumes&SourceVolumeId={source}")).await;
            process.crash();
            made = answer.first("volumeId").unwrap();
            copied = rests(&volumes.join(&made)).await;
            if copied < (MIB as u64) << 20 {
                break;
            }
            // On a busy machine, a copy can end before this test goes on.
            process.restart();
            available(&service(), &made).await;
        }
        assert!(copied < (MIB as u64) << 20, "the copy went on after the crash: {copied}");
        let all = ec2.dump()["volumes"].as_array().unwrap().clone();
        let left = all.iter().find(|v| v["id"] == made.as_str()).unwrap();
        assert_eq!(left["state"], "creating", "its bytes are not there yet");

        process.restart();
        available(&service(), &made).await;
        let copy = std::fs::File::open(volumes.join(&made)).unwrap();
        let mut read = vec![0; 1 << 20];
        for number in 0..MIB {
            copy.read_exact_at(&mut read, (number as u64) << 20).unwrap();
            assert!(read == block(number), "MiB {number} is not the source's");
        }
        ec2.close();
    });
}
