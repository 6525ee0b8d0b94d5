//! The parameters of the actions that list what can only be listed.

use std::collections::BTreeMap;

use super::decode::{filters_of, list, page};
use super::form::Form;
use crate::state::command::{Action, Listing};
use crate::state::error::Ec2Error;
use crate::state::kinds::{Kind, Shape};

/// Reads what is asked of `kind`.
pub(super) fn listing(form: &mut Form, kind: Kind) -> Result<Action, Ec2Error> {
    let shape = kind.shape();
    let mut more: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for name in shape.lists {
        more.insert(name, list(form, name)?);
    }
    for name in shape.flags {
        // All that there is is told anyway; the value must be one all the same.
        more.insert(name, form.take_flag(name)?.map(|on| on.to_string()).into_iter().collect());
    }
    for name in shape.words {
        more.insert(name, form.take(name).into_iter().collect());
    }
    let ids = if shape.ids.is_empty() { Vec::new() } else { list(form, shape.ids)? };
    let filters = if shape.filter.is_empty() { Vec::new() } else { filters_of(form, shape.filter)? };
    let page = match kind {
        // The only lists of EC2 without pages, and the ones that call their parameters otherwise.
        Kind::AccountAttribute | Kind::Address | Kind::KeyPair | Kind::PlacementGroup | Kind::ReservedInstances => {
            super::decode::no_page()
        }
        Kind::AutoScalingGroup | Kind::LaunchConfiguration => {
            let mut page = page(form)?;
            page.max_results = page.max_results.or(form.take_number("MaxRecords")?);
            page
        }
        _ => page(form)?,
    };
    Ok(Action::List(Listing { kind, ids, more, filters, page }))
}

/// The parameters of `shape`, each number as `N`.
pub(super) fn names(shape: &Shape) -> Vec<String> {
    let item = |name: &&str| format!("{name}.N");
    let mut names: Vec<String> = shape.lists.iter().map(item).collect();
    names.extend(Some(shape.ids).filter(|ids| !ids.is_empty()).iter().map(item));
    names.extend(shape.flags.iter().chain(shape.words).map(|name| (*name).to_owned()));
    if !shape.filter.is_empty() {
        names.push(format!("{}.N.Name", shape.filter));
        names.push(format!("{}.N.{}.N", shape.filter, value(shape.filter)));
    }
    match shape.kind {
        Kind::AccountAttribute | Kind::Address | Kind::KeyPair | Kind::PlacementGroup | Kind::ReservedInstances => {}
        Kind::AutoScalingGroup | Kind::LaunchConfiguration => {
            names.extend(["MaxRecords", "NextToken"].map(str::to_owned));
        }
        _ => names.extend(["MaxResults", "NextToken"].map(str::to_owned)),
    }
    names.sort_unstable();
    names
}

/// The name of a filter's values: lists of Auto Scaling are not flattened.
pub(super) fn value(filter: &str) -> &'static str {
    if filter.ends_with(".member") { "Values.member" } else { "Value" }
}
