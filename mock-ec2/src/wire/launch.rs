//! Parameters of RunInstances.

use super::fields::{list, snapshot_id};
use super::form::Form;
use super::tags::tag_specifications;
use crate::state::command::{Action, LaunchDevice, LaunchDisk, MetadataChange, RunInstances};
use crate::state::error::Ec2Error;
use crate::state::no_launch_template;
use crate::state::options::{LaunchOptions, MetadataOptions, choice};
use crate::state::resource_errors::ResourceErrors;

/// Parameters of features that are not emulated, with their neutral values. Other values are refused.
const ABSENT: &[(&str, &[&str])] = &[
    ("AdditionalInfo", &[]),
    ("CapacityReservationSpecification.CapacityReservationPreference", &["open", "none"]),
    ("EnablePrimaryIpv6", &["false"]),
    ("EnclaveOptions.Enabled", &["false"]),
    ("HibernationOptions.Configured", &["false"]),
    ("Ipv6AddressCount", &["0"]),
    ("KernelId", &[]),
    ("MaintenanceOptions.AutoRecovery", &["default"]),
    ("NetworkPerformanceOptions.BandwidthWeighting", &["default"]),
    ("Placement.Affinity", &["default"]),
    ("Placement.GroupName", &[]),
    ("Placement.Tenancy", &["default"]),
    ("PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord", &["false"]),
    ("PrivateDnsNameOptions.EnableResourceNameDnsARecord", &["false"]),
    ("PrivateDnsNameOptions.HostnameType", &["ip-name"]),
    ("PrivateIpAddress", &[]),
    ("RamdiskId", &[]),
];

/// Parameters of features that are not emulated at all.
const REFUSED: &[&str] = &[
    "CapacityReservationSpecification.",
    "CpuOptions.",
    "ElasticGpuSpecification.",
    "ElasticInferenceAccelerator.",
    "InstanceMarketOptions.",
    "Ipv6Address.",
    "LicenseSpecification.",
    "Operator.",
    "Placement.",
    "SecondaryInterface.",
];

pub(super) fn run_instances(form: &mut Form) -> Result<Action, Ec2Error> {
    absent(form)?;
    launch_template(form)?;
    let devices = devices(form)?;
    let options = options(form)?;
    let (interfaces, subnet, groups) = interfaces(form)?;
    let mut tags = tag_specifications(form, &["instance", "network-interface", "volume"])?;
    let zone = form.take("Placement.AvailabilityZone");
    let zone_id = form.take("Placement.AvailabilityZoneId");
    if let Some(name) = REFUSED.iter().find_map(|prefix| form.first_with(prefix)) {
        return Err(not_emulated(&name));
    }
    Ok(Action::RunInstances(RunInstances {
        image_id: form.require("ImageId")?,
        instance_type: form.take("InstanceType").unwrap_or_else(|| "m1.small".to_owned()),
        min_count: form.take_number("MinCount")?.ok_or_else(|| Ec2Error::MissingParameter("MinCount".to_owned()))?,
        max_count: form.take_number("MaxCount")?.ok_or_else(|| Ec2Error::MissingParameter("MaxCount".to_owned()))?,
        zone,
        zone_id,
        subnet,
        groups,
        group_names: list(form, "SecurityGroup")?,
        interfaces,
        devices,
        options,
        tags: tags.remove("instance").unwrap_or_default(),
        volume_tags: tags.remove("volume").unwrap_or_default(),
        interface_tags: tags.remove("network-interface").unwrap_or_default(),
        client_token: form.take("ClientToken"),
    }))
}

fn not_emulated(name: &str) -> Ec2Error {
    Ec2Error::UnsupportedOperation(format!("The parameter {name} cannot be used: it is not emulated."))
}

