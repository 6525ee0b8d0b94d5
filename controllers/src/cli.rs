//! The command line of the `controllers` and `node-agent` binaries.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use csi_mock::disk::{self, Backend};
use substrate::body::HttpService;
use substrate::dial;
use substrate::host::{self, HostOptions};
use substrate::json::json;
use substrate::link::Link;
use substrate::process::Process;
use substrate::world::World;

use crate::all::{LOOPS, agent, run_all};
use crate::kube::Client;
use crate::node_agent::serve::Door;
use crate::node_agent::{self, NodeAgentConfig, PLUGINS_REGISTRY, Plugins};
use crate::timers::Timers;

/// What both binaries take.
#[derive(Debug, clap::Args)]
struct Common {
    /// The API server.
    #[arg(long, value_name = "http://HOST:PORT")]
    kubernetes: String,
    /// The root of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divides all waits.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    time_scale: f64,
    /// Writes the trace as JSON lines: a path, or - for standard output.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// Is written once the loops run.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

impl Common {
    fn host(&self) -> HostOptions {
        HostOptions { seed: self.seed, time_scale: self.time_scale, trace: self.trace.clone() }
    }

    fn apiserver(&self) -> anyhow::Result<HttpService> {
        dial::http(&self.kubernetes).map_err(|e| anyhow::anyhow!("--kubernetes: {e}"))
    }

    fn ready(&self, content: &substrate::json::Value) -> anyhow::Result<()> {
        let Some(path) = &self.ready_file else { return Ok(()) };
        substrate::ready::write(path, content).with_context(|| format!("--ready-file {}", path.display()))
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if factor.is_finite() && factor > 0.0 { Ok(factor) } else { Err("must be a number above 0".to_owned()) }
}

fn csi_endpoint(text: &str) -> Result<String, String> {
    dial::grpc(text).map(|_| text.to_owned()).map_err(|e| e.to_string())
}

fn loop_name(text: &str) -> Result<String, String> {
    if LOOPS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("there is no loop `{text}`; the loops are {}", LOOPS.join(", ")))
}

/// The control loops of Kubernetes and the CSI sidecars, in one process.
#[derive(Debug, Parser)]
#[command(
    name = "controllers",
    version,
    after_help = "Example:\n  controllers --kubernetes http://127.0.0.1:8080 --csi unix:///run/csi/controller.sock --without kube-scheduler"
)]
struct Controllers {
    #[command(flatten)]
    common: Common,
    /// Where the CSI driver's controller answers; not needed without csi-attacher, csi-provisioner and csi-resizer.
    #[arg(long, value_name = "unix:///PATH | tcp://HOST:PORT", value_parser = csi_endpoint)]
    csi: Option<String>,
    /// Loops that are left to someone else, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = loop_name)]
    without: Vec<String>,
}

/// Runs the `controllers` binary with the arguments `args` (the first one is the program's name).
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let args = match Controllers::try_parse_from(args) {
        Ok(args) => args,
        Err(e) => return usage(&e),
    };
    let without: BTreeSet<String> = args.without.iter().cloned().collect();
    let sidecars = ["csi-attacher", "csi-provisioner", "csi-resizer"].iter().any(|name| !without.contains(*name));
    if sidecars && args.csi.is_none() {
        eprintln!(
            "controllers: --csi is needed by csi-attacher, csi-provisioner and csi-resizer; name the driver's controller endpoint, or add --without csi-attacher,csi-provisioner,csi-resizer"
        );
        return ExitCode::from(2);
    }
    let host = args.common.host();
    host::run("controllers", &host, |world| async move { controllers(world, args, without).await })
}

async fn controllers(world: World, args: Controllers, without: BTreeSet<String>) -> anyhow::Result<()> {
    let apiserver = args.common.apiserver()?;
    // Without sidecars nothing calls the driver.
    let csi = args.csi.as_deref().unwrap_or("unix:///");
    let csi = dial::grpc(csi).map_err(|e| anyhow::anyhow!("--csi: {e}"))?;
    let process = Process::start(&world, "controllers", move |ctx| {
        let apiserver = Link::over(&ctx, "apiserver", apiserver.clone());
        let csi = Link::over(&ctx, "csi-controller", csi.clone());
        let without = without.clone();
        async move { run_all(ctx, apiserver, csi, &without, Timers::default()).await }
    });
    args.common.ready(&json!({ "kubernetes": args.common.kubernetes }))?;
    wait(&process).await;
    Ok(())
}

/// Which disks to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendChoice {
    /// The best that works here.
    Auto,
    /// Loop devices with real filesystems; root on Linux.
    Loop,
    /// Directories; anywhere.
    Directory,
}

