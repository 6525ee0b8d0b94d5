//! The command line of the `csi-mock` program.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Parser, ValueEnum};
use serde_json::json;
use substrate::admin::Secret;
use substrate::host::{self, Failure, Host, HostOptions};
use substrate::link::Link;
use substrate::process::Process;
use substrate::{Ctx, World, dial};
use tokio::sync::mpsc;

use crate::calls::Calls;
use crate::capabilities::Capabilities;
use crate::controller::{self, ControllerConfig, Credentials};
use crate::identity::DRIVER_NAME;
use crate::node::{self, DEFAULT_MAX_VOLUMES, NodeConfig};
use crate::serve::Endpoint;
use crate::settings::{LockKey, Settings};
use crate::{admin, identity, registration, serve};
use csi_disk::plug::{self, PlugConfig};
use csi_disk::{Backend, Disk};

/// Default endpoint of mock-ec2.
const DEFAULT_EC2: &str = "http://127.0.0.1:4566";
/// Name of the program.
const NAME: &str = "csi-mock";

/// Services of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Identity and Controller.
    Controller,
    /// Identity and Node, with the device plug.
    Node,
    /// All three.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendChoice {
    /// Loop devices and real filesystems; root on Linux.
    Loop,
    /// Directories and symlinks; anywhere.
    Directory,
    /// The best one that works here.
    Auto,
}

/// A CSI driver with real disks, for the cloud of mock-ec2.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "csi-mock",
    version,
    after_help = "Examples:\n  \
        csi-mock --mode controller --endpoint unix:///run/csi/controller.sock --ec2-endpoint http://127.0.0.1:4566\n  \
        csi-mock --mode node --endpoint unix:///run/csi/node-a.sock --node-id i-0123456789abcdef0 \\\n    \
        --node-name node-a --zone us-east-1a --root /run/node-a --volume-dir /run/volumes"
)]
struct Args {
    /// Services of the driver.
    #[arg(long, value_enum, default_value_t = Mode::All)]
    mode: Mode,
    /// Endpoint of the driver: a unix socket, or a TCP port of this machine [default: CSI_ENDPOINT].
    #[arg(long, value_name = "unix:///PATH | tcp://127.0.0.1:PORT", value_parser = serve::endpoint)]
    endpoint: Option<Endpoint>,
    /// Capabilities of the driver: all, minimal, ebs, none, or names of CSI, applied from left to right
    /// (`all,-LIST_VOLUMES`, `+VOLUME_MOUNT_GROUP`, `node.EXPAND_VOLUME`). The admin endpoint can change them.
    #[arg(long, value_name = "WORDS", default_value = "ebs", value_parser = capabilities)]
    capabilities: Capabilities,
    /// Capacity for volumes in each zone, in GiB [default: unlimited].
    #[arg(long, value_name = "GIB")]
    capacity_gib: Option<u64>,
    /// The driver's name.
    #[arg(long, value_name = "NAME", default_value = DRIVER_NAME, value_parser = driver_name)]
    driver_name: String,
    /// The node's instance. Without it, --mode all launches an instance.
    #[arg(long, value_name = "i-…")]
    node_id: Option<String>,
    /// The node's name in Kubernetes [default: the node id].
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The zone that the node is in.
    #[arg(long, value_name = "ZONE", default_value = "us-east-1a")]
    zone: String,
    /// Largest number of volumes on the node; 0 leaves it to the orchestrator.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_VOLUMES, value_parser = clap::value_parser!(i64).range(0..))]
    volume_attach_limit: i64,
    /// The cloud [default: AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL, or http://127.0.0.1:4566].
    #[arg(long, value_name = "http://HOST:PORT")]
    ec2_endpoint: Option<String>,
    /// The region that requests are signed for [default: AWS_REGION, or us-east-1].
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Tags of every volume and snapshot, besides the driver's.
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = tag)]
    extra_tags: Vec<(String, String)>,
    /// Id of the cluster: volumes and snapshots have its tags, such as `kubernetes.io/cluster/ID`.
    #[arg(long, value_name = "ID")]
    k8s_tag_cluster_id: Option<String>,
    /// Collects reads of single volumes and instances for half a second and makes one call for all of them, like the
    /// EBS driver's --batching.
    #[arg(long)]
    batching: bool,
    /// Lock of publish and unpublish in the controller: a driver that locks only the volume answers ABORTED to one node
    /// while it works for another.
    #[arg(long, value_enum, default_value_t = LockKey::VolumeAndNode)]
    lock: LockKey,
    /// Disk backend.
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// Directory of the volumes' files in the cloud (node and all) [default in --mode all: none, with directories for
    /// volumes].
    #[arg(long, value_name = "DIR")]
    volume_dir: Option<PathBuf>,
    /// The node's root directory: every path of a node request lies below it (node and all) [default in --mode all:
    /// the system's directory for temporary files].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Leaves the node's devices to another program, such as `mooring up --without csi-mock`.
    #[arg(long)]
    no_plug: bool,
    /// Tag of loop devices, which identifies their owner.
    #[arg(long, value_name = "NAME", default_value = "csi-mock")]
    run: String,
    /// Makes mounts in a private mount namespace, which ends with this process.
    #[arg(long)]
    private_mounts: bool,
    /// kubelet's plugin directory: the driver registers itself there like node-driver-registrar.
    #[arg(long, value_name = "DIR")]
    registration_dir: Option<PathBuf>,
    /// Serves /admin/v1 on TCP, too; it always answers on the driver's socket.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    admin_listen: Option<SocketAddr>,
    /// Bearer token of admin requests over TCP; needed off loopback.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    admin_token: Option<Secret>,
    /// The bearer token of the cloud's admin endpoints, for the device stream.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    ec2_admin_token: Option<Secret>,
    #[command(flatten)]
    host: HostOptions,
}

