//! `mooring up`: a live cluster that serves until it is interrupted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fake_apiserver::keys::PublicKey;
use mock_ec2::LatencyProfile;
use substrate::World;
use substrate::clock::TimeScale;
use substrate::host::{self, Stop};
use substrate::world::Options;

use super::announce::{self, Access};
use crate::cluster::spec::node_name;
use crate::cluster::{Cluster, ClusterSpec, Endpoints, NodeSpec, Secret, live};
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style};
use crate::runner::defaults;

/// Arguments of `mooring up`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many nodes; they are called node-a, node-b, … and are all in the first zone, so that volumes can move.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=500))]
    nodes: u16,
    /// The name of this Mooring; two of them side by side need two names.
    #[arg(long, value_name = "RUN", default_value = "default")]
    name: String,
    /// Where the cloud listens.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4566")]
    ec2_listen: SocketAddr,
    /// Where the metadata service of the first instance listens; each further one has the next port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:1338")]
    imds_listen: SocketAddr,
    /// Where the API server listens with TLS.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    kubernetes_listen: SocketAddr,
    /// Where the API server listens without TLS; a free port when absent.
    #[arg(long, value_name = "ADDR:PORT")]
    http_listen: Option<SocketAddr>,
    /// Written in one step once requests are answered.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Where the kubeconfig goes; ~/.mooring/RUN/kubeconfig when absent.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Components that are left to somebody else, by their upstream names, separated by commas; kube-controller-manager
    /// means all of its controllers.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    without: Vec<String>,
    /// Where the controller service of a driver answers that replaces ours (with --without csi-mock). On the nodes it is
    /// found by its registration sockets, in the directories that the ready file names.
    #[arg(long, value_name = "unix:///PATH | tcp://HOST:PORT", value_parser = csi_endpoint)]
    csi: Option<String>,
    /// Public key, certificate or RSA private key (PEM) that verifies tokens of service accounts which a
    /// kube-controller-manager of yours signs; may be repeated.
    #[arg(long, value_name = "PATH")]
    service_account_key_file: Vec<PathBuf>,
    /// The latency profile of the cloud: instant, aws or aws-recent.
    #[arg(long, value_name = "PROFILE", default_value = "instant")]
    latency: LatencyProfile,
    /// The backend of the disks; what works here when absent.
    #[arg(long, value_name = "BACKEND")]
    backend: Option<live::BackendChoice>,
    /// Divides the durations that loops wait and mocks take.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = host::time_scale, allow_negative_numbers = true)]
    time_scale: f64,
    /// The seed of all randomness.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The cloud's region.
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// The cloud's account, twelve digits.
    #[arg(long, value_name = "ID", default_value = "000000000000", value_parser = account)]
    account_id: String,
    /// The availability zones, separated by commas; REGIONa, REGIONb and REGIONc when absent.
    #[arg(long, value_name = "ZONES", value_delimiter = ',')]
    zones: Vec<String>,
    /// The nodes take turns through the zones instead.
    #[arg(long)]
    spread_zones: bool,
    /// A host name that requests may carry beside localhost and IP addresses; may be repeated.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Bearer token that admin requests to the cloud must carry, and off loopback those to the API server (a random
    /// one there when absent; the kubeconfig has it).
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    token: Option<Secret>,
}

fn account(text: &str) -> Result<String, String> {
    match text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("must be twelve digits".to_owned()),
    }
}

fn csi_endpoint(text: &str) -> Result<String, String> {
    substrate::dial::grpc(text).map(|_| text.to_owned()).map_err(|e| e.to_string())
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    match serve(args, format) {
        Ok(code) => code,
        Err((exit, failure)) => {
            output::finish(format, &Envelope::failed("up", exit, failure), "", Style::stderr()).into()
        }
    }
}

type Refusal = (Exit, Failure);

fn usage(message: impl Into<String>) -> Refusal {
    (Exit::Usage, Failure::new("usage", message))
}

fn environment(message: impl Into<String>) -> Refusal {
    (
        Exit::Environment,
        Failure::new("environment", message).action("run `mooring doctor` to see what this machine can do"),
    )
}

fn spec(args: &Args) -> Result<ClusterSpec, Refusal> {
    let without = controllers::left_out(args.without.iter().map(String::as_str));
    let without = without.map_err(|why| usage(format!("--without {why}")))?;
    if args.csi.is_some() && !without.contains("csi-mock") {
        return Err(usage("--csi: our own driver answers; leave it out with --without csi-mock"));
    }
    let zones = if args.zones.is_empty() {
        ["a", "b", "c"].map(|z| format!("{}{z}", args.region)).to_vec()
    } else {
        args.zones.clone()
    };
    if let Some(zone) = zones.iter().find(|zone| !mock_ec2::regions::lies_in(zone, &args.region)) {
        return Err(usage(format!("--zones: `{zone}` does not lie in --region {}", args.region)));
    }
    for (flag, address) in [("--ec2-listen", args.ec2_listen), ("--imds-listen", args.imds_listen)] {
        if !address.ip().is_loopback() && args.token.is_none() {
            return Err(usage(format!("{flag} {address}: other machines can reach it, so --token is needed")));
        }
    }
    if args.http_listen.is_some_and(|a| !a.ip().is_loopback()) {
        return Err(usage("--http-listen: plain HTTP is served on loopback only"));
    }
    let token_keys = PublicKey::read_all(&args.service_account_key_file)
        .map_err(|why| environment(format!("--service-account-key-file {why}")))?;
    let nodes = (0..usize::from(args.nodes))
        .map(|i| NodeSpec {
            name: node_name(i),
            zone: zones[if args.spread_zones { i % zones.len() } else { 0 }].clone(),
            instance_type: "m5.large".to_owned(),
        })
        .collect();
    Ok(ClusterSpec {
        nodes,
        region: args.region.clone(),
        account_id: args.account_id.clone(),
        zones,
        latency: args.latency,
        without,
        admin_token: args.token.clone(),
        token_keys,
        ..ClusterSpec::default()
    })
}

