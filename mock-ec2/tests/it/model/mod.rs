//! The machine against a small model of it: several clients send requests, and repeat those with a lost answer. After
//! each one, answers and states must agree.

#![expect(clippy::unwrap_used, reason = "a test")]

mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mock_ec2::state::command::{
    Action, AttachVolume, Command, CreateTags, CreateVolume, DeleteTags, DescribeVolumes, DetachVolume, ModifyVolume,
    Reply, ResourceId, StopInstances,
};
use mock_ec2::state::error::Ec2Error;
use mock_ec2::state::filter::Filter;
use mock_ec2::state::ids::{InstanceId, VolumeId};
use mock_ec2::state::instance::InstanceState;
use mock_ec2::state::switches::Switches;
use mock_ec2::state::volume::{AttachmentState, VolumeState};
use mock_ec2::state::zone::Zone;
use mock_ec2::state::{Settings, State};
use mock_ec2::{InstanceSpec, LatencyProfile};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use reference::{DEVICES, INSTANCES, Model, Op, Outcome, Power, QUOTA, Request, TAGS, ZONES};
use substrate::{Now, Seed};

struct Cloud {
    state: State,
    now: Duration,
    /// Ids by the model's numbers.
    volumes: Vec<VolumeId>,
    instances: Vec<InstanceId>,
}

impl Cloud {
    fn volume(&self, number: usize) -> VolumeId {
        self.volumes.get(number).cloned().unwrap_or_else(|| "vol-0aaaaaaaaaaaaaaaa".parse().unwrap())
    }

    fn instance(&self, number: usize) -> InstanceId {
        self.instances.get(number).cloned().unwrap_or_else(|| "i-0aaaaaaaaaaaaaaaa".parse().unwrap())
    }

    fn command(&self, Request { dry_run, op, .. }: &Request) -> Option<Command> {
        let tags = |(key, value): (&str, &str)| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let action = match op {
            Op::Create { zone, size, multi, token, tag } => Action::CreateVolume(CreateVolume {
                zone: Some(ZONES[*zone].to_owned()),
                size_gib: Some(*size),
                volume_type: Some(if *multi { "io2" } else { "gp3" }.to_owned()),
                iops: multi.then_some(100),
                multi_attach: *multi,
                client_token: token.map(|t| t.to_string()),
                tags: tag.map(|t| tags(TAGS[t])).unwrap_or_default(),
                ..CreateVolume::default()
            }),
            Op::Attach { volume, instance, device } => Action::AttachVolume(AttachVolume {
                volume: self.volume(*volume),
                instance: self.instance(*instance),
                device: DEVICES[*device].0.to_owned(),
                ebs_card_index: None,
            }),
            Op::Detach { volume, instance, force } => Action::DetachVolume(DetachVolume {
                volume: self.volume(*volume),
                instance: instance.map(|i| self.instance(i)),
                device: None,
                force: *force,
            }),
            Op::Delete { volume } => Action::DeleteVolume(self.volume(*volume)),
            Op::Modify { volume, size } => Action::ModifyVolume(ModifyVolume {
                volume: self.volume(*volume),
                size_gib: Some(*size),
                volume_type: None,
                iops: None,
                throughput: None,
                multi_attach: None,
            }),
            Op::Tag { volume, tag } => Action::CreateTags(CreateTags {
                resources: vec![ResourceId::Volume(self.volume(*volume))],
                tags: tags(TAGS[*tag]),
            }),
            Op::Untag { volume, key } => Action::DeleteTags(DeleteTags {
                resources: vec![ResourceId::Volume(self.volume(*volume))],
                tags: BTreeMap::from([(TAGS[*key].0.to_owned(), None)]),
            }),
            Op::Start { instance } => Action::StartInstances(vec![self.instance(*instance)]),
            Op::Stop { instance } => {
                Action::StopInstances(StopInstances { ids: vec![self.instance(*instance)], force: false })
            }
            Op::Reboot { instance } => Action::RebootInstances(vec![self.instance(*instance)]),
            Op::Terminate { instance } => Action::TerminateInstances(vec![self.instance(*instance)]),
            Op::Vanish { .. } => return None,
        };
        Some(Command { action, dry_run: *dry_run, stick: None })
    }

