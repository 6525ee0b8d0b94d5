//! Steps that many scenarios share.

/// Returns a scenario with these other fields and steps.
pub fn file(head: &str, steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("  - {step}\n")).collect();
    let nodes = if head.contains("nodes:") { "" } else { "nodes: {count: 2}\n" };
    format!("name: planted\ndeadline: 60m\n{nodes}{head}\nsteps:\n{steps}")
}

pub const CLAIM: &str = "claim: {name: data}";
pub const WEB: &str = "pod: {name: web, claim: data, node: node-a, grace: 5s}";
pub const WEB_WRITES: &str = "wait: {object: pod/web, records: 3, within: 10m}";
pub const WEB_GOES: &str = "delete: {object: pod/web}";
pub const WEB_IS_GONE: &str = "wait: {object: pod/web, is: gone, within: 5m}";
pub const NEXT: &str = "pod: {name: next, claim: data, node: node-b, grace: 5s}";
pub const NEXT_WRITES: &str = "wait: {object: pod/next, records: 3, within: 20m}";
