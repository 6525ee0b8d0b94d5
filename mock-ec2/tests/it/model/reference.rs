//! A cloud small enough to be obviously right: no time, no ids, no texts. It returns the expected outcome of each
//! request.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

pub const CLIENTS: usize = 3;
pub const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
/// Type, zone, and number of devices besides the root volume. The small ones make histories reach the limit.
pub const INSTANCES: [(&str, usize, usize); 4] =
    [("m5.large", 0, 26), ("d3.8xlarge", 0, 2), ("d3.8xlarge", 0, 2), ("d3.8xlarge", 1, 2)];
/// Device names and their slots; the root volume has the slot `a`.
pub const DEVICES: [(&str, Option<&str>); 8] = [
    ("/dev/sdf", Some("f")),
    ("/dev/xvdf", Some("f")),
    ("/dev/xvdaa", Some("aa")),
    ("/dev/xvdab", Some("ab")),
    ("/dev/xvdb", Some("b")),
    ("/dev/sdb", Some("b")),
    ("/dev/sda1", Some("a")),
    ("banana", None),
];
pub const TAGS: [(&str, &str); 4] = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")];
/// Volume quota of the account, including root volumes.
pub const QUOTA: usize = 12;
/// Largest number of modifications of a volume per day; a history takes minutes.
const MODIFICATIONS: usize = 4;

#[derive(Clone, Debug)]
pub enum Op {
    Create { zone: usize, size: u64, multi: bool, token: Option<u8>, tag: Option<usize> },
    Attach { volume: usize, instance: usize, device: usize },
    Detach { volume: usize, instance: Option<usize>, force: bool },
    Delete { volume: usize },
    Modify { volume: usize, size: u64 },
    Tag { volume: usize, tag: usize },
    Untag { volume: usize, key: usize },
    Start { instance: usize },
    Stop { instance: usize },
    Reboot { instance: usize },
    Terminate { instance: usize },
    Vanish { volume: usize },
}

#[derive(Clone, Debug)]
pub struct Request {
    pub client: usize,
    pub dry_run: bool,
    pub op: Op,
}

/// Expected outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Done,
    /// A volume with this number: a new one, or that of a repeated token.
    Volume(usize),
    Error(&'static str),
}

