//! I3: resources of the cloud go through their states in order. A volume is attached only when it has been created, and
//! not while it is deleted. An attachment that ended begins again with `attaching`. A modification is `optimizing` before
//! it is `completed`, and no volume becomes smaller. A snapshot that is completed is not pending again, and an instance
//! that was terminated stays so. An occasion is a change of state.
//!
//! The rule skips attachments whose begin is unknown, root volumes, and states that follow one that an operator sets.

use std::collections::BTreeMap;

use mock_ec2::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, InstancePhase, ModificationChanged, ModificationState,
    SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase,
};
use substrate::Event;

use super::{Checked, Found, Id};

/// Last states, by id. The model has the states after an event, and forgets what is gone.
#[derive(Debug, Default)]
pub(super) struct States {
    volumes: BTreeMap<String, VolumePhase>,
    attachments: BTreeMap<(String, String), AttachmentPhase>,
    modifications: BTreeMap<String, ModificationState>,
    /// Size of each volume in GiB.
    sizes: BTreeMap<String, u64>,
    snapshots: BTreeMap<String, SnapshotPhase>,
    instances: BTreeMap<String, InstancePhase>,
}

fn is_next_of_volume(from: VolumePhase, to: VolumePhase) -> bool {
    use VolumePhase::{Available, Creating, Deleted, Deleting, Error, InUse};
    match from {
        Creating => to != InUse,
        Available => to != Creating,
        InUse => matches!(to, InUse | Available | Error | Deleted),
        Deleting => matches!(to, Deleting | Deleted),
        Error => matches!(to, Error | Available | Deleting | Deleted),
        // A volume of the recycle bin comes back.
        Deleted => true,
    }
}

fn is_next_of_attachment(from: AttachmentPhase, to: AttachmentPhase) -> bool {
    use AttachmentPhase::{Attached, Attaching, Busy, Detached, Detaching};
    match from {
        Attaching | Attached => to != Busy,
        Detaching | Busy => matches!(to, Detaching | Busy | Detached),
        Detached => matches!(to, Attaching | Attached),
    }
}

fn is_next_of_modification(from: Option<ModificationState>, to: ModificationState) -> bool {
    use ModificationState::{Completed, Failed, Modifying, Optimizing};
    match from {
        None | Some(Completed | Failed) => to == Modifying,
        Some(Modifying) => matches!(to, Optimizing | Failed),
        Some(Optimizing) => matches!(to, Completed | Failed),
    }
}

fn is_next_of_snapshot(from: SnapshotPhase, to: SnapshotPhase) -> bool {
    use SnapshotPhase::{Completed, Deleted, Error, Pending, Recoverable, Recovering};
    match from {
        Pending => true,
        Completed => !matches!(to, Pending | Error | Recovering),
        Error => matches!(to, Error | Deleted | Recoverable),
        Recoverable | Recovering => !matches!(to, Error),
        Deleted => to == Recoverable,
    }
}

fn is_next_of_instance(from: InstancePhase, to: InstancePhase) -> bool {
    use InstancePhase::{ShuttingDown, Terminated};
    match from {
        ShuttingDown => matches!(to, ShuttingDown | Terminated),
        Terminated => to == Terminated,
        _ => true,
    }
}

impl States {
    /// Checks an event against the state before it.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        let (thing, volume, from, to) = if let Some(VolumeChanged { volume, state, size_gib, .. }) = event.get() {
            let id = volume.to_string();
            let from = self.volumes.insert(id.clone(), *state);
            let size = self.sizes.insert(id.clone(), *size_gib).filter(|_| from != Some(VolumePhase::Deleted));
            if let Some(size) = size.filter(|size| size > size_gib) {
                return Some(smaller(id, size, *size_gib));
            }
            let from = from.filter(|from| !is_next_of_volume(*from, *state))?;
            (id.clone(), Some(id), from.as_str(), state.as_str())
        } else if let Some(AttachmentChanged { volume, instance, state, .. }) = event.get() {
            let (id, on) = (volume.to_string(), instance.to_string());
            checked.add(Id::I3, 1);
            let from = self.attachments.insert((id.clone(), on.clone()), *state);
            let from = from.filter(|from| !is_next_of_attachment(*from, *state))?;
            (format!("the attachment of {id} to {on}"), Some(id), from.as_str(), state.as_str())
        } else if let Some(ModificationChanged { volume, state, size_gib, .. }) = event.get() {
            let id = volume.to_string();
            let size = self.sizes.insert(id.clone(), *size_gib);
            if let Some(size) = size.filter(|size| size > size_gib) {
                return Some(smaller(id, size, *size_gib));
            }
            let from = self.modifications.insert(id.clone(), *state);
            if is_next_of_modification(from, *state) {
                return None;
            }
            let from = from.map_or("absent", ModificationState::as_str);
            (format!("the modification of {id}"), Some(id), from, state.as_str())
        } else if let Some(SnapshotChanged { snapshot, state, .. }) = event.get() {
            let from = self.snapshots.insert(snapshot.to_string(), *state);
            let from = from.filter(|from| !is_next_of_snapshot(*from, *state))?;
            (snapshot.to_string(), None, from.as_str(), state.as_str())
        } else if let Some(InstanceChanged { instance, state }) = event.get() {
            let from = self.instances.insert(instance.to_string(), *state);
            let from = from.filter(|from| !is_next_of_instance(*from, *state))?;
            (instance.to_string(), None, from.as_str(), state.as_str())
        } else {
            return None;
        };
        let message = format!("{thing} is {to} in the cloud, and was {from} before");
        Some(Found { message, operation: event.kind().to_owned(), volume, ..Found::default() })
    }
}

