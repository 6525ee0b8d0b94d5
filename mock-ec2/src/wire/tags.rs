//! Parameters of tags: of the tag actions, and of actions that tag new resources.

use std::collections::BTreeMap;

use super::fields::{filters_of, list, page};
use super::form::Form;
use crate::state::code::Code;
use crate::state::command::{Action, CreateTags, DeleteTags, DescribeTags, ResourceId};
use crate::state::error::Ec2Error;
use crate::state::resource_errors::ResourceErrors;

pub(super) fn create_tags(form: &mut Form) -> Result<Action, Ec2Error> {
    let resources = resources(form)?;
    let tags = tags(form, "Tag")?;
    if tags.is_empty() {
        return Err(Ec2Error::MissingParameter("Tag".to_owned()));
    }
    let tags = tags.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect();
    Ok(Action::CreateTags(CreateTags { resources, tags }))
}

pub(super) fn delete_tags(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DeleteTags(DeleteTags { resources: resources(form)?, tags: tags(form, "Tag")? }))
}

pub(super) fn describe_tags(form: &mut Form) -> Result<Action, Ec2Error> {
    Ok(Action::DescribeTags(DescribeTags { filters: filters_of(form, "Filter")?, page: page(form)? }))
}

fn resources(form: &mut Form) -> Result<Vec<ResourceId>, Ec2Error> {
    let ids = list(form, "ResourceId")?;
    if ids.is_empty() {
        return Err(Ec2Error::MissingParameter("resourceIdSet".to_owned()));
    }
    ids.iter()
        .map(|id| {
            let volume = id.parse().map(ResourceId::Volume);
            let other = volume.or_else(|_| id.parse().map(ResourceId::Instance));
            let other = other.or_else(|_| id.parse().map(ResourceId::Snapshot)).ok();
            let other = other.or_else(|| ResourceErrors::of_id(id).map(|_| ResourceId::Other(id.clone())));
            other.ok_or_else(|| Ec2Error::InvalidId(id.clone()))
        })
        .collect()
}

/// Decodes the tags of `prefix.1.Key`, `prefix.1.Value`, …; a missing value is None.
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

/// Decodes the `TagSpecification` list by resource type; the action can tag those in `allowed`.
pub(super) fn tag_specifications(
    form: &mut Form,
    allowed: &[&str],
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Ec2Error> {
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    // The network part of EC2 has its own error code.
    let network = allowed.iter().any(|kind| ["subnet", "vpc"].contains(kind));
    let bad = |text: String| match network {
        true => Ec2Error::Resource { code: Code::InvalidParameter, text },
        false => Ec2Error::InvalidParameterValue(text),
    };
    for n in form.numbers("TagSpecification")? {
        let name = format!("TagSpecification.{n}.ResourceType");
        let kind = match form.take(&name) {
            Some(kind) => kind,
            None if network => return Err(bad("Tag specification resource type must have a value".to_owned())),
            None => return Err(Ec2Error::MissingParameter(name)),
        };
        if !allowed.contains(&kind.as_str()) {
            return Err(bad(format!("'{kind}' is not a valid taggable resource type for this operation.")));
        }
        let tags = tags(form, &format!("TagSpecification.{n}.Tag"))?;
        if tags.is_empty() {
            return Err(bad("Tag specification must have at least one tag".to_owned()));
        }
        all.entry(kind).or_default().extend(tags.into_iter().map(|(k, v)| (k, v.unwrap_or_default())));
    }
    Ok(all)
}
