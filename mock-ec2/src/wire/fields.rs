//! Decodes lists, filters, pages and ids, which many actions share.

use super::form::Form;
use crate::state::error::Ec2Error;
use crate::state::filter::Filter;
use crate::state::ids::{InstanceId, SnapshotId, VolumeId};
use crate::state::page::PageRequest;

/// Largest number of ids in a list.
const MOST_ITEMS: usize = 1_000;
/// Largest numbers of filters in a request and of values in a filter (EC2's error codes, `FilterLimitExceeded`). The
/// EBS driver puts up to 500 names of volumes and 1,000 of snapshots into one filter. On such a burst all its callers
/// get the error, and their sidecars retry.
const MOST_FILTERS: usize = 50;
const MOST_VALUES: usize = 200;

pub(super) fn required_list(form: &mut Form, name: &str) -> Result<Vec<String>, Ec2Error> {
    let items = list(form, name)?;
    if items.is_empty() { Err(Ec2Error::MissingParameter(name.to_owned())) } else { Ok(items) }
}

pub(super) fn filters(form: &mut Form) -> Result<Vec<Filter>, Ec2Error> {
    filters_of(form, "Filter")
}

/// Decodes the filters of the parameter `prefix`.
pub(super) fn filters_of(form: &mut Form, prefix: &str) -> Result<Vec<Filter>, Ec2Error> {
    let numbers = form.numbers(prefix)?;
    if numbers.len() > MOST_FILTERS {
        return Err(Ec2Error::FilterLimit("filters", MOST_FILTERS));
    }
    let mut filters = Vec::with_capacity(numbers.len());
    for n in numbers {
        let Some(name) = form.take(&format!("{prefix}.{n}.Name")) else {
            return Err(Ec2Error::InvalidParameterValue("The filter 'null' is invalid".to_owned()));
        };
        // Without values it matches nothing (getmoto/moto#8570, which asked EC2).
        let values = form.take_list(&format!("{prefix}.{n}.{}", value(prefix)))?;
        if values.len() > MOST_VALUES {
            return Err(Ec2Error::FilterLimit("filter values", MOST_VALUES));
        }
        filters.push(Filter { name, values });
    }
    Ok(filters)
}

/// Returns the page of a list without pages.
pub(super) fn no_page() -> PageRequest {
    PageRequest::default()
}

pub(super) fn page(form: &mut Form) -> Result<PageRequest, Ec2Error> {
    Ok(PageRequest { max_results: form.take_number("MaxResults")?, next_token: form.take("NextToken") })
}

pub(super) fn list(form: &mut Form, name: &str) -> Result<Vec<String>, Ec2Error> {
    let items = form.take_list(name)?;
    if items.len() > MOST_ITEMS {
        let text = format!("The parameter {name} has {} values; at most {MOST_ITEMS} are allowed.", items.len());
        return Err(Ec2Error::InvalidParameterValue(text));
    }
    Ok(items)
}

pub(super) fn volume_id(parameter: &'static str, text: &str) -> Result<VolumeId, Ec2Error> {
    text.parse().map_err(|_| Ec2Error::MalformedVolumeId {
        parameter,
        value: text.to_owned(),
        expected: VolumeId::PREFIX,
    })
}

pub(super) fn snapshot_id(text: &str) -> Result<SnapshotId, Ec2Error> {
    text.parse().map_err(|_| Ec2Error::MalformedVolumeId {
        parameter: "snapshotId",
        value: text.to_owned(),
        expected: SnapshotId::PREFIX,
    })
}

pub(super) fn instance_id(text: &str) -> Result<InstanceId, Ec2Error> {
    text.parse().map_err(|_| Ec2Error::MalformedInstanceId(text.to_owned()))
}

/// Returns the name of a filter's values: lists of Auto Scaling are not flattened.
pub(super) fn value(filter: &str) -> &'static str {
    if filter.ends_with(".member") { "Values.member" } else { "Value" }
}
