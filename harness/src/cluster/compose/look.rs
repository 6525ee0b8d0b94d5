//! The `look` program prints the disk state of the machine in whose container it runs. It changes nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use csi_disk::Backend;
use serde_json::{Value, json};
use substrate::host;

/// Prints the disk state of this machine as JSON.
#[derive(Debug, Parser)]
#[command(name = "look", version, after_help = "Example:\n  look mounts")]
struct Args {
    /// The ready file of the node.
    #[arg(long, value_name = "PATH", default_value = "/run/mooring/ready.json")]
    node: PathBuf,
    #[command(subcommand)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum At {
    /// The devices that are plugged.
    Devices,
    /// The volumes' mounts.
    Mounts,
    /// The names in a directory; null if there is no such directory.
    Directory {
        /// The directory, below kubelet's.
        path: PathBuf,
    },
}

/// Runs the program with `args`, its name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match look(&args) {
        Ok(seen) => {
            println!("{seen}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("look: {why}");
            ExitCode::from(3)
        }
    }
}

fn look(args: &Args) -> Result<Value, String> {
    let node = std::fs::read(&args.node).map_err(|e| format!("{}: {e}", args.node.display()))?;
    let node: Value = serde_json::from_slice(&node).map_err(|e| format!("{}: {e}", args.node.display()))?;
    let text = |key: &str| node[key].as_str().ok_or_else(|| format!("{}: lacks {key}", args.node.display()));
    let backend = if text("backend")? == "loop" { Backend::Loop } else { Backend::Directory };
    let (root, volumes) = (Path::new(text("root")?), Path::new(text("volumeDir")?));
    let disk = csi_disk::open(Some(backend), text("run")?, text("node")?, root, volumes).map_err(|e| e.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let seen = crate::block_on(
        &runtime,
        Box::pin(async {
            Ok(match &args.at {
                At::Devices => json!(disk.devices().await?),
                At::Mounts => json!(disk.mounts().await?),
                At::Directory { path } => json!(disk.list_dir(path).await?),
            })
        }),
    );
    seen.map_err(|e: csi_disk::DiskError| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_volumes_shows_nothing_and_its_directories() {
        let home = tempfile::tempdir().unwrap();
        let [root, volumes] = ["kubelet", "volumes"].map(|name| home.path().join(name));
        for dir in [&root.join("pods").join("one"), &volumes] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let ready = home.path().join("ready.json");
        let node = json!({"node": "node-a", "backend": "directory", "root": root, "volumeDir": volumes, "run": "t"});
        std::fs::write(&ready, node.to_string()).unwrap();
        let see = |at| look(&Args { node: ready.clone(), at });
        assert_eq!(see(At::Devices), Ok(json!([])));
        assert_eq!(see(At::Mounts), Ok(json!([])));
        assert_eq!(see(At::Directory { path: root.join("pods") }), Ok(json!(["one"])));
        assert_eq!(see(At::Directory { path: root.join("none") }), Ok(Value::Null));
        std::fs::write(&ready, "{}").unwrap();
        assert!(see(At::Devices).unwrap_err().contains("lacks backend"));
    }
}
