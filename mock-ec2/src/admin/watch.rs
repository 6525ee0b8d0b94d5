//! The event stream (server-sent events) and the metrics (Prometheus text).

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::App;

/// Serves `GET /admin/v1/events`.
pub(super) async fn events(State(app): State<Arc<App>>) -> Response {
    let stream = futures_util::stream::unfold(app.watchers.follow(), async |mut stream| {
        stream.recv().await.map(|text| (Ok::<_, Infallible>(text), stream))
    });
    let mut response = Response::new(axum::body::Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Serves `GET /metrics`.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut text = String::new();
    let figures = figures(&app);
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    };
    family("mock_ec2_requests_total", "counter", "Requests by action and outcome.", &figures.requests);
    family("mock_ec2_volumes", "gauge", "Volumes by state.", &figures.volumes);
    family("mock_ec2_attachments", "gauge", "Attachments by state.", &figures.attachments);
    family("mock_ec2_snapshots", "gauge", "Snapshots by state.", &figures.snapshots);
    family("mock_ec2_instances", "gauge", "Instances by state.", &figures.instances);
    let mut response = Response::new(axum::body::Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    response
}

/// Metrics: samples as labels and value.
#[derive(Debug, Default)]
struct Figures {
    requests: Vec<(String, u64)>,
    volumes: Vec<(String, u64)>,
    attachments: Vec<(String, u64)>,
    snapshots: Vec<(String, u64)>,
    instances: Vec<(String, u64)>,
}

fn figures(app: &App) -> Figures {
    app.ec2.look(&app.ctx, |state| {
        let attachments = state.volumes().flat_map(|v| v.attachments.values());
        Figures {
            requests: app.ec2.counts().samples(),
            volumes: by_state(state.volumes().map(|v| v.state.as_str())),
            attachments: by_state(attachments.map(|a| a.state.as_str())),
            snapshots: by_state(state.snapshots().map(|s| s.state.as_str())),
            instances: by_state(state.instances().into_iter().map(|i| i.state.wire().0)),
        }
    })
}

/// Counts `states`.
fn by_state<'a>(states: impl Iterator<Item = &'a str>) -> Vec<(String, u64)> {
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for state in states {
        *counts.entry(state).or_default() += 1;
    }
    counts.into_iter().map(|(state, count)| (format!("state=\"{state}\""), count)).collect()
}
