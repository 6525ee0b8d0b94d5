//! Replaces root volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::ids as make_id;

use super::code::Code;
use super::command::{CreateVolume, Reply};
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::event::Event;
use super::ids::{InstanceId, VolumeId};
use super::instance::InstanceState;
use super::listing::{Entry, Named, group, list, text};
use super::replace_root::{ReplaceRoot, ReplaceTask};
use super::tags::check_tags;
use super::times::time;
use super::volume::{Attachment, AttachmentState, Volume, VolumeState};
use super::{Call, State};
use crate::events::InstancePhase;

impl State {
    pub(super) fn replace_root(&mut self, call: Call<'_>, request: &ReplaceRoot) -> Result<Reply, Ec2Error> {
        let instance = self.instance(&request.instance)?.clone();
        if let Some(token) = &request.client_token
            && let Some(id) = self.account.replace_tokens.get(token)
            && let Some(task) = self.account.replace_tasks.get(id)
        {
            if (&task.instance, &task.snapshot, &task.image) != (&request.instance, &request.snapshot, &request.image) {
                return Err(Ec2Error::TokenMismatch);
            }
            let fields = self.task_fields(id, task, "pending");
            return Ok(Reply::Fields(vec![group("replaceRootVolumeTask", fields)]));
        }
        if instance.state != InstanceState::Running {
            return Err(Ec2Error::InstanceNotRunning(instance.id.clone()));
        }
        let old = instance.slots.get(&DeviceSlot::root()).and_then(|id| self.volumes.get(id)).cloned();
        let Some(old) = old else {
            let text = format!("The instance '{}' has no root volume.", instance.id);
            return Err(Ec2Error::Resource { code: Code::IncorrectState, text });
        };
        if request.snapshot.is_some() && request.image.is_some() {
            let text = "The parameters SnapshotId and ImageId cannot be used together.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        let image = request.image.as_ref().map(|id| self.image(id)).transpose()?;
        if let Some(image) = &image {
            super::launch::check_architecture(image, &instance.instance_type)?;
        }
        let of_image = image.as_ref().and_then(|image| {
            let root = image.disks.iter().find(|disk| disk.device == image.root_device);
            root.and_then(|disk| disk.snapshot.clone())
        });
        // Without either, the volume returns to its launch state.
        let foreign = match (&request.snapshot, &image) {
            (None, None) => old.snapshot.clone(),
            (None, Some(image)) => self.image_snapshot(&image.id).parse().ok(),
            (Some(_), _) => None,
        };
        let snapshot = request.snapshot.clone().or(of_image);
        let known = snapshot.clone().or_else(|| foreign.clone().filter(|id| self.snapshots.contains_key(id)));
        let least = image.as_ref().map_or(old.size_gib, |image| image.size_gib).max(old.size_gib);
        let wanted = CreateVolume {
            size_gib: Some(least),
            volume_type: Some(old.volume_type.as_str().to_owned()),
            iops: old.iops.filter(|_| old.volume_type.has_iops()),
            throughput: old.throughput,
            encrypted: old.encrypted.then_some(true),
            kms_key_id: old.kms_key_id.clone(),
            initialization_rate: request.initialization_rate.filter(|_| known.is_some()),
            snapshot_id: known,
            tags: old.tags.clone(),
            ..CreateVolume::default()
        };
        let volume = self.blueprint(call, &wanted, old.zone.clone())?;
        self.check_room_for_volumes(1)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        call.check_dry_run()?;

        let id: VolumeId = volume.id.clone();
        self.made.volumes += 1;
        let goes = old.attachments.get(&instance.id).is_some_and(|attachment| attachment.delete_on_termination);
        self.swap_root(
            call,
            &instance.id,
            &old,
            Volume {
                state: VolumeState::InUse,
                attachments: BTreeMap::from([(
                    instance.id.clone(),
                    Attachment {
                        delete_on_termination: goes,
                        ..Attachment::new(&instance.root_device, call.now.wall, AttachmentState::Attached)
                    },
                )]),
                snapshot: volume.snapshot.clone().or(foreign),
                root: true,
                ..volume
            },
        );
        if request.deletes {
            self.delete_volume(Call { dry_run: false, ..call }, &old.id)?;
        }
        self.note_volume(&id);
        self.note_attachment(&id, &instance.id);
        self.guest_ended(call.now, &instance.id);
        self.note_instance(&instance.id, InstancePhase::Rebooted);

        self.account.made_tasks += 1;
        let draw = self.seed.child("replace root volume").child(&self.account.made_tasks.to_string());
        let task_id = make_id::ec2(&mut draw.rng(), "replacevol");
        let task = ReplaceTask {
            instance: instance.id.clone(),
            image: request.image.clone(),
            snapshot: request.snapshot.clone(),
            deletes: request.deletes,
            at: call.now.wall,
        };
        let mut fields = self.task_fields(&task_id, &task, "pending");
        if !request.tags.is_empty() {
            let pair = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
            fields.push(list("tagSet", request.tags.iter().map(pair)));
            self.account.tags.insert(task_id.clone(), request.tags.clone());
        }
        if let Some(token) = &request.client_token {
            self.account.replace_tokens.insert(token.clone(), task_id.clone());
        }
        self.account.replace_tasks.insert(task_id, task);
        Ok(Reply::Fields(vec![group("replaceRootVolumeTask", fields)]))
    }

    /// Replaces the root volume `old` of `instance` with `new`; `old` becomes available.
    fn swap_root(&mut self, call: Call<'_>, instance: &InstanceId, old: &Arc<Volume>, new: Volume) {
        let new_id = new.id.clone();
        if let Some(volume) = self.volumes.get_mut(&old.id).map(Arc::make_mut) {
            let attachment = volume.attachments.remove(instance);
            volume.root = false;
            volume.state = VolumeState::Available;
            if let Some(attachment) = attachment {
                self.timers.cancel(&attachment.progress);
                self.events.push(Event::detached(old, instance, &attachment, false));
            }
        }
        self.note_volume(&old.id);
        self.volumes.insert(Arc::new(new));
        if let Some(instance) = self.instances.get_mut(instance).map(Arc::make_mut) {
            instance.slots.insert(DeviceSlot::root(), new_id);
        }
        self.slot_freed(call.now.mono, instance);
    }

    fn task_fields(&self, id: &str, task: &ReplaceTask, state: &str) -> Vec<Named> {
        let mut fields = vec![
            text("replaceRootVolumeTaskId", id),
            text("instanceId", &task.instance),
            text("taskState", state),
            text("startTime", time(task.at)),
        ];
        fields.extend((state == "succeeded").then(|| text("completeTime", time(task.at))));
        fields.extend(task.image.as_ref().map(|image| text("imageId", image)));
        fields.extend(task.snapshot.as_ref().map(|snapshot| text("snapshotId", snapshot)));
        fields.push(text("deleteReplacedRootVolume", task.deletes));
        fields
    }

    /// Returns all tasks; each is finished.
    pub(super) fn replace_tasks(&self) -> Vec<Entry> {
        let entries = self.account.replace_tasks.iter().map(|(id, task)| Entry {
            id: id.clone(),
            filter_fields: vec![("instance-id", task.instance.to_string())],
            tags: self.tags_of_network(id),
            fields: self.task_fields(id, task, "succeeded"),
        });
        entries.collect()
    }
}
