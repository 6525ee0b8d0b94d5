//! Decodes forms into commands. Every error names the parameter.

use super::attributes;
use super::fields::{filters, instance_id, list, page, snapshot_id, volume_id};
use super::form::Form;
use super::services::Service;
use super::tags::tag_specifications;
use crate::state::command::{
    Action, AttachVolume, Command, CopySnapshot, CopyVolumes, CreateSnapshot, CreateSnapshots, CreateVolume,
    DescribeAvailabilityZones, DescribeInstanceStatus, DescribeInstanceTypes, DescribeInstances, DescribeOfVolumes,
    DescribeRegions, DescribeSnapshots, DescribeVolumeAttribute, DescribeVolumes, DetachVolume, LockSnapshot,
    ModifyVolume, ModifyVolumeAttribute, StopInstances, VolumeAttribute,
};
use crate::state::error::Ec2Error;
use crate::state::ids::InstanceId;
use crate::state::kinds::Kind;

/// Parameters of presigned or version 2 signatures, besides those of the action.
const SIGNATURE: [&str; 6] =
    ["AWSAccessKeyId", "Expires", "SecurityToken", "Signature", "SignatureMethod", "SignatureVersion"];

/// Decodes the command of a request to `service`.
///
/// # Errors
/// `MissingParameter`, `InvalidAction`, `NoSuchVersion`, or the error in a parameter.
pub fn command(service: Service, mut form: Form) -> Result<Command, Ec2Error> {
    let name = form.take("Action").ok_or_else(|| Ec2Error::MissingParameter("Action".to_owned()))?;
    let version = form.take("Version").ok_or_else(|| Ec2Error::MissingParameter("Version".to_owned()))?;
    if version != service.version() {
        return Err(Ec2Error::NoSuchVersion { version, service: service.name() });
    }
    if Service::of_action(&name) != service {
        return Err(Ec2Error::ActionNotServed {
            action: name,
            service: service.scope(),
            served: service.description(),
        });
    }
    form.take("Timestamp");
    form.discard("X-Amz-");
    form.discard("x-amz-");
    for parameter in SIGNATURE {
        form.take(parameter);
    }
    let decode: fn(&mut Form) -> Result<Action, Ec2Error> = match name.as_str() {
        "AttachVolume" => attach_volume,
        "CopySnapshot" => copy_snapshot,
        "CopyVolumes" => copy_volumes,
        "CreateSnapshot" => create_snapshot,
        "CreateSnapshots" => create_snapshots,
        "CreateTags" => super::tags::create_tags,
        "CreateVolume" => create_volume,
        "DeleteSnapshot" => delete_snapshot,
        "DeleteTags" => super::tags::delete_tags,
        "DeleteVolume" => delete_volume,
        "DescribeAvailabilityZones" => describe_availability_zones,
        "DescribeInstanceStatus" => describe_instance_status,
        "DescribeInstanceTypes" => describe_instance_types,
        "DescribeInstances" => describe_instances,
        "DescribeRegions" => describe_regions,
        "DescribeSnapshots" => describe_snapshots,
        "DescribeTags" => super::tags::describe_tags,
        "DescribeVolumeAttribute" => describe_volume_attribute,
        "DescribeVolumeStatus" => describe_volume_status,
        "DescribeVolumes" => describe_volumes,
        "DescribeVolumesModifications" => describe_volumes_modifications,
        "DetachVolume" => detach_volume,
        "EnableFastSnapshotRestores" => enable_fast_snapshot_restores,
        "LockSnapshot" => lock_snapshot,
        "ModifyVolume" => modify_volume,
        "ModifyVolumeAttribute" => modify_volume_attribute,
        "RebootInstances" => reboot_instances,
        "RunInstances" => super::launch::run_instances,
        "StartInstances" => start_instances,
        "StopInstances" => stop_instances,
        "TerminateInstances" => terminate_instances,
        "DescribeInstanceAttribute" => attributes::describe_instance_attribute,
        "DescribeSnapshotAttribute" => attributes::describe_snapshot_attribute,
        "DescribeVpcAttribute" => attributes::describe_vpc_attribute,
        "DisableFastSnapshotRestores" => attributes::disable_fast_snapshot_restores,
        "EnableVolumeIO" => attributes::enable_volume_io,
        "GetCallerIdentity" => |_| Ok(Action::GetCallerIdentity),
        "ModifyInstanceAttribute" => attributes::modify_instance_attribute,
        "ModifyInstanceMetadataOptions" => attributes::modify_metadata_options,
        "ModifySnapshotAttribute" => attributes::modify_snapshot_attribute,
        "ModifySnapshotTier" => attributes::modify_snapshot_tier,
        "MonitorInstances" => |form| instance_ids(form).map(Action::MonitorInstances),
        "ResetSnapshotAttribute" => attributes::reset_snapshot_attribute,
        "RestoreSnapshotTier" => attributes::restore_snapshot_tier,
        "CreateImage" => super::images::create_image,
        "DeregisterImage" => super::images::deregister_image,
        "RegisterImage" => super::images::register_image,
        "UnlockSnapshot" => attributes::unlock_snapshot,
        "UnmonitorInstances" => |form| instance_ids(form).map(Action::UnmonitorInstances),
        _ => return other(name, form),
    };
    finish(form, decode)
}