    /// Returns the state, byte for byte.
    fn dump(&self) -> String {
        serde_json::to_string(&self.state.save(Now::at(self.now))).unwrap()
    }

    fn found(&mut self, filter: (&str, &str)) -> BTreeSet<VolumeId> {
        let filters = vec![Filter { name: filter.0.to_owned(), values: vec![filter.1.to_owned()] }];
        let action = Action::DescribeVolumes(DescribeVolumes { filters, ..DescribeVolumes::default() });
        match self.state.apply(Now::at(self.now), &action.into()).unwrap() {
            Reply::Volumes { volumes, next_token: None } => volumes.iter().map(|v| v.id.clone()).collect(),
            other => panic!("{other:?}"),
        }
    }
}

impl StateMachineTest for Cloud {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(_: &Model) -> Self {
        let settings = Settings {
            region: "us-east-1".to_owned(),
            regions: vec!["us-east-1".to_owned()],
            account_id: "000000000000".to_owned(),
            zones: ZONES.iter().zip(1..).map(|(name, n)| Zone::new("us-east-1", name, n)).collect(),
            latency: LatencyProfile::Instant,
            latency_rules: vec![],
        };
        let specs = INSTANCES.iter().enumerate().map(|(n, (kind, zone, _))| InstanceSpec {
            instance_type: (*kind).to_owned(),
            ..InstanceSpec::new(format!("node-{n}"), ZONES[*zone])
        });
        let mut state = State::new(settings, Seed::root(5), &specs.collect::<Vec<_>>()).unwrap();
        state.set_switches(Switches { volume_quota: Some(QUOTA as u64), ..Switches::default() });
        let instances = state.instances().iter().map(|i| i.id.clone()).collect();
        Self { state, now: Duration::ZERO, volumes: Vec::new(), instances }
    }

    fn apply(mut cloud: Self, model: &Model, request: Request) -> Self {
        cloud.now += Duration::from_secs(1);
        let now = Now::at(cloud.now);
        cloud.state.catch_up(now);
        let Some(command) = cloud.command(&request) else {
            if let Op::Vanish { volume } = request.op {
                cloud.state.vanish_volume(now, &cloud.volume(volume));
            }
            return cloud;
        };
        cloud.state.take_events();
        let (before, dump) = (cloud.state.clone(), cloud.dump());
        let answer = cloud.state.apply(now, &command);
        if answer.is_err() {
            assert_eq!(cloud.dump(), dump, "{command:?} failed and changed something");
            assert_eq!(cloud.state, before, "{command:?} failed and changed something");
        }
        if let (Ok(Reply::Volume(volume)), Outcome::Volume(number)) = (&answer, &model.outcome) {
            if *number == cloud.volumes.len() {
                cloud.volumes.push(volume.id.clone());
            }
            assert_eq!(cloud.volumes.get(*number), Some(&volume.id), "another volume than the model's");
        }
        let outcome = answer.as_ref().map(|_| ()).map_err(Ec2Error::code);
        let expected = match model.outcome {
            Outcome::Error(code) => Err(code),
            Outcome::Done | Outcome::Volume(_) => Ok(()),
        };
        assert_eq!(outcome, expected, "{request:?}: {answer:?}");
        cloud.state.catch_up(now);
        cloud
    }

