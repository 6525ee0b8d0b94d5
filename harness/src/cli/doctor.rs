//! `mooring doctor`: the abilities of this machine, and the packages to install.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::Serialize;
use serde_json::json;

use crate::containers;
use crate::output::{self, Envelope, Exit, Failure, Format, Style, Tone};
use crate::runner::why;

/// Minimum free space in bytes; a live run soon fills less.
const ROOM: u64 = 1 << 30;

/// Arguments of `mooring doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fail with exit code 3 if loop devices do not work here.
    #[arg(long)]
    require_loop: bool,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Check {
    what: String,
    good: bool,
    #[serde(rename = "says")]
    message: String,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let checks = look();
    let loops = checks.iter().all(|c| c.what != "loop devices" || c.good);
    let style = Style::stdout();
    let mut text = String::new();
    for check in &checks {
        let mark = if check.good { style.paint(Tone::Good, "✓") } else { style.paint(Tone::Warning, "–") };
        text.push_str(&format!("{mark} {:<14} {}\n", check.what, check.message));
    }
    text.push_str(if loops {
        "\nThe live world uses loop devices with real filesystems here.\n"
    } else {
        "\nSimulation works anywhere. The live world uses directories here, no block devices.\n"
    });
    let data = json!({ "checks": checks });
    let envelope = if args.require_loop && !loops {
        Envelope::failed("doctor", Exit::Environment, Failure::new("environment", "loop devices do not work here"))
            .with_data(data)
    } else {
        Envelope::passed("doctor", data)
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// Abilities of this machine, one line each.
pub(super) fn report() -> String {
    look().iter().map(|c| format!("{} {}: {}\n", if c.good { "ok" } else { "no" }, c.what.trim(), c.message)).collect()
}

fn look() -> Vec<Check> {
    let mut checks = vec![Check { what: "simulation".to_owned(), good: true, message: "works as any user".to_owned() }];
    checks.push(Check { what: "allocator".to_owned(), good: true, message: crate::allocator::name().to_owned() });
    checks.push(room_check(&std::env::temp_dir()));
    let capability = csi_disk::capability();
    checks.push(match capability.loop_backend.clone().err() {
        None => Check { what: "loop devices".to_owned(), good: true, message: "work here".to_owned() },
        Some(why) => Check { what: "loop devices".to_owned(), good: false, message: why },
    });
    for check in capability.checks {
        checks.push(Check { what: format!("  {}", check.name), good: check.ok, message: check.detail });
    }
    let obstacle = containers::obstacle();
    checks.push(Check {
        what: "containers".to_owned(),
        good: obstacle.is_none(),
        message: obstacle.unwrap_or("`mooring up --containers process` can run their commands").to_owned(),
    });
    for (tool, args, use_for) in [
        ("kubectl", &["version", "--client"][..], "talks to `mooring up`; 1.30 or newer"),
        ("aws", &["--version"], "talks to the cloud of `mooring up`"),
    ] {
        checks.push(tool_check(tool, args, use_for));
    }
    checks
}

/// Checks the free space for the volumes of a live run.
fn room_check(directory: &Path) -> Check {
    let what = "disk".to_owned();
    let at = directory.display();
    let Some((free, whole)) = why::room(directory) else {
        return Check { what, good: false, message: format!("cannot write to {at}; set TMPDIR to a directory") };
    };
    let (free, whole) = (free >> 20, whole >> 20);
    if free < ROOM >> 20 {
        let message = format!(
            "{free} of {whole} MiB are free in {at}, where live runs keep volumes: make room, or set TMPDIR to a \
             directory of another filesystem"
        );
        return Check { what, good: false, message };
    }
    Check { what, good: true, message: format!("{free} of {whole} MiB are free in {at}, where live runs keep volumes") }
}

fn tool_check(tool: &'static str, args: &[&str], use_for: &str) -> Check {
    let what = tool.to_owned();
    match Command::new(tool).args(args).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            let text = [output.stdout, output.stderr].concat();
            let message = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned();
            Check { what, good: true, message }
        }
        _ => Check { what, good: false, message: format!("not found; {use_for}") },
    }
}
