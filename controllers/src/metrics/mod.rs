//! Prometheus metrics of a process, under upstream's names.
//!
//! All loops of a process share one registry, as programs in Go do. A family appears when a loop announces it or when it
//! gets its first sample. The format is the
//! [text format 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/).

mod all;
pub mod families;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use parking_lot::Mutex;
use prometheus::{Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};
use substrate::body::{Body, empty, from_service, full};
use substrate::{Ctx, HttpService};

pub use all::AllMetrics;
pub use families::{Family, Kind};

/// Content type of the text.
const TEXT: &str = "text/plain; version=0.0.4";

/// Metrics of one process since its start. Clones share them.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Shared>);

#[derive(Default)]
struct Shared {
    registry: Registry,
    /// Families by name.
    vectors: Mutex<BTreeMap<&'static str, Vector>>,
}

/// The samples of a family.
#[derive(Clone)]
enum Vector {
    Counter(IntCounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Returns the metrics of the process of `ctx`.
    pub fn of(ctx: &Ctx) -> Self {
        Self::clone(&ctx.shared::<Self>())
    }

    /// Shows a family before its first sample.
    pub(crate) fn announce(&self, family: &'static Family) {
        self.vector(family);
    }

    /// Shows a sample of these labels with zero.
    pub(crate) fn begin(&self, family: &'static Family, labels: &[&str]) {
        match self.vector(family) {
            Vector::Counter(counters) => drop(counters.with_label_values(labels)),
            Vector::Gauge(gauges) => drop(gauges.with_label_values(labels)),
            Vector::Histogram(histograms) => drop(histograms.with_label_values(labels)),
        }
    }

    /// Adds one to a counter.
    pub(crate) fn count(&self, family: &'static Family, labels: &[&str]) {
        self.add(family, labels, 1);
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, family: &'static Family, labels: &[&str], by: u64) {
        if let Vector::Counter(counters) = self.vector(family) {
            counters.with_label_values(labels).inc_by(by);
        }
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, family: &'static Family, labels: &[&str], value: u64) {
        if let Vector::Gauge(gauges) = self.vector(family) {
            #[expect(clippy::cast_precision_loss, reason = "Prometheus has only 64-bit floats")]
            gauges.with_label_values(labels).set(value as f64);
        }
    }

    /// Replaces all samples of a gauge.
    pub(crate) fn replace<'a>(&self, family: &'static Family, samples: impl IntoIterator<Item = (Vec<&'a str>, u64)>) {
        if let Vector::Gauge(gauges) = self.vector(family) {
            gauges.reset();
        }
        for (labels, value) in samples {
            self.set(family, &labels, value);
        }
    }

    /// Adds a duration to a histogram.
    pub(crate) fn observe(&self, family: &'static Family, labels: &[&str], took: Duration) {
        if let Vector::Histogram(histograms) = self.vector(family) {
            histograms.with_label_values(labels).observe(took.as_secs_f64());
        }
    }

    /// Begins to measure an operation on a volume of a driver.
    pub(crate) fn operation(&self, ctx: &Ctx, driver: &str, name: &'static str) -> Measured {
        let began = ctx.now().mono;
        Measured { metrics: self.clone(), ctx: ctx.clone(), driver: driver.to_owned(), name, began }
    }

    /// Returns the samples of a family, which begins with the first use.
    fn vector(&self, family: &'static Family) -> Vector {
        let mut vectors = self.0.vectors.lock();
        vectors.entry(family.name).or_insert_with(|| make(&self.0.registry, family)).clone()
    }

    /// Returns the Prometheus text format, sorted by names and labels. A label that was never counted has no sample, as
    /// upstream.
    pub fn text(&self) -> String {
        let gathered = self.0.registry.gather();
        let mut text = Vec::new();
        TextEncoder::new().encode(&gathered, &mut text).expect("families are valid");
        let mut text = String::from_utf8(text).expect("the encoder writes UTF-8");
        let with_samples: Vec<&str> = gathered.iter().map(prometheus::proto::MetricFamily::name).collect();
        for name in self.0.vectors.lock().keys().filter(|name| !with_samples.contains(*name)) {
            let family = families::ALL.iter().find(|family| family.name == *name).expect("each family is in the table");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind.name());
        }
        text
    }

