//! The command line of the `fake-apiserver` binary.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use substrate::admin::Secret;
use substrate::fault::Span;
use substrate::host::{self, Host, HostOptions};
use substrate::json::{Value, json};
use substrate::{Process, World, memory};

use crate::envtest::Program;
use crate::keys::PublicKey;
use crate::serve::{ADMIN, ServeConfig, Served, serve};
use crate::state::{Limits, ServiceAccounts};
use crate::tls::Authority;
use crate::{Apiserver, Audit, Config, Policy, Rbac, dial, kubeconfig};

const NAME: &str = "fake-apiserver";
/// Time for which watches gather events, for each watcher that received the same event: with a thousand watchers, ten
/// milliseconds between writes.
const GATHER: Duration = Duration::from_micros(10);

const EXAMPLE: &str = "\
Example:
  fake-apiserver --listen 127.0.0.1:6443 --kubeconfig ./kubeconfig &
  kubectl --kubeconfig ./kubeconfig get namespaces";

/// A Kubernetes API server for storage, in memory, that kubectl and controllers talk to.
#[derive(Debug, Parser)]
#[command(name = NAME, version, after_help = EXAMPLE)]
struct Args {
    /// Address of the TLS listener; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address, default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Address of a plain HTTP listener beside it
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    http_listen: Option<SocketAddr>,
    /// Path of the kubeconfig to write (readable by its owner only)
    #[arg(long, value_name = "PATH", default_value = "fake-apiserver.kubeconfig")]
    kubeconfig: PathBuf,
    /// Host name that requests may use, besides IP addresses and localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Bearer token that callers need on listeners off loopback; random by default
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    token: Option<Secret>,
    /// Authorization: allow everything, or what roles and their bindings allow
    #[arg(long, value_name = "MODE", default_value = "always-allow")]
    authorization_mode: Authorization,
    /// Path of the audit log, as JSON lines of audit.k8s.io/v1 Events; `-` is standard output
    #[arg(long, value_name = "PATH")]
    audit_log_path: Option<PathBuf>,
    /// Path of an audit.k8s.io/v1 Policy with the level of each request; default: all at level Metadata
    #[arg(long, value_name = "PATH", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Directory for ca.crt and ca.key, admin.crt and admin.key: for kube-controller-manager's signer, and for clients
    #[arg(long, value_name = "DIR")]
    pki: Option<PathBuf>,
    /// Certificates (PEM) of CAs whose client certificates are trusted, besides the server's own: the common name is
    /// the user, each organization a group
    #[arg(long, value_name = "PATH")]
    client_ca_file: Option<PathBuf>,
    /// Public key, certificate or RSA private key (PEM) that verifies service account tokens of
    /// kube-controller-manager; may be repeated
    #[arg(long, value_name = "PATH")]
    service_account_key_file: Vec<PathBuf>,
    /// Version that the server reports: 1.36, or a patch release of it
    #[arg(long, value_name = "VERSION", default_value = "1.36", value_parser = kubernetes_version)]
    kubernetes_version: String,
    /// Interval of compactions of the history, such as 5m: lists can go back at least that far; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = compaction_interval)]
    etcd_compaction_interval: Duration,
    /// Admission plugins to disable, by upstream's names. ServiceAccount: pods may name accounts that do not exist, and
    /// get no token volume
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    #[command(flatten)]
    host: HostOptions,
}

/// An admission plugin that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AdmissionPlugin {
    /// Service accounts of pods, and their token volumes
    #[value(name = "ServiceAccount")]
    ServiceAccount,
}

