//! I10: the cloud accepts only what EC2 accepts. Two volumes of an instance have different device names, a volume and the
//! node of its instance are in one zone, and the size, the IOPS and the throughput of a volume are in the bounds of its
//! type. The driver of shared file systems gives each access point a group of its own, unless a StorageClass names the
//! group. An occasion is an attach, a new access point, or a new shape of a volume.

use std::collections::BTreeMap;

use csi_mock::events::{AccessPointChanged, AccessPointState};
use fake_apiserver::events::Reset;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, ModificationChanged, VolumeChanged};
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id, parameters};
use crate::model::RunModel;

/// Access points of the cloud.
#[derive(Debug, Default)]
pub(super) struct Cloud {
    /// Access point of each group of a file system.
    groups: BTreeMap<(Text, i64), Text>,
}

/// Returns the reason why EC2 has no such volume (EBS user guide, "Amazon EBS volume types").
fn beyond(of_type: &str, gib: u64, iops: Option<u64>, throughput: Option<u64>) -> Option<String> {
    let (least, most) = match of_type {
        "gp2" => (1, 16_384),
        "gp3" => (1, 65_536),
        "io1" => (4, 16_384),
        "io2" => (4, 65_536),
        "st1" | "sc1" => (125, 16_384),
        _ => return None,
    };
    if gib < least || gib > most {
        return Some(format!("{gib} GiB, and {of_type} has {least} to {most}"));
    }
    if let Some((iops, limit)) = iops.zip(parameters::most(of_type, gib)).filter(|(iops, limit)| iops > limit) {
        return Some(format!("{iops} IOPS, and {of_type} of {gib} GiB has at most {limit}"));
    }
    let limit = iops.map(|iops| iops / 4).filter(|_| of_type == "gp3");
    let (throughput, limit) = throughput.zip(limit).filter(|(throughput, limit)| throughput > limit)?;
    Some(format!("{throughput} MiB/s, and its IOPS allow at most {limit}"))
}

impl Cloud {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        let (volume, message) = if let Some(changed) = event.get::<VolumeChanged>() {
            checked.add(Id::I10, 1);
            let why = beyond(&changed.volume_type, changed.size_gib, changed.iops, changed.throughput);
            (changed.volume.to_string(), why)
        } else if let Some(changed) = event.get::<ModificationChanged>() {
            let why = beyond(&changed.volume_type, changed.size_gib, changed.iops, changed.throughput);
            (changed.volume.to_string(), why)
        } else if let Some(changed) = event.get::<AccessPointChanged>() {
            (changed.volume(), self.granted(model, checked, changed))
        } else if event.is::<Reset>() {
            self.groups.clear();
            return None;
        } else {
            let changed = event.get::<AttachmentChanged>()?;
            (changed.volume.to_string(), attached(model, checked, changed))
        };
        let message = format!("{volume} has {}", message?);
        Some(Found { message, operation: event.kind().to_owned(), volume: Some(volume), ..Found::default() })
    }

    fn granted(&mut self, model: &RunModel, checked: &mut Checked, changed: &AccessPointChanged) -> Option<String> {
        let slot = (changed.file_system.clone(), changed.gid);
        if changed.state == AccessPointState::Deleted {
            if self.groups.get(&slot).is_some_and(|held| *held == changed.access_point) {
                self.groups.remove(&slot);
            }
            return None;
        }
        checked.add(Id::I10, 1);
        let held = self.groups.get(&slot).cloned();
        self.groups.entry(slot).or_insert_with(|| changed.access_point.clone());
        held.filter(|_| !model.objects.is_class_parameter("gid"))
            .map(|held| format!("the group {} of the access point {held}", changed.gid))
    }
}

