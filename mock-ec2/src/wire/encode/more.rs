//! Answers about snapshots, modifications, health and power.

use super::listed::fields;
use super::{Surroundings, some_tags, tags};
use crate::state::command::{FastRestoreReply, ModificationReply, SnapshotReply, VolumeAttribute, VolumeStatusReply};
use crate::state::ids::InstanceId;
use crate::state::instance::{Instance, InstanceState};
use crate::state::modification::Shape;
use crate::state::snapshot::SnapshotLock;
use crate::state::volume::Volume;
use crate::state::{disks_word, instance_word, lock_fields, reachability, time, volume_words};
use crate::wire::xml::Xml;

impl Surroundings {
    pub(super) fn snapshot(&self, xml: &mut Xml, reply: &SnapshotReply, described: bool) {
        let snapshot = &reply.snapshot;
        xml.text("snapshotId", snapshot.id.as_str());
        xml.text("volumeId", snapshot.volume.as_str());
        xml.text("status", snapshot.state.as_str());
        xml.optional("statusMessage", snapshot.status_message.as_ref());
        xml.value("startTime", time(snapshot.start_time));
        // Empty in the answer of CreateSnapshot, as in the examples of AWS's CLI.
        let percent = if described { format!("{}%", reply.percent) } else { String::new() };
        xml.text("progress", &percent);
        xml.text("ownerId", &self.account_id);
        xml.value("volumeSize", snapshot.size_gib);
        xml.text("description", &snapshot.description);
        xml.value("encrypted", snapshot.encrypted);
        xml.optional("kmsKeyId", snapshot.kms_key_id.as_ref());
        if described {
            some_tags(xml, &snapshot.tags);
        } else {
            tags(xml, &snapshot.tags);
        }
        xml.text("storageTier", snapshot.tier.word());
        xml.optional("restoreExpiryTime", snapshot.tier.back_until.map(time));
        xml.optional("transferType", snapshot.copied.then(|| snapshot.transfer_type()));
        xml.optional("completionDurationMinutes", snapshot.completion_minutes);
        xml.optional("completionTime", snapshot.completion_time.map(time));
        // At most the volume's size; the stored size is unknown here.
        xml.optional("fullSnapshotSizeInBytes", snapshot.completion_time.map(|_| snapshot.size_gib << 30));
    }

    /// Encodes an item of CreateSnapshots, which names the state differently.
    pub(super) fn snapshot_made(&self, xml: &mut Xml, reply: &SnapshotReply) {
        let snapshot = &reply.snapshot;
        xml.text("description", &snapshot.description);
        tags(xml, &snapshot.tags);
        xml.value("encrypted", snapshot.encrypted);
        xml.text("volumeId", snapshot.volume.as_str());
        xml.text("state", snapshot.state.as_str());
        xml.value("volumeSize", snapshot.size_gib);
        xml.value("startTime", time(snapshot.start_time));
        xml.text("progress", "");
        xml.text("ownerId", &self.account_id);
        xml.text("snapshotId", snapshot.id.as_str());
    }

    pub(super) fn fast_restores(&self, xml: &mut Xml, all: &[FastRestoreReply]) {
        let done = all.iter().filter_map(|f| Some((f, f.outcome.as_ref().ok()?)));
        xml.list("successful", done, |xml, (_, reported)| fields(xml, reported));
        let mut refused: Vec<(&str, Vec<&FastRestoreReply>)> = Vec::new();
        for restore in all.iter().filter(|f| f.outcome.is_err()) {
            match refused.last_mut() {
                Some((snapshot, zones)) if *snapshot == restore.snapshot.as_str() => zones.push(restore),
                _ => refused.push((restore.snapshot.as_str(), vec![restore])),
            }
        }
        xml.list("unsuccessful", refused, |xml, (snapshot, zones)| {
            xml.text("snapshotId", snapshot);
            xml.list("fastSnapshotRestoreStateErrorSet", zones, |xml, restore| {
                xml.text("availabilityZone", &restore.zone);
                xml.text("availabilityZoneId", self.zone_id(&restore.zone));
                if let Err((code, message)) = &restore.outcome {
                    xml.element("error", |xml| {
                        xml.text("code", code);
                        xml.text("message", message);
                    });
                }
            });
        });
    }