/// kubelet's volume side for one node, without containers: pods are modelled writers.
#[derive(Debug, Parser)]
#[command(
    name = "node-agent",
    version,
    after_help = "Example:\n  node-agent --kubernetes http://127.0.0.1:8080 --node-name node-a --instance-id i-0123456789abcdef0 --zone us-east-1a --root /tmp/node-a --volume-dir /tmp/volumes"
)]
struct NodeAgent {
    #[command(flatten)]
    common: Common,
    /// Name of the Node object.
    #[arg(long)]
    node_name: String,
    /// The EC2 instance that the node is.
    #[arg(long, value_name = "i-…")]
    instance_id: String,
    /// Its availability zone.
    #[arg(long)]
    zone: String,
    /// Its region; the zone's when absent.
    #[arg(long)]
    region: Option<String>,
    /// Its instance type.
    #[arg(long, default_value = "m5.large")]
    instance_type: String,
    /// The kubelet's directory.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The directory of the volumes' bytes, as given to mock-ec2.
    #[arg(long, value_name = "DIR")]
    volume_dir: PathBuf,
    /// How disks work: the same as the node's csi-mock.
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// Tags loop devices: the same as the node's csi-mock.
    #[arg(long, value_name = "NAME", default_value = "csi-mock")]
    run: String,
    /// Where CSI drivers put their registration sockets; ROOT/plugins_registry when absent.
    #[arg(long, value_name = "DIR")]
    plugins_registry: Option<PathBuf>,
    /// Where the node's own server listens, with TLS, so that the API server can fetch logs; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The node's InternalIP; derived from the instance when absent. Needed when --listen is on all addresses.
    #[arg(long, value_name = "IP")]
    node_ip: Option<IpAddr>,
}

/// Runs the `node-agent` binary with the arguments `args` (the first one is the program's name).
pub fn node_agent_main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let args = match NodeAgent::try_parse_from(args) {
        Ok(args) => args,
        Err(e) => return usage(&e),
    };
    if args.listen.ip().is_unspecified() && args.node_ip.is_none() {
        eprintln!(
            "node-agent: --listen {}: say with --node-ip at which address the API server reaches this node",
            args.listen
        );
        return ExitCode::from(2);
    }
    let host = args.common.host();
    host::run("node-agent", &host, |world| async move { node_agent(world, args).await })
}

async fn node_agent(world: World, args: NodeAgent) -> anyhow::Result<()> {
    let apiserver = args.common.apiserver()?;
    let backend = match args.backend {
        BackendChoice::Auto => None,
        BackendChoice::Loop => Some(Backend::Loop),
        BackendChoice::Directory => Some(Backend::Directory),
    };
    let disk = disk::open(backend, &args.run, &args.node_name, &args.root, &args.volume_dir)
        .with_context(|| format!("--root {}", args.root.display()))?;
    let registry = args.plugins_registry.clone().unwrap_or_else(|| args.root.join(PLUGINS_REGISTRY));
    std::fs::create_dir_all(&registry).with_context(|| format!("--plugins-registry {}", registry.display()))?;
    let mut config =
        NodeAgentConfig::new(&args.node_name, &args.instance_id, &args.zone, disk, Plugins::Directory(registry));
    config.root = args.root.clone();
    config.instance_type = args.instance_type.clone();
    if let Some(region) = &args.region {
        config.region.clone_from(region);
    }
    let door = Door::open(args.listen, &args.node_name).await.context("--listen")?;
    config.internal_ip = args.node_ip.map(|ip| ip.to_string());
    // Where it listens is where it is reached, whatever the modelled network calls it.
    let listens = door.address().ip();
    config.external_ip = (!listens.is_unspecified()).then(|| listens.to_string());
    config.kubelet_port = door.address().port();
    let logs = config.logs.clone();
    let process = Process::start(&world, &args.node_name, move |ctx| {
        let client = Client::new(&ctx, Link::over(&ctx, "apiserver", apiserver.clone()), &agent("kubelet", ""));
        node_agent::run(ctx, client, config.clone())
    });
    // The program is this one process, once: it ends when the process does.
    if let Some(ctx) = process.ctx() {
        door.serve(&ctx, node_agent::service(&ctx, &logs));
    }
    args.common.ready(&json!({ "node": args.node_name }))?;
    wait(&process).await;
    Ok(())
}

/// Waits until the process ends, which it does only by itself.
async fn wait(process: &Process) {
    if let Some(ctx) = process.ctx() {
        ctx.downed().await;
    }
}

fn usage(e: &clap::Error) -> ExitCode {
    // Help and version go to standard output and succeed; a closed pipe is no reason to fail.
    let _ = e.print();
    ExitCode::from(if e.use_stderr() { 2 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_loop_is_refused_with_the_list() {
        let line = ["controllers", "--kubernetes", "http://127.0.0.1:1", "--without", "kube-sheduler"];
        let error = Controllers::try_parse_from(line).expect_err("unknown").to_string();
        assert!(error.contains("kube-sheduler") && error.contains("csi-attacher"), "{error}");
    }

    #[test]
    fn loops_are_separated_by_commas() {
        let line = ["controllers", "--kubernetes", "http://127.0.0.1:1", "--without", "kube-scheduler,csi-attacher"];
        let args = Controllers::try_parse_from(line).expect("valid");
        assert_eq!(args.without, ["kube-scheduler", "csi-attacher"]);
    }

    #[test]
    fn a_socket_must_be_absolute() {
        assert!(csi_endpoint("unix:///run/csi.sock").is_ok() && csi_endpoint("tcp://127.0.0.1:9000").is_ok());
        assert!(csi_endpoint("unix://csi.sock").is_err());
        assert!(csi_endpoint("/run/csi.sock").is_err());
    }
}
