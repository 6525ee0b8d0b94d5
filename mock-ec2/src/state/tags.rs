//! CreateTags, DeleteTags and DescribeTags.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::{CreateTags, DeleteTags, DescribeTags, Reply, ResourceId, TagReply};
use super::error::Ec2Error;
use super::filter::{Filter, Filterable, check, matches};
use super::table::{Row, Table};
use super::{Call, State};

/// Largest number of tags of a resource.
const MOST: usize = 50;
/// Longest key and longest value, in characters.
const LONGEST: (usize, usize) = (127, 256);

/// Checks that a resource with the tags `old` may get the tags `new`.
pub(super) fn check_tags(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Result<(), Ec2Error> {
    for (key, value) in new {
        if key.is_empty() || key.chars().count() > LONGEST.0 {
            let text = format!("Tag key must be between 1 and {} characters: '{key}'", LONGEST.0);
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        if key.starts_with("aws:") {
            let text = "Tag keys starting with 'aws:' are reserved for internal use";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        if value.chars().count() > LONGEST.1 {
            let text = format!("Tag value of '{key}' must be at most {} characters", LONGEST.1);
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    }
    let total = old.len() + new.keys().filter(|key| !old.contains_key(*key)).count();
    if total > MOST { Err(Ec2Error::TagLimit(MOST)) } else { Ok(()) }
}

impl State {
    pub(super) fn create_tags(&mut self, call: Call<'_>, request: &CreateTags) -> Result<Reply, Ec2Error> {
        for resource in &request.resources {
            check_tags(self.tags_of(resource)?, &request.tags)?;
        }
        call.check_dry_run()?;
        let (replaces, keeps) = (self.seeded_bugs.replaces_tags, self.seeded_bugs.keeps_tag_values);
        let tagged = if self.seeded_bugs.tags_first { 1 } else { request.resources.len() };
        for resource in request.resources.iter().take(tagged) {
            self.retag(resource, |tags| {
                if replaces {
                    tags.clear();
                }
                let own = if keeps { tags.clone() } else { BTreeMap::new() };
                tags.extend(request.tags.clone());
                tags.extend(own);
            });
        }
        Ok(Reply::Done)
    }

    pub(super) fn delete_tags(&mut self, call: Call<'_>, request: &DeleteTags) -> Result<Reply, Ec2Error> {
        for resource in &request.resources {
            self.tags_of(resource)?;
        }
        call.check_dry_run()?;
        let ignores_values = self.seeded_bugs.deletes_any_value;
        for resource in &request.resources {
            self.retag(resource, |tags| {
                tags.retain(|key, value| match request.tags.get(key) {
                    _ if request.tags.is_empty() => false,
                    None => true,
                    Some(None) => false,
                    Some(Some(only)) => value != only && !ignores_values,
                });
            });
        }
        Ok(Reply::Done)
    }

    pub(super) fn describe_tags(&self, request: &DescribeTags) -> Result<Reply, Ec2Error> {
        let page = request.page.check(None)?.repeating(self.seeded_bugs.repeats_last);
        // A filter on one key and its values counts as two filters.
        let filters: Vec<Filter> = request
            .filters
            .iter()
            .flat_map(|filter| match filter.name.strip_prefix("tag:") {
                Some(key) => {
                    let key = key.replace('\\', "\\\\").replace('*', "\\*").replace('?', "\\?");
                    let key = Filter { name: "key".to_owned(), values: vec![key] };
                    vec![key, Filter { name: "value".to_owned(), values: filter.values.clone() }]
                }
                None => vec![filter.clone()],
            })
            .collect();
        check::<TagReply>(&filters, false)?;
        let instances = carriers(&self.instances, &filters).map(|i| (i.id.as_str(), "instance", &i.tags));
        let snapshots = carriers(&self.snapshots, &filters).map(|s| (s.id.as_str(), "snapshot", &s.tags));
        let volumes = carriers(&self.volumes, &filters).map(|v| (v.id.as_str(), "volume", &v.tags));
        // Ids of one kind share a prefix, and kinds are in the order of prefixes: acl-, …, eni-, i-, igw-, …, snap-,
        // subnet-, vol-, vpc-.
        let others = |from: &'static str, to: &'static str| self.other_tags().filter(move |t| from <= t.0 && t.0 < to);
        let wanted = others("", "i-")
            .chain(instances)
            .chain(others("i-", "snap-"))
            .chain(snapshots)
            .chain(others("snap-", "vol-"))
            .chain(volumes)
            .chain(others("vol-", "~"))
            .flat_map(|(resource, kind, tags)| {
                tags.iter().map(move |(key, value)| TagReply {
                    resource: resource.to_owned(),
                    kind,
                    key: key.clone(),
                    value: value.clone(),
                    position: format!("{resource} {key}"),
                })
            })
            .filter(|tag| matches(tag, &filters));
        let (tags, next_token) = page.cut(wanted, |tag| tag.position.as_str());
        Ok(Reply::Tags { tags, next_token })
    }

    fn tags_of(&self, resource: &ResourceId) -> Result<&BTreeMap<String, String>, Ec2Error> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Ok(match resource {
            ResourceId::Volume(volume) => &self.volume(volume)?.tags,
            ResourceId::Instance(instance) => &self.instance(instance)?.tags,
            ResourceId::Snapshot(snapshot) => &self.snapshot(snapshot)?.tags,
            ResourceId::Other(other) => {
                self.resource_errors_of(other)?;
                self.account.tags.get(other).unwrap_or(&NONE)
            }
        })
    }

    fn retag(&mut self, resource: &ResourceId, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        match resource {
            ResourceId::Volume(volume) if self.seeded_bugs.keeps_tag_index => {
                self.volumes.retag_unindexed(volume, change);
            }
            ResourceId::Volume(volume) => self.volumes.retag(volume, change),
            ResourceId::Instance(instance) => self.instances.retag(instance, change),
            ResourceId::Snapshot(snapshot) => self.snapshots.retag(snapshot, change),
            ResourceId::Other(other) => self.retag_other(other, change),
        }
    }
}

/// Returns the rows of `table` that may carry a tag that passes `filters`.
fn carriers<'a, R: Row>(table: &'a Table<R>, filters: &[Filter]) -> Box<dyn Iterator<Item = &'a Arc<R>> + 'a> {
    let known: Vec<Filter> = filters
        .iter()
        .filter_map(|filter| {
            let name = match filter.name.as_str() {
                "resource-id" => R::ID_FILTER,
                "key" => "tag-key",
                _ => return None,
            };
            Some(Filter { name: name.to_owned(), values: filter.values.clone() })
        })
        .collect();
    match table.candidates(&known) {
        Some(rows) => Box::new(rows.into_iter()),
        None => Box::new(table.values()),
    }
}

impl Filterable for TagReply {
    const NAMES: &'static [&'static str] = &["key", "resource-id", "resource-type", "value"];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        match name {
            "key" => found(&self.key),
            "resource-id" => found(&self.resource),
            "resource-type" => found(self.kind),
            "value" => found(&self.value),
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}
