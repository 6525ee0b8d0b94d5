//! The driver's metrics in Prometheus' text format.

use std::fmt::Write;

use crate::calls::Calls;
use csi_disk::Disk;

/// Writes the header of a metric family: name, type and help.
fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// Returns all metrics; those of the disk are omitted if it cannot be read.
pub(crate) async fn text(calls: &Calls, disk: Option<&dyn Disk>) -> String {
    let mut text = String::new();
    let times = calls.times();
    family(&mut text, "csi_operations_total", "counter", "Calls that ended, by RPC and gRPC code.");
    for ((rpc, code), (count, _)) in &times {
        sample(&mut text, "csi_operations_total", &format!("{{method=\"{rpc}\",code=\"{code}\"}}"), count);
    }
    family(&mut text, "csi_operations_seconds_total", "counter", "Seconds that these calls took together.");
    for ((rpc, code), (_, ms)) in &times {
        let seconds = *ms as f64 / 1000.0;
        sample(&mut text, "csi_operations_seconds_total", &format!("{{method=\"{rpc}\",code=\"{code}\"}}"), seconds);
    }
    family(&mut text, "csi_operations_in_flight", "gauge", "Calls that have not ended.");
    sample(&mut text, "csi_operations_in_flight", "", calls.open());
    family(&mut text, "csi_lifecycle_violations_total", "counter", "Calls that the lifecycle of CSI does not allow.");
    for (rule, count) in calls.broken() {
        sample(&mut text, "csi_lifecycle_violations_total", &format!("{{rule=\"{}\"}}", rule.name()), count);
    }
    if let Some(disk) = disk
        && let (Ok(devices), Ok(mounts)) = (disk.devices().await, disk.mounts().await)
    {
        family(&mut text, "csi_node_devices", "gauge", "Volumes that are plugged into the node.");
        sample(&mut text, "csi_node_devices", "", devices.len());
        family(&mut text, "csi_node_mounts", "gauge", "Mounts of volumes on the node.");
        sample(&mut text, "csi_node_mounts", "", mounts.len());
    }
    text
}
