//! Volumes that no provisioner knows.
//!
//! Until its PersistentVolume is saved, a new volume has no record. If a provisioner ends before that and finds no
//! claim after its restart, it does not continue, like upstream's, even if the cloud creates the volume later. The same
//! happens if the driver has created the volume and answered with an error that denies it, and the claim is then
//! deleted.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::efs::is_handle;
use csi_mock::events::{AccessPointChanged, AccessPointState, CsiCall, CsiDone};
use fake_apiserver::events::{Commit, WatchOpened};
use fake_apiserver::state::EventType;
use mock_ec2::events::{VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::Effect;
use substrate::json::Text;

use crate::model::{CallKey, Calls, VolumeId};

/// The processes that create volumes; a second replica has a number after its name.
const PROVISIONERS: [&str; 2] = ["csi-provisioner", "efs-csi-provisioner"];

fn is_provisioner(process: &str) -> bool {
    PROVISIONERS.iter().any(|name| process.starts_with(name))
}

/// Returns true if a process belongs to the driver of shared file systems.
fn is_of_shares(process: &str) -> bool {
    process.starts_with("efs-")
}

/// Codes after which a provisioner assumes that the volume may still be created, and asks again (external-provisioner,
/// `checkError`).
const IN_BACKGROUND: [&str; 4] = ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED"];

/// Time in milliseconds in which a provisioner that sees a claim asks the driver for its volume.
const ASKS_WITHIN: u64 = 60_000;

/// Time in milliseconds in which a provisioner asks again for a volume that was denied, while the claim is there. Its
/// longest pause is five minutes.
const ASKS_AGAIN_WITHIN: u64 = 20 * 60_000;

/// Returns those calls that create a volume.
fn creations<'a>(
    calls: impl Iterator<Item = (&'a CallKey, &'a CsiCall)>,
) -> impl Iterator<Item = (&'a CallKey, &'a CsiCall)> {
    calls.filter(|(_, call)| call.rpc == "CreateVolume")
}

/// Returns the name of the volume that a call creates.
fn name(call: &CsiCall) -> Text {
    call.target.clone().unwrap_or_default()
}

/// Volumes of the cloud.
#[derive(Debug, Default)]
pub(super) struct OrphanedVolumes {
    /// For each volume, true if a provisioner has restarted since its creation.
    restarted: BTreeMap<VolumeId, bool>,
    /// Names under which a provisioner may have asked for each volume. There are several until the driver has answered
    /// with the volume.
    names: BTreeMap<VolumeId, BTreeSet<Text>>,
    /// Names that a provisioner asked for, and that have no PersistentVolume yet.
    asked: BTreeSet<Text>,
    /// Names among them whose claim is gone, or is being deleted.
    gone: BTreeSet<Text>,
    /// Names that the current provisioner has asked for.
    known: BTreeSet<Text>,
    /// Names whose claim the current provisioner saw for a minute without asking, before the claim was deleted.
    unserved: BTreeSet<Text>,
    /// Time in milliseconds since which the current provisioner watches claims.
    watches_since: Option<u64>,
    /// Volumes that the driver has created, although it answered that it had not; the time of this answer in
    /// milliseconds.
    denied: BTreeMap<VolumeId, u64>,
    /// Time of the last event in milliseconds.
    now: u64,
    /// Open CreateVolume calls whose answer no provisioner waits for, because it has ended.
    abandoned: BTreeSet<CallKey>,
    /// Number of abandoned calls: the cloud may still create a volume for each.
    given_up: usize,
    /// Number of calls that were open or abandoned when a provisioner restarted, and that have not created a volume
    /// since.
    lost: usize,
    /// True if that was the provisioner of shared file systems.
    lost_shares: bool,
    /// Names of calls during which a fault fired or a process crashed.
    disturbed: BTreeSet<Text>,
    /// True if a partition has begun, which is reported once.
    is_cut: bool,
}

