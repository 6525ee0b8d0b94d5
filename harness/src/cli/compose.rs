//! `mooring compose`: how one reaches, and waits for, a cluster of containers that docker has started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use substrate::body::{call, collect, empty};
use substrate::dial;
use substrate::fault::Span;
use tokio::time::Instant;

use super::announce;
use super::day::place;
use crate::cluster::compose::project::{Doors, Project};
use crate::output::{self, Envelope, Exit, Failure, Format, Style};

/// The region of the cloud in the compose file.
const REGION: &str = "us-east-1";
/// How long is waited between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// More than a list of the nodes of a compose file has.
const LIMIT: usize = 16 << 20;

/// What is asked of a project.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Write a kubeconfig for this machine and print the variables with which kubectl and aws find the cluster.
    #[command(after_help = "Example:\n  eval \"$(mooring compose env)\"\n  kubectl get nodes")]
    Env(Args),
    /// Wait until every container is well, every node is Ready, and the driver is registered on each.
    #[command(after_help = "Example:\n  docker-compose up -d && mooring compose wait")]
    Wait(Waiting),
}

/// Which project.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The compose project; the only one that runs mock-ec2 or fake-apiserver when absent.
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
}

/// Which project, and how long.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Waiting {
    #[command(flatten)]
    of: Args,
    /// How long to wait; after it the exit code is 4.
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    timeout: Span,
}

pub(super) fn main(command: &Command, format: Format) -> ExitCode {
    let (data, text) = match command {
        Command::Env(args) => match env(args) {
            Ok((data, text)) => (data, text),
            Err(why) => return refuse(format, Exit::Environment, "environment", why),
        },
        Command::Wait(args) => match wait(args) {
            Ok(waited) => {
                let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                (json!({ "waitedMs": ms }), format!("ready after {:.1} s\n", waited.as_secs_f64()))
            }
            Err((exit, why)) => {
                let code = if exit == Exit::Timeout { "timeout" } else { "environment" };
                return refuse(format, exit, code, why);
            }
        },
    };
    output::finish(format, &Envelope::passed("compose", data), &text, Style::stderr()).into()
}

fn refuse(format: Format, exit: Exit, code: &str, why: String) -> ExitCode {
    let failure = Failure::new(code, why).action("see `docker-compose ps` and `docker-compose logs`");
    output::finish(format, &Envelope::failed("compose", exit, failure), "", Style::stderr()).into()
}

/// Writes the kubeconfig of a project and gives the variables, as data and for a shell.
fn env(args: &Args) -> Result<(Value, String), String> {
    let project = Project::find(args.project.as_deref())?;
    let doors = project.doors()?;
    let path = kubeconfig(&project)?;
    let text = serde_json::to_string_pretty(&doors.kubeconfig).unwrap_or_default() + "\n";
    fake_apiserver::kubeconfig::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    let variables = announce::variables(&path.display().to_string(), &doors.ec2, REGION);
    let exports =
        variables.iter().map(|(name, value)| format!("export {name}={}\n", announce::quoted(value))).collect();
    let data = variables.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    Ok((Value::Object(data), exports))
}

/// Where the kubeconfig of a project goes: beside the directories of those that `mooring up` starts.
fn kubeconfig(project: &Project) -> Result<PathBuf, String> {
    let root = place::root().map_err(|(_, failure)| failure.message)?;
    let directory = root.with_file_name("mooring-compose").join(project.name());
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    Ok(directory.join("kubeconfig"))
}

/// Waits until all is ready; says how long it took.
fn wait(args: &Waiting) -> Result<Duration, (Exit, String)> {
    let environment = |why: String| (Exit::Environment, why);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| environment(format!("the runtime does not start: {e}")))?;
    let project = Project::find(args.of.project.as_deref()).map_err(environment)?;
    let begin = Instant::now();
    loop {
        let missing = match runtime.block_on(missing(&project)) {
            Ok(missing) if missing.is_empty() => return Ok(begin.elapsed()),
            Ok(missing) => missing.join("; "),
            Err(why) => why,
        };
        if begin.elapsed() > args.timeout.0 {
            let why = format!("project {} is not ready within {}: {missing}", project.name(), args.timeout);
            return Err((Exit::Timeout, why));
        }
        std::thread::sleep(LOOK);
    }
}

/// What a project lacks to be ready.
async fn missing(project: &Project) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    let health = project.health()?;
    for (service, state) in &health {
        // A health check comes seconds after what it looks at, and what it looks at is looked at below.
        if !matches!(state.as_str(), "healthy" | "running" | "starting") {
            missing.push(format!("{service} is {state}"));
        }
    }
    if health.contains_key("fake-apiserver") {
        let doors = project.doors()?;
        let nodes: Vec<&str> = project.services().filter(|service| service.starts_with("node-")).collect();
        let ready = list(&doors, "/api/v1/nodes").await?;
        let drivers = list(&doors, "/apis/storage.k8s.io/v1/csinodes").await?;
        for node in nodes {
            let find = |all: &[Value]| all.iter().find(|o| o["metadata"]["name"] == node).cloned().unwrap_or_default();
            let conditions = find(&ready)["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if !conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True") {
                missing.push(format!("node {node} is not Ready"));
            } else if find(&drivers)["spec"]["drivers"].as_array().is_none_or(Vec::is_empty) {
                missing.push(format!("no driver is registered on {node}"));
            }
        }
        if health.contains_key("addons") && list(&doors, "/apis/storage.k8s.io/v1/storageclasses").await?.is_empty() {
            missing.push("there is no StorageClass".to_owned());
        }
    }
    Ok(missing)
}

/// The items of a list of the API server.
async fn list(doors: &Doors, path: &str) -> Result<Vec<Value>, String> {
    let failed = |e: substrate::BoxError| format!("fake-apiserver does not answer: {e}");
    let server = dial::http(&doors.kubernetes_http).map_err(failed)?;
    let server = dial::bearing(server, doors.token.reveal()).map_err(failed)?;
    let request = Request::get(path).header("host", "localhost").body(empty()).map_err(|e| e.to_string())?;
    let answer = call(server, request).await.map_err(failed)?;
    let status = answer.status();
    let body = collect(answer.into_body(), LIMIT).await.map_err(failed)?;
    if !status.is_success() {
        return Err(format!("GET {path}: {status}"));
    }
    let list: Value = serde_json::from_slice(&body).map_err(|e| format!("GET {path}: {e}"))?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
