//! `mooring up`: a live cluster that serves until it is interrupted.

mod detach;
mod event_printer;
pub(super) mod kubeconfig;
mod ports;
mod program;

pub(super) use program::named;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::efs::{DEFAULT_FILE_SYSTEM, FileSystemSpec, is_file_system};
use fake_apiserver::AdmissionPlugin;
use fake_apiserver::keys::PublicKey;
use jiff::Timestamp;
use mock_ec2::LatencyProfile;
use serde_json::{Value, json};
use substrate::clock::TimeScale;
use substrate::host::{self, Signals, Stop};
use substrate::world::Options;
use substrate::{Level, World};

use super::announce::{self, Access};
use super::day::state_directory::{self, Held, Record, StateDirectory};
use super::refusal::{Refusal, lacking, show, usage};
use crate::cluster::defaults;
use crate::cluster::{Checks, Cluster, ClusterSpec, Endpoints, NodeSpec, Secret, live};
use crate::containers::{self, Containers};
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style};
use crate::scenario;
use crate::spec::cluster::node_name;

/// Arguments of `mooring up`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of nodes. They are called node-a, node-b, … and are all in the first zone, so that volumes can move.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=500))]
    nodes: u16,
    /// Begin in the state of this scenario, as `mooring import` writes it: its nodes, zones, volumes and objects. Its
    /// faults and steps are not run.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["nodes", "zones", "spread_zones", "region"])]
    begin: Option<PathBuf>,
    /// The name of this Mooring. Two of them side by side only need different names.
    #[arg(long, value_name = "NAME", default_value = state_directory::DEFAULT, value_parser = state_directory::name)]
    name: String,
    /// Start in the background, and return once it is ready; `mooring down` ends it.
    #[arg(long, short)]
    detach: bool,
    /// Print nothing about events in the cluster.
    #[arg(long, short)]
    quiet: bool,
    /// Listen address of the cloud. Default: 127.0.0.1:4566, or the next free port if another Mooring uses it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    ec2_listen: Option<SocketAddr>,
    /// Listen address of the first instance's metadata service; each further one has the next port. Default: ports from
    /// 127.0.0.1:1338 on, or from the next free port on if another Mooring uses these.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    imds_listen: Option<SocketAddr>,
    /// Listen address of the API server with TLS. Default: 127.0.0.1:6443, or the next free port if another Mooring
    /// uses it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    kubernetes_listen: Option<SocketAddr>,
    /// Listen address of the API server without TLS. Default: a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    http_listen: Option<SocketAddr>,
    /// Listen address of the admin API of the whole cluster, on loopback. Default: a free port. The ready file names
    /// it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    admin_listen: Option<SocketAddr>,
    /// The file that is written atomically once requests are answered, and removed when they no longer are.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Also put the context mooring-NAME into this kubeconfig. `mooring down` removes it again.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Put the context mooring-NAME into the kubeconfig that kubectl reads, $KUBECONFIG or ~/.kube/config, and make it
    /// the current one. `mooring down` removes it again.
    #[arg(long)]
    merge: bool,
    /// Check the invariants all the time; `mooring check` prints the results.
    #[arg(long)]
    check: bool,
    /// Write the trace to this file as JSON lines, with every message of every link; - is standard output.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// Components to leave out, for your own, by their upstream names, separated by commas; kube-controller-manager
    /// means all of its controllers.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    without: Vec<String>,
    /// The controller service of your driver, which replaces ours (with --without csi-mock). On the nodes it is found
    /// by its registration sockets, in the directories that the ready file names.
    #[arg(long, value_name = "unix:///PATH | tcp://HOST:PORT", value_parser = csi_endpoint)]
    csi: Option<String>,
    /// Public key, certificate or RSA private key (PEM) that verifies service account tokens signed by your
    /// kube-controller-manager; may be repeated.
    #[arg(long, value_name = "PATH")]
    service_account_key_file: Vec<PathBuf>,
    /// Also start the program behind `--`, with KUBECONFIG, AWS_* and CSI_ENDPOINT of its own. Like a container, it is
    /// restarted when it ends. `mooring logs` has its output.
    #[arg(long, requires = "command")]
    run: bool,
    /// The name of this program for `mooring logs`, `mooring status` and faults. Default: that of its file.
    #[arg(long, value_name = "NAME", requires = "run")]
    run_as: Option<String>,
    /// Components that this program replaces, by their upstream names, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "run")]
    replaces: Vec<String>,
    /// The program of --run and its arguments; $(NAME) stands for a variable.
    #[arg(last = true, value_name = "CMD", requires = "run")]
    command: Vec<String>,
    /// Admission plugins to disable, by upstream's names. ServiceAccount: pods may name accounts that do not exist, and
    /// get no volume with a token, for suites that count volumes
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// Also run the EFS driver, efs.csi.aws.com, with these file systems, separated by commas, and a StorageClass efs of
    /// the first one.
    #[arg(long, value_name = "FS_IDS", value_delimiter = ',', num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_FILE_SYSTEM, value_parser = file_system)]
    efs: Option<Vec<String>>,
    /// Kind of the containers. `process` runs the command of each container as a process of this machine, with its
    /// volumes at their paths: `kubectl logs`, `exec` and `attach` work with it. Images are not used, so the programs
    /// are those of this machine, and so is the network. A container without a command stays modelled. Needs root on
    /// Linux.
    #[arg(long, value_name = "KIND", default_value = "modelled")]
    containers: ContainerKind,
    /// Let the processes of containers be root, and mount the hostPath volumes of their pods. Default: they are nobody
    /// (65534), or the user that the pod names; the volumes belong to the pod's fsGroup, or to the group 65534.
    #[arg(long)]
    containers_as_root: bool,
    /// The latency profile of the cloud: instant, aws or aws-recent.
    #[arg(long, value_name = "PROFILE", default_value = "instant")]
    latency: LatencyProfile,
    /// The backend of the disks. Default: the best that works here.
    #[arg(long, value_name = "BACKEND")]
    backend: Option<live::BackendChoice>,
    /// Divides the durations of control loops and mocks.
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
    /// The availability zones, separated by commas. Default: REGIONa, REGIONb and REGIONc.
    #[arg(long, value_name = "ZONES", value_delimiter = ',')]
    zones: Vec<String>,
    /// Spread the nodes over the zones in turn.
    #[arg(long)]
    spread_zones: bool,
    /// A host name that requests may carry beside localhost and IP addresses; may be repeated.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Bearer token for admin requests to the cloud and, off loopback, for requests to the API server. Default there: a
    /// random one, which the kubeconfig contains.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    token: Option<Secret>,
}

