//! Parameters of the actions that only list things.

use std::collections::BTreeMap;

use super::fields::{filters_of, list, no_page, page, value};
use super::form::Form;
use crate::state::command::{Action, Listing};
use crate::state::error::Ec2Error;
use crate::state::kinds::{Kind, Shape};

/// Decodes a listing of `kind`.
pub(super) fn listing(form: &mut Form, kind: Kind) -> Result<Action, Ec2Error> {
    let shape = kind.shape();
    let mut more: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for name in shape.lists {
        more.insert(name, list(form, name)?);
    }
    for name in shape.flags {
        // The flag has no effect here, since everything is returned; its value must still be valid.
        more.insert(name, form.take_flag(name)?.map(|on| on.to_string()).into_iter().collect());
    }
    for name in shape.words {
        more.insert(name, form.take(name).into_iter().collect());
    }
    let ids = if shape.ids.is_empty() { Vec::new() } else { list(form, shape.ids)? };
    let filters = if shape.filter.is_empty() { Vec::new() } else { filters_of(form, shape.filter)? };
    let page = match kind {
        // The lists of EC2 without pages.
        Kind::AccountAttribute | Kind::Address | Kind::KeyPair | Kind::PlacementGroup | Kind::ReservedInstances => {
            no_page()
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

/// Returns the parameters of `shape`, with `N` for numbers.
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
