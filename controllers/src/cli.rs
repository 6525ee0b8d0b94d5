//! The command line of the `controllers` and `node-agent` binaries.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use csi_disk::{Backend, Disk};
use futures_util::FutureExt;
use futures_util::future::select_all;
use substrate::admin::Secret;
use substrate::body::HttpService;
use substrate::dial;
use substrate::host::{self, Failure, Host, HostOptions};
use substrate::json::json;
use substrate::link::Link;
use substrate::process::Process;
use substrate::world::World;
use tokio::sync::Notify;

use crate::election::Election;
use crate::flags;
use crate::kube::Client;
use crate::machine::{self, MachineConfig};
use crate::metrics::{AllMetrics, Metrics};
use crate::mutants;
use crate::node_agent::serve::Listener;
use crate::node_agent::{self, NodeAgentConfig, PLUGINS_REGISTRY, Plugins};
use crate::processes::{LOOPS, PROCESSES, agent, needs_driver, runs};
use crate::run::{LoopsConfig, run};
use crate::timers::Timers;

/// Name of the control loops' program.
const CONTROLLERS: &str = "controllers";
/// Name of the node agent's program.
const NODE_AGENT: &str = "node-agent";
/// Down time of a process that lost its lease.
const RESTART: Duration = Duration::from_secs(1);

/// Options of both binaries.
#[derive(Debug, clap::Args)]
struct Common {
    /// The API server.
    #[arg(long, value_name = "http://HOST:PORT")]
    kubernetes: String,
    /// Bearer token for an API server off loopback.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    kubernetes_token: Option<Secret>,
    #[command(flatten)]
    host: HostOptions,
    /// Sets the flag or constant of this name in upstream's sources; can be repeated.
    #[arg(long = "flag", value_name = "PROCESS.NAME=VALUE", value_parser = flags::parse)]
    flags: Vec<(String, String, String)>,
}

impl Common {
    /// Returns the timers of a process, as set by the flags.
    fn timers(&self, process: &str) -> anyhow::Result<Timers> {
        let mut timers = Timers::default();
        for (_, name, value) in self.flags.iter().filter(|(of, ..)| of == process) {
            flags::set(&mut timers, process, name, value)?;
        }
        Ok(timers)
    }

    fn apiserver(&self) -> anyhow::Result<HttpService> {
        let apiserver = dial::http(&self.kubernetes).map_err(|e| anyhow::anyhow!("--kubernetes: {e}"))?;
        match &self.kubernetes_token {
            None => Ok(apiserver),
            Some(token) => {
                dial::bearing(apiserver, token.reveal()).map_err(|e| anyhow::anyhow!("--kubernetes-token: {e}"))
            }
        }
    }
}

fn csi_endpoint(text: &str) -> Result<String, String> {
    dial::grpc(text).map(|_| text.to_owned()).map_err(|e| e.to_string())
}

/// Parses an endpoint that is a unix socket.
pub(crate) fn socket(text: &str) -> Result<String, String> {
    let path = substrate::listen::socket_path(text)?;
    Ok(format!("unix://{}", path.display()))
}

fn loop_name(text: &str) -> Result<String, String> {
    if LOOPS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("unknown loop `{text}`; the loops are {}", LOOPS.join(", ")))
}

fn process_name(text: &str) -> Result<String, String> {
    if PROCESSES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("unknown process `{text}`; the processes are {}", PROCESSES.join(", ")))
}

fn mutant_name(text: &str) -> Result<String, String> {
    if !substrate::mutant::BUILT_IN {
        return Err("this release has no planted defects; build it with `--features mutants`".to_owned());
    }
    let names: Vec<&str> = mutants::all().map(|mutant| mutant.name).collect();
    match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a planted defect of a loop; these are {}", names.join(", "))),
    }
}

fn replica_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if !text.is_empty() && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("a replica is named by letters, digits, `-`, `.` and `_`, as a host is".to_owned())
}

