//! kube-apiserver as envtest starts it.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::danger::ClientCertVerifier;
use substrate::body::HttpService;
use substrate::host::Stop;
use substrate::world::Options as WorldOptions;
use substrate::{Ctx, Process, World, listen};

use super::backend::Backend;
use super::flags::{self, Line, Style};
use super::options::{Options, Serving};
use super::{Beside, help, klog};
use crate::serve::clients;
use crate::state::{Limits, NamespaceUpkeep};
use crate::tls::{self, Authority};
use crate::{Apiserver, Config, Rbac, dial, kubeconfig, x509};

pub(super) const TABLE: &str = include_str!("kube_apiserver.txt");
/// Version of the tables.
const VERSION: &str = "v1.36.2";
/// Environment variable that selects the controllers beside the API server.
const MODE: &str = "MOORING_ENVTEST";
/// Time for which watches gather events, for each watcher that received the same event.
const GATHER: Duration = Duration::from_micros(10);

const OWN: &[(&str, &str)] = &[
    ("advertise-address", "Address of the endpoint of the service kubernetes"),
    ("allow-privileged", "Allow privileged containers; false by default"),
    ("anonymous-auth", "Take requests without credentials for system:anonymous; true by default"),
    ("api-audiences", "Audiences of the API server; the issuers by default"),
    ("audit-log-path", "File for requests, as JSON lines; - is standard output"),
    ("audit-policy-file", "Policy that says which requests are logged"),
    ("authorization-mode", "RBAC, or AlwaysAllow, which is the default"),
    ("bind-address", "Address to listen on; 0.0.0.0 by default"),
    ("cert-dir", "Directory of apiserver.crt and apiserver.key, which are made when missing"),
    ("client-ca-file", "Authorities whose client certificates are users: common name, organizations as groups"),
    ("disable-admission-plugins", "Admission plugins to switch off: ServiceAccount"),
    ("enable-admission-plugins", "Admission plugins to switch on: all default ones are"),
    ("etcd-compaction-interval", "How often the history is compacted; 5m by default"),
    ("etcd-servers", "Address of Mooring's etcd, which keeps the state"),
    ("event-ttl", "How long Events live; 1h by default"),
    ("external-hostname", "Host name that requests may be for, beside those of the serving certificate"),
    ("secure-port", "Port to listen on with TLS; 6443 by default"),
    ("service-account-issuer", "Issuer of the tokens of service accounts; may be repeated"),
    ("service-account-key-file", "Keys that verify these tokens; may be repeated"),
    ("service-account-signing-key-file", "Private key that signs these tokens"),
    ("service-cluster-ip-range", "Range of the addresses of services, IPv4; 10.0.0.0/24 by default"),
    ("tls-cert-file", "Serving certificate; apiserver.crt in --cert-dir by default"),
    ("tls-private-key-file", "Key of the serving certificate"),
    ("token-auth-file", "Bearer tokens of users, as CSV: token, name, uid, groups"),
];

const HEAD: &str = "Mooring's API server with the command line of kube-apiserver, for envtest.\n\n\
    Nothing runs beside it by default, as with a kube-apiserver alone. MOORING_ENVTEST=controllers adds the\n\
    deletion of namespaces and of owned objects, MOORING_ENVTEST=cluster nodes, volumes and all control loops.\n\n\
    Usage:\n  kube-apiserver [flags]";

const EXAMPLE: &str = "  export KUBEBUILDER_ASSETS=$(mooring envtest)\n  go test ./...";

/// Programs beside the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing, as with a kube-apiserver alone.
    Bare,
    /// Deletion of namespaces, and of objects whose owners are gone.
    Controllers,
    /// Nodes, volumes and all control loops.
    Cluster,
}

impl Mode {
    /// Parses `MOORING_ENVTEST`.
    ///
    /// # Errors
    /// An unknown word.
    pub fn of(word: Option<&str>) -> Result<Self, String> {
        match word {
            None | Some("" | "bare") => Ok(Self::Bare),
            Some("controllers") => Ok(Self::Controllers),
            Some("cluster") => Ok(Self::Cluster),
            Some(other) => Err(format!("{MODE}={other}: must be bare, controllers or cluster")),
        }
    }
}