#[derive(Clone, Debug)]
pub struct Volume {
    pub zone: usize,
    pub size: u64,
    pub multi: bool,
    pub gone: bool,
    pub modifications: usize,
    pub tags: BTreeMap<&'static str, &'static str>,
    /// Slot by instance, and true if a poisoned name keeps it from getting attached.
    pub attached: BTreeMap<usize, (&'static str, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Power {
    Running,
    Stopped,
    Terminated,
}

/// Size, Multi-Attach and tag: parameters that a repeated token must repeat.
type Parameters = (u64, bool, Option<usize>);

#[derive(Clone, Debug)]
pub struct Model {
    pub volumes: Vec<Volume>,
    pub power: [Power; INSTANCES.len()],
    pub poisoned: [BTreeSet<&'static str>; INSTANCES.len()],
    /// Parameters and volume by token.
    tokens: BTreeMap<u8, (Parameters, usize)>,
    /// Last request of each client; it is repeated after a lost answer.
    last: [Option<Op>; CLIENTS],
    /// Expected outcome of the latest request.
    pub outcome: Outcome,
}

impl Model {
    /// Returns the expected outcome of `request`, and applies it to the model.
    fn apply_request(&mut self, request: &Request) -> Result<Outcome, &'static str> {
        let dry = || if request.dry_run { Err("DryRunOperation") } else { Ok(()) };
        match request.op {
            Op::Create { zone, size, multi, token, tag } => {
                let parameters = (size, multi, tag);
                let roots = self.power.iter().filter(|p| **p != Power::Terminated).count();
                let full = self.volumes.iter().filter(|v| !v.gone).count() + roots >= QUOTA;
                if let Some((first, volume)) = token.and_then(|t| self.tokens.get(&t)) {
                    // The quota is checked even if the token names an existing volume.
                    return match (*first == parameters, full, self.volumes[*volume].gone) {
                        (false, _, _) => Err("IdempotentParameterMismatch"),
                        (true, true, _) => Err("VolumeLimitExceeded"),
                        (true, false, true) => Err("IdempotentParameterMismatch"),
                        (true, false, false) => dry().map(|()| Outcome::Volume(*volume)),
                    };
                }
                if full {
                    return Err("VolumeLimitExceeded");
                }
                dry()?;
                let tags = tag.map(|t| TAGS[t]).into_iter().collect();
                let attached = BTreeMap::new();
                self.volumes.push(Volume { zone, size, multi, gone: false, modifications: 0, tags, attached });
                let number = self.volumes.len() - 1;
                self.tokens.extend(token.map(|t| (t, (parameters, number))));
                Ok(Outcome::Volume(number))
            }
            Op::Attach { volume, instance, device } => {
                let slot = DEVICES[device].1.ok_or("InvalidParameterValue")?;
                let taken = self.slots(instance);
                let poisoned = self.poisoned.get(instance).is_some_and(|p| p.contains(slot));
                let power = self.power.get(instance).copied();
                let v = self.volume(volume)?;
                let (_, zone, limit) = INSTANCES.get(instance).ok_or("InvalidInstanceID.NotFound")?;
                if v.zone != *zone {
                    return Err("InvalidVolume.ZoneMismatch");
                }
                if power == Some(Power::Terminated) {
                    return Err("IncorrectState");
                }
                if !v.attached.is_empty() && (!v.multi || v.attached.contains_key(&instance)) {
                    return Err("VolumeInUse");
                }
                if slot == "a" || taken.contains(slot) {
                    return Err("InvalidParameterValue");
                }
                if taken.len() >= *limit {
                    return Err("AttachmentLimitExceeded");
                }
                dry()?;
                v.attached.insert(instance, (slot, poisoned));
                Ok(Outcome::Done)
            }
            Op::Detach { volume, instance, force } => {
                let v = self.volume(volume)?;
                if instance.is_some_and(|i| i >= INSTANCES.len()) {
                    return Err("InvalidInstanceID.NotFound");
                }
                let from = match (v.attached.len(), instance) {
                    (0, _) => return Err("IncorrectState"),
                    (_, Some(instance)) if !v.attached.contains_key(&instance) => {
                        return Err("InvalidAttachment.NotFound");
                    }
                    (_, Some(instance)) => instance,
                    (1, None) => v.attached.keys().copied().sum(),
                    (_, None) => return Err("MissingParameter"),
                };
                dry()?;
                let gone = v.attached.remove(&from);
                self.poisoned[from].extend(gone.filter(|_| force).map(|(slot, _)| slot));
                Ok(Outcome::Done)
            }
            Op::Delete { volume } => {
                let v = self.volume(volume)?;
                if !v.attached.is_empty() {
                    return Err("VolumeInUse");
                }
                dry()?;
                v.gone = true;
                Ok(Outcome::Done)
            }
            Op::Modify { volume, size } => {
                let v = self.volume(volume)?;
                if size < v.size {
                    return Err("InvalidParameterValue");
                }
                if v.modifications == MODIFICATIONS {
                    return Err("VolumeModificationRateExceeded");
                }
                dry()?;
                (v.size, v.modifications) = (size, v.modifications + 1);
                Ok(Outcome::Done)
            }
            Op::Tag { volume, tag } => {
                let v = self.volume(volume)?;
                dry()?;
                v.tags.extend([TAGS[tag]]);
                Ok(Outcome::Done)
            }
            Op::Untag { volume, key } => {
                let v = self.volume(volume)?;
                dry()?;
                v.tags.remove(TAGS[key].0);
                Ok(Outcome::Done)
            }
            Op::Start { instance } => {
                self.powered(instance, &[Power::Running, Power::Stopped])?;
                dry()?;
                self.power[instance] = Power::Running;
                Ok(Outcome::Done)
            }
            Op::Stop { instance } => {
                let before = self.powered(instance, &[Power::Running, Power::Stopped])?;
                dry()?;
                if before == Power::Running {
                    self.power[instance] = Power::Stopped;
                    self.guest_ended(instance);
                }
                Ok(Outcome::Done)
            }
            Op::Reboot { instance } => {
                self.powered(instance, &[Power::Running])?;
                dry()?;
                self.guest_ended(instance);
                Ok(Outcome::Done)
            }
            Op::Terminate { instance } => {
                self.powered(instance, &[Power::Running, Power::Stopped, Power::Terminated])?;
                dry()?;
                self.power[instance] = Power::Terminated;
                self.volumes.iter_mut().for_each(|v| {
                    v.attached.remove(&instance);
                });
                Ok(Outcome::Done)
            }
            // Not a request: an incident in the cloud.
            Op::Vanish { volume } => {
                let v = self.volume(volume)?;
                v.gone = true;
                v.attached.clear();
                Ok(Outcome::Done)
            }
        }
    }

