//! The `part` program ends a process of the machine in whose container it runs, and starts it again. It creates or
//! removes a stop file in the machine's runtime directory, which the `node` program watches. `node` removes all stop
//! files when it boots.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use substrate::host;
use substrate::words::nearest;

/// Processes of a machine that can end alone, each with its component.
const PARTS: [(&str, &str); 2] = [("kubelet", "node-agent"), ("csi-node", "csi-mock")];
/// Time limit for the machine to act: one of its processes may still be starting.
const LIMIT: Duration = Duration::from_secs(40);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// Ends a process of this machine, and starts it again.
#[derive(Debug, Parser)]
#[command(name = "part", version, after_help = "Example:\n  part stop kubelet\n  part start kubelet")]
struct Args {
    /// The directory of the machine's sockets and ready files.
    #[arg(long, value_name = "DIR", default_value = "/run/mooring")]
    runtime_dir: PathBuf,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Ends the process, as `kill -9` does; it stays down until it is started.
    Stop {
        /// kubelet or csi-node; also as traces name it, node-a/kubelet.
        part: String,
    },
    /// Starts the process and waits until it is ready.
    Start {
        /// kubelet or csi-node; also as traces name it, node-a/kubelet.
        part: String,
    },
}

/// Returns true if `process` (a name of traces) can end alone in the container of its machine.
pub(super) fn is_part(process: &str) -> bool {
    process.split_once('/').is_some_and(|(_, part)| component(part).is_ok())
}

/// File that keeps a component down while it exists.
pub(super) fn stop_file(runtime_dir: &Path, component: &str) -> PathBuf {
    runtime_dir.join(format!("{component}.stop"))
}

/// File that exists while a component is ready.
pub(super) fn ready_file(runtime_dir: &Path, component: &str) -> PathBuf {
    runtime_dir.join(format!("{component}.ready"))
}

fn component(part: &str) -> Result<&'static str, String> {
    let bare = part.rsplit('/').next().unwrap_or(part);
    if let Some((_, component)) = PARTS.iter().find(|(name, _)| *name == bare) {
        return Ok(component);
    }
    let names = PARTS.map(|(name, _)| name);
    let help = match nearest(bare, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.join(" and ")),
    };
    Err(format!("`{part}` is not a process of a machine that can end alone; {help}"))
}

/// Runs the program with `args`, its name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let (Verb::Stop { part } | Verb::Start { part }) = &args.verb;
    let failed = |code: u8, why: String| {
        eprintln!("part: {why}");
        ExitCode::from(code)
    };
    let component = match component(part) {
        Ok(component) => component,
        Err(why) => return failed(2, why),
    };
    let done = match args.verb {
        Verb::Stop { .. } => stop(&args.runtime_dir, component, LIMIT),
        Verb::Start { .. } => start(&args.runtime_dir, component, LIMIT),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(3, format!("{part}: {why}")),
    }
}

fn stop(dir: &Path, component: &str, limit: Duration) -> Result<(), String> {
    let file = stop_file(dir, component);
    std::fs::write(&file, "").map_err(|e| format!("{}: {e}; is this a machine's container?", file.display()))?;
    // The machine removes the ready file once the process has ended.
    until(limit, "still runs", || !ready_file(dir, component).exists())
}

fn start(dir: &Path, component: &str, limit: Duration) -> Result<(), String> {
    match std::fs::remove_file(stop_file(dir, component)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.to_string()),
        _ => {}
    }
    until(limit, "is not ready", || ready_file(dir, component).exists())
}

fn until(limit: Duration, or: &str, is: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..=limit.as_millis() / LOOK.as_millis() {
        if is() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("{or} after {limit:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_as_in_traces_or_alone_and_a_wrong_name_has_a_near_one() {
        for (name, is) in [("kubelet", "node-agent"), ("node-a/kubelet", "node-agent"), ("b/csi-node", "csi-mock")] {
            assert_eq!(component(name), Ok(is), "{name}");
        }
        assert!(component("kublet").unwrap_err().contains("did you mean `kubelet`?"));
        assert!(component("node-a").unwrap_err().contains("there are kubelet and csi-node"));
        assert!(is_part("node-a/kubelet") && !is_part("node-a") && !is_part("csi-attacher"));
    }

    #[test]
    fn a_stop_waits_until_the_part_has_stopped() {
        let home = tempfile::tempdir().unwrap();
        let (dir, short) = (home.path(), Duration::from_millis(50));
        std::fs::write(ready_file(dir, "node-agent"), "").unwrap();
        assert!(stop(dir, "node-agent", short).unwrap_err().contains("still runs"));
        assert!(stop_file(dir, "node-agent").exists());
        std::fs::remove_file(ready_file(dir, "node-agent")).unwrap();
        assert_eq!(stop(dir, "node-agent", short), Ok(()));
        assert!(start(dir, "node-agent", short).unwrap_err().contains("not ready"));
        assert!(!stop_file(dir, "node-agent").exists());
        std::fs::write(ready_file(dir, "node-agent"), "").unwrap();
        assert_eq!(start(dir, "node-agent", short), Ok(()));
        assert!(stop(&dir.join("none"), "node-agent", short).unwrap_err().contains("is this a machine's container?"));
    }
}
