//! From a form to a command. Every error names the parameter.

use std::collections::BTreeMap;

use super::form::Form;
use crate::state::command::{
    Action, AttachVolume, Command, CreateTags, CreateVolume, DeleteTags, DescribeAvailabilityZones,
    DescribeInstanceTypes, DescribeInstances, DescribeVolumes, DetachVolume, ResourceId, RunInstances,
};
use crate::state::error::Ec2Error;
use crate::state::filter::Filter;
use crate::state::ids::{InstanceId, VolumeId};
use crate::state::page::PageRequest;

/// Most ids, values or filters of one list (EC2's own cap on describe filters is 200 values, on ids 1,000).
const MOST_ITEMS: usize = 1_000;

/// Parameters that a presigned or older-style signed request carries besides those of its action.
const SIGNATURE: [&str; 6] =
    ["AWSAccessKeyId", "Expires", "SecurityToken", "Signature", "SignatureMethod", "SignatureVersion"];

/// Reads the command of a request.
///
/// # Errors
/// `MissingParameter`, `InvalidAction`, or what is wrong with a parameter.
pub fn command(mut form: Form) -> Result<Command, Ec2Error> {
    let name = form.take("Action").ok_or_else(|| Ec2Error::MissingParameter("Action".to_owned()))?;
    form.take("Version").ok_or_else(|| Ec2Error::MissingParameter("Version".to_owned()))?;
    form.take("Timestamp");
    form.discard("X-Amz-");
    for parameter in SIGNATURE {
        form.take(parameter);
    }
    let decode = match name.as_str() {
        "AttachVolume" => attach_volume,
        "CreateTags" => create_tags,
        "CreateVolume" => create_volume,
        "DeleteTags" => delete_tags,
        "DeleteVolume" => delete_volume,
        "DescribeAvailabilityZones" => describe_availability_zones,
        "DescribeInstances" => describe_instances,
        "DescribeInstanceTypes" => describe_instance_types,
        "DescribeVolumes" => describe_volumes,
        "DetachVolume" => detach_volume,
        "RunInstances" => run_instances,
        _ => return Err(Ec2Error::InvalidAction(name)),
    };
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
    // They would change what the volume is or where it lies, so they are refused and not ignored.
    for (parameter, what) in [("OutpostArn", "Outposts"), ("VolumeInitializationRate", "snapshots")] {
        if form.take(parameter).is_some() {
            let text = format!("The parameter {parameter} cannot be used: {what} are not emulated.");
            return Err(Ec2Error::UnsupportedOperation(text));
        }
    }
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
        snapshot_id: form.take("SnapshotId"),
        tags: tag_specifications(form, &["volume"])?.remove("volume").unwrap_or_default(),
        client_token: form.take("ClientToken"),
    }))
}

