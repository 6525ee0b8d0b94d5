//! Parameters of the attributes of instances and snapshots, of tiers, locks and encryption by default.

use super::fields::{instance_id, list, required_list, snapshot_id, volume_id};
use super::form::Form;
use crate::state::attributes::ATTRIBUTES;
use crate::state::command::{
    Action, DescribeInstanceAttribute, DeviceChange, EnableFastSnapshotRestores, Encryption, InstanceChange,
    ModifyInstanceAttribute, ModifySnapshotAttribute, RestoreSnapshotTier, SnapshotAttribute,
};
use crate::state::error::Ec2Error;
use crate::state::options::choice;

pub(super) fn describe_instance_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let instance = instance_id(&form.require("InstanceId")?)?;
    let attribute = known_attribute(&form.require("Attribute")?)?;
    Ok(Action::DescribeInstanceAttribute(DescribeInstanceAttribute { instance, attribute }))
}

fn known_attribute(name: &str) -> Result<&'static str, Ec2Error> {
    ATTRIBUTES.into_iter().find(|known| *known == name).ok_or_else(|| {
        let text = format!("Value ({name}) for parameter attribute is invalid. Use one of {}.", ATTRIBUTES.join(", "));
        Ec2Error::InvalidParameterValue(text)
    })
}

/// Changeable attributes, by the name of their parameter; `Attribute` spells them with a small first letter.
const CHANGEABLE: [&str; 7] = [
    "DisableApiStop",
    "DisableApiTermination",
    "EbsOptimized",
    "InstanceInitiatedShutdownBehavior",
    "InstanceType",
    "SourceDestCheck",
    "UserData",
];
/// Attributes that instances here lack.
const NOT_EMULATED: [&str; 4] = ["EnaSupport", "Kernel", "Ramdisk", "SriovNetSupport"];

pub(super) fn modify_instance_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let instance = instance_id(&form.require("InstanceId")?)?;
    let mut changes = Vec::new();
    let value = form.take_verbatim("Value");
    let attribute = form.take("Attribute");
    if attribute.is_none() && value.is_some() {
        return Err(Ec2Error::MissingParameter("Attribute".to_owned()));
    }
    if let Some(name) = attribute {
        let parameter = CHANGEABLE.into_iter().chain(NOT_EMULATED).find(|known| {
            known.eq_ignore_ascii_case(&name) && known[1..] == name[1..] && name.starts_with(char::is_lowercase)
        });
        match (parameter, value) {
            (Some(parameter), Some(value)) => changes.push(change(parameter, value)?),
            (Some(_), None) => return Err(Ec2Error::MissingParameter("Value".to_owned())),
            (None, _) => {
                known_attribute(&name)?;
                return Err(not_emulated(&name));
            }
        }
    }
    for parameter in CHANGEABLE.into_iter().chain(NOT_EMULATED) {
        if let Some(value) = form.take_verbatim(&format!("{parameter}.Value")) {
            changes.push(change(parameter, value)?);
        }
    }
    if form.take_flag("EnclaveOptions.Enabled")? == Some(true) {
        return Err(not_emulated("enclaveOptions"));
    }
    let groups = list(form, "GroupId")?;
    if !groups.is_empty() {
        changes.push(InstanceChange::Groups(groups));
    }
    let mut devices = Vec::new();
    for n in form.numbers("BlockDeviceMapping")? {
        let prefix = format!("BlockDeviceMapping.{n}.");
        let device = form.require(&format!("{prefix}DeviceName"))?;
        for field in ["VirtualName", "NoDevice"] {
            if form.take(&format!("{prefix}{field}")).is_some() {
                return Err(not_emulated(&format!("{prefix}{field}")));
            }
        }
        let name = format!("{prefix}Ebs.DeleteOnTermination");
        let goes = form.take_flag(&name)?.ok_or(Ec2Error::MissingParameter(name))?;
        // Naming the current volume changes nothing; another one cannot be set there.
        let volume = form.take(&format!("{prefix}Ebs.VolumeId"));
        let volume = volume.map(|id| volume_id("volumeId", &id)).transpose()?;
        devices.push(DeviceChange { device, volume, goes });
    }
    if !devices.is_empty() {
        changes.push(InstanceChange::DeleteOnTermination(devices));
    }
    let several = changes.len() > 1;
    match changes.pop() {
        Some(_) if several => {
            let text = "Fields for multiple attribute types specified";
            Err(Ec2Error::InvalidParameterCombination(text.to_owned()))
        }
        Some(change) => Ok(Action::ModifyInstanceAttribute(ModifyInstanceAttribute { instance, change })),
        None => Err(Ec2Error::MissingParameter("Attribute".to_owned())),
    }
}

