//! `mooring check`: results of the invariants in a running Mooring.

use http::Method;
use serde_json::{Value, json};
use substrate::fault::Span;

use super::Done;
use super::client::Running;
use super::state_directory::Which;
use crate::cli::refusal::{Refusal, usage};
use crate::output::Exit;

/// Arguments of `mooring check`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// Wait until the cluster has converged, then compare the cloud, Kubernetes and the nodes (I4, I8). Faults must
    /// have ended.
    #[arg(long)]
    rest: bool,
    /// Everything was deleted: wait until no leftovers remain (I5).
    #[arg(long)]
    empty: bool,
    /// Time limit of each.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if args.timeout.0.is_zero() {
        return Err(usage("--timeout: must be longer than 0s"));
    }
    let client = Running::at(args.which.place()?)?.client()?.with_more_time(args.timeout.0 * 2);
    let asked = json!({ "rest": args.rest, "empty": args.empty, "within": args.timeout });
    let (method, asked) = if args.rest || args.empty { (Method::POST, Some(&asked)) } else { (Method::GET, None) };
    let report = client.json(method, "/checks", asked)?;
    let text = page(&report);
    Ok(Done { exit: exit(&report), ..Done::new(report, text) })
}

/// A violation outweighs leftovers.
fn exit(report: &Value) -> Exit {
    let of = |violation: &&Value| violation["declared"].is_null();
    let mut violations = report["violations"].as_array().into_iter().flatten().filter(of);
    match report["undeclared"].as_u64().unwrap_or(0) {
        0 => Exit::Passed,
        _ if violations.all(|violation| violation["id"] == "I5") => Exit::Leaked,
        _ => Exit::Failed,
    }
}

fn page(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut page = format!("checked: {}\n", text(&report["counts"]));
    let all = report["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    for violation in all {
        let ms = violation["ms"].as_u64().unwrap_or(0);
        let known = match violation["declared"].as_str() {
            Some(id) => format!(" (as upstream does: {id})"),
            None => String::new(),
        };
        let (id, message) = (text(&violation["id"]), text(&violation["message"]));
        page.push_str(&format!("{id} at {}.{:03}s: {message}{known}\n", ms / 1000, ms % 1000));
    }
    match report["total"].as_u64().unwrap_or(0) {
        0 => page.push_str("all held\n"),
        total if total > all.len() as u64 => page.push_str(&format!("and {} more\n", total - all.len() as u64)),
        _ => {}
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(violations: &Value, undeclared: u64, total: u64) -> Value {
        json!({ "counts": "I1 2", "violations": violations, "undeclared": undeclared, "total": total })
    }

    #[test]
    fn a_declared_deviation_is_shown_and_passes() {
        let known = report(&json!([{ "id": "I2", "message": "m", "ms": 1234, "declared": "d" }]), 0, 1);
        assert_eq!(exit(&known), Exit::Passed);
        assert_eq!(page(&known), "checked: I1 2\nI2 at 1.234s: m (as upstream does: d)\n");
        assert_eq!(page(&report(&json!([]), 0, 0)), "checked: I1 2\nall held\n");
    }

    #[test]
    fn a_violation_outranks_a_leak() {
        let left = json!({ "id": "I5", "message": "m", "ms": 1 });
        assert_eq!(exit(&report(&json!([left]), 1, 1)), Exit::Leaked);
        let both = report(&json!([left, { "id": "I1", "message": "m", "ms": 1 }]), 2, 60);
        assert_eq!(exit(&both), Exit::Failed);
        assert!(page(&both).ends_with("and 58 more\n"), "{}", page(&both));
    }
}