/// Decodes actions that are listed in tables.
fn other(name: String, mut form: Form) -> Result<Command, Ec2Error> {
    if let Some(decode) = super::own::of(&name) {
        return finish(form, decode);
    }
    if let Some(kind) = Kind::of(&name) {
        return finish(form, |form| super::listed::listing(form, kind));
    }
    match attributes::encryption(&mut form, &name)? {
        Some(action) => finish(form, |_| Ok(action)),
        None => Err(Ec2Error::InvalidAction(name)),
    }
}

fn finish(mut form: Form, decode: impl FnOnce(&mut Form) -> Result<Action, Ec2Error>) -> Result<Command, Ec2Error> {
    let dry_run = form.take_flag("DryRun")?.unwrap_or(false);
    let action = decode(&mut form)?;
    form.finish()?;
    Ok(Command { action, dry_run, stick: None })
}

fn attach_volume(form: &mut Form) -> Result<Action, Ec2Error> {
    let card = form.take_number("EbsCardIndex")?;
    Ok(Action::AttachVolume(AttachVolume {
        volume: volume_id("volumeId", &form.require("VolumeId")?)?,
        instance: instance_id(&form.require("InstanceId")?)?,
        device: form.require("Device")?,
        ebs_card_index: card.map(|card| u32::try_from(card).unwrap_or(u32::MAX)),
    }))
}

fn detach_volume(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DetachVolume(DetachVolume {
        volume: volume_id("volumeId", &form.require("VolumeId")?)?,
        instance: form.take("InstanceId").map(|id| instance_id(&id)).transpose()?,
        device: form.take("Device"),
        force: form.take_flag("Force")?.unwrap_or(false),
    }))
}

fn delete_volume(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DeleteVolume(volume_id("volumeId", &form.require("VolumeId")?)?))
}

fn create_volume(form: &mut Form) -> Result<Action, Ec2Error> {
    refuse_outposts(form)?;
    Ok(Action::CreateVolume(CreateVolume {
        zone: form.take("AvailabilityZone"),
        zone_id: form.take("AvailabilityZoneId"),
        size_gib: form.take_number("Size")?,
        volume_type: form.take("VolumeType"),
        iops: form.take_number("Iops")?,
        throughput: form.take_number("Throughput")?,
        encrypted: form.take_flag("Encrypted")?,
        kms_key_id: form.take("KmsKeyId"),
        multi_attach: form.take_flag("MultiAttachEnabled")?.unwrap_or(false),
        snapshot_id: form.take("SnapshotId").map(|id| snapshot_id(&id)).transpose()?,
        initialization_rate: form.take_number("VolumeInitializationRate")?,
        tags: tag_specifications(form, &["volume"])?.remove("volume").unwrap_or_default(),
        client_token: form.take("ClientToken"),
    }))
}

/// Refuses the parameter instead of ignoring it: it would change the location of the resource.
fn refuse_outposts(form: &mut Form) -> Result<(), Ec2Error> {
    match form.take("OutpostArn") {
        None => Ok(()),
        Some(_) => {
            let text = "The parameter OutpostArn cannot be used: Outposts are not emulated.";
            Err(Ec2Error::UnsupportedOperation(text.to_owned()))
        }
    }
}

