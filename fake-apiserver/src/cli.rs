//! The command line of the `fake-apiserver` binary.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use substrate::host::{self, HostOptions};
use substrate::{Process, World, ready};

use crate::serve::{ServeConfig, Served, serve};
use crate::{Apiserver, Config, Rbac, dial};

const NAME: &str = "fake-apiserver";

const EXAMPLE: &str = "\
Example:
  fake-apiserver --listen 127.0.0.1:6443 --kubeconfig ./kubeconfig &
  kubectl --kubeconfig ./kubeconfig get namespaces";

/// A Kubernetes API server for storage, in memory, that kubectl and controllers talk to.
#[derive(Debug, Parser)]
#[command(name = NAME, version, after_help = EXAMPLE)]
struct Args {
    /// Address of the TLS listener; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Address of a plain HTTP listener beside it
    #[arg(long, value_name = "ADDR:PORT")]
    http_listen: Option<SocketAddr>,
    /// Where the kubeconfig is written (readable by you only)
    #[arg(long, value_name = "PATH", default_value = "fake-apiserver.kubeconfig")]
    kubeconfig: PathBuf,
    /// File that is written once requests are answered: {"endpoint": …, "kubeconfig": …, "httpEndpoint": …}
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Seed of uids and generated names
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Divides what the server waits for (bookmarks, watch timeouts, grace periods)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = time_scale)]
    time_scale: f64,
    /// Host name that requests may be for, beside IP addresses and localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Bearer token that callers need on listeners off loopback; a random one by default
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Who may do what: everyone everything, or what roles and their bindings allow
    #[arg(long, value_name = "MODE", default_value = "always-allow")]
    authorization_mode: Authorization,
    /// Where the trace goes as JSON lines; `-` is standard output
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Authorization {
    /// Everyone may do everything
    AlwaysAllow,
    /// Role-based access control; the kubeconfig's user may do everything
    Rbac,
}

fn time_scale(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|f| f.is_finite() && *f > 0.0).ok_or_else(|| "must be a number above 0".to_owned())
}

/// Runs the binary with `args` (the program's name first) until SIGINT or SIGTERM; exit codes 0, 2 usage, 3 environment,
/// 130 interrupted.
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            // Help goes to standard output and is no failure; whether it could be printed changes nothing.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()) * 2);
        }
    };
    let options = HostOptions { seed: args.seed, time_scale: args.time_scale, trace: args.trace.clone() };
    host::run(NAME, &options, |world| run(world, args))
}

async fn run(world: World, args: Args) -> Result<(), anyhow::Error> {
    let token = match args.token {
        Some(token) => token,
        None => crate::tls::random_token()?,
    };
    let rbac = (args.authorization_mode == Authorization::Rbac).then(|| Rbac { admin_token: token.clone() });
    let config = Config { dial: Some(dial::webhooks()), rbac, track_managers: true, ..Config::default() };
    let apiserver = Apiserver::new(world.seed(), config);
    let process = Process::start(&world, NAME, |_| std::future::pending());
    let Some(ctx) = process.ctx() else { anyhow::bail!("the process ended before it served") };
    let config = ServeConfig {
        listen: args.listen,
        http_listen: args.http_listen,
        allow_hosts: args.allow_host,
        token: Some(token),
        kubeconfig: args.kubeconfig,
    };
    let served = serve(&ctx, apiserver.start(&ctx), &config).await?;
    apiserver.trust(&ctx, &served.ca_pem);
    if let Some(path) = &args.ready_file {
        write_ready(path, &served)?;
    }
    eprintln!("{NAME}: serving {} (seed {})", served.endpoint, args.seed);
    if let Some(endpoint) = &served.http_endpoint {
        eprintln!("{NAME}: plain HTTP at {endpoint}");
    }
    eprintln!("{NAME}: export KUBECONFIG={}", served.kubeconfig.display());
    std::future::pending().await
}

fn write_ready(path: &Path, served: &Served) -> Result<(), anyhow::Error> {
    let mut content = json!({ "endpoint": served.endpoint, "kubeconfig": served.kubeconfig });
    if let Some(endpoint) = &served.http_endpoint {
        content["httpEndpoint"] = endpoint.as_str().into();
    }
    ready::write(path, &content).map_err(|e| anyhow::anyhow!("cannot write the ready file {}: {e}", path.display()))
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

    #[rstest]
    #[case(&["--listen", "here"])]
    #[case(&["--time-scale", "0"])]
    #[case(&["--time-scale", "nan"])]
    #[case(&["--seed", "-1"])]
    #[case(&["--what"])]
    fn wrong_usage_is_refused(#[case] args: &[&str]) {
        let args = std::iter::once(NAME).chain(args.iter().copied());
        assert!(Args::try_parse_from(args).unwrap_err().use_stderr());
    }
}