    fn volume(&mut self, number: usize) -> Result<&mut Volume, &'static str> {
        self.volumes.get_mut(number).filter(|v| !v.gone).ok_or("InvalidVolume.NotFound")
    }

    fn powered(&self, instance: usize, allowed: &[Power]) -> Result<Power, &'static str> {
        let power = self.power.get(instance).copied().ok_or("InvalidInstanceID.NotFound")?;
        if allowed.contains(&power) { Ok(power) } else { Err("IncorrectInstanceState") }
    }

    /// Returns the occupied slots of an instance, except the root's.
    fn slots(&self, instance: usize) -> BTreeSet<&'static str> {
        self.volumes.iter().filter_map(|v| v.attached.get(&instance)).map(|(slot, _)| *slot).collect()
    }

    /// Ends the guest: its poisoned names become usable, and attachments that wait for them complete.
    fn guest_ended(&mut self, instance: usize) {
        self.poisoned[instance].clear();
        self.volumes.iter_mut().filter_map(|v| v.attached.get_mut(&instance)).for_each(|a| a.1 = false);
    }
}

fn token() -> impl Strategy<Value = Option<u8>> {
    proptest::option::weighted(0.3, 0..4u8)
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Request;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self {
            volumes: Vec::new(),
            power: [Power::Running; INSTANCES.len()],
            poisoned: Default::default(),
            tokens: BTreeMap::new(),
            last: Default::default(),
            outcome: Outcome::Done,
        })
        .boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Request> {
        // One more than exist, so that some are missing. Mostly of the first zone and on its small instances, so that
        // histories reach the limits.
        let volume = 0..=state.volumes.len();
        let instance = || prop_oneof![2 => Just(0), 5 => 1..3usize, 1 => Just(3), 1 => Just(INSTANCES.len())];
        let zone = prop_oneof![5 => Just(0), 1 => Just(1)];
        let device = prop_oneof![8 => 0..6usize, 1 => 6..DEVICES.len()];
        let create = (zone, 4..6u64, proptest::bool::weighted(0.2), token(), proptest::option::of(0..TAGS.len()));
        let op = prop_oneof![
            8 => create.prop_map(|(zone, size, multi, token, tag)| Op::Create { zone, size, multi, token, tag }),
            24 => (volume.clone(), instance(), device)
                .prop_map(|(volume, instance, device)| Op::Attach { volume, instance, device }),
            6 => (volume.clone(), proptest::option::of(instance()), proptest::bool::weighted(0.3))
                .prop_map(|(volume, instance, force)| Op::Detach { volume, instance, force }),
            2 => volume.clone().prop_map(|volume| Op::Delete { volume }),
            4 => (volume.clone(), 4..9u64).prop_map(|(volume, size)| Op::Modify { volume, size }),
            2 => (volume.clone(), 0..TAGS.len()).prop_map(|(volume, tag)| Op::Tag { volume, tag }),
            1 => (volume.clone(), 0..TAGS.len()).prop_map(|(volume, key)| Op::Untag { volume, key }),
            2 => instance().prop_map(|instance| Op::Start { instance }),
            1 => instance().prop_map(|instance| Op::Stop { instance }),
            1 => instance().prop_map(|instance| Op::Reboot { instance }),
            1 => instance().prop_map(|instance| Op::Terminate { instance }),
            1 => volume.prop_map(|volume| Op::Vanish { volume }),
        ];
        let last = state.last.clone();
        (0..CLIENTS, proptest::bool::weighted(0.1), proptest::bool::weighted(0.15), op)
            .prop_map(move |(client, dry_run, again, op)| {
                let op = last[client].clone().filter(|_| again).unwrap_or(op);
                Request { client, dry_run, op }
            })
            .boxed()
    }

    fn apply(mut state: Self, request: &Request) -> Self {
        state.outcome = state.apply_request(request).unwrap_or_else(Outcome::Error);
        state.last[request.client] = Some(request.op.clone());
        state
    }
}
