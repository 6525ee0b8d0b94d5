//! Random histories of the pure state machine, with invariants after every command.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use mock_ec2::state::command::{
    Action, AttachVolume, Command, CreateVolume, DescribeVolumes, DetachVolume, Reply, Stick,
};
use mock_ec2::state::device::DeviceSlot;
use mock_ec2::state::ids::{InstanceId, VolumeId};
use mock_ec2::state::volume::VolumeState;
use mock_ec2::state::zone::Zone;
use mock_ec2::state::{Settings, State};
use mock_ec2::{InstanceSpec, LatencyProfile};
use proptest::prelude::*;
use substrate::{Now, Seed};

/// d3.8xlarge has three devices, so histories reach the limit.
const TYPES: [&str; 3] = ["m5.large", "d3.8xlarge", "d3.8xlarge"];
const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
const DEVICES: [&str; 8] =
    ["/dev/sdf", "/dev/xvdf", "/dev/xvdaa", "/dev/xvdab", "/dev/xvdb", "/dev/sda1", "banana", "/dev/sdb"];

#[derive(Clone, Debug)]
enum Step {
    Create { zone: usize, multi: bool, token: Option<u8> },
    Attach { volume: usize, instance: usize, device: usize, stick: bool },
    Detach { volume: usize, instance: Option<usize>, force: bool, stick: bool },
    Delete { volume: usize },
    Describe { volume: usize },
    Release,
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = (Step, bool)> {
    let rare = || proptest::bool::weighted(0.1);
    let step = prop_oneof![
        3 => (0..2usize, rare(), proptest::option::weighted(0.3, 0..3u8))
            .prop_map(|(zone, multi, token)| Step::Create { zone, multi, token }),
        6 => (0..6usize, 0..4usize, 0..DEVICES.len(), rare())
            .prop_map(|(volume, instance, device, stick)| Step::Attach { volume, instance, device, stick }),
        4 => (0..6usize, proptest::option::of(0..4usize), rare(), rare())
            .prop_map(|(volume, instance, force, stick)| Step::Detach { volume, instance, force, stick }),
        1 => (0..6usize).prop_map(|volume| Step::Delete { volume }),
        2 => (0..6usize).prop_map(|volume| Step::Describe { volume }),
        1 => Just(Step::Release),
        6 => prop_oneof![Just(1u64), 100..2_000u64, 2_000..30_000u64].prop_map(|ms| Step::Wait { ms }),
    ];
    (step, rare())
}

fn machine(latency: LatencyProfile) -> State {
    let zones = ZONES.iter().zip(1..).map(|(name, n)| Zone::new("us-east-1", name, n)).collect();
    let settings = Settings {
        region: "us-east-1".to_owned(),
        regions: vec!["us-east-1".to_owned()],
        account_id: "000000000000".to_owned(),
        zones,
        latency,
        latency_rules: vec![],
    };
    let specs: Vec<InstanceSpec> = TYPES
        .iter()
        .zip([0, 0, 1])
        .enumerate()
        .map(|(n, (kind, zone))| InstanceSpec {
            instance_type: (*kind).to_owned(),
            ..InstanceSpec::new(format!("node-{n}"), ZONES[zone])
        })
        .collect();
    let mut state = State::new(settings, Seed::root(3), &specs).unwrap();
    state.take_events();
    state
}

/// Returns the nth created volume, or an unknown id.
fn volume(made: &[VolumeId], n: usize) -> VolumeId {
    made.get(n).cloned().unwrap_or_else(|| "vol-0aaaaaaaaaaaaaaaa".parse().unwrap())
}

fn command(step: &Step, dry_run: bool, made: &[VolumeId], instances: &[InstanceId]) -> Option<Command> {
    let instance = |n: usize| instances.get(n).cloned().unwrap_or_else(|| "i-0aaaaaaaaaaaaaaaa".parse().unwrap());
    let mut stuck = false;
    let action = match step {
        Step::Create { zone, multi, token } => Action::CreateVolume(CreateVolume {
            zone: Some(ZONES[*zone].to_owned()),
            size_gib: Some(4),
            volume_type: Some(if *multi { "io2" } else { "gp3" }.to_owned()),
            iops: multi.then_some(100),
            multi_attach: *multi,
            client_token: token.map(|t| t.to_string()),
            ..CreateVolume::default()
        }),
        Step::Attach { volume: v, instance: i, device, stick } => {
            stuck = *stick;
            Action::AttachVolume(AttachVolume {
                volume: volume(made, *v),
                instance: instance(*i),
                device: DEVICES[*device].to_owned(),
                ebs_card_index: None,
            })
        }
        Step::Detach { volume: v, instance: i, force, stick } => {
            stuck = *stick;
            Action::DetachVolume(DetachVolume {
                volume: volume(made, *v),
                instance: i.map(instance),
                device: None,
                force: *force,
            })
        }
        Step::Delete { volume: v } => Action::DeleteVolume(volume(made, *v)),
        Step::Describe { volume: v } => {
            Action::DescribeVolumes(DescribeVolumes { ids: vec![volume(made, *v)], ..DescribeVolumes::default() })
        }
        Step::Release | Step::Wait { .. } => return None,
    };
    Some(Command { action, dry_run, stick: stuck.then(|| Stick { fault: "f".to_owned(), state: "any".to_owned() }) })
}

fn check(state: &State) {
    let mut held: BTreeMap<(InstanceId, DeviceSlot), VolumeId> = BTreeMap::new();
    let instances = state.instances();
    for volume in state.volumes() {
        let attachments = &volume.attachments;
        assert!(attachments.len() <= if volume.multi_attach_enabled { 16 } else { 1 }, "{volume:?}");
        assert_eq!(!attachments.is_empty(), volume.state == VolumeState::InUse, "{volume:?}");
        for (instance, attachment) in attachments {
            let slot = DeviceSlot::parse(&attachment.device).unwrap();
            let taken = held.insert((instance.clone(), slot), volume.id.clone());
            assert_eq!(taken, None, "two volumes on {} of {instance}", attachment.device);
            assert!(instances.iter().any(|i| i.id == *instance && i.zone == volume.zone));
        }
    }
    for instance in &instances {
        assert!(instance.slots.len() <= instance.device_limit() as usize, "{instance:?}");
        let own: BTreeMap<_, _> = held
            .iter()
            .filter(|((i, _), _)| *i == instance.id)
            .map(|((_, slot), volume)| (slot.clone(), volume.clone()))
            .collect();
        assert_eq!(own, instance.slots, "volume and instance disagree");
    }
}

/// Plays `steps`. With `eager` the machine is ticked at each of its deadlines, otherwise only by commands.
fn play(latency: LatencyProfile, steps: &[(Step, bool)], eager: bool) -> (State, Vec<String>) {
    let mut state = machine(latency);
    let instances: Vec<InstanceId> = state.instances().iter().map(|i| i.id.clone()).collect();
    let (mut now, mut made, mut answers) = (Duration::ZERO, Vec::new(), Vec::new());
    for (step, dry_run) in steps {
        match step {
            Step::Wait { ms } => {
                let until = now + Duration::from_millis(*ms);
                while let Some(due) = state.next_deadline().filter(|due| eager && *due <= until) {
                    state.tick(Now::at(due));
                    check(&state);
                }
                now = until;
                continue;
            }
            Step::Release => {
                state.release_stuck(Now::at(now), |_| false);
                continue;
            }
            _ => {}
        }
        let Some(command) = command(step, *dry_run, &made, &instances) else { continue };
        state.catch_up(Now::at(now));
        state.take_events();
        let before = state.clone();
        let answer = state.apply(Now::at(now), &command);
        if answer.is_err() {
            assert_eq!(state, before, "{command:?} failed and changed something");
        }
        if let Ok(Reply::Volume(volume)) = &answer
            && !made.contains(&volume.id)
        {
            made.push(volume.id.clone());
        }
        answers.push(format!("{answer:?}"));
        check(&state);
    }
    state.catch_up(Now::at(now));
    state.take_events();
    (state, answers)
}

proptest! {
    #[test]
    fn no_history_breaks_the_locks(
        steps in proptest::collection::vec(step(), 1..80),
        profile in prop_oneof![Just(LatencyProfile::Instant), Just(LatencyProfile::Aws), Just(LatencyProfile::AwsRecent)],
    ) {
        play(profile, &steps, false);
    }

    #[test]
    fn it_does_not_matter_when_the_machine_is_woken(steps in proptest::collection::vec(step(), 1..60)) {
        let (lazy, eager) =
            (play(LatencyProfile::AwsRecent, &steps, false), play(LatencyProfile::AwsRecent, &steps, true));
        prop_assert_eq!(lazy.1, eager.1);
        prop_assert_eq!(lazy.0, eager.0);
    }
}
