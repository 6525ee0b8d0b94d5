//! Names of clients.

use http::{HeaderMap, header};

/// Returns the User-Agent header.
pub(crate) fn user_agent(headers: &HeaderMap) -> Option<String> {
    headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).map(str::to_owned)
}
