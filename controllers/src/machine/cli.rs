//! The command line of the `machine` binary.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use csi_disk::plug::{self, PlugConfig};
use substrate::admin::Secret;
use substrate::dial;
use substrate::fault::Span;
use substrate::host::{self, Host, HostOptions};
use substrate::json::json;
use substrate::link::Link;
use substrate::process::Process;
use substrate::world::World;

use super::MachineConfig;
use crate::cli::{DiskArgs, socket, wait};

/// The machine of one node: the pods' containers, which are modelled writers, with their logs, and the slots in which
/// the cloud's volumes become devices.
#[derive(Debug, Parser)]
#[command(
    name = "machine",
    version,
    after_help = "Example:\n  machine --endpoint unix:///tmp/node-a/runtime.sock \\\n    --node-name node-a --root /tmp/node-a --volume-dir /tmp/volumes"
)]
struct Args {
    /// Socket for a kubelet: a unix socket, which is created.
    #[arg(long, value_name = "unix:///PATH", value_parser = socket)]
    endpoint: String,
    /// Name of the Node object.
    #[arg(long)]
    node_name: String,
    #[command(flatten)]
    disk: DiskArgs,
    /// The cloud whose volumes become devices here. Default: csi-mock attaches devices.
    #[arg(long, value_name = "http://HOST:PORT", requires = "instance_id")]
    ec2_endpoint: Option<String>,
    /// The EC2 instance that the machine is.
    #[arg(long, value_name = "i-…", requires = "ec2_endpoint")]
    instance_id: Option<String>,
    /// The bearer token of the cloud's admin endpoints, for the device stream.
    #[arg(long, value_name = "TOKEN", value_parser = host::token, requires = "ec2_endpoint")]
    ec2_admin_token: Option<Secret>,
    /// Shortest and longest time from a request to running containers, such as 1s..3s. Default: instant.
    #[arg(long, value_name = "LEAST..MOST", value_parser = container_start)]
    container_start: Option<(Duration, Duration)>,
    #[command(flatten)]
    host: HostOptions,
}

fn container_start(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once("..").ok_or("write two durations, such as 1s..3s")?;
    let (least, most): (Span, Span) = (least.parse()?, most.parse()?);
    if least > most { Err(format!("{least} is longer than {most}")) } else { Ok((least.0, most.0)) }
}

/// Runs the `machine` binary with the arguments `args` (the first one is the program's name).
pub fn machine_main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // This function is not generic, so that it is not compiled into the caller's crate.
    machine_main(args.into_iter().map(Into::into).collect())
}

fn machine_main(args: Vec<OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let options = args.host.clone();
    host::run("machine", &options, |world, host| machine(world, host, args))
}

async fn machine(world: World, host: Host, args: Args) -> anyhow::Result<()> {
    let path = substrate::listen::socket_path(&args.endpoint).map_err(|e| anyhow::anyhow!("--endpoint: {e}"))?;
    let disk = args.disk.open(&args.node_name)?;
    // The program is this one process: it ends when the process does.
    let name = world.options().process.clone().unwrap_or_else(|| args.node_name.clone());
    let process = Process::start(&world, &name, |_| std::future::pending());
    let Some(ctx) = process.ctx() else { return Ok(()) };
    let disk = csi_disk::faulty(&ctx, disk);
    if let (Some(endpoint), Some(instance)) = (&args.ec2_endpoint, &args.instance_id) {
        let ec2 = dial::http(endpoint).map_err(|e| anyhow::anyhow!("--ec2-endpoint: {e}"))?;
        let token = args.ec2_admin_token.as_ref().map(|token| token.reveal().to_owned());
        let ec2 = Link::over(&ctx, "ec2", ec2);
        let config = PlugConfig { token, ..PlugConfig::new(ec2, instance, &args.node_name, disk.clone()) };
        ctx.spawn(plug::run(ctx.clone(), config));
    }
    let config = MachineConfig::new(&args.node_name, disk);
    let container_start = args.container_start.unwrap_or(config.container_start);
    let service = super::start(&ctx, MachineConfig { container_start, ..config });
    substrate::listen::unix(&ctx, &path, service).context("--endpoint")?;
    let content = json!({ "node": args.node_name, "endpoint": args.endpoint });
    host.ready(&content)?;
    wait(&process).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_container_is_two_durations_in_order() {
        assert_eq!(container_start("1s..3s"), Ok((Duration::from_secs(1), Duration::from_secs(3))));
        for (text, message) in
            [("1s", "write two durations"), ("3s..1s", "3s is longer than 1s"), ("1..2", "not a duration")]
        {
            assert!(container_start(text).unwrap_err().contains(message), "{text}");
        }
    }
}
