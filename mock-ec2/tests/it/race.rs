//! Many clients on their own threads race for volumes: one wins, the others get errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use parking_lot::Mutex;
use std::collections::BTreeMap;

use mock_ec2::{Config, Ec2, InstanceSpec};
use rstest::rstest;
use substrate::world::Options;
use substrate::{HttpService, Process, Seed, World, body};

use crate::common::{self, read, signed};

const CLIENTS: usize = 64;
const VOLUMES: usize = 1_000;
const INSTANCES: usize = 40;

/// Returns the device names in the EBS driver's order.
fn device(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
    format!("/dev/xvd{}{}", letter(n / 26 % 3), letter(n))
}

async fn ask(service: &HttpService, form: &str) -> common::Answer {
    read(body::call(service.clone(), signed(&format!("Version=2016-11-15&{form}"))).await.unwrap()).await
}

/// Attaches `volume` like the driver: tries another name if one is in use.
async fn attach(service: &HttpService, volume: &str, instance: &str, first: usize) -> String {
    for n in 0..78 {
        let device = device(first + n);
        let form = format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device={device}");
        let answer = ask(service, &form).await;
        match answer.code().as_str() {
            "InvalidParameterValue" if answer.message().contains("already in use") => {}
            "" => return "won".to_owned(),
            code => return code.to_owned(),
        }
    }
    "no name".to_owned()
}

#[rstest]
// 127 slots on each of 40 instances for 1,000 volumes.
#[case::with_slots_to_spare("m7i.48xlarge", 1_000)]
// Two slots on each.
#[case::with_too_few_slots("d3.8xlarge", 80)]
fn each_volume_has_one_winner_at_most(#[case] instance_type: &str, #[case] winners: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let spec = |n: usize| {
        let mut spec = InstanceSpec::new(format!("n{n}"), "us-east-1a");
        spec.instance_type = instance_type.to_owned();
        spec
    };
    let config = Config { instances: (0..INSTANCES).map(spec).collect(), ..Config::default() };
    let ec2 = Ec2::new(&Seed::root(1), config).unwrap();
    let (service, _process) = runtime.block_on(async {
        let world = World::live(Options::default());
        world.trace().keep(1);
        let process = Process::start(&world, "mock-ec2", |_| std::future::pending());
        (ec2.start(&process.ctx().unwrap()), process)
    });
    let instances: Vec<String> = ec2.instances().into_iter().map(|i| i.id).collect();
    let volumes: Vec<String> = runtime.block_on(async {
        let mut made = Vec::new();
        for _ in 0..VOLUMES {
            let form = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1";
            made.push(ask(&service, form).await.first("volumeId").unwrap());
        }
        made
    });
    let outcomes: Mutex<BTreeMap<(usize, String), usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (service, volumes, instances, outcomes) = (&service, &volumes, &instances, &outcomes);
            scope.spawn(move || {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                for n in 0..VOLUMES {
                    // Clients that are close in time want the same volume, for different instances.
                    let instance = &instances[(n * 7 + client) % INSTANCES];
                    let outcome = own.block_on(attach(service, &volumes[n], instance, n));
                    *outcomes.lock().entry((n, outcome)).or_default() += 1;
                }
            });
        }
    });
    let outcomes = outcomes.into_inner();
    let won: Vec<usize> = outcomes.iter().filter(|((_, o), _)| o == "won").map(|(_, times)| *times).collect();
    assert!(won.iter().all(|times| *times == 1), "a volume was won twice");
    assert_eq!(won.len(), winners);
    for (_, outcome) in outcomes.keys() {
        let limited = winners < VOLUMES && outcome == "AttachmentLimitExceeded";
        assert!(["won", "VolumeInUse"].contains(&outcome.as_str()) || limited, "{outcome}");
    }
    let mut held = 0;
    for volume in ec2.dump()["volumes"].as_array().unwrap().iter().filter(|v| v["root"] == false) {
        let attachments = volume["attachments"].as_object().unwrap().len();
        assert!(attachments <= 1);
        held += attachments;
    }
    assert_eq!(held, winners);
}