/// Listener and client authentication of a cluster, as the command line of kube-apiserver describes them.
pub struct Front {
    /// The bound listener.
    pub listener: TcpListener,
    /// The serving certificate.
    pub tls: Arc<rustls::ServerConfig>,
    /// Configuration of the API server, without the additions of a cluster.
    pub config: Config,
    /// Certificates of client CAs, PEM.
    pub client_ca: Option<String>,
    /// Host names that requests may be for.
    pub hosts: Vec<String>,
    /// Seed of this start: after a restart, a cluster must not give out the same uids again.
    pub seed: u64,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Front {
    /// Wraps the API server in the layers of this listener.
    pub fn layered(&self, ctx: &Ctx, service: HttpService) -> HttpService {
        let service = clients::verify(ctx, service, self.verifier.clone());
        crate::serve::outermost(ctx, service, &self.hosts)
    }
}

pub(super) fn main(args: &[String], beside: Option<Beside>) -> ExitCode {
    let usage = |why: &str| {
        eprintln!("Error: {why}");
        ExitCode::FAILURE
    };
    let table = flags::table(TABLE);
    let line = match Line::read(&table, Style::Posix, args) {
        Ok(line) => line,
        Err(why) => return usage(&why),
    };
    if line.help {
        print!("{}", help::text(HEAD, OWN, &table, EXAMPLE));
        return ExitCode::SUCCESS;
    }
    match line.version.as_deref() {
        Some(version) if is_of_release(version) => {}
        Some(version) if version.starts_with('v') => {
            let why = format!("version {version:?} must match major/minor/patch of default version {VERSION:?}");
            return usage(&format!("invalid argument {version:?} for \"--version\" flag: {why}"));
        }
        Some(version) if flags::truth(version) != Some(false) => {
            println!("Kubernetes {VERSION}");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if !line.rest.is_empty() {
        let quoted: Vec<String> = line.rest.iter().map(|arg| format!("{arg:?}")).collect();
        return usage(&format!("\"kube-apiserver\" does not take any arguments, got [{}]", quoted.join(" ")));
    }
    match serve(&line, &table, beside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            klog::failed(&why);
            ExitCode::FAILURE
        }
    }
}

/// Returns true for the version of the tables, optionally with a pre-release or build.
fn is_of_release(version: &str) -> bool {
    version.strip_prefix(VERSION).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '+']))
}

fn serve(line: &Line, table: &[flags::Flag], beside: Option<Beside>) -> Result<(), String> {
    let mode = std::env::var_os(MODE).map(|word| word.to_string_lossy().into_owned());
    let mode = Mode::of(mode.as_deref())?;
    let options = Options::of(line)?;
    let mut ignored: Vec<String> = line.ignored(table).iter().map(|name| format!("--{name}")).collect();
    ignored.extend(options.ignored.iter().cloned());
    if !ignored.is_empty() {
        klog::log_line('W', &format!("flags that are taken and have no effect here: {}", ignored.join(", ")));
    }
    let front = front(&options, mode)?;
    let elsewhere = "use the folder that `mooring envtest` prints";
    match (mode, beside) {
        (Mode::Cluster, None) => Err(format!("{MODE}=cluster: this program has no cluster; {elsewhere}")),
        (Mode::Cluster, Some(beside)) => {
            klog::log_line(
                'W',
                &format!("{MODE}=cluster: its state is empty at each start; --etcd-servers is not used"),
            );
            (beside.cluster)(front)
        }
        (Mode::Controllers, None) => {
            klog::log_line('W', &format!("{MODE}=controllers: this program deletes no owned objects; {elsewhere}"));
            alone(&options, front, None)
        }
        (Mode::Controllers, Some(beside)) => alone(&options, front, Some(beside.controllers)),
        (Mode::Bare, _) => alone(&options, front, None),
    }
}

