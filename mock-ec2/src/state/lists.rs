//! Answers requests for lists.

use substrate::Now;

use super::State;
use super::error::Ec2Error;
use super::filter::{check_names, matches};
use super::listing::Listing;
use super::reply::Reply;
use super::resource_errors::ResourceErrors;

impl State {
    /// Returns the page of `request`.
    pub(super) fn list(&self, now: Now, request: &Listing) -> Result<Reply, Ec2Error> {
        let shape = request.kind.shape();
        let page = request.page.check_least((!request.ids.is_empty()).then_some(shape.set), shape.least)?;
        let page = page.repeating(self.seeded_bugs.repeats_last);
        check_names(&request.filters, shape.filters, shape.tagged)?;
        let mut all = self.entries(now, request)?;
        if !request.ids.is_empty() {
            let mut missing: Vec<&str> = request.ids.iter().map(String::as_str).collect();
            missing.retain(|id| !all.iter().any(|entry| entry.id == *id));
            if let (Some(resource_errors), false) = (ResourceErrors::of(shape.prefix), missing.is_empty()) {
                return Err(resource_errors.not_found(&missing));
            }
            all.retain(|entry| request.ids.contains(&entry.id));
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        let wanted = all.into_iter().filter(|entry| matches(entry, &request.filters));
        let (entries, next_token) = page.cut(wanted, |entry| entry.id.as_str());
        Ok(Reply::Entries { kind: request.kind, entries, next_token })
    }
}
