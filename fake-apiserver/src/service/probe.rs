//! Health probes (apiserver `pkg/server/healthz`): `/healthz`, `/livez` and `/readyz`, as a whole, by check and
//! verbose.

use std::fmt::Write;

use http::{HeaderValue, Response};
use substrate::body::Body;

use super::query::Query;
use super::respond::typed;

const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];
/// The first checks. All pass if the server answers: a real server starts the checked parts one by one while it
/// listens, Mooring starts them before.
const FIRST: &[&str] = &["ping", "log", "etcd"];
/// Additional checks of readiness: those in the middle and those at the end.
const READINESS: [&[&str]; 2] = [&["etcd-readiness", "informer-sync"], &["shutdown"]];
/// Start-up steps of a kube-apiserver, in the order in which it reports them.
const STARTED: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Returns the checks of a probe, in their order.
fn checks(probe: &str) -> Vec<&'static str> {
    let [middle, end]: [&[&str]; 2] = if probe == "readyz" { READINESS } else { [&[], &[]] };
    [FIRST, middle, STARTED, end].concat()
}

/// Returns the results of all checks as metrics (component-base `metrics/prometheus/slis`).
pub(super) fn indicators() -> String {
    let mut text = String::from(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n",
    );
    for probe in PROBES {
        for check in checks(probe) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "kubernetes_healthcheck{{name=\"{check}\",type=\"{probe}\"}} 1");
        }
    }
    text
}

/// Answers a probe; `None` for any other path.
pub(super) fn answer(path: &str, query: &Query) -> Option<Response<Body>> {
    let (probe, check) = match path.strip_prefix('/')?.split_once('/') {
        None => (&path[1..], ""),
        Some((probe, check)) => (probe, check),
    };
    if !PROBES.contains(&probe) {
        return None;
    }
    let checks = checks(probe);
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