/// Binds the listener and reads the certificates, in upstream's order.
fn front(options: &Options, mode: Mode) -> Result<Front, String> {
    let advertised = advertised(options);
    let (certificate, key) = serving(&options.serving, options, advertised)?;
    let listener = TcpListener::bind(options.listen).map_err(|error| {
        let why = klog::bind_error(options.listen, &error);
        format!("failed to create listener: failed to listen on {}: {why}", options.listen)
    })?;
    listener.set_nonblocking(true).map_err(|error| format!("failed to create listener: {error}"))?;
    let client_ca = match &options.client_ca_file {
        None => None,
        Some(path) => Some(
            std::fs::read_to_string(path)
                .map_err(|error| format!("unable to load client CA file: {}", klog::open_error(path, &error)))?,
        ),
    };
    let provided = tls::provided(&certificate, &key, client_ca.as_deref())?;
    let audit = options.audit_log_path.as_deref();
    let audit = audit.map(|path| crate::cli::audit(path, options.audit_policy_file.as_deref()));
    let (mut secret, mut seed) = ([0; 16], [0; 8]);
    let random = SystemRandom::new();
    let drawn = random.fill(&mut secret).and_then(|()| random.fill(&mut seed));
    drawn.map_err(|_| "the system has no randomness".to_owned())?;
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = Config {
        service_accounts: options.service_accounts,
        dial: Some(dial::webhooks()),
        nodes: Some(dial::nodes()),
        rbac: Some(Rbac {
            anonymous: options.anonymous,
            roles: options.roles,
            trusts_components: mode != Mode::Bare,
            tokens: options.tokens.clone(),
            // The token is random and never printed.
            ..Rbac::new(secret)
        }),
        default_roles: true,
        track_managers: true,
        gather: GATHER,
        limits: Limits {
            folds: true,
            compaction: options.compaction,
            event_ttl: options.event_ttl,
            ..Limits::default()
        },
        audit: audit.transpose().map_err(|error| error.to_string())?,
        token_keys: options.token_keys.clone(),
        version: Some(options.version.clone().unwrap_or_else(|| VERSION.to_owned())),
        namespaces: match mode {
            Mode::Bare => NamespaceUpkeep::Nothing,
            Mode::Controllers => NamespaceUpkeep::Deletion,
            Mode::Cluster => NamespaceUpkeep::Whole,
        },
        service_range: options.range,
        advertised,
        issuer: options.issuer.clone(),
        forbids_privileged: !options.privileged,
        // A cluster publishes it for its pods: clients accept the certificate as its own CA.
        root_ca: Some(String::from_utf8_lossy(&certificate).into_owned()),
        ..Config::default()
    };
    let mut hosts = x509::certificate_names(&provided.certificate);
    hosts.extend(["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
    hosts.extend(options.external_hostname.clone());
    let seed = u64::from_le_bytes(seed);
    Ok(Front { listener, tls: provided.server, config, client_ca, hosts, seed, verifier: provided.clients })
}

/// Serves without a cluster, and runs `controllers` beside it, if given.
fn alone(options: &Options, front: Front, controllers: Option<fn(&World, HttpService)>) -> Result<(), String> {
    let (backend, saved) = Backend::connect(&options.etcd_servers)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let done = runtime.block_on(async {
        // The handlers come first: without them a signal would end the process without a clean shutdown.
        let mut stop = Stop::install().map_err(|error| format!("cannot install the signal handlers: {error}"))?;
        let world = World::live(WorldOptions { seed: front.seed, watchdog: None, ..WorldOptions::default() });
        let process = Process::start(&world, "kube-apiserver", |_| std::future::pending());
        let ctx = process.ctx().ok_or_else(|| "the process does not start".to_owned())?;
        let apiserver = Apiserver::new(world.seed(), front.config.clone());
        apiserver.restore(&ctx, saved.revision, saved.objects, backend)?;
        let inner = apiserver.start(&ctx);
        let service = front.layered(&ctx, inner.clone());
        if let Some(ca) = &front.client_ca {
            apiserver.trust(&ctx, ca);
        }
        let listener = front.listener.try_clone().and_then(tokio::net::TcpListener::from_std);
        let listener = listener.map_err(|error| format!("failed to create listener: {error}"))?;
        let accepting = listen::tcp(ctx.clone(), listener, service, Some(front.tls.clone()));
        ctx.spawn(accepting);
        ctx.spawn(apiserver.clone().pack_history(ctx.clone()));
        if let Some(start) = controllers {
            start(&world, inner);
        }
        klog::log_line('I', &format!("Serving securely on {}", options.listen));
        stop.wait().await;
        // Clients receive the rest of their answers.
        apiserver.end_watches();
        listen::farewell(&ctx).await;
        Ok(())
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

/// Returns the address at which pods reach the server: that of the command line, of the listener, or of this machine.
fn advertised(options: &Options) -> Option<SocketAddr> {
    let usable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    let of_machine = || {
        // Connecting a UDP socket sends no packet; it chooses the address.
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("192.0.2.1:9").ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    let ip = options.advertise.or_else(|| Some(options.listen.ip()).filter(usable)).or_else(of_machine);
    ip.filter(usable).map(|ip| SocketAddr::new(ip, options.listen.port()))
}

/// Reads the serving certificate and its key, or creates them.
fn serving(serving: &Serving, options: &Options, advertised: Option<SocketAddr>) -> Result<(Vec<u8>, Vec<u8>), String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| klog::open_error(path, &error));
    if serving.is_made {
        let readable = |path: &Path| std::fs::File::open(path).is_ok();
        match (readable(&serving.certificate), readable(&serving.key)) {
            (true, true) => {}
            (false, false) => make(serving, options, advertised)
                .map_err(|why| format!("error creating self-signed certificates: {why}"))?,
            (certificate, _) => {
                let missing = if certificate { &serving.key } else { &serving.certificate };
                return Err(format!(
                    "error creating self-signed certificates: error reading {}, certificate and key must be supplied \
                     as a pair",
                    missing.display()
                ));
            }
        }
    }
    Ok((read(&serving.certificate)?, read(&serving.key)?))
}

fn make(serving: &Serving, options: &Options, advertised: Option<SocketAddr>) -> Result<(), String> {
    let mut names = vec![options.range.own_address()];
    names.extend(advertised.map(|address| address.ip().to_string()));
    names.extend(Some(options.listen.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()));
    names.extend(options.external_hostname.clone());
    let authority = Authority::new().map_err(|error| error.to_string())?;
    let made = authority.server(&names).map_err(|error| error.to_string())?;
    let directory = serving.certificate.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for (path, text) in [(&serving.key, &made.key), (&serving.certificate, &made.certificate)] {
        kubeconfig::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_one_of_three() {
        assert_eq!(Mode::of(None), Ok(Mode::Bare));
        assert_eq!(Mode::of(Some("bare")), Ok(Mode::Bare));
        assert_eq!(Mode::of(Some("controllers")), Ok(Mode::Controllers));
        assert_eq!(Mode::of(Some("cluster")), Ok(Mode::Cluster));
        let message = Mode::of(Some("Cluster")).unwrap_err();
        assert_eq!(message, "MOORING_ENVTEST=Cluster: must be bare, controllers or cluster");
    }

    #[test]
    fn the_reported_version_is_of_this_release() {
        assert!(["v1.36.2", "v1.36.2-custom", "v1.36.2+a"].into_iter().all(is_of_release));
        assert!(!["v1.36.20", "v1.36.1", "v1.36"].into_iter().any(is_of_release));
    }

    #[test]
    fn every_flag_with_an_effect_has_a_line_in_the_help_and_no_other() {
        let table = flags::table(TABLE);
        let used: Vec<&str> = table.iter().filter(|flag| flag.is_used).map(|flag| flag.name).collect();
        let reported: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
        assert_eq!(used, reported);
        let help = help::text(HEAD, OWN, &table, EXAMPLE);
        // envtest searches for it at the beginning of a line.
        assert!(!help.contains("--insecure-port") && help.contains("\n      --cert-dir string"));
    }
}
