//! `mooring doctor`: what this machine can do, and what to install.

use std::process::{Command, ExitCode, Stdio};

use csi_mock::disk;
use serde::Serialize;
use serde_json::json;

use crate::output::{self, Envelope, Exit, Failure, Format, Style, Tone};

/// Arguments of `mooring doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Fail with exit code 3 when loop devices do not work here.
    #[arg(long)]
    require_loop: bool,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    good: bool,
    says: String,
    todo: Option<String>,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let checks = look();
    let loops = checks.iter().all(|c| c.what != "loop devices" || c.good);
    let style = Style::stdout();
    let mut text = String::new();
    for check in &checks {
        let mark = if check.good { style.paint(Tone::Good, "✓") } else { style.paint(Tone::Warning, "–") };
        text.push_str(&format!("{mark} {:<14} {}\n", check.what, check.says));
        if let Some(todo) = &check.todo {
            text.push_str(&format!("  {:<14} → {todo}\n", ""));
        }
    }
    text.push_str(if loops {
        "\nThe live world uses loop devices with real filesystems here.\n"
    } else {
        "\nSimulation works anywhere. The live world uses directories here, no block devices.\n"
    });
    let data = json!({ "checks": checks });
    let envelope = if args.require_loop && !loops {
        Envelope::failed("doctor", Exit::Environment, Failure::new("environment", "loop devices do not work here")).with_data(data)
    } else {
        Envelope::passed("doctor", data)
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

fn look() -> Vec<Check> {
    let mut checks = vec![Check { what: "simulation", good: true, says: "works as any user".to_owned(), todo: None }];
    checks.push(match disk::capability().loop_backend {
        Ok(()) => Check { what: "loop devices", good: true, says: "root, /dev/loop-control and mkfs.ext4 are there".to_owned(), todo: None },
        Err(why) => Check { what: "loop devices", good: false, says: why, todo: Some("run as root on Linux, with e2fsprogs installed".to_owned()) },
    });
    for (tool, args, use_for) in [
        ("kubectl", &["version", "--client"][..], "talks to `mooring up`; 1.30 or newer"),
        ("aws", &["--version"], "talks to the cloud of `mooring up`"),
        ("mkfs.ext4", &["-V"], "formats volumes in the live world"),
        ("mkfs.xfs", &["-V"], "formats xfs volumes"),
        ("mkfs.btrfs", &["--version"], "formats btrfs volumes"),
    ] {
        checks.push(tool_check(tool, args, use_for));
    }
    checks
}

fn tool_check(tool: &'static str, args: &[&str], use_for: &str) -> Check {
    let output = Command::new(tool).args(args).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            let text = [output.stdout, output.stderr].concat();
            let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned();
            Check { what: tool, good: true, says: line, todo: None }
        }
        _ => Check { what: tool, good: false, says: "not found".to_owned(), todo: Some(use_for.to_owned()) },
    }
}