    pub(super) fn volume_status(&self, xml: &mut Xml, reply: &VolumeStatusReply) {
        let volume = &reply.volume;
        let (whole, io, blocks) = volume_words(reply);
        xml.text("volumeId", volume.id.as_str());
        xml.text("availabilityZone", &volume.zone);
        xml.text("availabilityZoneId", self.zone_id(&volume.zone));
        xml.element("volumeStatus", |xml| {
            xml.text("status", whole);
            let details = [("io-enabled", io), ("io-performance", "not-applicable"), ("initialization-state", blocks)];
            xml.list("details", details, |xml, (name, status)| {
                xml.text("name", name);
                xml.text("status", status);
            });
        });
        let broken = || volume.impaired.then_some(());
        xml.list("eventsSet", broken(), |xml, ()| {
            xml.text("eventType", "potential-data-inconsistency");
            xml.text("description", "I/O of the volume is disabled because its data may be inconsistent.");
            xml.text("eventId", &format!("evol-{}", volume.id.as_str().trim_start_matches("vol-")));
        });
        // No action is left after I/O was enabled.
        xml.list("actionsSet", broken().filter(|()| !volume.io_enabled), |xml, ()| {
            xml.text("code", "enable-volume-io");
            xml.text("eventType", "potential-data-inconsistency");
            xml.text("description", "Enable Volume I/O");
        });
        xml.list("attachmentStatuses", volume.attachments.keys(), |xml, instance| {
            xml.text("instanceId", instance.as_str());
            xml.text("ioPerformance", "not-applicable");
        });
        if let (Some((percent, seconds)), Some(work)) = (reply.initializing, &volume.initialization) {
            xml.element("initializationStatusDetails", |xml| {
                xml.text("initializationType", work.kind);
                xml.value("progress", percent);
                xml.value("estimatedTimeToCompleteInSeconds", seconds);
            });
        }
    }

    pub(super) fn instance_status(&self, xml: &mut Xml, instance: &Instance) {
        let word = instance_word(instance);
        xml.text("instanceId", instance.id.as_str());
        xml.text("availabilityZone", &instance.zone);
        xml.text("availabilityZoneId", self.zone_id(&instance.zone));
        instance_state(xml, "instanceState", instance.state);
        let disks = disks_word(instance).map(|word| ("attachedEbsStatus", word));
        for (tag, word) in [("systemStatus", word), ("instanceStatus", word)].into_iter().chain(disks) {
            xml.element(tag, |xml| {
                xml.text("status", word);
                xml.list("details", [()], |xml, ()| {
                    xml.text("name", "reachability");
                    xml.text("status", reachability(word));
                });
            });
        }
        operator(xml);
    }
}

/// Encodes the operator: resources here are not managed by a service.
pub(super) fn operator(xml: &mut Xml) {
    xml.element("operator", |xml| xml.flag("managed", false));
}

fn instance_state(xml: &mut Xml, tag: &str, state: InstanceState) {
    let (name, code) = state.wire();
    xml.element(tag, |xml| {
        xml.value("code", code);
        xml.text("name", name);
    });
}

pub(super) fn instance_changes(xml: &mut Xml, changes: &[(InstanceId, InstanceState, InstanceState)]) {
    xml.list("instancesSet", changes, |xml, (instance, before, now)| {
        xml.text("instanceId", instance.as_str());
        instance_state(xml, "currentState", *now);
        instance_state(xml, "previousState", *before);
    });
}

pub(super) fn modification(xml: &mut Xml, reply: &ModificationReply) {
    let m = &reply.modification;
    xml.text("volumeId", reply.volume.as_str());
    xml.text("modificationState", m.state.as_str());
    xml.optional("statusMessage", m.status_message.as_ref());
    shape(xml, "target", &m.target);
    shape(xml, "original", &m.original);
    xml.value("progress", reply.percent);
    xml.value("startTime", time(m.start_time));
    xml.optional("endTime", m.end_time.map(time));
}

fn shape(xml: &mut Xml, side: &str, shape: &Shape) {
    xml.value(&format!("{side}Size"), shape.size_gib);
    xml.optional(&format!("{side}Iops"), shape.iops);
    xml.text(&format!("{side}VolumeType"), shape.volume_type.as_str());
    xml.optional(&format!("{side}Throughput"), shape.throughput);
    xml.value(&format!("{side}MultiAttachEnabled"), shape.multi_attach_enabled);
}

pub(super) fn lock(xml: &mut Xml, snapshot: &str, lock: &SnapshotLock, state: &str) {
    xml.text("snapshotId", snapshot);
    fields(xml, &lock_fields(lock, state));
}

pub(super) fn volume_attribute(xml: &mut Xml, volume: &Volume, attribute: VolumeAttribute) {
    xml.text("volumeId", volume.id.as_str());
    match attribute {
        VolumeAttribute::AutoEnableIo => xml.element("autoEnableIO", |xml| xml.value("value", volume.auto_enable_io)),
        VolumeAttribute::ProductCodes => xml.element("productCodes", |_| {}),
    }
}