/// Returns what is wrong with an attachment that begins, as the end of a sentence.
fn attached(model: &RunModel, checked: &mut Checked, changed: &AttachmentChanged) -> Option<String> {
    if changed.state != AttachmentPhase::Attaching {
        return None;
    }
    checked.add(Id::I10, 1);
    let (volume, instance) = (changed.volume.as_str(), changed.instance.as_str());
    let (own, node) = (&model.objects.in_cloud(volume)?.zone, model.name(instance));
    let held = model.volumes_of_device(node, &changed.device).find(|held| *held != volume);
    let taken = held.map(|held| format!("the device name {} of {held} on {instance}", changed.device));
    let other = || model.objects.zone(node).filter(|zone| *zone != own);
    taken.or_else(|| other().map(|zone| format!("an attachment to {node} in {zone}, and is in {own}")))
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Commit, Spec};
    use fake_apiserver::state::EventType;
    use mock_ec2::events::VolumePhase;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const INSTANCE: &str = "i-0123456789abcdef0";

    /// Returns the messages of I10 for two volumes that are attached to an instance, each in a zone and as a device.
    fn found(attaches: &[(&str, &str)], ends: bool) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut commit = Commit::new("nodes", INSTANCE, 1, EventType::Added);
        commit.spec = Some(Box::new(Spec { zones: vec!["a".into()], ..Spec::default() }));
        trace.info(&"fake-apiserver".into(), commit);
        for (at, (zone, device)) in attaches.iter().enumerate() {
            let id = format!("vol-0123456789abcdef{at}");
            let created = VolumeChanged::new(id.parse().unwrap(), VolumePhase::Available, *zone, 1);
            trace.info(&"mock-ec2".into(), created);
            let states = [AttachmentPhase::Attaching, AttachmentPhase::Attached, AttachmentPhase::Detached];
            for state in states.into_iter().take(if ends { 3 } else { 2 }) {
                let (volume, instance) = (id.parse().unwrap(), INSTANCE.parse().unwrap());
                let device = (*device).into();
                let changed = AttachmentChanged { volume, instance, device, state, forced: false };
                trace.info(&"mock-ec2".into(), changed);
            }
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_device_name_belongs_to_one_volume() {
        let same = [("a", "/dev/xvdaa"), ("a", "/dev/xvdaa")];
        let message =
            format!("vol-0123456789abcdef1 has the device name /dev/xvdaa of vol-0123456789abcdef0 on {INSTANCE}");
        assert_eq!(found(&same, false), [message]);
        assert!(found(&same, true).is_empty(), "the first volume was detached");
        assert!(found(&[("a", "/dev/xvdaa"), ("a", "/dev/xvdab")], false).is_empty());
    }

    #[test]
    fn a_volume_is_attached_in_its_zone() {
        let message = format!("vol-0123456789abcdef0 has an attachment to {INSTANCE} in a, and is in b");
        assert_eq!(found(&[("b", "/dev/xvdaa")], false), [message]);
        assert!(found(&[("a", "/dev/xvdaa")], false).is_empty());
    }

    #[test]
    fn a_volume_is_in_the_bounds_of_its_type() {
        assert_eq!(beyond("gp3", 1, Some(3_000), Some(125)), None);
        assert_eq!(beyond("gp3", 10, Some(6_000), None).unwrap(), "6000 IOPS, and gp3 of 10 GiB has at most 5000");
        assert_eq!(beyond("gp3", 1, Some(3_000), Some(751)).unwrap(), "751 MiB/s, and its IOPS allow at most 750");
        assert_eq!(beyond("io1", 3, None, None).unwrap(), "3 GiB, and io1 has 4 to 16384");
        assert_eq!(beyond("gp2", 1, Some(100), None), None);
        assert_eq!(beyond("standard", 2_000, None, None), None);
    }

    #[test]
    fn an_access_point_has_a_group_of_its_own() {
        let found = |class: Option<&str>, gids: [i64; 2], goes: bool| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let mut commit = Commit::new("storageclasses", "efs", 1, EventType::Added);
            let parameters = class.map(|name| (name.into(), "1000".into())).into_iter().collect();
            commit.spec = Some(Box::new(Spec { parameters, ..Spec::default() }));
            trace.info(&"fake-apiserver".into(), commit);
            for (at, gid) in gids.into_iter().enumerate() {
                let states = [AccessPointState::Created, AccessPointState::Deleted];
                for state in states.into_iter().take(if goes { 2 } else { 1 }) {
                    let access_point = format!("fsap-{at}").into();
                    let (file_system, directory) = ("fs-1".into(), "/".into());
                    let changed = AccessPointChanged { access_point, file_system, directory, gid, state };
                    trace.info(&"efs-csi-controller".into(), changed);
                }
            }
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let same = "fs-1::fsap-1 has the group 1000 of the access point fsap-0";
        assert_eq!(found(None, [1000, 1000], false), [same]);
        assert!(found(None, [1000, 1001], false).is_empty());
        assert!(found(Some("gid"), [1000, 1000], false).is_empty(), "the class names the group");
        assert!(found(None, [1000, 1000], true).is_empty(), "the first one was deleted");
    }
}
