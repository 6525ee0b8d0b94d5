//! Health probes (apiserver `pkg/server/healthz`): `/healthz`, `/livez` and `/readyz`, whole, by name and verbose.

use std::fmt::Write;

use http::{HeaderValue, Response};
use substrate::body::Body;

use super::query::Query;
use super::respond::typed;

/// The checks that a server of one process and no disk has; all pass as long as it answers at all.
const CHECKS: &[&str] = &["ping", "log", "etcd"];
/// What readiness asks beside them.
const READINESS: &[&str] = &["informer-sync", "shutdown"];

/// Answers a probe; nothing when the path is none.
pub(super) fn answer(path: &str, query: &Query) -> Option<Response<Body>> {
    let (probe, check) = match path.strip_prefix('/')?.split_once('/') {
        None => (&path[1..], ""),
        Some((probe, check)) => (probe, check),
    };
    if !matches!(probe, "healthz" | "livez" | "readyz") {
        return None;
    }
    let mut checks = CHECKS.to_vec();
    if probe == "readyz" {
        checks.extend(READINESS);
    }
    if !check.is_empty() {
        let found = checks.contains(&check);
        let (code, text) = if found { (200, "ok") } else { (404, "404 page not found\n") };
        return Some(plain(code, text.to_owned()));
    }
    if !query.has("verbose") {
        return Some(plain(200, "ok".to_owned()));
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut text = String::new();
    for check in &checks {
        let verdict = if excluded.contains(check) { "excluded: ok" } else { "ok" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[+]{check} {verdict}");
    }
    let strange: Vec<String> = excluded.iter().filter(|e| !checks.contains(e)).map(|e| format!("{e:?}")).collect();
    if !strange.is_empty() {
        let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {}", strange.join(","));
    }
    let _ = writeln!(text, "{probe} check passed");
    Some(plain(200, text))
}

fn plain(code: u16, text: String) -> Response<Body> {
    let mut response = typed(code, "text/plain; charset=utf-8", text);
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