fn not_emulated(name: &str) -> Ec2Error {
    Ec2Error::UnsupportedOperation(format!("The attribute {name} cannot be changed: it is not emulated."))
}

fn change(parameter: &str, value: String) -> Result<InstanceChange, Ec2Error> {
    let flag = || choice(parameter, &value.to_ascii_lowercase(), ["true", "false"]);
    Ok(match parameter {
        "DisableApiStop" => InstanceChange::DisableApiStop(flag()?),
        "DisableApiTermination" => InstanceChange::DisableApiTermination(flag()?),
        "EbsOptimized" => InstanceChange::EbsOptimized(flag()?),
        "InstanceInitiatedShutdownBehavior" => {
            InstanceChange::ShutdownTerminates(choice(parameter, &value, ["terminate", "stop"])?)
        }
        "InstanceType" => InstanceChange::InstanceType(value),
        "SourceDestCheck" => InstanceChange::SourceDestCheck(flag()?),
        "UserData" => InstanceChange::UserData(value),
        other => return Err(not_emulated(other)),
    })
}

pub(super) fn modify_metadata_options(form: &mut Form) -> Result<Action, Ec2Error> {
    let instance = instance_id(&form.require("InstanceId")?)?;
    Ok(Action::ModifyInstanceMetadataOptions(instance, super::launch::metadata(form, "")?))
}

pub(super) fn describe_vpc_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let vpc = form.require("VpcId")?;
    let name = form.require("Attribute")?;
    let known = ["enableDnsHostnames", "enableDnsSupport", "enableNetworkAddressUsageMetrics"];
    match known.into_iter().find(|known| *known == name) {
        Some(attribute) => Ok(Action::DescribeVpcAttribute(vpc, attribute)),
        None => Err(Ec2Error::InvalidParameterValue(format!(
            "Value ({name}) for parameter attribute is invalid. Use one of {}.",
            known.join(", ")
        ))),
    }
}

fn snapshot_attribute(form: &mut Form) -> Result<SnapshotAttribute, Ec2Error> {
    match form.require("Attribute")?.as_str() {
        "createVolumePermission" => Ok(SnapshotAttribute::CreateVolumePermission),
        "productCodes" => Ok(SnapshotAttribute::ProductCodes),
        other => Err(Ec2Error::InvalidParameterValue(format!(
            "Value ({other}) for parameter attribute is invalid. Use createVolumePermission or productCodes."
        ))),
    }
}

fn the_snapshot(form: &mut Form) -> Result<crate::state::ids::SnapshotId, Ec2Error> {
    snapshot_id(&form.require("SnapshotId")?)
}

pub(super) fn describe_snapshot_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let snapshot = the_snapshot(form)?;
    Ok(Action::DescribeSnapshotAttribute(snapshot, snapshot_attribute(form)?))
}

pub(super) fn reset_snapshot_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let snapshot = the_snapshot(form)?;
    match snapshot_attribute(form)? {
        SnapshotAttribute::CreateVolumePermission => Ok(Action::ResetSnapshotAttribute(snapshot)),
        SnapshotAttribute::ProductCodes => {
            let text = "Value (productCodes) for parameter attribute is invalid. Use createVolumePermission.";
            Err(Ec2Error::InvalidParameterValue(text.to_owned()))
        }
    }
}

