//! `mooring logs`: the logs of the components of a running Mooring.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::json;
use substrate::fault::Span;

use super::client::Running;
use super::containers::Wanted;
use super::state_directory::Which;
use super::{Done, containers};
use crate::cli::compose::Containers;
use crate::cli::refusal::{Refusal, next, usage};
use crate::output::Format;

/// Arguments of `mooring logs`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// Component of the log: a process, as in csi-attacher or node-a/kubelet; a node, for everything on it;
    /// controllers, for all control loops; a pod of kube-system or a container, as in ebs-plugin. All components if
    /// absent.
    #[arg(value_name = "COMPONENT")]
    components: Vec<String>,
    /// Continue with new lines until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Print only the last N lines.
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Print only lines of this time, as in 90s or 5m.
    #[arg(long, value_name = "DURATION")]
    since: Option<Span>,
    /// Begin each line with its time.
    #[arg(long)]
    timestamps: bool,
}

pub(super) fn main(args: &Args, format: Format) -> Result<Done, Refusal> {
    if args.follow && format == Format::Json {
        return Err(usage("--follow prints lines as they come: leave out --output json"));
    }
    let path = path(args)?;
    if args.containers.compose {
        if args.follow {
            return Err(next(
                usage("--follow: of containers docker follows the traces"),
                "`docker compose logs --follow SERVICE`, or again with --since 10s",
            ));
        }
        let (components, tail) = (&args.components[..], args.tail);
        let wanted = Wanted { components, tail, since: args.since, timestamps: args.timestamps };
        return containers::logs(&args.containers, &wanted);
    }
    let client = Running::at(args.which.place()?)?.client()?;
    let mut text = Vec::new();
    client.stream(&path, |piece| match args.follow {
        true => {
            let mut out = io::stdout().lock();
            out.write_all(piece).and_then(|()| out.flush())
        }
        false => text.write_all(piece),
    })?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Done::new(json!({ "lines": text.lines().collect::<Vec<_>>() }), text))
}

/// Path below `/admin/v1`.
fn path(args: &Args) -> Result<String, Refusal> {
    let mut path = format!("/logs?follow={}&timestamps={}", args.follow, args.timestamps);
    // Writing to a string cannot fail.
    if let Some(tail) = args.tail {
        let _ = write!(path, "&tailLines={tail}");
    }
    if let Some(since) = args.since {
        if since.0.is_zero() {
            return Err(usage("--since: must be longer than 0s"));
        }
        let _ = write!(path, "&sinceSeconds={}", since.0.as_millis().div_ceil(1_000));
    }
    for component in &args.components {
        path.push_str("&component=");
        for byte in component.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => path.push(char::from(byte)),
                other => {
                    let _ = write!(path, "%{other:02X}");
                }
            }
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn asked(line: &str) -> Result<String, Refusal> {
        path(&Line::try_parse_from(line.split(' ')).unwrap().args)
    }

    #[test]
    fn flags_become_the_parameters_of_pods_log() {
        assert_eq!(asked("logs").unwrap(), "/logs?follow=false&timestamps=false");
        assert_eq!(
            asked("logs -f --tail 5 --since 1500ms --timestamps csi-attacher node-a/kubelet a&b").unwrap(),
            "/logs?follow=true&timestamps=true&tailLines=5&sinceSeconds=2&component=csi-attacher\
             &component=node-a%2Fkubelet&component=a%26b"
        );
        assert!(asked("logs --since 0s").is_err());
    }
}
