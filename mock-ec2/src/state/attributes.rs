//! ModifyInstanceAttribute, DescribeInstanceAttribute, ModifyInstanceMetadataOptions, MonitorInstances and
//! UnmonitorInstances.

use std::sync::Arc;

use super::code::Code;
use super::command::{DescribeInstanceAttribute, DeviceChange, InstanceChange, ModifyInstanceAttribute, Reply};
use super::error::{Ec2Error, Missing};
use super::ids::InstanceId;
use super::instance::InstanceState;
use super::instance_types;
use super::listing::{Field, Named, group, list, text};
use super::options::{MetadataChange, check_user_data};
use super::resource_errors::ResourceErrors;
use super::{Call, State};

/// Attributes that DescribeInstanceAttribute supports.
pub const ATTRIBUTES: [&str; 16] = [
    "blockDeviceMapping",
    "disableApiStop",
    "disableApiTermination",
    "ebsOptimized",
    "enaSupport",
    "enclaveOptions",
    "groupSet",
    "instanceInitiatedShutdownBehavior",
    "instanceType",
    "kernel",
    "productCodes",
    "ramdisk",
    "rootDeviceName",
    "sourceDestCheck",
    "sriovNetSupport",
    "userData",
];

impl State {
    pub(super) fn describe_instance_attribute(&self, request: &DescribeInstanceAttribute) -> Result<Reply, Ec2Error> {
        let instance = self.instance(&request.instance)?;
        let options = &instance.options;
        let value = |name: &'static str, value: &dyn ToString| group(name, vec![text("value", value.to_string())]);
        let field: Named = match request.attribute {
            "blockDeviceMapping" => {
                let items = self.with_mapping(instance).mapping.into_iter().map(|item| {
                    let disk = vec![
                        text("volumeId", &item.volume),
                        text("status", item.attachment.state.as_str()),
                        text("attachTime", super::times::seconds(item.attachment.attach_time)),
                        text("deleteOnTermination", item.attachment.delete_on_termination),
                    ];
                    vec![text("deviceName", &item.attachment.device), group("ebs", disk)]
                });
                list("blockDeviceMapping", items.collect::<Vec<_>>())
            }
            "disableApiStop" => value("disableApiStop", &options.disable_api_stop),
            "disableApiTermination" => value("disableApiTermination", &options.disable_api_termination),
            "ebsOptimized" => value("ebsOptimized", &options.ebs_optimized),
            "enaSupport" => value("enaSupport", &true),
            "enclaveOptions" => group("enclaveOptions", vec![text("enabled", false)]),
            "groupSet" => list("groupSet", [self.default_group()]),
            "instanceInitiatedShutdownBehavior" => value("instanceInitiatedShutdownBehavior", &options.shutdown_word()),
            "instanceType" => value("instanceType", &instance.instance_type),
            "rootDeviceName" => value("rootDeviceName", &instance.root_device),
            "sourceDestCheck" => value("sourceDestCheck", &options.source_dest_check),
            "userData" => match &options.user_data {
                Some(data) => value("userData", data),
                None => group("userData", Vec::new()),
            },
            "productCodes" => ("productCodes", Field::List(Vec::new())),
            // kernel, ramdisk, sriovNetSupport: unset on all instances here.
            other => group(other, Vec::new()),
        };
        Ok(Reply::Fields(vec![text("instanceId", &instance.id), field]))
    }