fn smaller(volume: String, from: u64, to: u64) -> Found {
    let message = format!("{volume} has {to} GiB in the cloud, and had {from} GiB before");
    Found { message, operation: "ModifyVolume".to_owned(), volume: Some(volume), ..Found::default() }
}

#[cfg(test)]
mod tests {
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";
    const INSTANCE: &str = "i-0123456789abcdef0";

    /// Returns the messages of I3 for a run with the events that `tell` emits.
    fn found(tell: impl Fn(&Trace)) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        tell(&trace);
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I3");
        all.map(|violation| violation.message).collect()
    }

    fn volumes(states: &[VolumePhase]) -> Vec<String> {
        found(|trace| {
            for state in states {
                trace.info(&"mock-ec2".into(), VolumeChanged::new(VOLUME.parse().unwrap(), *state, "a", 1));
            }
        })
    }

    #[test]
    fn a_volume_is_used_after_its_creation_and_before_its_deletion() {
        use VolumePhase::{Available, Creating, Deleted, Deleting, InUse};
        assert!(volumes(&[Creating, Available, InUse, Available, Deleting, Deleted]).is_empty());
        assert_eq!(volumes(&[Creating, InUse]), [format!("{VOLUME} is in-use in the cloud, and was creating before")]);
        assert_eq!(volumes(&[InUse, Deleting]), [format!("{VOLUME} is deleting in the cloud, and was in-use before")]);
    }

    #[test]
    fn an_ended_attachment_can_begin_again() {
        use AttachmentPhase::{Attached, Attaching, Busy, Detached, Detaching};
        let states = |states: &[AttachmentPhase]| {
            found(|trace| {
                for state in states {
                    let (volume, instance) = (VOLUME.parse().unwrap(), INSTANCE.parse().unwrap());
                    let device = "/dev/xvdaa".into();
                    let changed = AttachmentChanged { volume, instance, device, state: *state, forced: false };
                    trace.info(&"mock-ec2".into(), changed);
                }
            })
        };
        assert!(states(&[Attaching, Attached, Detaching, Busy, Detached, Attaching]).is_empty());
        let message = format!("the attachment of {VOLUME} to {INSTANCE} is attached in the cloud, and was busy before");
        assert_eq!(states(&[Attaching, Attached, Detaching, Busy, Attached]), [message]);
    }

    #[test]
    fn a_modification_is_optimizing_before_it_is_completed() {
        use ModificationState::{Completed, Modifying, Optimizing};
        let states = |states: &[(ModificationState, u64)]| {
            found(|trace| {
                for (state, size_gib) in states {
                    let changed = ModificationChanged {
                        volume: VOLUME.parse().unwrap(),
                        state: *state,
                        size_gib: *size_gib,
                        volume_type: "gp3".into(),
                        iops: None,
                        throughput: None,
                    };
                    trace.info(&"mock-ec2".into(), changed);
                }
            })
        };
        assert!(states(&[(Modifying, 1), (Optimizing, 2), (Completed, 2), (Modifying, 2)]).is_empty());
        let skipped = format!("the modification of {VOLUME} is completed in the cloud, and was modifying before");
        assert_eq!(states(&[(Modifying, 1), (Completed, 2)]), [skipped]);
        let smaller = format!("{VOLUME} has 1 GiB in the cloud, and had 2 GiB before");
        assert_eq!(states(&[(Modifying, 2), (Optimizing, 1)]), [smaller]);
    }

    #[test]
    fn snapshots_and_instances_end_once() {
        let snapshots = |states: &[SnapshotPhase]| {
            found(|trace| {
                for state in states {
                    let snapshot = "snap-0123456789abcdef0".parse().unwrap();
                    let volume = VOLUME.parse().unwrap();
                    trace.info(&"mock-ec2".into(), SnapshotChanged { snapshot, volume, state: *state, size_gib: 1 });
                }
            })
        };
        use SnapshotPhase::{Completed, Deleted, Pending};
        assert!(snapshots(&[Pending, Completed, Deleted]).is_empty());
        let message = "snap-0123456789abcdef0 is pending in the cloud, and was completed before";
        assert_eq!(snapshots(&[Pending, Completed, Pending]), [message]);
        let instances = |states: &[InstancePhase]| {
            found(|trace| {
                for state in states {
                    let instance = INSTANCE.parse().unwrap();
                    trace.info(&"mock-ec2".into(), InstanceChanged { instance, state: *state });
                }
            })
        };
        assert!(instances(&[InstancePhase::Running, InstancePhase::Stopped, InstancePhase::Running]).is_empty());
        let message = format!("{INSTANCE} is running in the cloud, and was shutting-down before");
        assert_eq!(instances(&[InstancePhase::ShuttingDown, InstancePhase::Running]), [message]);
    }
}
