//! Parameters of requests.

use http::header;
use http::request::Parts;

use super::call::Call;
use crate::state::Status;
use crate::state::selector::Selector;

pub(super) fn accepted(parts: &Parts) -> Option<&str> {
    parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok())
}

/// Returns the `limit` and `timeoutSeconds` of a list or a watch; 0 if they are missing.
pub(super) fn list_numbers(call: &Call) -> Result<(i64, i64), Status> {
    let timeout = call.query.integer("timeoutSeconds")?.unwrap_or(0);
    Ok((call.query.integer("limit")?.unwrap_or(0), timeout))
}

pub(super) fn selector(call: &Call) -> Result<Selector, Status> {
    // A watch of one object by its path adds a selector to those of the query.
    let fields: Vec<&str> = call.query.all("fieldSelector").filter(|s| !s.is_empty()).collect();
    Selector::parse(&call.kind, call.query.get("labelSelector"), &fields.join(","))
}
