//! Creates, lists and deletes placement groups.

use std::collections::BTreeMap;

use substrate::ids as make_id;

use super::code::Code;
use super::command::Reply;
use super::error::Ec2Error;
use super::groups::{GroupRequest, PlacementGroup};
use super::listing::{Entry, Named, group, list, text};
use super::tags::check_tags;
use super::{Call, State};

impl State {
    pub(super) fn group_request(&mut self, call: Call<'_>, request: &GroupRequest) -> Result<Reply, Ec2Error> {
        match request {
            GroupRequest::Create(name, wanted, tags) => {
                check_tags(&BTreeMap::new(), tags)?;
                if self.account.groups.contains_key(name) {
                    let text = format!("The placement group '{name}' already exists.");
                    return Err(Ec2Error::Resource { code: Code::InvalidPlacementGroupDuplicate, text });
                }
                call.check_dry_run()?;
                self.account.made_groups += 1;
                let draw = self.seed.child("placement group").child(&self.account.made_groups.to_string());
                let id = make_id::ec2(&mut draw.rng(), "pg");
                let made = PlacementGroup { id: id.clone(), ..wanted.clone() };
                if !tags.is_empty() {
                    self.account.tags.insert(id, tags.clone());
                }
                let mut reported = self.group_fields(name, &made);
                if !tags.is_empty() {
                    let pair = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
                    reported.push(list("tagSet", tags.iter().map(pair)));
                }
                self.account.groups.insert(name.clone(), made);
                Ok(Reply::Fields(vec![text("return", true), group("placementGroup", reported)]))
            }
            GroupRequest::Delete(name) => {
                let Some(gone) = self.account.groups.get(name).cloned() else { return Err(unknown(name)) };
                call.check_dry_run()?;
                self.account.groups.remove(name);
                self.account.tags.remove(&gone.id);
                Ok(Reply::Done)
            }
        }
    }

    /// Returns the placement groups `names`, or all.
    pub(super) fn placement_groups(&self, names: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        if let Some(name) = names.iter().find(|name| !self.account.groups.contains_key(*name)) {
            return Err(unknown(name));
        }
        let wanted = self.account.groups.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
        Ok(wanted
            .map(|(name, one)| {
                let mut filter_fields = vec![
                    ("group-arn", self.arn("placement-group", name)),
                    ("group-name", name.clone()),
                    ("state", "available".to_owned()),
                    ("strategy", one.strategy.clone()),
                ];
                filter_fields.extend(one.spread_level.iter().map(|level| ("spread-level", level.clone())));
                Entry {
                    id: one.id.clone(),
                    filter_fields,
                    tags: self.tags_of_network(&one.id),
                    fields: self.group_fields(name, one),
                }
            })
            .collect())
    }

    fn group_fields(&self, name: &str, one: &PlacementGroup) -> Vec<Named> {
        let mut fields = vec![
            text("groupName", name),
            text("groupId", &one.id),
            text("groupArn", self.arn("placement-group", name)),
            text("state", "available"),
            text("strategy", &one.strategy),
        ];
        fields.extend(one.partitions.map(|count| text("partitionCount", count)));
        fields.extend(one.spread_level.as_ref().map(|level| text("spreadLevel", level)));
        fields
    }
}

fn unknown(name: &str) -> Ec2Error {
    Ec2Error::Resource {
        code: Code::InvalidPlacementGroupUnknown,
        text: format!("The placement group '{name}' is unknown"),
    }
}
