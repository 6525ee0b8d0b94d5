//! Parameters of actions on key pairs, placement groups, networks, the recycle bin and root volumes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::fields::{instance_id, snapshot_id, volume_id};
use super::form::Form;
use super::tags::tag_specifications;
use crate::state::code::Code;
use crate::state::command::{
    Action, BlockRequest, GroupRequest, KeyRequest, NetworkRequest, PlacementGroup, PublicAccess, ReplaceRoot,
    RestoreRequest,
};
use crate::state::error::Ec2Error;

/// Decoder of an action.
type Decode = fn(&mut Form) -> Result<Action, Ec2Error>;

/// Returns the decoder of the action `name`, if it is one of these.
pub(super) fn of(name: &str) -> Option<Decode> {
    Some(match name {
        "CreateKeyPair" => create_key_pair,
        "DeleteKeyPair" => delete_key_pair,
        "ImportKeyPair" => import_key_pair,
        "CreatePlacementGroup" => create_placement_group,
        "DeletePlacementGroup" => |form| Ok(Action::Group(GroupRequest::Delete(form.require("GroupName")?))),
        "CreateVpc" => create_vpc,
        "DeleteVpc" => |form| Ok(Action::Network(NetworkRequest::DeleteVpc(form.require("VpcId")?))),
        "CreateSubnet" => create_subnet,
        "DeleteSubnet" => |form| Ok(Action::Network(NetworkRequest::DeleteSubnet(form.require("SubnetId")?))),
        "GetSnapshotBlockPublicAccessState" => |_| Ok(Action::PublicAccess(BlockRequest::Get)),
        "EnableSnapshotBlockPublicAccess" => enable_block,
        "DisableSnapshotBlockPublicAccess" => |_| Ok(Action::PublicAccess(BlockRequest::Disable)),
        "RestoreSnapshotFromRecycleBin" => {
            |form| Ok(Action::Restore(RestoreRequest::Snapshot(snapshot_id(&form.require("SnapshotId")?)?)))
        }
        "RestoreVolumeFromRecycleBin" => {
            |form| Ok(Action::Restore(RestoreRequest::Volume(volume_id("volumeId", &form.require("VolumeId")?)?)))
        }
        "CreateReplaceRootVolumeTask" => replace_root,
        _ => return None,
    })
}

fn tags(form: &mut Form, kind: &'static str) -> Result<BTreeMap<String, String>, Ec2Error> {
    Ok(tag_specifications(form, &[kind])?.remove(kind).unwrap_or_default())
}

/// Returns the word of `words` that the parameter `name` has; by default the first.
fn word(form: &mut Form, name: &str, words: &'static [&'static str]) -> Result<&'static str, Ec2Error> {
    let Some(text) = form.take(name) else { return Ok(words[0]) };
    words.iter().copied().find(|word| *word == text).ok_or_else(|| {
        let text = format!("Value ({text}) for parameter {name} is invalid. Use one of {}.", words.join(", "));
        Ec2Error::InvalidParameterValue(text)
    })
}

fn create_key_pair(form: &mut Form) -> Result<Action, Ec2Error> {
    let kind = word(form, "KeyType", &["rsa", "ed25519"])?;
    word(form, "KeyFormat", &["pem"])?;
    Ok(Action::Key(KeyRequest::Create(form.require("KeyName")?, kind, tags(form, "key-pair")?)))
}

fn import_key_pair(form: &mut Form) -> Result<Action, Ec2Error> {
    let material = form.require("PublicKeyMaterial")?;
    let bad = |_| Ec2Error::Resource {
        code: Code::InvalidKeyFormat,
        text: "The parameter PublicKeyMaterial is not the base64 form of a public key".to_owned(),
    };
    let material = STANDARD.decode(material.trim()).map_err(bad)?;
    Ok(Action::Key(KeyRequest::Import(form.require("KeyName")?, material, tags(form, "key-pair")?)))
}

fn delete_key_pair(form: &mut Form) -> Result<Action, Ec2Error> {
    let which = match (form.take("KeyName"), form.take("KeyPairId")) {
        (Some(name), _) => Ok(name),
        (None, Some(id)) => Err(id),
        (None, None) => return Err(Ec2Error::MissingParameter("KeyName".to_owned())),
    };
    Ok(Action::Key(KeyRequest::Delete(which)))
}

fn create_placement_group(form: &mut Form) -> Result<Action, Ec2Error> {
    let partitions = form.take_number("PartitionCount")?;
    let level = form.take("SpreadLevel");
    let default =
        if partitions.is_some() { &["partition", "cluster", "spread"] } else { &["cluster", "partition", "spread"] };
    let strategy = word(form, "Strategy", default)?;
    if partitions.is_some_and(|count| !(1..=7).contains(&count)) || (partitions.is_some() && strategy != "partition") {
        let text = "The parameter PartitionCount is for the strategy partition, and lies between 1 and 7.";
        return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
    }
    if level.as_deref().is_some_and(|level| !["host", "rack"].contains(&level))
        || (level.is_some() && strategy != "spread")
    {
        let text = "The parameter SpreadLevel is for the strategy spread, and is host or rack.";
        return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
    }
    let group = PlacementGroup {
        id: String::new(),
        strategy: strategy.to_owned(),
        partitions: partitions.or((strategy == "partition").then_some(2)),
        spread_level: level.or_else(|| (strategy == "spread").then(|| "rack".to_owned())),
    };
    Ok(Action::Group(GroupRequest::Create(form.require("GroupName")?, group, tags(form, "placement-group")?)))
}

fn create_vpc(form: &mut Form) -> Result<Action, Ec2Error> {
    word(form, "InstanceTenancy", &["default"])?;
    if form.take_flag("AmazonProvidedIpv6CidrBlock")? == Some(true) {
        let text = "The parameter AmazonProvidedIpv6CidrBlock cannot be used: IPv6 is not emulated.";
        return Err(Ec2Error::UnsupportedOperation(text.to_owned()));
    }
    Ok(Action::Network(NetworkRequest::CreateVpc(form.require("CidrBlock")?, tags(form, "vpc")?)))
}

fn create_subnet(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::Network(NetworkRequest::CreateSubnet {
        vpc: form.require("VpcId")?,
        cidr: form.require("CidrBlock")?,
        zone: form.take("AvailabilityZone"),
        zone_id: form.take("AvailabilityZoneId"),
        tags: tags(form, "subnet")?,
    }))
}

fn enable_block(form: &mut Form) -> Result<Action, Ec2Error> {
    let state = match form.require("State")?.as_str() {
        "block-all-sharing" => PublicAccess::BlockAllSharing,
        "block-new-sharing" => PublicAccess::BlockNewSharing,
        other => {
            let text =
                format!("Value ({other}) for parameter State is invalid. Use block-all-sharing or block-new-sharing.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    };
    Ok(Action::PublicAccess(BlockRequest::Enable(state)))
}

fn replace_root(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::ReplaceRoot(ReplaceRoot {
        instance: instance_id(&form.require("InstanceId")?)?,
        snapshot: form.take("SnapshotId").map(|id| snapshot_id(&id)).transpose()?,
        image: form.take("ImageId"),
        deletes: form.take_flag("DeleteReplacedRootVolume")?.unwrap_or(false),
        initialization_rate: form.take_number("VolumeInitializationRate")?,
        client_token: form.take("ClientToken"),
        tags: tags(form, "replace-root-volume-task")?,
    }))
}