fn describe_volumes(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "VolumeId")?;
    Ok(Action::DescribeVolumes(DescribeVolumes {
        ids: ids.iter().map(|id| volume_id("volumes", id)).collect::<Result<_, _>>()?,
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn describe_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    let ids = list(form, "InstanceId")?;
    Ok(Action::DescribeInstances(DescribeInstances {
        ids: ids.iter().map(|id| instance_id(id)).collect::<Result<_, _>>()?,
        filters: filters(form)?,
        page: page(form)?,
    }))
}

fn describe_instance_types(form: &mut Form) -> Result<Action, Ec2Error> {
    let names = list(form, "InstanceType")?;
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

fn run_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    let mut tags = tag_specifications(form, &["instance", "volume"])?;
    Ok(Action::RunInstances(RunInstances {
        image_id: form.require("ImageId")?,
        instance_type: form.take("InstanceType").unwrap_or_else(|| "m1.small".to_owned()),
        min_count: form.take_number("MinCount")?.ok_or_else(|| Ec2Error::MissingParameter("MinCount".to_owned()))?,
        max_count: form.take_number("MaxCount")?.ok_or_else(|| Ec2Error::MissingParameter("MaxCount".to_owned()))?,
        zone: form.take("Placement.AvailabilityZone"),
        tags: tags.remove("instance").unwrap_or_default(),
        volume_tags: tags.remove("volume").unwrap_or_default(),
        client_token: form.take("ClientToken"),
    }))
}

fn create_tags(form: &mut Form) -> Result<Action, Ec2Error> {
    let resources = resources(form)?;
    let tags = tags(form, "Tag")?;
    if tags.is_empty() {
        return Err(Ec2Error::MissingParameter("Tag".to_owned()));
    }
    let tags = tags.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect();
    Ok(Action::CreateTags(CreateTags { resources, tags }))
}

fn delete_tags(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DeleteTags(DeleteTags { resources: resources(form)?, tags: tags(form, "Tag")? }))
}

fn resources(form: &mut Form) -> Result<Vec<ResourceId>, Ec2Error> {
    let ids = list(form, "ResourceId")?;
    if ids.is_empty() {
        return Err(Ec2Error::MissingParameter("ResourceId".to_owned()));
    }
    ids.iter()
        .map(|id| {
            let volume = id.parse().map(ResourceId::Volume);
            volume.or_else(|_| id.parse().map(ResourceId::Instance)).map_err(|_| Ec2Error::InvalidId(id.clone()))
        })
        .collect()
}

/// The tags of `prefix.1.Key`, `prefix.1.Value`, …; a missing value is nothing.
fn tags(form: &mut Form, prefix: &str) -> Result<BTreeMap<String, Option<String>>, Ec2Error> {
    let mut tags = BTreeMap::new();
    for n in form.numbers(prefix)? {
        let key = form.require(&format!("{prefix}.{n}.Key"))?;
        let value = form.take_verbatim(&format!("{prefix}.{n}.Value"));
        if tags.insert(key.clone(), value).is_some() {
            let text = format!("Duplicate tag key '{key}' specified.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    }
    Ok(tags)
}

/// The `TagSpecification` list by resource type, of which `allowed` can be tagged by the action.
fn tag_specifications(
    form: &mut Form,
    allowed: &[&str],
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Ec2Error> {
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for n in form.numbers("TagSpecification")? {
        let kind = form.require(&format!("TagSpecification.{n}.ResourceType"))?;
        if !allowed.contains(&kind.as_str()) {
            let text = format!("'{kind}' is not a valid taggable resource type for this operation.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let tags = tags(form, &format!("TagSpecification.{n}.Tag"))?;
        all.entry(kind).or_default().extend(tags.into_iter().map(|(k, v)| (k, v.unwrap_or_default())));
    }
    Ok(all)
}

fn filters(form: &mut Form) -> Result<Vec<Filter>, Ec2Error> {
    let numbers = form.numbers("Filter")?;
    let mut filters = Vec::with_capacity(numbers.len());
    for n in numbers {
        let name = form.require(&format!("Filter.{n}.Name"))?;
        let values = list(form, &format!("Filter.{n}.Value"))?;
        if values.is_empty() {
            return Err(Ec2Error::MissingParameter(format!("Filter.{n}.Value")));
        }
        filters.push(Filter { name, values });
    }
    Ok(filters)
}

fn page(form: &mut Form) -> Result<PageRequest, Ec2Error> {
    Ok(PageRequest { max_results: form.take_number("MaxResults")?, next_token: form.take("NextToken") })
}

fn list(form: &mut Form, name: &str) -> Result<Vec<String>, Ec2Error> {
    let items = form.take_list(name)?;
    if items.len() > MOST_ITEMS {
        let text = format!("The parameter {name} has {} values; at most {MOST_ITEMS} are allowed.", items.len());
        return Err(Ec2Error::InvalidParameterValue(text));
    }
    Ok(items)
}

fn volume_id(parameter: &'static str, text: &str) -> Result<VolumeId, Ec2Error> {
    text.parse().map_err(|_| Ec2Error::MalformedVolumeId {
        parameter,
        value: text.to_owned(),
        expected: VolumeId::PREFIX,
    })
}

fn instance_id(text: &str) -> Result<InstanceId, Ec2Error> {
    text.parse().map_err(|_| Ec2Error::MalformedInstanceId(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<Command, Ec2Error> {
        command(Form::parse(text.as_bytes()).unwrap())
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
        "Action=DescribeVolumes&Version=1&Filter.1.Name=status",
        "MissingParameter",
        "The request must contain the parameter Filter.1.Value"
    )]
    fn bad_requests_name_the_parameter(#[case] form: &str, #[case] code: &str, #[case] message: &str) {
        let error = read(form).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }
}