impl OrphanedVolumes {
    /// Records an event.
    pub fn observe(&mut self, calls: &Calls, event: &Event) {
        self.now = event.ms;
        if event.is::<FaultFired>() || event.is::<ProcessCrashed>() {
            self.disturbed.extend(creations(calls.open().chain(calls.ended())).map(|(_, call)| name(call)));
            let effect = event.get::<FaultFired>().map(|fired| &fired.effect);
            self.is_cut |= matches!(effect, Some(Effect::Partition(_) | Effect::PartitionOneWay(_)));
        }
        if let Some(VolumeChanged { volume, state: VolumePhase::Creating, .. }) = event.get() {
            self.on_made(calls, volume.as_str());
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) = event.get() {
            self.on_deleted(volume.as_str());
        } else if let Some(changed) = event.get::<AccessPointChanged>() {
            match changed.state {
                AccessPointState::Created => self.on_made(calls, &changed.volume()),
                AccessPointState::Deleted => self.on_deleted(&changed.volume()),
            }
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit, event.ms);
        } else if let Some(WatchOpened { caller, resource, .. }) = event.get() {
            if is_provisioner(caller) && resource == "persistentvolumeclaims" {
                self.watches_since = Some(event.ms);
            }
        } else if is_provisioner(&event.process)
            && event.get::<ProcessStarted>().is_some_and(|started| started.incarnation > 1)
        {
            self.on_restart(calls, is_of_shares(&event.process));
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            for (key, _) in creations(calls.ended()) {
                self.abandoned.remove(key);
                self.given_up += 1;
            }
        } else if let Some(call) = event.get::<CsiCall>().filter(|call| call.rpc == "CreateVolume") {
            self.abandoned.remove(&CallKey::new(event, call.ordinal));
            self.asked.insert(name(call));
            self.known.insert(name(call));
        } else if let Some(done) = event.get::<CsiDone>().filter(|done| &*done.rpc == "CreateVolume") {
            self.on_done(calls, done);
        }
    }

    /// Records that the provisioner of shared file systems, or the other one, restarts: it knows only what is stored.
    fn on_restart(&mut self, calls: &Calls, shares: bool) {
        let restarted = self.restarted.iter_mut().filter(|(volume, _)| is_handle(volume) == shares);
        restarted.for_each(|(_, restarted)| *restarted = true);
        let open = creations(calls.open()).filter(|(key, _)| is_of_shares(&key.process) == shares);
        let open: Vec<CallKey> = open.map(|(key, _)| key.clone()).collect();
        self.lost = open.len() + self.given_up;
        self.abandoned.extend(open);
        self.lost_shares = shares;
        // The other provisioner still knows what it has asked for.
        let others = self.names.iter().filter(|(volume, _)| is_handle(volume) != shares);
        let others: BTreeSet<Text> = others.flat_map(|(_, names)| names.iter().cloned()).collect();
        self.known.retain(|name| others.contains(name));
        self.watches_since = None;
    }

    fn on_made(&mut self, calls: &Calls, volume: &str) {
        let is_lost = self.lost > 0 && self.lost_shares == is_handle(volume);
        if creations(calls.open()).next().is_none() {
            (self.lost, self.given_up) = (self.lost.saturating_sub(1), self.given_up.saturating_sub(1));
        }
        *self.restarted.entry(volume.into()).or_default() |= is_lost;
        self.names.insert(volume.into(), self.asked.clone());
    }

    fn on_deleted(&mut self, volume: &str) {
        self.names.remove(volume);
        self.restarted.remove(volume);
    }

    fn on_commit(&mut self, commit: &Commit, ms: u64) {
        if commit.pv.is_some() {
            // A provisioner gives a PersistentVolume the name of its volume.
            self.asked.retain(|name| **name != *commit.object);
            return;
        }
        let Some(claim) = commit.pvc.as_ref().filter(|claim| claim.deleting || commit.r#type == EventType::Deleted)
        else {
            return;
        };
        if claim.uid.is_empty() {
            return;
        }
        let name = Text::from(format!("pvc-{}", claim.uid));
        if !self.gone.contains(&name) && !self.is_cut {
            // The claim was there for so long that the provisioner must have asked for its volume again.
            let of_claim = |volume: &str| self.names.get(volume).is_some_and(|names| names.contains(&name));
            self.denied.retain(|volume, since| ms - *since < ASKS_AGAIN_WITHIN || !of_claim(volume));
        }
        if self.asked.contains(&name) && self.gone.insert(name.clone()) {
            let saw = self.watches_since.is_some_and(|since| ms - since >= ASKS_WITHIN);
            if saw && !self.known.contains(&name) {
                self.unserved.insert(name);
            }
        }
    }

    /// Returns true if the claim of a volume was deleted before a provisioner could ask for the volume again.
    fn is_claim_gone(&self, volume: &str) -> bool {
        let mut names = self.names.get(volume).into_iter().flatten();
        names.any(|name| self.gone.contains(name) && !self.known.contains(name) && !self.unserved.contains(name))
    }

    fn on_done(&mut self, calls: &Calls, done: &CsiDone) {
        let is_received = !calls.ended().any(|(key, _)| self.abandoned.remove(key));
        let name = calls.answered().map(name);
        let is_disturbed = self.is_cut || name.as_ref().is_some_and(|name| self.disturbed.contains(name));
        let volume = done.volume.as_deref();
        if let Some((volume, name)) = volume.zip(name) {
            self.names.insert(volume.into(), [name].into());
        }
        if done.code == "OK" {
            // An abandoned request was repeated under the same name.
            self.given_up = self.given_up.saturating_sub(1);
            volume.map(|volume| self.denied.remove(volume));
            // The current provisioner knows the volume: while its claim exists, upstream asks again after a start, and
            // gets the volume by its name.
            if let Some(restarted) = volume.filter(|_| is_received).and_then(|volume| self.restarted.get_mut(volume)) {
                *restarted = false;
            }
        } else if IN_BACKGROUND.contains(&&*done.code) {
            self.given_up += usize::from(volume.is_none());
            volume.map(|volume| self.denied.remove(volume));
        } else {
            // A driver that does so by itself has a bug.
            self.denied.extend(volume.filter(|_| is_disturbed).map(|volume| (volume.into(), self.now)));
        }
    }

    /// Returns the volumes whose provisioner has restarted since their creation, and whose claim was deleted before it
    /// could ask for them again.
    pub fn restarted(&self) -> impl Iterator<Item = &str> {
        let all = self.restarted.iter().filter(|(volume, restarted)| **restarted && self.is_claim_gone(volume));
        all.map(|(volume, _)| &**volume)
    }

    /// Returns the reason why no provisioner knows `volume`, if none does and the reason is known.
    pub fn why(&self, volume: &str) -> Option<&'static str> {
        if self.restarted.get(volume).copied().unwrap_or_default() && self.is_claim_gone(volume) {
            return Some("provisionerRestartedSinceMade");
        }
        self.denied.contains_key(volume).then_some("madeByFailedCall")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_apiserver::events::Claim;
    use substrate::clock::TimeScale;
    use substrate::world::{Options, simulate};
    use substrate::{Clock, Level, Trace, World};

    use super::*;
    use crate::invariants::{Invariants, Leftovers, declared};

    const VOLUME: &str = "vol-0123456789abcdef0";

    fn made() -> VolumeChanged {
        VolumeChanged::new(VOLUME.parse().unwrap(), VolumePhase::Creating, "us-east-1a", 1)
    }

    /// An event in the history of a claim and its volume.
    #[derive(Clone, Copy, Debug)]
    enum Does {
        Asks,
        Answers,
        Succeeds,
        Denies,
        Made,
        Starts(u32),
        OtherStarts,
        Watches,
        Waits,
        ClaimGoes,
    }
    use Does::*;

    /// Returns the declared deviation of the volume that is left after these steps.
    fn declared_after(steps: &[Does]) -> Option<String> {
        let invariants = Invariants::new(TimeScale::default());
        replay(steps, &mut |event| invariants.observe(event));
        invariants.at_end(&Leftovers { cloud_volumes: vec![VOLUME.to_owned()], ..Leftovers::default() });
        let violations = invariants.violations();
        let found = violations.iter().find(|v| v.id == "I5").unwrap();
        assert_eq!(found.message, format!("a cloud volume is left over: {VOLUME}"));
        let known = declared::all().unwrap();
        known.iter().find(|deviation| deviation.is(found).unwrap()).map(|deviation| deviation.id.clone())
    }

    fn why_after(steps: &[Does]) -> Option<&'static str> {
        let (mut calls, mut unsaved) = (Calls::default(), OrphanedVolumes::default());
        replay(steps, &mut |event| {
            calls.observe(event);
            unsaved.observe(&calls, event);
        });
        unsaved.why(VOLUME)
    }

    fn replay(steps: &[Does], observe: &mut dyn FnMut(&Event)) {
        let events = simulate(Options::default(), async |world| {
            for does in steps {
                happens(&world, *does).await;
            }
            world.trace().events()
        });
        events.iter().for_each(|event| observe(event));
    }

    async fn happens(world: &World, does: Does) {
        let (trace, apiserver, driver) = (world.trace(), "fake-apiserver".into(), "csi-controller".into());
        let (volume, node) = (None, None);
        match does {
            Asks => {
                let (rpc, target) = ("CreateVolume", Some("pvc-1".into()));
                let call = CsiCall { volume, node, target, ..CsiCall::new(rpc, 1) };
                trace.info(&driver, call);
            }
            Answers => {
                let (rpc, code) = ("CreateVolume".into(), "INTERNAL".into());
                trace.info(&driver, CsiDone { rpc, volume, node, ordinal: 1, code, took_ms: 1, message: None });
            }
            Succeeds => {
                let (rpc, volume, code) = ("CreateVolume".into(), Some(VOLUME.into()), "OK".into());
                trace.info(&driver, CsiDone { rpc, volume, node, ordinal: 1, code, took_ms: 1, message: None });
            }
            Denies => {
                let effect = Effect::Grpc("INTERNAL".to_owned());
                trace.info(&driver, FaultFired::new("denied", "CreateVolume", effect));
                let (rpc, volume, code) = ("CreateVolume".into(), Some(VOLUME.into()), "INTERNAL".into());
                trace.info(&driver, CsiDone { rpc, volume, node, ordinal: 1, code, took_ms: 1, message: None });
            }
            Made => trace.info(&"mock-ec2".into(), made()),
            Starts(incarnation) => trace.info(&PROVISIONERS[0].into(), ProcessStarted { incarnation }),
            OtherStarts => trace.info(&PROVISIONERS[1].into(), ProcessStarted { incarnation: 2 }),
            Watches => {
                let opened = WatchOpened {
                    bookmarks: true,
                    caller: "csi-provisioner/v6".into(),
                    filtered: false,
                    from_rv: 1,
                    group: "".into(),
                    initial: false,
                    namespace: None,
                    node: None,
                    object: None,
                    resource: "persistentvolumeclaims".into(),
                    stream: 1,
                };
                trace.info(&apiserver, opened);
            }
            Waits => tokio::time::sleep(Duration::from_millis(ASKS_WITHIN)).await,
            ClaimGoes => {
                let pvc = Some(Box::new(Claim { uid: "1".into(), ..Claim::default() }));
                let gone = Commit::new("persistentvolumeclaims", "default/data", 2, EventType::Deleted);
                trace.info(&apiserver, Commit { pvc, ..gone });
            }
        }
    }

    #[test]
    fn a_volume_that_the_cloud_makes_after_the_provisioner_has_gone_is_unknown_to_the_next() {
        let lost = Some("provisionerRestartedSinceMade");
        assert_eq!(why_after(&[Asks, Starts(2), Made, ClaimGoes]), lost);
        assert_eq!(why_after(&[Asks, Answers, Starts(2), Made, ClaimGoes]), None, "nothing was under way");
    }

    #[test]
    fn a_provisioner_forgets_a_volume_whose_claim_is_gone_when_it_is_back() {
        let forgets = Some("provisioner-forgets-volume-in-progress".to_owned());
        assert_eq!(declared_after(&[Starts(1), Asks, Made, ClaimGoes, Starts(2), Watches]), forgets);
        assert_eq!(declared_after(&[Starts(1), Asks, Made, Starts(2), ClaimGoes, Watches]), forgets);
        assert_eq!(declared_after(&[Starts(1), Asks, Made, Starts(2), Watches, ClaimGoes]), forgets);
        // It never ended, or had begun before.
        assert_eq!(declared_after(&[Starts(1), Asks, Made, ClaimGoes]), None);
        assert_eq!(declared_after(&[Starts(1), Starts(2), Asks, Made, ClaimGoes]), None);
        // The provisioner of another driver ended.
        assert_eq!(declared_after(&[Starts(1), Asks, Made, OtherStarts, ClaimGoes]), None);
        assert_eq!(declared_after(&[Starts(1), Asks, OtherStarts, Made, ClaimGoes]), None);
        // The claim is still there: upstream asks again.
        assert_eq!(declared_after(&[Starts(1), Asks, Made, Starts(2), Watches]), None);
        // It saw the claim for a minute and did nothing, or it has asked again.
        assert_eq!(declared_after(&[Starts(1), Asks, Made, Starts(2), Watches, Waits, ClaimGoes]), None);
        assert_eq!(declared_after(&[Starts(1), Asks, Made, Starts(2), Watches, Asks, ClaimGoes]), None);
    }

    #[test]
    fn a_volume_whose_creation_failed_is_reported_until_a_call_succeeds() {
        let done = |code: &str| CsiDone {
            rpc: "CreateVolume".into(),
            volume: Some(VOLUME.into()),
            node: None,
            ordinal: 1,
            code: code.to_owned().into(),
            took_ms: 1,
            message: None,
        };
        let answers = |codes: &[&str], is_faulty: bool| {
            let (trace, driver) = (Trace::new(Clock::live(), Level::Info), "csi-controller".into());
            for code in codes {
                trace.info(&driver, CsiCall { target: Some("pvc-1".into()), ..CsiCall::new("CreateVolume", 1) });
                if is_faulty {
                    let effect = Effect::Grpc((*code).to_owned());
                    trace.info(&driver, FaultFired::new("denied", "CreateVolume", effect));
                }
                trace.info(&driver, done(code));
            }
            let (mut calls, mut unsaved) = (Calls::default(), OrphanedVolumes::default());
            for event in trace.events() {
                calls.observe(&event);
                unsaved.observe(&calls, &event);
            }
            unsaved.why(VOLUME)
        };
        let why = |codes: &[&str]| answers(codes, true);
        assert_eq!(answers(&["INTERNAL"], false), None, "the driver failed by itself");
        assert_eq!(why(&["INTERNAL"]), Some("madeByFailedCall"));
        assert_eq!(why(&["UNAVAILABLE"]), None, "the provisioner asks again");
        assert_eq!(why(&["INTERNAL", "OK"]), None);
    }

    #[test]
    fn a_volume_that_was_denied_is_asked_for_again_while_its_claim_is_there() {
        let why = |minutes: u64| {
            let steps: Vec<Does> = (0..minutes).map(|_| Waits).chain([ClaimGoes]).collect();
            why_after(&[&[Asks, Denies][..], &steps[..]].concat())
        };
        assert_eq!(why(5), Some("madeByFailedCall"));
        assert_eq!(why(30), None, "the provisioner has given up the claim");
    }

    #[test]
    fn a_provisioner_that_knew_the_volume_is_not_excused() {
        let why = |then: &[Does]| why_after(&[&[Asks, Made, Starts(2)][..], then].concat());
        assert_eq!(why(&[ClaimGoes]), Some("provisionerRestartedSinceMade"));
        assert_eq!(why(&[Asks, Succeeds, ClaimGoes]), None);
        assert_eq!(why(&[Asks, Succeeds, Starts(3), ClaimGoes]), Some("provisionerRestartedSinceMade"));
    }

    #[test]
    fn an_answer_to_an_ended_provisioner_does_not_reach_the_next() {
        assert_eq!(why_after(&[Asks, Made, ClaimGoes, Starts(2), Succeeds]), Some("provisionerRestartedSinceMade"));
        let asked_after = [Starts(2), Asks, Made, ClaimGoes, Succeeds];
        assert_eq!(why_after(&asked_after), None, "the answer comes to the one that asked");
    }
}
