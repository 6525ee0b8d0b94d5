//! The page `/metrics/resource` (upstream `pkg/kubelet/metrics/collectors/resource_metrics.go`). Pure. The use of CPU and
//! memory is not measured.

use std::fmt::Write;

use crate::machine::api::{ContainerState, PodRecord};

/// Returns the start times of the running containers of these pods, as metrics.
pub(super) fn text(pods: &[PodRecord]) -> String {
    let mut text = String::new();
    for record in pods {
        let (namespace, pod) = record.pod.split_once('/').unwrap_or(("", &record.pod));
        for container in &record.containers {
            let ContainerState::Running { since } = container.state else { continue };
            if text.is_empty() {
                text.push_str(
                    "# HELP container_start_time_seconds [STABLE] Start time of the container since unix epoch in seconds\n\
                     # TYPE container_start_time_seconds gauge\n",
                );
            }
            let (name, seconds) = (&container.name, since.as_duration().as_secs_f64());
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "container_start_time_seconds{{container=\"{name}\",namespace=\"{namespace}\",pod=\"{pod}\"}} {seconds}"
            );
        }
    }
    text.push_str(
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise\n\
         # TYPE resource_scrape_error gauge\n\
         resource_scrape_error 0\n",
    );
    text
}