fn absent(form: &mut Form) -> Result<(), Ec2Error> {
    for (name, nothing) in ABSENT {
        if let Some(value) = form.take(name)
            && !nothing.contains(&value.as_str())
        {
            return Err(not_emulated(&format!("{name}={value}")));
        }
    }
    Ok(())
}

/// Refuses launch templates by name or id: none exist here.
fn launch_template(form: &mut Form) -> Result<(), Ec2Error> {
    let (id, name) = (form.take("LaunchTemplate.LaunchTemplateId"), form.take("LaunchTemplate.LaunchTemplateName"));
    let version = form.take("LaunchTemplate.Version");
    match (id, name) {
        (Some(_), Some(_)) => {
            let text = "Use either a launch template ID or a launch template name, not both.";
            Err(Ec2Error::InvalidParameterCombination(text.to_owned()))
        }
        (Some(id), None) => {
            let Some(resource_errors) = ResourceErrors::of("lt") else { return Ok(()) };
            resource_errors.check(&id)?;
            Err(resource_errors.not_found(&[&id]))
        }
        (None, Some(name)) => Err(no_launch_template(&name)),
        (None, None) if version.is_some() => {
            Err(Ec2Error::MissingParameter("LaunchTemplate.LaunchTemplateId".to_owned()))
        }
        (None, None) => Ok(()),
    }
}

fn options(form: &mut Form) -> Result<LaunchOptions, Ec2Error> {
    let behaviour = form.take("InstanceInitiatedShutdownBehavior");
    let behaviour = behaviour.map(|word| choice("InstanceInitiatedShutdownBehavior", &word, ["terminate", "stop"]));
    let credits = form.take("CreditSpecification.CpuCredits");
    if let Some(word) = &credits {
        choice("CpuCredits", word, ["unlimited", "standard"])?;
    }
    let (arn, name) = (form.take("IamInstanceProfile.Arn"), form.take("IamInstanceProfile.Name"));
    if arn.is_some() && name.is_some() {
        let text =
            "The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'";
        return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
    }
    if let Some(arn) = arn.as_ref().filter(|arn| !arn.starts_with("arn:") || !arn.contains(":instance-profile/")) {
        let text =
            format!("Value ({arn}) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN");
        return Err(Ec2Error::InvalidParameterValue(text));
    }
    Ok(LaunchOptions {
        key_name: form.take("KeyName"),
        instance_profile: arn.or(name),
        ebs_optimized: form.take_flag("EbsOptimized")?.unwrap_or(false),
        monitoring: form.take_flag("Monitoring.Enabled")?.unwrap_or(false),
        metadata: MetadataOptions::default().with(&metadata(form, "MetadataOptions.")?)?,
        disable_api_termination: form.take_flag("DisableApiTermination")?.unwrap_or(false),
        disable_api_stop: form.take_flag("DisableApiStop")?.unwrap_or(false),
        shutdown_terminates: behaviour.transpose()?.unwrap_or(false),
        user_data: form.take("UserData"),
        cpu_credits: credits,
        ..LaunchOptions::default()
    })
}

/// Decodes the options of the metadata service; each parameter begins with `prefix`.
pub(super) fn metadata(form: &mut Form, prefix: &str) -> Result<MetadataChange, Ec2Error> {
    let mut take = |name: &str| form.take(&format!("{prefix}{name}"));
    let (http_tokens, endpoint) = (take("HttpTokens"), take("HttpEndpoint"));
    let (ipv6, tags) = (take("HttpProtocolIpv6"), take("InstanceMetadataTags"));
    let hop_limit = form.take_number(&format!("{prefix}HttpPutResponseHopLimit"))?;
    Ok(MetadataChange { http_tokens, hop_limit, endpoint, ipv6, tags })
}