/// Kind of containers on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ContainerKind {
    /// Workloads that write records to their volumes.
    Modelled,
    /// Processes of this machine.
    Process,
}

/// Returns the kind of containers.
fn kind_of_containers(args: &Args) -> Result<Containers, Refusal> {
    match args.containers {
        ContainerKind::Modelled if args.containers_as_root => {
            Err(usage("--containers-as-root: only with --containers process"))
        }
        ContainerKind::Modelled => Ok(Containers::Modelled),
        ContainerKind::Process => match containers::obstacle() {
            Some(why) => Err(environment(format!("--containers process: {why}"))),
            None => Ok(Containers::Process { as_root: args.containers_as_root }),
        },
    }
}

fn account(text: &str) -> Result<String, String> {
    match text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("must be twelve digits".to_owned()),
    }
}

fn file_system(text: &str) -> Result<String, String> {
    match is_file_system(text) {
        true => Ok(text.to_owned()),
        false => Err("must be fs- and 8 to 40 lower-case hex digits".to_owned()),
    }
}

/// Returns the file systems of the EFS driver, if it shall run.
fn file_systems(args: &Args) -> Option<Vec<FileSystemSpec>> {
    let spec = |id: &String| FileSystemSpec { id: id.clone(), directories: Vec::new() };
    args.efs.as_ref().map(|ids| ids.iter().map(spec).collect())
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

fn environment(message: impl Into<String>) -> Refusal {
    (
        Exit::Environment,
        Failure::new("environment", message).action("run `mooring doctor` to see what this machine can do"),
    )
}

fn spec(args: &Args) -> Result<ClusterSpec, Refusal> {
    let without = controllers::left_out(args.without.iter().map(String::as_str));
    let mut without = without.map_err(|why| usage(format!("--without {why}")))?;
    let program = program::of(args)?;
    without.extend(program.iter().flat_map(|program| program.replaces.clone()));
    if args.csi.is_some() && !without.contains("csi-mock") {
        return Err(usage("--csi: our own driver answers; leave it out with --without csi-mock"));
    }
    if args.efs.is_some() && without.contains("csi-mock") {
        return Err(usage("--efs: the EFS driver runs beside csi-mock, which is left out"));
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
        if let Some(address) = address.filter(|address| !address.ip().is_loopback() && args.token.is_none()) {
            return Err(usage(format!("{flag} {address}: other machines can reach it, so --token is needed")));
        }
    }
    if args.admin_listen.is_some_and(|a| !a.ip().is_loopback()) {
        return Err(usage("--admin-listen: the admin API is served on loopback only"));
    }
    if args.http_listen.is_some_and(|a| !a.ip().is_loopback()) {
        return Err(usage("--http-listen: plain HTTP is served on loopback only"));
    }
    let token_keys = PublicKey::read_all(&args.service_account_key_file)
        .map_err(|why| environment(format!("--service-account-key-file {why}")))?;
    if let Some(path) = &args.begin {
        let begun = begun(path)?;
        if begun.efs.is_some() && without.contains("csi-mock") {
            return Err(usage(
                "--begin: the file has `efs`, and the EFS driver runs beside csi-mock, which is left out",
            ));
        }
        return Ok(ClusterSpec {
            without,
            latency: args.latency,
            efs: file_systems(args).or(begun.efs),
            account_id: args.account_id.clone(),
            admin_token: args.token.clone(),
            token_keys,
            service_accounts: AdmissionPlugin::service_accounts(&args.disable_admission_plugins),
            containers: kind_of_containers(args)?,
            mirrors: true,
            ..begun
        });
    }
    let nodes = (0..usize::from(args.nodes))
        .map(|i| NodeSpec {
            name: node_name(i),
            zone: zones[if args.spread_zones { i % zones.len() } else { 0 }].clone(),
            instance_type: "m5.large".to_owned(),
            instance: None,
        })
        .collect();
    let spec = ClusterSpec {
        nodes,
        region: args.region.clone(),
        account_id: args.account_id.clone(),
        zones,
        latency: args.latency,
        efs: file_systems(args),
        without,
        admin_token: args.token.clone(),
        token_keys,
        service_accounts: AdmissionPlugin::service_accounts(&args.disable_admission_plugins),
        containers: kind_of_containers(args)?,
        mirrors: true,
        ..ClusterSpec::default()
    };
    program::added(spec, program)
}

/// Reads nodes, zones, volumes and objects of the scenario at `path`.
fn begun(path: &Path) -> Result<ClusterSpec, Refusal> {
    let scenario = scenario::load_all(path).map_err(|errors| {
        show(&errors);
        usage(format!("--begin {}: a mistake in the file", path.display()))
    })?;
    if scenario.begin.is_empty() {
        let why = format!("--begin {}: the file has no `begin`; `mooring import` makes one", path.display());
        return Err(usage(why));
    }
    let spec = ClusterSpec::of_scenario(&scenario);
    Ok(ClusterSpec {
        nodes: spec.nodes,
        zones: spec.zones,
        region: spec.region,
        begin: spec.begin,
        efs: spec.efs,
        ..ClusterSpec::default()
    })
}

/// Token that the API server with TLS requires: none on loopback.
fn kubernetes_token(args: &Args) -> Result<Option<Secret>, Refusal> {
    if args.kubernetes_listen.is_none_or(|address| address.ip().is_loopback()) {
        return Ok(None);
    }
    let random = || fake_apiserver::tls::random_token().map(Secret::new).map_err(|e| environment(e.to_string()));
    args.token.clone().map_or_else(random, Ok).map(Some)
}

/// Starts it in the background.
fn background(args: &Args, format: Format) -> Result<ExitCode, Refusal> {
    let place = StateDirectory::of(&args.name)?;
    if let Some(code) = detach::start(&place)? {
        return Ok(code);
    }
    let ready = place.ready().unwrap_or_default();
    if format == Format::Json {
        say(&Envelope::passed("up", ready).line());
    } else {
        let name = place.flag();
        say(&format!(
            "{}\n\n`mooring down{name}` takes everything down. What it says goes to {}",
            announce::addresses(&ready, "ready", "In any terminal", &place.flag()),
            place.log().display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(args: &Args, format: Format) -> Result<ExitCode, Refusal> {
    let mut spec = spec(args)?;
    if args.detach && !detach::is_background() {
        return background(args, format);
    }
    // Before a directory of the cluster exists: a signal must not leave it behind.
    let signals = Signals::install().map_err(|e| environment(format!("cannot install the signal handlers: {e}")))?;
    let held = StateDirectory::of(&args.name)?.hold()?;
    spec.program_logs = Some(held.place().directory().to_owned());
    if let Some(token) = &args.token {
        held.keep_token(token)?;
    }
    // In the background only people read the output.
    let silent = format == Format::Json && !detach::is_background();
    let progress = if silent { Progress::silent() } else { Progress::stderr() };
    let site = live::Site::prepare(args.backend, None).map_err(|e| environment(e.to_string()))?;
    let mut record = Record {
        pid: std::process::id(),
        started: Timestamp::now().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        directory: site.path().to_owned(),
        ..Record::default()
    };
    held.note(&record)?;
    let runtime = live::runtime().map_err(|e| environment(e.to_string()))?;
    let code = crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::of(signals);
            let level = if args.trace.is_some() { Level::Trace } else { Level::Info };
            let scale = TimeScale::new(args.time_scale);
            let options = Options { seed: args.seed, level, scale, watchdog: None, ..Options::default() };
            let world = World::live(options);
            world.trace().keep(EVENTS);
            write_trace(args, &world)?;
            let checks = args.check.then(|| Checks::begin(&world));
            let cluster = {
                // Other Moorings of this user choose their ports after this one has bound its own.
                let _turn = turn()?;
                let begin = |addresses: &_| Cluster::live(&world, spec.clone(), &site, addresses);
                Arc::new(ports::begin(|| addresses(args), begin)?)
            };
            let endpoints = cluster.endpoints().cloned().ok_or_else(|| environment("the cluster has no endpoints"))?;
            let recorded = if args.quiet { Progress::silent() } else { progress.clone() };
            let printer = event_printer::EventPrinter::start(&world, &recorded);
            cluster.launch_programs();
            for program in cluster.programs() {
                program.first_start().await.map_err(lacking)?;
            }
            let last_lines = printer.clone();
            cluster.serve_admin(args.token.clone(), checks, move |begins| last_lines.still(begins)).map_err(lacking)?;
            defaults::apply_more(cluster.objects(), cluster.spec()).await.map_err(|e| environment(e.to_string()))?;
            progress.note(&site.describe());
            announce(args, (&held, &mut record), (&endpoints, &cluster.spec().region), format)?;
            if detach::is_background() {
                detach::leave();
            }
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
            // From here on the addresses in the ready files are not served.
            forget(args, &held);
            printer.still(true);
            progress.note("taking everything down");
            cluster.stop().await;
            if let Err(e) = world.trace().flush() {
                progress.note(&format!("warning: the trace is not complete: {e}"));
            }
            Ok(code)
        }),
    );
    runtime.shutdown_timeout(Duration::from_millis(500));
    code
}

/// Number of events kept for `mooring timeline` and `mooring collect`: more than thirty moves of volumes, in less than
/// three MB.
const EVENTS: usize = 3_000;

/// Writes the trace to the path that the user chose.
fn write_trace(args: &Args, world: &World) -> Result<(), Refusal> {
    let Some(path) = &args.trace else { return Ok(()) };
    let sink = host::sink(path).map_err(|e| lacking(format!("--trace {}: {e}", path.display())))?;
    world.trace().write_to(sink);
    Ok(())
}

/// Waits until no other Mooring of this user is choosing its ports.
fn turn() -> Result<std::fs::File, Refusal> {
    let path = state_directory::root()?.join("ports.lock");
    let failed = |e: std::io::Error| lacking(format!("{}: {e}", path.display()));
    let file = std::fs::File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Listen addresses of all servers.
fn addresses(args: &Args) -> Result<live::Addresses, Refusal> {
    Ok(live::Addresses {
        ec2: Some(ports::choose(ports::CLOUD, args.ec2_listen, 1)?),
        imds: Some(ports::choose(ports::METADATA, args.imds_listen, args.nodes)?),
        kubernetes: Some(ports::choose(ports::KUBERNETES, args.kubernetes_listen, 1)?),
        kubernetes_http: Some(ports::choose(ports::PLAIN, args.http_listen, 1)?),
        admin: Some(ports::choose(ports::ADMIN, args.admin_listen, 1)?),
        allowed_hosts: args.allow_host.clone(),
        kubernetes_token: kubernetes_token(args)?,
        csi: args.csi.clone(),
        front: None,
    })
}

/// Writes kubeconfigs, variables and ready files, and prints how to use them.
fn announce(
    args: &Args,
    (held, record): (&Held, &mut Record),
    (endpoints, region): (&Endpoints, &str),
    format: Format,
) -> Result<(), Refusal> {
    let place = held.place();
    let absolute = |flag: &str, path: &PathBuf| {
        // Absolute, because readers of the environment or the ready file may have another working directory.
        std::path::absolute(path).map_err(|e| lacking(format!("{flag}: {e}")))
    };
    let given = args.kubeconfig.as_ref().map(|path| absolute("--kubeconfig", path)).transpose()?;
    let ready_file = args.ready_file.as_ref().map(|path| absolute("--ready-file", path)).transpose()?;
    let merged = args.merge.then(kubeconfig::default_path).transpose();
    let merged = merged.map_err(|why| lacking(format!("--merge: {why}")))?;
    let merged = merged.map(|path| absolute("--merge", &path)).transpose()?;
    let main = given.clone().unwrap_or_else(|| place.kubeconfig());
    let access = Access { endpoints, kubeconfig: &main, region };
    record.ready_file.clone_from(&ready_file);
    record.kubeconfigs = given.iter().chain(&merged).cloned().collect();
    record.files = given.iter().map(|_| access.env()).collect();
    held.note(record)?;
    let token = endpoints.token.as_ref().map_or("mooring", Secret::reveal);
    let ca = &endpoints.ca_pem;
    let own = fake_apiserver::kubeconfig::render_as(&place.context(), &endpoints.kubernetes, ca, token, None);
    let written = fake_apiserver::kubeconfig::write(&place.kubeconfig(), &own);
    written.map_err(|e| lacking(format!("{}: {e}", place.kubeconfig().display())))?;
    let own: Value = serde_json::from_str(&own).unwrap_or_default();
    for (flag, path) in [("--kubeconfig", &given), ("--merge", &merged)] {
        if let Some(path) = path {
            kubeconfig::merge(path, &own).map_err(|why| lacking(format!("{flag}: {why}")))?;
        }
    }
    let ready = ready(args, &access, place);
    let written = announce::write_env(&access.env(), &announce::variables_of(&ready, place.name()));
    written.map_err(|e| lacking(format!("{}: {e}", access.env().display())))?;
    for (flag, path) in [("--ready-file ", ready_file), ("", Some(place.ready_path()))] {
        if let Some(path) = path {
            let written = substrate::ready::write(&path, &ready);
            written.map_err(|e| lacking(format!("{flag}{}: {e}", path.display())))?;
        }
    }
    if detach::is_background() {
        // The foreground command prints it.
    } else if format == Format::Json {
        say(&Envelope::passed("up", ready).line());
    } else {
        let text = announce::addresses(&ready, "ready", "In another terminal", &place.flag());
        say(&format!("{text}\n\nCtrl-C takes everything down."));
    }
    Ok(())
}

/// Prints a result. A closed pipe is ignored.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Content of the ready file.
fn ready(args: &Args, access: &Access<'_>, place: &StateDirectory) -> Value {
    let mut ready = access.ready();
    ready["name"] = json!(args.name);
    ready["pid"] = json!(std::process::id());
    ready["region"] = json!(access.region);
    ready["env"] = json!(access.env());
    ready["context"] = json!(place.context());
    if let Some(admin) = &access.endpoints.admin {
        ready["admin"] = json!(format!("{admin}/admin/v1"));
    }
    ready
}

/// Removes the ready files: clients must not connect any more.
fn forget(args: &Args, held: &Held) {
    for path in args.ready_file.iter().chain([&held.place().ready_path()]) {
        // It may have been removed already.
        let _ = std::fs::remove_file(path);
    }
}