/// What the API server with TLS asks for: nothing on loopback, else the token.
fn kubernetes_token(args: &Args) -> Result<Option<Secret>, Refusal> {
    if args.kubernetes_listen.ip().is_loopback() {
        return Ok(None);
    }
    let random = || fake_apiserver::tls::random_token().map(Secret::new).map_err(|e| environment(e.to_string()));
    args.token.clone().map_or_else(random, Ok).map(Some)
}

fn serve(args: &Args, format: Format) -> Result<ExitCode, Refusal> {
    let spec = spec(args)?;
    if args.name.is_empty() || !args.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(usage(format!("--name {:?}: letters, digits and - only", args.name)));
    }
    let home = home(&args.name)?;
    let _lock = lock(&home, &args.name)?;
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let site = live::Site::prepare(args.backend, None).map_err(|e| environment(e.to_string()))?;
    let runtime = live::runtime().map_err(|e| environment(e.to_string()))?;
    let code = runtime.block_on(async {
        // Before anybody can be told that the cluster is ready.
        let mut stop = Stop::install().map_err(|e| environment(format!("signals cannot be waited for: {e}")))?;
        let options =
            Options { seed: args.seed, scale: TimeScale::new(args.time_scale), watchdog: None, ..Options::default() };
        let world = World::live(options);
        world.trace().keep(50_000);
        let addresses = live::Addresses {
            ec2: Some(args.ec2_listen),
            imds: Some(args.imds_listen),
            kubernetes: Some(args.kubernetes_listen),
            kubernetes_http: args.http_listen,
            allowed_hosts: args.allow_host.clone(),
            kubernetes_token: kubernetes_token(args)?,
            csi: args.csi.clone(),
        };
        let cluster = Cluster::live(&world, spec, &site, &addresses).map_err(|e| environment(e.to_string()))?;
        let endpoints = cluster.endpoints().cloned().ok_or_else(|| environment("the cluster has no endpoints"))?;
        defaults::apply(cluster.objects()).await.map_err(|e| environment(e.to_string()))?;
        let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| home.join("kubeconfig"));
        // Whoever reads it from the environment or the ready file may stand elsewhere.
        let kubeconfig = std::path::absolute(kubeconfig).map_err(|e| environment(format!("--kubeconfig: {e}")))?;
        announce(args, &endpoints, &kubeconfig, &site, &progress, format)?;
        let say = {
            let progress = progress.clone();
            move |line: &str| progress.note(line)
        };
        let watch = async {
            cluster.watch_driver(say).await;
            std::future::pending::<()>().await;
        };
        let code = tokio::select! { biased;
            code = stop.wait() => code,
            () = watch => ExitCode::SUCCESS,
        };
        progress.note("taking everything down");
        cluster.stop().await;
        Ok(code)
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    code
}

/// Writes kubeconfig and ready file, and says how to use them.
fn announce(
    args: &Args,
    endpoints: &Endpoints,
    kubeconfig: &Path,
    site: &live::Site,
    progress: &Progress,
    format: Format,
) -> Result<(), Refusal> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| environment(format!("{path}: {e}"))
    };
    let access = Access { endpoints, kubeconfig, region: &args.region };
    access.write().map_err(|(path, e)| failed(&path)(e))?;
    let ready = access.ready();
    if let Some(path) = &args.ready_file {
        substrate::ready::write(path, &ready).map_err(failed(path))?;
    }
    progress.note(&site.describe());
    if format == Format::Json {
        println!("{}", Envelope::passed("up", ready).line());
    } else {
        println!("{}", announce::text(&access, "ready"));
    }
    Ok(())
}

fn home(name: &str) -> Result<PathBuf, Refusal> {
    let home = std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| environment("HOME is not set"))?;
    let directory = home.join(".mooring").join(name);
    std::fs::create_dir_all(&directory).map_err(|e| environment(format!("{}: {e}", directory.display())))?;
    Ok(directory)
}

/// Holds the run's name for as long as the process lives; the kernel lets go of it even after `kill -9`.
fn lock(home: &Path, name: &str) -> Result<std::fs::File, Refusal> {
    let path = home.join("lock");
    let file = std::fs::File::create(&path).map_err(|e| environment(format!("{}: {e}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(environment(format!("a Mooring called {name} is up already; stop it, or use another --name"))),
    }
}