fn copy_volumes(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::CopyVolumes(CopyVolumes {
        source: volume_id("sourceVolumeId", &form.require("SourceVolumeId")?)?,
        size_gib: form.take_number("Size")?,
        volume_type: form.take("VolumeType"),
        iops: form.take_number("Iops")?,
        throughput: form.take_number("Throughput")?,
        encrypted: form.take_flag("Encrypted")?,
        kms_key_id: form.take("KmsKeyId"),
        multi_attach: form.take_flag("MultiAttachEnabled")?.unwrap_or(false),
        tags: tag_specifications(form, &["volume"])?.remove("volume").unwrap_or_default(),
        client_token: form.take("ClientToken"),
    }))
}

fn modify_volume(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::ModifyVolume(ModifyVolume {
        volume: volume_id("volumeId", &form.require("VolumeId")?)?,
        size_gib: form.take_number("Size")?,
        volume_type: form.take("VolumeType"),
        iops: form.take_number("Iops")?,
        throughput: form.take_number("Throughput")?,
        multi_attach: form.take_flag("MultiAttachEnabled")?,
    }))
}

fn modify_volume_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::ModifyVolumeAttribute(ModifyVolumeAttribute {
        volume: volume_id("volumeId", &form.require("VolumeId")?)?,
        auto_enable_io: form.take_flag("AutoEnableIO.Value")?,
    }))
}