impl AdmissionPlugin {
    /// Returns the admission of service accounts if the `disabled` plugins are off.
    pub fn service_accounts(disabled: &[Self]) -> ServiceAccounts {
        if disabled.contains(&Self::ServiceAccount) { ServiceAccounts::Ignored } else { ServiceAccounts::Mounted }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Authorization {
    /// Everything is allowed
    AlwaysAllow,
    /// Role-based access control; the kubeconfig's user may do everything
    Rbac,
}

/// Parses a duration; zero needs no unit. With less than a second the server would spend most of its time on
/// compaction.
fn compaction_interval(text: &str) -> Result<Duration, String> {
    let Span(interval) = if text == "0" { Span::default() } else { text.parse()? };
    if interval.is_zero() || interval >= Duration::from_secs(1) {
        return Ok(interval);
    }
    Err("must be at least 1s, or 0 for never".to_owned())
}

/// Runs the binary with `args` (the program's name first) until SIGINT or SIGTERM; exit codes 0, 2 usage, 3
/// environment, 130 interrupted. If its name is `kube-apiserver` or `etcd`, it runs that program.
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // Not generic, so that callers do not compile the program.
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    match args.first().and_then(|name| Program::named(name)) {
        Some(program) => program.run(args, None),
        None => main_of(args),
    }
}

fn main_of(args: Vec<OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let options = args.host.clone();
    host::run(NAME, &options, |world, host| run(world, host, args))
}

async fn run(world: World, host: Host, args: Args) -> Result<(), anyhow::Error> {
    let token = match args.token {
        Some(token) => token.reveal().to_owned(),
        None => crate::tls::random_token()?,
    };
    let authority = Arc::new(Authority::new()?);
    if let Some(folder) = &args.pki {
        write_pki(folder, &authority).map_err(|e| anyhow::anyhow!("--pki {}: {e}", folder.display()))?;
    }
    let audit =
        args.audit_log_path.as_deref().map(|path| audit(path, args.audit_policy_file.as_deref())).transpose()?;
    let rbac = (args.authorization_mode == Authorization::Rbac).then(|| Rbac::new(token.clone()));
    let config = Config {
        service_accounts: AdmissionPlugin::service_accounts(&args.disable_admission_plugins),
        dial: Some(dial::webhooks()),
        nodes: Some(dial::nodes()),
        logs: None,
        unserved: None,
        rbac,
        default_roles: true,
        track_managers: true,
        // A kube-controller-manager beside this server publishes it.
        publish_root_ca: false,
        gather: GATHER,
        limits: Limits { folds: true, compaction: args.etcd_compaction_interval, ..Limits::default() },
        authority: Some(authority.clone()),
        audit,
        token_keys: PublicKey::read_all(&args.service_account_key_file)
            .map_err(|why| anyhow::anyhow!("--service-account-key-file {why}"))?,
        version: Some(args.kubernetes_version),
        ..Config::default()
    };
    let apiserver = Apiserver::new(world.seed(), config);
    let process = Process::start(&world, NAME, |_| std::future::pending());
    let Some(ctx) = process.ctx() else { anyhow::bail!("the process ended before it served") };
    let config = ServeConfig {
        listen: args.listen,
        http_listen: args.http_listen,
        allow_hosts: args.allow_host,
        token: Some(token),
        kubeconfig: args.kubeconfig,
        authority: Some(authority),
        client_authorities: args.client_ca_file.as_deref().map(client_authorities).transpose()?.unwrap_or_default(),
    };
    let served = serve(&ctx, apiserver.start(&ctx), &config).await?;
    let counted = apiserver.clone();
    ctx.spawn(apiserver.clone().pack_history(ctx.clone()));
    ctx.spawn(memory::tidy(ctx.clone(), move || counted.activity()));
    apiserver.trust(&ctx, &served.ca_pem);
    host.ready(&announcement(&served))?;
    eprintln!("{NAME}: serving {} (seed {})", served.endpoint, args.host.seed);
    if let Some(endpoint) = &served.http_endpoint {
        eprintln!("{NAME}: plain HTTP at {endpoint}");
    }
    eprintln!("{NAME}: export KUBECONFIG={}", served.kubeconfig.display());
    std::future::pending().await
}

/// Parses `1.36` or a patch release of it; the tables of this server fit no other version.
fn kubernetes_version(text: &str) -> Result<String, String> {
    let plain = text.strip_prefix('v').unwrap_or(text);
    let patch = match plain.strip_prefix("1.36") {
        Some("") => Some("2"),
        Some(rest) => rest.strip_prefix('.').filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())),
        None => None,
    };
    patch.map(|patch| format!("v1.36.{patch}")).ok_or_else(|| "this server speaks Kubernetes 1.36".to_owned())
}

pub(crate) fn audit(path: &Path, policy: Option<&Path>) -> Result<Audit, anyhow::Error> {
    let policy = match policy {
        None => Policy::default(),
        Some(file) => {
            let wrong = |why: String| anyhow::anyhow!("--audit-policy-file {}: {why}", file.display());
            let yaml = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
            Policy::parse(&yaml).map_err(wrong)?
        }
    };
    let sink: Box<dyn std::io::Write + Send> = if path.as_os_str() == "-" {
        Box::new(std::io::stdout())
    } else {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        Box::new(file.map_err(|e| anyhow::anyhow!("--audit-log-path {}: {e}", path.display()))?)
    };
    Ok(Audit::new(policy, sink))
}

/// Writes the CA and the credentials of the kubeconfig's user, readable by their owner only.
fn write_pki(folder: &Path, authority: &Authority) -> Result<(), anyhow::Error> {
    std::fs::create_dir_all(folder)?;
    let admin = authority.client(ADMIN, "system:masters")?;
    for (name, made) in [("ca", authority.credentials()), ("admin", admin)] {
        kubeconfig::write(&folder.join(format!("{name}.crt")), &made.certificate)?;
        kubeconfig::write(&folder.join(format!("{name}.key")), &made.key)?;
    }
    Ok(())
}

/// Reads the certificates of a `--client-ca-file`.
fn client_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, anyhow::Error> {
    let wrong = |why: String| anyhow::anyhow!("--client-ca-file {}: {why}", path.display());
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = read.map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

/// Returns the content of the ready file.
fn announcement(served: &Served) -> Value {
    let mut content = json!({ "endpoint": served.endpoint, "kubeconfig": served.kubeconfig });
    if let Some(endpoint) = &served.http_endpoint {
        content["httpEndpoint"] = endpoint.as_str().into();
    }
    content
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn help_shows_an_example_and_every_option_has_text() {
        let help = Args::try_parse_from([NAME, "--help"]).unwrap_err();
        assert!(!help.use_stderr());
        let text = help.to_string();
        for part in ["Example:", "--listen", "--http-listen", "--ready-file", "--kubeconfig", "--seed", "--time-scale"]
        {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn a_version_is_that_of_the_tables() {
        assert_eq!(kubernetes_version("1.36").unwrap(), "v1.36.2");
        assert_eq!(kubernetes_version("v1.36.11").unwrap(), "v1.36.11");
        assert!(kubernetes_version("1.360").is_err());
    }

    #[rstest]
    #[case(&["--listen", "here"])]
    #[case(&["--time-scale", "0"])]
    #[case(&["--time-scale", "nan"])]
    #[case(&["--token", "short"])]
    #[case(&["--seed", "-1"])]
    #[case(&["--kubernetes-version", "1.35"])]
    #[case(&["--kubernetes-version", "1.36.x"])]
    #[case(&["--audit-policy-file", "x"])]
    #[case(&["--etcd-compaction-interval", "5"])]
    #[case(&["--etcd-compaction-interval", "1ms"])]
    #[case(&["--what"])]
    fn wrong_usage_is_refused(#[case] args: &[&str]) {
        let args = std::iter::once(NAME).chain(args.iter().copied());
        assert!(Args::try_parse_from(args).unwrap_err().use_stderr());
    }
}