fn capabilities(text: &str) -> Result<Capabilities, String> {
    text.parse()
}

/// Parses one `key=value` of the extra tags.
fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` must look like key=value")),
    }
}

/// Checks a driver name (CSI: at most 63 characters, a domain name).
fn driver_name(text: &str) -> Result<String, String> {
    let part = |p: &str| {
        !p.is_empty()
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !p.starts_with('-')
            && !p.ends_with('-')
    };
    if text.len() <= 63 && text.split('.').all(part) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` must look like a domain name of at most 63 characters"))
}

/// Startup plan, after the arguments were checked against one another.
#[derive(Clone, Debug)]
struct Plan {
    args: Args,
    endpoint: Endpoint,
    ec2: String,
    node: Option<NodePlan>,
    settings: Settings,
}

/// Node part of the plan.
#[derive(Clone, Debug)]
struct NodePlan {
    /// The instance; one is launched if it is missing.
    id: Option<String>,
    root: PathBuf,
    /// Directory of the cloud's volumes; the directory backend creates its own if it is missing.
    volumes: Option<PathBuf>,
}

impl Plan {
    fn new(args: Args) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let endpoint = match (&args.endpoint, variable("CSI_ENDPOINT")) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(text)) => serve::endpoint(&text).map_err(|e| format!("CSI_ENDPOINT: {e}"))?,
            (None, None) => {
                return Err("--endpoint is needed: the socket to answer on, such as unix:///run/csi.sock".into());
            }
        };
        let ec2 = args
            .ec2_endpoint
            .clone()
            .or_else(|| variable("AWS_ENDPOINT_URL_EC2"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .unwrap_or_else(|| DEFAULT_EC2.to_owned());
        let node = match args.mode {
            Mode::Controller => None,
            Mode::Node => {
                let need = |flag: &str, what: &str| format!("{flag} is needed by --mode node: {what}");
                Some(NodePlan {
                    id: Some(args.node_id.clone().ok_or_else(|| need("--node-id", "the instance that this node is"))?),
                    root: args.root.clone().ok_or_else(|| need("--root", "the directory that is the node's root"))?,
                    volumes: Some(
                        args.volume_dir
                            .clone()
                            .ok_or_else(|| need("--volume-dir", "where the cloud keeps its volumes"))?,
                    ),
                })
            }
            Mode::All => Some(NodePlan {
                id: args.node_id.clone(),
                root: args.root.clone().unwrap_or_else(std::env::temp_dir),
                volumes: args.volume_dir.clone(),
            }),
        };
        if args.backend == BackendChoice::Loop && node.as_ref().is_some_and(|n| n.volumes.is_none()) {
            return Err("--volume-dir is needed by --backend loop: where the cloud keeps its volumes".into());
        }
        if let Some(address) = args.admin_listen
            && !address.ip().is_loopback()
            && args.admin_token.is_none()
        {
            return Err(format!("--admin-listen {address} is not loopback: give --admin-token too"));
        }
        if args.registration_dir.is_some() && node.is_none() {
            return Err("--registration-dir: only a node registers with kubelet; use --mode node or all".into());
        }
        let settings = Settings::new(args.capabilities.clone());
        settings.set_capacity_gib(args.capacity_gib);
        Ok(Self { args, endpoint, ec2, node, settings })
    }

    fn node_name(&self) -> String {
        let id = self.node.as_ref().and_then(|node| node.id.clone());
        self.args.node_name.clone().or(id).unwrap_or_else(|| "csi-mock".to_owned())
    }

    fn process_name(&self) -> String {
        match self.args.mode {
            Mode::Controller => "csi-controller".to_owned(),
            Mode::Node | Mode::All => self.node_name(),
        }
    }

    fn registration_socket(&self) -> Option<PathBuf> {
        let dir = self.args.registration_dir.as_ref()?;
        Some(dir.join(format!("{}-reg.sock", self.args.driver_name)))
    }

    fn disk(&self) -> anyhow::Result<Option<Arc<dyn Disk>>> {
        let Some(NodePlan { root, volumes, .. }) = &self.node else { return Ok(None) };
        let backend = match self.args.backend {
            BackendChoice::Loop => Some(Backend::Loop),
            BackendChoice::Directory => Some(Backend::Directory),
            // Without the files of the cloud there is no content for a device.
            BackendChoice::Auto => volumes.is_none().then_some(Backend::Directory),
        };
        let volumes = &volumes.clone().unwrap_or_else(|| root.join(".mooring").join("volumes"));
        let disk = csi_disk::open(backend, &self.args.run, &self.node_name(), root, volumes)?;
        match (disk.backend(), csi_disk::capability().loop_backend) {
            (Backend::Directory, Err(why)) if backend.is_none() => {
                eprintln!("csi-mock: disks are directories, without block devices, mkfs or mounts, because: {why}");
            }
            (backend, _) => eprintln!("csi-mock: disks are of the {backend} backend"),
        }
        Ok(Some(disk))
    }

    fn controller(&self, ec2: substrate::HttpService) -> ControllerConfig {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let authority = self.ec2.split_once("://").map_or(&*self.ec2, |(_, rest)| rest);
        let given = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
        let credentials = given.map_or_else(Credentials::default, |(access_key_id, secret_access_key)| Credentials {
            access_key_id,
            secret_access_key,
        });
        ControllerConfig {
            ec2_host: authority.split('/').next().unwrap_or(authority).to_owned(),
            region: self
                .args
                .region
                .clone()
                .or_else(|| variable("AWS_REGION"))
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| "us-east-1".to_owned()),
            credentials,
            driver_name: self.args.driver_name.clone(),
            extra_tags: self.args.extra_tags.iter().cloned().collect(),
            cluster_id: self.args.k8s_tag_cluster_id.clone(),
            attach_limit: (self.args.mode == Mode::All).then_some(self.args.volume_attach_limit),
            batching: self.args.batching,
            lock: self.args.lock,
            settings: self.settings.clone(),
            ..ControllerConfig::new(ec2)
        }
    }

    /// Starts all services within process `ctx`.
    async fn start(&self, ctx: &Ctx, disk: Option<Arc<dyn Disk>>, host: &Host) -> anyhow::Result<()> {
        let ec2 = dial::http(&self.ec2).map_err(|e| anyhow!("--ec2-endpoint: {e}"))?;
        let ec2 = Link::over(ctx, "ec2", ec2);
        let calls = Calls::with(ctx, self.settings.clone());
        let controls = self.args.mode != Mode::Node;
        let mut routes = identity::routes(&calls, &self.args.driver_name, controls);
        if controls {
            routes = controller::add(routes, &calls, self.controller(ec2.clone()));
        }
        if let (Some(node), Some(disk)) = (&self.node, disk.clone()) {
            let name = self.node_name();
            let id = &match &node.id {
                Some(id) => id.clone(),
                None => controller::launch(ctx, &self.controller(ec2.clone()), &name, &self.args.zone).await?,
            };
            let disk = csi_disk::faulty(ctx, disk);
            let config = NodeConfig {
                driver_name: self.args.driver_name.clone(),
                max_volumes: self.args.volume_attach_limit,
                settings: self.settings.clone(),
                ..NodeConfig::new(&name, id, &self.args.zone, disk.clone())
            };
            routes = node::add(routes, &calls, config);
            if !self.args.no_plug {
                let token = self.args.ec2_admin_token.as_ref().map(|t| t.reveal().to_owned());
                let plug = PlugConfig { token, ..PlugConfig::new(ec2, id, &name, disk) };
                ctx.spawn(plug::run(ctx.clone(), plug));
            }
        }
        let mut router = routes.into_axum_router();
        // Over TCP only if no token is required: CSI calls carry none.
        if matches!(self.endpoint, Endpoint::Unix(_)) || self.args.admin_token.is_none() {
            router = router.merge(admin::router(&calls, disk.clone()));
        }
        let service = substrate::body::from_router(router);
        let endpoint = match &self.endpoint {
            Endpoint::Unix(path) => {
                let (socket, absences) = mpsc::unbounded_channel();
                calls.listens(socket);
                serve::unix_with_absences(ctx, path, service, absences)?;
                format!("unix://{}", path.display())
            }
            Endpoint::Tcp(address) => format!("tcp://{}", serve::tcp(ctx, *address, service).await?),
        };
        // The driver must answer before kubelet learns of it.
        if let Some(socket) = self.registration_socket() {
            let driver = endpoint.strip_prefix("unix://").unwrap_or(&endpoint);
            substrate::listen::unix(ctx, &socket, registration::start(ctx, &self.args.driver_name, driver))?;
        }
        let mut ready = json!({ "endpoint": endpoint });
        if let Some(address) = self.args.admin_listen {
            let bound = serve::tcp(ctx, address, admin::service(&calls, disk, self.args.admin_token.clone())).await?;
            ready["admin"] = format!("http://{bound}").into();
        }
        host.ready(&ready)?;
        eprintln!("csi-mock: {} answers on {endpoint}", self.args.driver_name);
        Ok(())
    }

    /// Runs until it is asked to end.
    async fn serve(self, world: World, host: Host) -> anyhow::Result<()> {
        let disk = self.disk()?;
        let (failed, mut failure) = mpsc::unbounded_channel();
        let plan = self.clone();
        let process = Process::start(&world, &self.process_name(), move |ctx| {
            let (plan, disk, failed, host) = (plan.clone(), disk.clone(), failed.clone(), host.clone());
            async move {
                if let Err(error) = plan.start(&ctx, disk, &host).await {
                    // The receiver lives as long as the program.
                    let _ = failed.send(error);
                }
                std::future::pending().await
            }
        });
        let error = failure.recv().await;
        process.crash();
        Err(error.unwrap_or_else(|| anyhow!("the driver ended by itself")))
    }
}