pub(super) fn devices(form: &mut Form) -> Result<Vec<LaunchDevice>, Ec2Error> {
    let mut devices = Vec::new();
    for n in form.numbers("BlockDeviceMapping")? {
        let prefix = format!("BlockDeviceMapping.{n}.");
        let device = form.require(&format!("{prefix}DeviceName"))?;
        if let Some(name) = form.take(&format!("{prefix}VirtualName")) {
            return Err(not_emulated(&format!("{prefix}VirtualName={name}")));
        }
        let no_device = form.take_verbatim(&format!("{prefix}NoDevice")).is_some();
        let asked = form.first_with(&format!("{prefix}Ebs.")).is_some();
        let disk = if asked { Some(disk(form, &format!("{prefix}Ebs."))?) } else { None };
        devices.push(LaunchDevice { device, no_device, disk });
    }
    Ok(devices)
}

fn disk(form: &mut Form, prefix: &str) -> Result<LaunchDisk, Ec2Error> {
    let name = |field: &str| format!("{prefix}{field}");
    for absent in ["OutpostArn", "AvailabilityZone", "AvailabilityZoneId"] {
        if form.take(&name(absent)).is_some() {
            return Err(not_emulated(&name(absent)));
        }
    }
    let card = form.take_number(&name("EbsCardIndex"))?;
    Ok(LaunchDisk {
        delete_on_termination: form.take_flag(&name("DeleteOnTermination"))?,
        size_gib: form.take_number(&name("VolumeSize"))?,
        volume_type: form.take(&name("VolumeType")),
        iops: form.take_number(&name("Iops"))?,
        throughput: form.take_number(&name("Throughput"))?,
        snapshot_id: form.take(&name("SnapshotId")).map(|id| snapshot_id(&id)).transpose()?,
        encrypted: form.take_flag(&name("Encrypted"))?,
        kms_key_id: form.take(&name("KmsKeyId")),
        initialization_rate: form.take_number(&name("VolumeInitializationRate"))?,
        ebs_card_index: card.map(|card| u32::try_from(card).unwrap_or(u32::MAX)),
    })
}

/// Decodes number, subnet and groups of the network interfaces.
fn interfaces(form: &mut Form) -> Result<(u32, Option<String>, Vec<String>), Ec2Error> {
    let (mut subnet, mut groups) = (form.take("SubnetId"), list(form, "SecurityGroupId")?);
    let numbers = form.numbers("NetworkInterface")?;
    let combined = |what: &str| {
        let text = format!("Network interfaces and an instance-level {what} may not be specified on the same request");
        Err(Ec2Error::InvalidParameterCombination(text))
    };
    if !numbers.is_empty() && subnet.is_some() {
        return combined("subnet ID");
    }
    if !numbers.is_empty() && (!groups.is_empty() || form.first_with("SecurityGroup.").is_some()) {
        return combined("security groups");
    }
    for n in &numbers {
        let name = |field: &str| format!("NetworkInterface.{n}.{field}");
        // Only the values that every interface here has.
        let usual = [("AssociatePublicIpAddress", "false"), ("DeleteOnTermination", "true"), ("NetworkCardIndex", "0")];
        for (field, only) in usual.into_iter().chain([("InterfaceType", "interface")]) {
            if let Some(value) = form.take(&name(field)).filter(|value| value != only) {
                return Err(not_emulated(&format!("{}={value}", name(field))));
            }
        }
        let index = form.take_number(&name("DeviceIndex"))?;
        if index.is_none_or(|index| index >= numbers.len() as u64) {
            let text = "Each network interface requires a device index, and they must begin with 0 without gaps.";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        let own = form.take(&name("SubnetId"));
        if let (Some(own), Some(other)) = (&own, &subnet)
            && own != other
        {
            let text = format!("The subnets '{other}' and '{own}' of one instance are not the same.");
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        subnet = subnet.or(own);
        groups.extend(list(form, &name("SecurityGroupId"))?);
        if let Some(left) = form.first_with(&name("")) {
            return Err(not_emulated(&left));
        }
    }
    Ok((u32::try_from(numbers.len()).unwrap_or(u32::MAX), subnet, groups))
}