    fn check_invariants(cloud: &Self, model: &Model) {
        let state = &cloud.state;
        for (volume, id) in model.volumes.iter().zip(&cloud.volumes) {
            let Ok(own) = state.volume(id) else {
                assert!(volume.gone, "{id} is not there");
                continue;
            };
            assert!(!volume.gone && own.size_gib == volume.size, "{own:?}");
            let tags: BTreeMap<&str, &str> = own.tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(tags, volume.tags);
            let in_use = if volume.attached.is_empty() { VolumeState::Available } else { VolumeState::InUse };
            assert_eq!(own.state, in_use);
            assert!(own.attachments.len() <= if own.multi_attach_enabled { 16 } else { 1 });
            let attached = own.attachments.iter().map(|(instance, a)| (instance.clone(), a.state));
            let expected = volume.attached.iter().map(|(instance, (_, held))| {
                let state = if *held { AttachmentState::Attaching } else { AttachmentState::Attached };
                (cloud.instance(*instance), state)
            });
            let expected: BTreeMap<InstanceId, AttachmentState> = expected.collect();
            assert_eq!(attached.collect::<BTreeMap<_, _>>(), expected, "attachments of {id}");
        }
        for (number, id) in cloud.instances.iter().enumerate() {
            let instance = state.instance(id).unwrap();
            let power = match instance.state {
                InstanceState::Running => Power::Running,
                InstanceState::Stopped => Power::Stopped,
                InstanceState::Terminated => Power::Terminated,
                other => panic!("{other:?} does not end"),
            };
            assert_eq!(power, model.power[number]);
            assert!(instance.slots.len() <= instance.device_limit() as usize);
            let own: BTreeMap<String, VolumeId> =
                instance.slots.iter().map(|(slot, volume)| (slot.to_string(), volume.clone())).collect();
            let mut held = BTreeMap::new();
            for (volume, id) in model.volumes.iter().zip(&cloud.volumes) {
                if let Some((slot, _)) = volume.attached.get(&number) {
                    assert_eq!(held.insert((*slot).to_owned(), id.clone()), None, "{slot} is used twice");
                }
            }
            let data: BTreeMap<String, VolumeId> = own.into_iter().filter(|(slot, _)| slot != "a").collect();
            assert_eq!(data, held, "devices of {id}");
        }
        // The index must find what a scan finds.
        let mut looking =
            Self { state: state.clone(), volumes: cloud.volumes.clone(), instances: cloud.instances.clone(), ..*cloud };
        let numbered = || model.volumes.iter().zip(&cloud.volumes).filter(|(v, _)| !v.gone);
        for (key, value) in TAGS {
            let expected = numbered().filter(|(v, _)| v.tags.get(key) == Some(&value)).map(|(_, id)| id.clone());
            assert_eq!(looking.found((&format!("tag:{key}"), value)), expected.collect());
            let expected = numbered().filter(|(v, _)| v.tags.contains_key(key)).map(|(_, id)| id.clone());
            assert_eq!(looking.found(("tag-key", key)), expected.collect());
        }
        for number in 0..INSTANCES.len() {
            let expected = numbered().filter(|(v, _)| v.attached.contains_key(&number)).map(|(_, id)| id.clone());
            let found = looking.found(("attachment.instance-id", cloud.instance(number).as_str()));
            let data = found.into_iter().filter(|id| cloud.volumes.contains(id));
            assert_eq!(data.collect::<BTreeSet<_>>(), expected.collect());
        }
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_machine_does_what_the_model_says(sequential 1..100 => Cloud);
}

/// The histories must reach every error of the model; otherwise they prove nothing about it.
#[test]
fn histories_come_to_every_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..200 {
        let (mut model, requests, _) = Model::sequential_strategy(1..100).new_tree(&mut runner).unwrap().current();
        for request in &requests {
            model = <Model as ReferenceStateMachine>::apply(model, request);
            let outcome = match model.outcome {
                Outcome::Error(code) => code,
                Outcome::Done | Outcome::Volume(_) => "done",
            };
            *seen.entry(outcome).or_default() += 1;
        }
    }
    let expected = [
        "AttachmentLimitExceeded",
        "DryRunOperation",
        "IdempotentParameterMismatch",
        "IncorrectInstanceState",
        "IncorrectState",
        "InvalidAttachment.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidParameterValue",
        "InvalidVolume.NotFound",
        "InvalidVolume.ZoneMismatch",
        "MissingParameter",
        "VolumeInUse",
        "VolumeLimitExceeded",
        "VolumeModificationRateExceeded",
        "done",
    ];
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected, "{seen:?}");
}