pub(super) fn modify_snapshot_attribute(form: &mut Form) -> Result<Action, Ec2Error> {
    let snapshot = the_snapshot(form)?;
    if let Some(name) = form.take("Attribute").filter(|name| name != "createVolumePermission") {
        let text = format!("Value ({name}) for parameter attribute is invalid. Use createVolumePermission.");
        return Err(Ec2Error::InvalidParameterValue(text));
    }
    let mut named = ModifySnapshotAttribute { snapshot, accounts: Vec::new(), everybody: None };
    let mut group = |name: &str, may: bool| match name {
        "all" => {
            named.everybody = Some(may);
            Ok(())
        }
        other => Err(ModifySnapshotAttribute::invalid_item(other, "UserGroup")),
    };
    let operation = form.take("OperationType");
    let (users, groups) = (list(form, "UserId")?, list(form, "UserGroup")?);
    let mut accounts = Vec::new();
    if !users.is_empty() || !groups.is_empty() {
        let may = match operation.as_deref() {
            Some(word) => choice("OperationType", word, ["add", "remove"])?,
            None => return Err(Ec2Error::MissingParameter("OperationType".to_owned())),
        };
        accounts.extend(users.into_iter().map(|user| (user, may)));
        groups.iter().try_for_each(|name| group(name, may))?;
    }
    for (list, may) in [("Add", true), ("Remove", false)] {
        let prefix = format!("CreateVolumePermission.{list}");
        for n in form.numbers(&prefix)? {
            accounts.extend(form.take(&format!("{prefix}.{n}.UserId")).map(|user| (user, may)));
            if let Some(name) = form.take(&format!("{prefix}.{n}.Group")) {
                group(&name, may)?;
            }
        }
    }
    named.accounts = accounts;
    if named.accounts.is_empty() && named.everybody.is_none() {
        return Err(Ec2Error::MissingParameter("CreateVolumePermission".to_owned()));
    }
    Ok(Action::ModifySnapshotAttribute(named))
}

pub(super) fn modify_snapshot_tier(form: &mut Form) -> Result<Action, Ec2Error> {
    let snapshot = the_snapshot(form)?;
    Ok(Action::ModifySnapshotTier(snapshot, form.take("StorageTier")))
}

pub(super) fn restore_snapshot_tier(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::RestoreSnapshotTier(RestoreSnapshotTier {
        snapshot: the_snapshot(form)?,
        days: form.take_number("TemporaryRestoreDays")?,
        permanent: form.take_flag("PermanentRestore")?.unwrap_or(false),
    }))
}

pub(super) fn unlock_snapshot(form: &mut Form) -> Result<Action, Ec2Error> {
    the_snapshot(form).map(Action::UnlockSnapshot)
}

pub(super) fn disable_fast_snapshot_restores(form: &mut Form) -> Result<Action, Ec2Error> {
    fast_restores(form).map(Action::DisableFastSnapshotRestores)
}

/// Decodes snapshots, and zones by name or by id.
pub(super) fn fast_restores(form: &mut Form) -> Result<EnableFastSnapshotRestores, Ec2Error> {
    let snapshots = required_list(form, "SourceSnapshotId")?;
    let (zones, zone_ids) = (list(form, "AvailabilityZone")?, list(form, "AvailabilityZoneId")?);
    match (zones.is_empty(), zone_ids.is_empty()) {
        (true, true) => return Err(Ec2Error::MissingParameter("AvailabilityZone".to_owned())),
        (false, false) => {
            let text = "The parameters AvailabilityZone and AvailabilityZoneId cannot be used together.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        _ => {}
    }
    let snapshots = snapshots.iter().map(|id| snapshot_id(id)).collect::<Result<_, _>>()?;
    Ok(EnableFastSnapshotRestores { zones, zone_ids, snapshots })
}

pub(super) fn enable_volume_io(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::EnableVolumeIo(volume_id("volumeId", &form.require("VolumeId")?)?))
}

pub(super) fn encryption(form: &mut Form, action: &str) -> Result<Option<Action>, Ec2Error> {
    Ok(Some(Action::Encryption(match action {
        "GetEbsEncryptionByDefault" => Encryption::Get,
        "EnableEbsEncryptionByDefault" => Encryption::Enable,
        "DisableEbsEncryptionByDefault" => Encryption::Disable,
        "GetEbsDefaultKmsKeyId" => Encryption::GetKey,
        "ModifyEbsDefaultKmsKeyId" => Encryption::SetKey(form.require("KmsKeyId")?),
        "ResetEbsDefaultKmsKeyId" => Encryption::ResetKey,
        _ => return Ok(None),
    })))
}