/// Runs the `csi-mock` program with the arguments `args` (the first one is the program's name).
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // This function is not generic, so that it is not compiled into the caller's crate.
    main_of(args.into_iter().map(Into::into).collect())
}

fn main_of(args: Vec<OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(error) => return Failure::usage(error).report(NAME),
    };
    // Before any thread starts.
    if plan.args.private_mounts
        && let Err(error) = private_mounts()
    {
        return Failure::environment(format!("--private-mounts: {error}")).report(NAME);
    }
    let options = plan.args.host.clone();
    let socket = match &plan.endpoint {
        Endpoint::Unix(path) => Some(path.clone()),
        Endpoint::Tcp(_) => None,
    };
    let made: Vec<PathBuf> = [socket, plan.registration_socket()].into_iter().flatten().collect();
    let code = host::run(NAME, &options, |world, host| plan.serve(world, host));
    if code != ExitCode::from(host::exit::ENVIRONMENT) {
        for path in made {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
    code
}

#[cfg(target_os = "linux")]
fn private_mounts() -> Result<(), csi_disk::DiskError> {
    csi_disk::private_mounts()
}

#[cfg(not(target_os = "linux"))]
fn private_mounts() -> Result<(), csi_disk::DiskError> {
    Err(csi_disk::DiskError::Environment("mount namespaces exist on Linux only".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, String> {
        let line = std::iter::once("csi-mock").chain(line.split_whitespace());
        Plan::new(Args::try_parse_from(line).map_err(|e| e.to_string())?)
    }

    #[test]
    fn a_controller_needs_a_socket_only() {
        let plan = plan("--mode controller --endpoint unix:///x.sock --ec2-endpoint http://127.0.0.1:1").unwrap();
        assert!(plan.node.is_none());
        assert_eq!(plan.process_name(), "csi-controller");
    }

    #[test]
    fn a_wrong_argument_is_named() {
        for (line, named) in [
            ("--mode node --endpoint unix:///x", "--node-id"),
            ("--mode node --endpoint unix:///x --node-id i-1", "--root"),
            ("--mode node --endpoint unix:///x --node-id i-1 --root /r", "--volume-dir"),
            ("--mode controller --endpoint tcp://x", "tcp://x"),
            ("--mode all --endpoint unix:///x --backend loop", "--volume-dir"),
            ("--mode all --endpoint unix:///x --capabilities LIST", "LIST"),
            ("--mode controller --endpoint unix:///x --admin-listen 0.0.0.0:1", "--admin-token"),
            ("--mode controller --endpoint unix:///x --registration-dir /d", "--registration-dir"),
            ("--mode controller --endpoint unix:///x --driver-name a/b", "domain name"),
            ("--mode controller --endpoint unix:///x --time-scale 0", "from 0.001 to 1000000"),
        ] {
            let error = plan(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn the_lock_defaults_to_that_of_the_ebs_driver() {
        let lock = |more: &str| {
            let line = format!("--mode controller --endpoint unix:///x {more}");
            plan(&line).map(|plan| plan.controller(substrate::body::from_router(axum::Router::new())).lock)
        };
        assert_eq!(lock(""), Ok(LockKey::VolumeAndNode));
        assert_eq!(lock("--lock volume"), Ok(LockKey::Volume));
        assert!(lock("--lock node").unwrap_err().contains("volume-and-node"));
    }

    #[test]
    fn the_help_shows_an_example() {
        let help = Args::try_parse_from(["csi-mock", "--help"]).unwrap_err().to_string();
        assert!(help.contains("csi-mock --mode controller --endpoint"));
    }
}