/// The control loops of Kubernetes and the CSI sidecars: each process of upstream's, in one program.
#[derive(Debug, Parser)]
#[command(
    name = "controllers",
    version,
    after_help = "Example:\n  controllers --kubernetes http://127.0.0.1:8080 \\\n    --csi unix:///run/csi/controller.sock --without kube-scheduler"
)]
struct Controllers {
    #[command(flatten)]
    common: Common,
    /// Endpoint of the CSI driver's controller; needed by csi-attacher, csi-provisioner, csi-resizer and
    /// csi-snapshotter.
    #[arg(long, value_name = "unix:///PATH | tcp://HOST:PORT", value_parser = csi_endpoint)]
    csi: Option<String>,
    /// Runs only this process; can be repeated. All of them when absent.
    #[arg(long, value_name = "PROCESS", value_parser = process_name)]
    only: Vec<String>,
    /// Elects a leader by Lease among all replicas; this one has the name NAME.
    #[arg(long, value_name = "NAME", value_parser = replica_name)]
    leader_elect: Option<String>,
    /// HTTP listener of metrics: at `/metrics` if one process runs, else at `/metrics/PROCESS`; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    http_endpoint: Option<SocketAddr>,
    /// Loops that other programs run, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = loop_name)]
    without: Vec<String>,
    /// Switches on a seeded bug; can be repeated. For builds with the feature `mutants`.
    #[arg(long, value_name = "NAME", value_parser = mutant_name, hide = !substrate::mutant::BUILT_IN)]
    mutant: Vec<String>,
}

/// Runs the `controllers` binary with the arguments `args` (the first one is the program's name).
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // This function is not generic, so that it is not compiled into the caller's crate.
    controllers_main(args.into_iter().map(Into::into).collect())
}

fn controllers_main(args: Vec<OsString>) -> ExitCode {
    let args: Controllers = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let without: BTreeSet<String> = args.without.iter().cloned().collect();
    let processes = args.processes(&without);
    if processes.is_empty() {
        return Failure::usage("there is nothing to run; say less with --only and --without").report(CONTROLLERS);
    }
    let sidecars: Vec<&str> = processes.iter().copied().filter(|process| needs_driver(process)).collect();
    if !sidecars.is_empty() && args.csi.is_none() {
        let text = format!(
            "--csi is needed by {}; name the driver's controller endpoint, or add --without {}",
            sidecars.join(", "),
            sidecars.join(",")
        );
        return Failure::usage(text).report(CONTROLLERS);
    }
    let mut options = args.common.host.clone();
    options.mutants.extend(args.mutant.iter().cloned());
    host::run(CONTROLLERS, &options, |world, host| controllers(world, host, args, without))
}

impl Controllers {
    /// Returns the processes to run, in upstream's order.
    fn processes(&self, without: &BTreeSet<String>) -> Vec<&'static str> {
        let wanted = |process: &str| self.only.is_empty() || self.only.iter().any(|only| only == process);
        PROCESSES.iter().copied().filter(|process| wanted(process) && runs(process, without)).collect()
    }
}

async fn controllers(world: World, host: Host, args: Controllers, without: BTreeSet<String>) -> anyhow::Result<()> {
    let apiserver = args.common.apiserver()?;
    let csi = args.csi.as_deref().map(dial::grpc).transpose().map_err(|e| anyhow::anyhow!("--csi: {e}"))?;
    let processes = args.processes(&without);
    let election = args.leader_elect.as_ref().map(Election::new);
    let config = LoopsConfig { without, election, ..LoopsConfig::default() };
    let all = AllMetrics::default();
    let listens = match args.http_endpoint {
        None => None,
        Some(address) => Some(all.serve(&world, address).await.context("--http-endpoint")?),
    };
    let start = |name: &'static str| -> anyhow::Result<_> {
        let config = LoopsConfig { timers: args.common.timers(name)?, ..config.clone() };
        let (apiserver, csi) = (apiserver.clone(), csi.clone());
        let ended = Arc::new(Notify::new());
        let (tell, all) = (ended.clone(), all.clone());
        let process = Process::start(&world, name, move |ctx| {
            let apiserver = Link::over(&ctx, "apiserver", apiserver.clone());
            let csi = csi.as_ref().map(|csi| Link::over(&ctx, "csi-controller", csi.clone()));
            let (config, tell) = (config.clone(), tell.clone());
            all.add(name, Metrics::of(&ctx));
            async move {
                run(ctx, name, apiserver, csi, config).await;
                tell.notify_one();
            }
        });
        Ok(supervise(process, ended).boxed())
    };
    let running = processes.into_iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let mut addresses = json!({ "kubernetes": args.common.kubernetes });
    if let Some(address) = listens {
        addresses["metrics"] = format!("http://{address}/metrics").into();
    }
    host.ready(&addresses)?;
    // A process that dies ends the program; its supervisor restarts it.
    select_all(running).await;
    Ok(())
}