    /// Answers `GET /metrics`; None for any other request.
    pub fn respond<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if request.method() != Method::GET || request.uri().path() != "/metrics" {
            return None;
        }
        Some(self.response())
    }

    /// Returns the answer to `GET /metrics`.
    fn response(&self) -> Response<Body> {
        let mut response = Response::new(full(self.text()));
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(TEXT));
        response
    }

    /// Serves only `GET /metrics`.
    pub fn service(&self) -> HttpService {
        let metrics = self.clone();
        from_service(tower::service_fn(move |request: Request<Body>| {
            let response = metrics.respond(&request).unwrap_or_else(|| {
                let mut unknown = Response::new(empty());
                *unknown.status_mut() = StatusCode::NOT_FOUND;
                unknown
            });
            std::future::ready(Ok::<_, Infallible>(response))
        }))
    }
}

/// Returns the name under which metrics show a driver (`GetFullQualifiedPluginNameForVolume`).
pub(crate) fn plugin(driver: &str) -> String {
    format!("kubernetes.io/csi:{driver}")
}

/// An operation on a volume that is under way.
pub(crate) struct Measured {
    metrics: Metrics,
    ctx: Ctx,
    driver: String,
    name: &'static str,
    began: Duration,
}

impl Measured {
    /// Records the end of the operation (`OperationCompleteHook`).
    pub(crate) fn ended(self, ok: bool) {
        let Self { metrics, ctx, driver, name, began } = self;
        let status = if ok { "success" } else { "fail-unknown" };
        let took = ctx.now().mono.saturating_sub(began);
        metrics.observe(&families::STORAGE_OPERATIONS, &["false", name, status, &plugin(&driver)], took);
    }
}

/// Makes a family and registers it.
fn make(registry: &Registry, family: &'static Family) -> Vector {
    let Family { name, help, labels, .. } = *family;
    let vector = match family.kind {
        Kind::Counter => IntCounterVec::new(Opts::new(name, help), labels).map(Vector::Counter),
        Kind::Gauge => GaugeVec::new(Opts::new(name, help), labels).map(Vector::Gauge),
        Kind::Histogram(buckets) => {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            HistogramVec::new(options, labels).map(Vector::Histogram)
        }
    };
    let vector = vector.expect("the table has valid families");
    let registered = match &vector {
        Vector::Counter(vector) => registry.register(Box::new(vector.clone())),
        Vector::Gauge(vector) => registry.register(Box::new(vector.clone())),
        Vector::Histogram(vector) => registry.register(Box::new(vector.clone())),
    };
    registered.expect("a family is registered once");
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_can_be_shown_and_counted() {
        let metrics = Metrics::default();
        for family in families::ALL {
            metrics.announce(family);
        }
        let text = metrics.text();
        for family in families::ALL {
            assert!(text.contains(&format!("# TYPE {} {}\n", family.name, family.kind.name())), "{}", family.name);
            assert!(!text.contains(&format!("\n{}", family.name)), "{} has no sample yet", family.name);
            let labels: Vec<&str> = family.labels.iter().map(|_| "x").collect();
            match family.kind {
                Kind::Counter => metrics.count(family, &labels),
                Kind::Gauge => metrics.set(family, &labels, 2),
                Kind::Histogram(_) => metrics.observe(family, &labels, Duration::from_millis(200)),
            }
        }
        let text = metrics.text();
        for family in families::ALL {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("{label}=\"x\"")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let sample = match family.kind {
                Kind::Counter => format!("\n{}{labels} 1\n", family.name),
                Kind::Gauge => format!("\n{}{labels} 2\n", family.name),
                Kind::Histogram(_) => format!("\n{}_sum{labels} 0.2\n", family.name),
            };
            assert!(text.contains(&sample), "{sample}\n{text}");
        }
    }

    #[test]
    fn replaced_gauges_keep_no_former_sample() {
        let metrics = Metrics::default();
        metrics.replace(&families::UNBOUND_PV, [(vec!["gp3"], 3)]);
        metrics.replace(&families::UNBOUND_PV, [(vec!["io2"], 1)]);
        let text = metrics.text();
        assert!(text.ends_with("pv_collector_unbound_pv_count{storage_class=\"io2\"} 1\n"), "{text}");
        assert!(!text.contains("gp3"), "{text}");
    }
}
