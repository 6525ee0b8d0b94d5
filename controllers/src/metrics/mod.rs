//! Prometheus metrics of a process's loops.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, Request, Response, StatusCode, header};
use substrate::HttpService;
use substrate::body::{Body, empty, from_service, full};

use crate::attach_detach::ForcedReason;

/// Upstream's `pkg/controller/volume/attachdetach/metrics`: the subsystem, and a name that repeats it.
const FORCED_DETACHES: &str = "attach_detach_controller_attachdetach_controller_forced_detaches";

/// Counters of one process since its start. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    forced: Arc<ForcedDetaches>,
}

#[derive(Debug, Default)]
struct ForcedDetaches {
    timeout: AtomicU64,
    out_of_service: AtomicU64,
}

impl Metrics {
    /// Counts a detach without the safety check.
    pub(crate) fn forced_detach(&self, reason: ForcedReason) {
        let counter = match reason {
            ForcedReason::Timeout => &self.forced.timeout,
            ForcedReason::OutOfService => &self.forced.out_of_service,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the Prometheus text format. A label that was never counted has no sample, as upstream.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# HELP {FORCED_DETACHES} [ALPHA] Number of times the A/D Controller performed a forced detach\n\
             # TYPE {FORCED_DETACHES} counter\n"
        );
        let counts = [("out-of-service", &self.forced.out_of_service), ("timeout", &self.forced.timeout)];
        for (reason, count) in counts {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{FORCED_DETACHES}{{reason=\"{reason}\"}} {count}");
            }
        }
        text
    }

    /// Serves only `GET /metrics`.
    pub fn service(&self) -> HttpService {
        let metrics = self.clone();
        from_service(tower::service_fn(move |request: Request<Body>| {
            let asked = request.method() == Method::GET && request.uri().path() == "/metrics";
            let mut response = Response::new(if asked { full(metrics.text()) } else { empty() });
            if asked {
                let text = header::HeaderValue::from_static("text/plain; version=0.0.4");
                response.headers_mut().insert(header::CONTENT_TYPE, text);
            } else {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            std::future::ready(Ok::<_, Infallible>(response))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_detaches_are_counted_by_reason() {
        let metrics = Metrics::default();
        assert!(metrics.text().ends_with(" counter\n"));
        metrics.clone().forced_detach(ForcedReason::Timeout);
        metrics.forced_detach(ForcedReason::OutOfService);
        metrics.forced_detach(ForcedReason::OutOfService);
        let text = metrics.text();
        assert!(text.contains(&format!("{FORCED_DETACHES}{{reason=\"out-of-service\"}} 2\n")), "{text}");
        assert!(text.ends_with(&format!("{FORCED_DETACHES}{{reason=\"timeout\"}} 1\n")), "{text}");
    }
}