    pub(super) fn modify_instance_attribute(
        &mut self,
        call: Call<'_>,
        request: &ModifyInstanceAttribute,
    ) -> Result<Reply, Ec2Error> {
        let ModifyInstanceAttribute { instance: id, change } = request;
        self.check_change(id, change)?;
        call.check_dry_run()?;
        if let InstanceChange::DeleteOnTermination(devices) = change {
            let changed = if self.seeded_bugs.changes_first_device { 1 } else { devices.len() };
            for change in devices.iter().take(changed) {
                self.keep_or_delete(id, &change.device, change.goes);
            }
            return Ok(Reply::Done);
        }
        let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) else { return Ok(Reply::Done) };
        let options = &mut instance.options;
        match change {
            InstanceChange::DisableApiStop(on) => options.disable_api_stop = *on,
            InstanceChange::DisableApiTermination(on) => options.disable_api_termination = *on,
            InstanceChange::EbsOptimized(on) => options.ebs_optimized = *on,
            InstanceChange::InstanceType(name) => instance.instance_type.clone_from(name),
            InstanceChange::ShutdownTerminates(on) => options.shutdown_terminates = *on,
            InstanceChange::SourceDestCheck(on) => options.source_dest_check = *on,
            InstanceChange::UserData(data) => options.user_data = Some(data.clone()).filter(|data| !data.is_empty()),
            // The default group is the only one.
            InstanceChange::Groups(_) | InstanceChange::DeleteOnTermination(_) => {}
        }
        Ok(Reply::Done)
    }

    fn check_change(&self, id: &InstanceId, change: &InstanceChange) -> Result<(), Ec2Error> {
        let instance = self.instance(id)?;
        match change {
            InstanceChange::InstanceType(name) => {
                let Some(kind) = instance_types::find(name) else {
                    return Err(Ec2Error::Resource {
                        code: Code::InvalidInstanceAttributeValue,
                        text: format!("Invalid value '{name}' for InstanceType."),
                    });
                };
                let image = self.image(&instance.image_id)?;
                super::launch::check_architecture(&image, name)?;
                let devices = instance.slots.len() as u32;
                let limit = kind.limit.devices(instance.network_interfaces);
                if devices > limit {
                    return Err(Ec2Error::AttachmentLimit(limit));
                }
            }
            InstanceChange::UserData(data) => check_user_data(data)?,
            InstanceChange::Groups(ids) => self.check_groups(ids, &[])?,
            InstanceChange::DeleteOnTermination(devices) => {
                let mapping = self.with_mapping(instance).mapping;
                let mapped = |change: &&DeviceChange| {
                    let there = mapping.iter().find(|item| item.attachment.device == change.device);
                    there.is_some_and(|item| change.volume.as_ref().is_none_or(|volume| *volume == item.volume))
                };
                if let Some(stranger) = devices.iter().find(|change| !mapped(change)) {
                    return Err(Ec2Error::Resource {
                        code: Code::InvalidInstanceAttributeValue,
                        text: format!("No device is currently mapped at {}", stranger.device),
                    });
                }
            }
            _ => {}
        }
        let needs_stop = matches!(
            change,
            InstanceChange::InstanceType(_) | InstanceChange::UserData(_) | InstanceChange::EbsOptimized(_)
        );
        if needs_stop && instance.state != InstanceState::Stopped {
            return Err(Ec2Error::Resource {
                code: Code::IncorrectInstanceState,
                text: format!("The instance '{id}' is not in the 'stopped' state."),
            });
        }
        if instance.state == InstanceState::Terminated {
            return Err(Ec2Error::IncorrectInstanceState { instance: id.clone(), verb: "modified" });
        }
        Ok(())
    }

    /// Sets whether the volume at `device` of instance `id` is deleted with the instance.
    fn keep_or_delete(&mut self, id: &InstanceId, device: &str, goes: bool) {
        let held: Vec<_> = self.instances.get(id).map(|i| i.slots.values().cloned().collect()).unwrap_or_default();
        for volume in held {
            if let Some(volume) = self.volumes.get_mut(&volume)
                && volume.attachments.get(id).is_some_and(|a| a.device == device)
                && let Some(attachment) = Arc::make_mut(volume).attachments.get_mut(id)
            {
                attachment.delete_on_termination = goes;
            }
        }
    }

    /// Checks that all groups named by id or by name exist.
    pub(super) fn check_groups(&self, ids: &[String], names: &[String]) -> Result<(), Ec2Error> {
        let Some(resource_errors) = ResourceErrors::of("sg") else { return Ok(()) };
        let own = self.security_group_id();
        ids.iter().try_for_each(|id| resource_errors.check(id))?;
        let strangers = ids.iter().filter(|id| **id != own).chain(names.iter().filter(|name| *name != "default"));
        let strangers: Vec<&str> = strangers.map(String::as_str).collect();
        if strangers.is_empty() { Ok(()) } else { Err(resource_errors.not_found(&strangers)) }
    }

    pub(super) fn modify_metadata_options(
        &mut self,
        call: Call<'_>,
        id: &InstanceId,
        change: &MetadataChange,
    ) -> Result<Reply, Ec2Error> {
        let new = self.instance(id)?.options.metadata.clone().with(change)?;
        call.check_dry_run()?;
        let fields = new.fields();
        if let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) {
            instance.options.metadata = new;
        }
        Ok(Reply::Fields(vec![text("instanceId", id), group("instanceMetadataOptions", fields)]))
    }

    pub(super) fn monitor(&mut self, call: Call<'_>, ids: &[InstanceId], on: bool) -> Result<Reply, Ec2Error> {
        let missing: Vec<String> =
            ids.iter().filter(|id| !self.instances.contains_key(*id)).map(ToString::to_string).collect();
        if !missing.is_empty() {
            return Err(Ec2Error::InstanceNotFound(Missing(missing)));
        }
        call.check_dry_run()?;
        for id in ids {
            if let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) {
                instance.options.monitoring = on;
            }
        }
        let word = if on { "enabled" } else { "disabled" };
        let items = ids.iter().map(|id| {
            let state = group("monitoring", vec![text("state", word)]);
            vec![text("instanceId", id), state]
        });
        Ok(Reply::Fields(vec![list("instancesSet", items.collect::<Vec<_>>())]))
    }
}