fn describe_volume_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let volume = volume_id("volumeId", &form.require("VolumeId")?)?;
    let attribute = match form.require("Attribute")?.as_str() {
        "autoEnableIO" => VolumeAttribute::AutoEnableIo,
        "productCodes" => VolumeAttribute::ProductCodes,
        other => {
            let text = format!("Value ({other}) for parameter attribute is invalid. Use autoEnableIO or productCodes.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    };
    Ok(Action::DescribeVolumeAttribute(DescribeVolumeAttribute { volume, attribute }))
}

fn of_volumes(form: &mut Form) -> Result<DescribeOfVolumes, Ec2Error> {
    let ids = list(form, "VolumeId")?;
    let ids = ids.iter().map(|id| volume_id("volumes", id)).collect::<Result<_, _>>()?;
    managed_resources(form)?;
    Ok(DescribeOfVolumes { ids, filters: filters(form)?, page: page(form)? })
}

/// Takes the flag that adds resources which a service manages: none exist here.
fn managed_resources(form: &mut Form) -> Result<(), Ec2Error> {
    form.take_flag("IncludeManagedResources").map(drop)
}

fn describe_volumes_modifications(form: &mut Form) -> Result<Action, Ec2Error> {
    of_volumes(form).map(Action::DescribeVolumesModifications)
}

fn describe_volume_status(form: &mut Form) -> Result<Action, Ec2Error> {
    of_volumes(form).map(Action::DescribeVolumeStatus)
}

fn create_snapshot(form: &mut Form) -> Result<Action, Ec2Error> {
    refuse_outposts(form)?;
    location(form)?;
    Ok(Action::CreateSnapshot(CreateSnapshot {
        volume: volume_id("volumeId", &form.require("VolumeId")?)?,
        description: form.take("Description").unwrap_or_default(),
        tags: tag_specifications(form, &["snapshot"])?.remove("snapshot").unwrap_or_default(),
    }))
}

/// Accepts only the region as the location of a snapshot. AWS also has local zones, but none exist here.
fn location(form: &mut Form) -> Result<(), Ec2Error> {
    match form.take("Location").as_deref() {
        None | Some("regional") => Ok(()),
        Some(other) => {
            let text = format!("Value ({other}) for parameter location is invalid. Local zones are not emulated.");
            Err(Ec2Error::InvalidParameterValue(text))
        }
    }
}

fn create_snapshots(form: &mut Form) -> Result<Action, Ec2Error> {
    refuse_outposts(form)?;
    location(form)?;
    let exclude = list(form, "InstanceSpecification.ExcludeDataVolumeId")?;
    let copy_tags = match form.take("CopyTagsFromSource").as_deref() {
        None => false,
        Some("volume") => true,
        Some(other) => {
            let text = format!("Value ({other}) for parameter copyTagsFromSource is invalid. Use volume.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    };
    Ok(Action::CreateSnapshots(CreateSnapshots {
        instance: instance_id(&form.require("InstanceSpecification.InstanceId")?)?,
        exclude_root: form.take_flag("InstanceSpecification.ExcludeBootVolume")?.unwrap_or(false),
        exclude: exclude.iter().map(|id| volume_id("volumes", id)).collect::<Result<_, _>>()?,
        description: form.take("Description").unwrap_or_default(),
        copy_tags,
        tags: tag_specifications(form, &["snapshot"])?.remove("snapshot").unwrap_or_default(),
    }))
}

fn copy_snapshot(form: &mut Form) -> Result<Action, Ec2Error> {
    // A presigned request of the same call, which clients add for copies between regions.
    form.take("PresignedUrl");
    form.take("DestinationRegion");
    let completion_minutes = form.take_number("CompletionDurationMinutes")?;
    if let Some(minutes) = completion_minutes.filter(|m| !(15..=2_880).contains(m) || m % 15 != 0) {
        return Err(Ec2Error::InvalidParameterValue(format!(
            "Value ({minutes}) for parameter CompletionDurationMinutes is invalid. It must be a multiple of 15 between 15 \
             and 2880."
        )));
    }
    Ok(Action::CopySnapshot(CopySnapshot {
        completion_minutes,
        foreign: None,
        source: snapshot_id(&form.require("SourceSnapshotId")?)?,
        source_region: form.require("SourceRegion")?,
        description: form.take("Description").unwrap_or_default(),
        encrypted: form.take_flag("Encrypted")?.unwrap_or(false),
        kms_key_id: form.take("KmsKeyId"),
        tags: tag_specifications(form, &["snapshot"])?.remove("snapshot").unwrap_or_default(),
    }))
}

fn delete_snapshot(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DeleteSnapshot(snapshot_id(&form.require("SnapshotId")?)?))
}

fn describe_snapshots(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "SnapshotId")?;
    Ok(Action::DescribeSnapshots(DescribeSnapshots {
        ids: ids.iter().map(|id| snapshot_id(id)).collect::<Result<_, _>>()?,
        owners: list(form, "Owner")?,
        restorable_by: list(form, "RestorableBy")?,
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn enable_fast_snapshot_restores(form: &mut Form) -> Result<Action, Ec2Error> {
    attributes::fast_restores(form).map(Action::EnableFastSnapshotRestores)
}

fn lock_snapshot(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::LockSnapshot(LockSnapshot {
        snapshot: snapshot_id(&form.require("SnapshotId")?)?,
        mode: form.require("LockMode")?,
        cool_off_hours: form.take_number("CoolOffPeriod")?,
        duration_days: form.take_number("LockDuration")?,
        expiration: form.take("ExpirationDate"),
    }))
}

fn describe_regions(form: &mut Form) -> Result<Action, Ec2Error> {
    form.take_flag("AllRegions")?;
    Ok(Action::DescribeRegions(DescribeRegions { names: list(form, "RegionName")?, filters: filters(form)? }))
}

fn instance_ids(form: &mut Form) -> Result<Vec<InstanceId>, Ec2Error> {
    let ids = list(form, "InstanceId")?;
    if ids.is_empty() {
        return Err(Ec2Error::InvalidParameterCombination("No instances specified".to_owned()));
    }
    ids.iter().map(|id| instance_id(id)).collect()
}

fn reboot_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    instance_ids(form).map(Action::RebootInstances)
}

fn start_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    instance_ids(form).map(Action::StartInstances)
}

fn stop_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    if form.take_flag("Hibernate")? == Some(true) {
        let text = "The parameter Hibernate cannot be used: hibernation is not emulated.";
        return Err(Ec2Error::UnsupportedOperation(text.to_owned()));
    }
    let force = form.take_flag("Force")?.unwrap_or(false);
    skips_shutdown(form)?;
    Ok(Action::StopInstances(StopInstances { ids: instance_ids(form)?, force }))
}

fn terminate_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    form.take_flag("Force")?;
    skips_shutdown(form)?;
    instance_ids(form).map(Action::TerminateInstances)
}

/// Takes the flag that skips the shutdown of the guest: its duration is the same.
fn skips_shutdown(form: &mut Form) -> Result<(), Ec2Error> {
    form.take_flag("SkipOsShutdown").map(drop)
}

fn describe_instance_status(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "InstanceId")?;
    managed_resources(form)?;
    Ok(Action::DescribeInstanceStatus(DescribeInstanceStatus {
        ids: ids.iter().map(|id| instance_id(id)).collect::<Result<_, _>>()?,
        all: form.take_flag("IncludeAllInstances")?.unwrap_or(false),
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn describe_volumes(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "VolumeId")?;
    managed_resources(form)?;
    Ok(Action::DescribeVolumes(DescribeVolumes {
        ids: ids.iter().map(|id| volume_id("volumes", id)).collect::<Result<_, _>>()?,
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn describe_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "InstanceId")?;
    managed_resources(form)?;
    Ok(Action::DescribeInstances(DescribeInstances {
        ids: ids.iter().map(|id| instance_id(id)).collect::<Result<_, _>>()?,
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn describe_instance_types(form: &mut Form) -> Result<Action, Ec2Error> {
    let names = list(form, "InstanceType")?;
    // Every type here is offered in every region.
    form.take_flag("IncludeUnsupportedInRegion")?;
    Ok(Action::DescribeInstanceTypes(DescribeInstanceTypes { names, filters: filters(form)?, page: page(form)? }))
}

fn describe_availability_zones(form: &mut Form) -> Result<Action, Ec2Error> {
    // Every zone here is opted in, so "all" and "mine" are the same.
    form.take_flag("AllAvailabilityZones")?;
    Ok(Action::DescribeAvailabilityZones(DescribeAvailabilityZones {
        names: list(form, "ZoneName")?,
        ids: list(form, "ZoneId")?,
        filters: filters(form)?,
    }))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<Command, Ec2Error> {
        command(Service::Ec2, Form::parse(text.replace("Version=1", "Version=2016-11-15").as_bytes()).unwrap())
    }

    #[test]
    fn a_create_volume_of_the_csi_driver_is_read_whole() {
        let command = read(
            "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3&Encrypted=false\
             &MultiAttachEnabled=false&ClientToken=abc&TagSpecification.1.ResourceType=volume\
             &TagSpecification.1.Tag.1.Key=CSIVolumeName&TagSpecification.1.Tag.1.Value=pvc-1\
             &TagSpecification.1.Tag.2.Key=ebs.csi.aws.com%2Fcluster&TagSpecification.1.Tag.2.Value=true&DryRun=true",
        )
        .unwrap();
        assert!(command.dry_run);
        let Action::CreateVolume(create) = command.action else { panic!("{command:?}") };
        assert_eq!((create.size_gib, create.zone.as_deref()), (Some(4), Some("us-east-1a")));
        assert_eq!(create.tags.get("CSIVolumeName").map(String::as_str), Some("pvc-1"));
        assert_eq!(create.tags.len(), 2);
    }

    #[rstest]
    #[case("Version=1", "MissingParameter", "The request must contain the parameter Action")]
    #[case("Action=DescribeVolumes", "MissingParameter", "The request must contain the parameter Version")]
    #[case("Action=Fly&Version=1", "InvalidAction", "The action Fly is not valid for this web service.")]
    #[case(
        "Action=AttachVolume&Version=1&VolumeId=vol-12345678&InstanceId=i-12345678",
        "MissingParameter",
        "The request must contain the parameter Device"
    )]
    #[case(
        "Action=DeleteVolume&Version=1&VolumeId=banana",
        "InvalidParameterValue",
        "Value (banana) for parameter volumeId is invalid. Expected: 'vol-...'."
    )]
    #[case(
        "Action=DescribeInstances&Version=1&InstanceId.1=banana",
        "InvalidInstanceID.Malformed",
        "Invalid id: \"banana\""
    )]
    #[case("Action=DescribeVolumes&Version=1&Colour=red", "UnknownParameter", "The parameter Colour is not recognized")]
    #[case(
        "Action=CreateVolume&Version=1&TagSpecification.1.ResourceType=instance",
        "InvalidParameterValue",
        "'instance' is not a valid taggable resource type for this operation."
    )]
    #[case(
        "Action=DescribeVolumes&Version=1&Filter.1.Value.1=available",
        "InvalidParameterValue",
        "The filter 'null' is invalid"
    )]
    fn bad_requests_name_the_parameter(#[case] form: &str, #[case] code: &str, #[case] message: &str) {
        let error = read(form).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }
}