/// Restarts a process whose leader lost its lease, as a kubelet would; ends when the process failed.
async fn supervise(process: Process, ended: Arc<Notify>) {
    while let Some(ctx) = process.ctx() {
        tokio::select! { biased;
            () = ended.notified() => {}
            () = ctx.downed() => return,
        }
        process.crash();
        ctx.sleep(RESTART).await;
        process.restart();
    }
}

/// Disk backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BackendChoice {
    /// The best one that works here.
    Auto,
    /// Loop devices with real filesystems; root on Linux.
    Loop,
    /// Directories; anywhere.
    Directory,
}

/// Disk of a node, for each of the programs that share it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// The kubelet's directory.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The directory of the volumes' bytes, as given to mock-ec2.
    #[arg(long, value_name = "DIR")]
    volume_dir: PathBuf,
    /// Disk backend: the same as the node's csi-mock.
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// Tag of loop devices: the same as the node's csi-mock.
    #[arg(long, value_name = "NAME", default_value = "csi-mock")]
    run: String,
}

impl DiskArgs {
    pub(crate) fn open(&self, node: &str) -> anyhow::Result<Arc<dyn Disk>> {
        let backend = match self.backend {
            BackendChoice::Auto => None,
            BackendChoice::Loop => Some(Backend::Loop),
            BackendChoice::Directory => Some(Backend::Directory),
        };
        csi_disk::open(backend, &self.run, node, &self.root, &self.volume_dir)
            .with_context(|| format!("--root {}", self.root.display()))
    }
}

/// kubelet's volume side for one node, without containers: pods are modelled writers.
#[derive(Debug, Parser)]
#[command(
    name = "node-agent",
    version,
    after_help = "Example:\n  node-agent --kubernetes http://127.0.0.1:8080 --node-name node-a \\\n    --instance-id i-0123456789abcdef0 --zone us-east-1a \\\n    --root /tmp/node-a --volume-dir /tmp/volumes"
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
    #[command(flatten)]
    disk: DiskArgs,
    /// The machine's container runtime, as served by the `machine` program. Default: an own one.
    #[arg(long, value_name = "unix:///PATH", value_parser = socket)]
    runtime: Option<String>,
    /// Directory of the CSI drivers' registration sockets. Default: ROOT/plugins_registry.
    #[arg(long, value_name = "DIR")]
    plugins_registry: Option<PathBuf>,
    /// TLS listener of the node's own server, from which the API server fetches logs; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The node's InternalIP. Default: derived from the instance. Needed when --listen is on all addresses.
    #[arg(long, value_name = "IP")]
    node_ip: Option<IpAddr>,
}

/// Runs the `node-agent` binary with the arguments `args` (the first one is the program's name).
pub fn node_agent_main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // This function is not generic, so that it is not compiled into the caller's crate.
    node_agent_main(args.into_iter().map(Into::into).collect())
}

fn node_agent_main(args: Vec<OsString>) -> ExitCode {
    let args: NodeAgent = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.listen.ip().is_unspecified() && args.node_ip.is_none() {
        let text =
            format!("--listen {}: say with --node-ip at which address the API server reaches this node", args.listen);
        return Failure::usage(text).report(NODE_AGENT);
    }
    let options = args.common.host.clone();
    host::run(NODE_AGENT, &options, |world, host| node_agent(world, host, args))
}

async fn node_agent(world: World, host: Host, args: NodeAgent) -> anyhow::Result<()> {
    let apiserver = args.common.apiserver()?;
    let disk = args.disk.open(&args.node_name)?;
    let registry = args.plugins_registry.clone().unwrap_or_else(|| args.disk.root.join(PLUGINS_REGISTRY));
    std::fs::create_dir_all(&registry).with_context(|| format!("--plugins-registry {}", registry.display()))?;
    let runtime_name = format!("runtime-{}", args.node_name);
    // Containers run in a separate process, as they outlive a kubelet.
    let machine = args.runtime.is_none().then(|| {
        let (name, node, disk) = (runtime_name.clone(), args.node_name.clone(), disk.clone());
        Process::start(&world, &args.node_name, move |ctx| {
            let config = MachineConfig::new(&node, csi_disk::faulty(&ctx, disk.clone()));
            ctx.world().fabric().bind(&ctx, &name, machine::start(&ctx, config));
            std::future::pending()
        })
    });
    let socket = args.runtime.as_deref().map(dial::grpc).transpose().map_err(|e| anyhow::anyhow!("--runtime: {e}"))?;
    let name = world.options().process.clone().unwrap_or_else(|| format!("{}/kubelet", args.node_name));
    let process = Process::start(&world, &name, |_| std::future::pending());
    let Some(ctx) = process.ctx() else { return Ok(()) };
    let runtime = match socket {
        Some(socket) => Link::over(&ctx, &runtime_name, socket),
        None => Link::connect(&ctx, &runtime_name),
    };
    let disk = csi_disk::faulty(&ctx, disk);
    let (plugins, logs_from) = (Plugins::Directory(registry), runtime.clone());
    let mut config = NodeAgentConfig::new(&args.node_name, &args.instance_id, &args.zone, disk, plugins, runtime);
    config.root = args.disk.root.clone();
    config.instance_type = args.instance_type.clone();
    config.timers = args.common.timers(flags::KUBELET)?;
    if let Some(region) = &args.region {
        config.region.clone_from(region);
    }
    let listener = Listener::open(args.listen, &args.node_name).await.context("--listen")?;
    config.internal_ip = args.node_ip.map(|ip| ip.to_string());
    // Clients reach the server at its listener, not at its address in the modelled network.
    let listens = listener.address().ip();
    config.external_ip = (!listens.is_unspecified()).then(|| listens.to_string());
    config.kubelet_port = listener.address().port();
    // The program is this one process: it ends when the process does.
    listener.serve(&ctx, node_agent::service(&ctx, &config.logs, logs_from));
    let client = Client::new(&ctx, Link::over(&ctx, "apiserver", apiserver), &agent("kubelet", ""));
    ctx.spawn(node_agent::run(ctx.clone(), client, config));
    host.ready(&json!({ "node": args.node_name }))?;
    wait(&process).await;
    drop(machine);
    Ok(())
}

/// Waits until the process ends by itself.
pub(crate) async fn wait(process: &Process) {
    if let Some(ctx) = process.ctx() {
        ctx.downed().await;
    }
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
    fn one_process_runs_alone_and_what_is_left_out_does_not_run() {
        let of = |more: &[&str]| {
            let line = ["controllers", "--kubernetes", "http://127.0.0.1:1"].iter().chain(more);
            let args = Controllers::try_parse_from(line).expect("valid");
            let without = args.without.iter().cloned().collect();
            args.processes(&without)
        };
        assert_eq!(of(&[]), PROCESSES);
        assert_eq!(of(&["--only", "csi-resizer", "--only", "kube-scheduler"]), ["kube-scheduler", "csi-resizer"]);
        assert_eq!(
            of(&["--without", "kube-scheduler,csi-attacher"]),
            ["kube-controller-manager", "csi-provisioner", "csi-resizer", "snapshot-controller", "csi-snapshotter"]
        );
        assert!(of(&["--only", "kube-scheduler", "--without", "kube-scheduler"]).is_empty());
        let line = ["controllers", "--kubernetes", "http://127.0.0.1:1", "--only", "csi-atacher"];
        let error = Controllers::try_parse_from(line).expect_err("unknown").to_string();
        assert!(error.contains("csi-atacher") && error.contains("csi-attacher"), "{error}");
        assert!(replica_name("a b").is_err() && replica_name("").is_err() && replica_name("manager-0").is_ok());
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
