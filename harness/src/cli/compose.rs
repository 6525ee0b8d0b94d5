//! A cluster of containers that docker has started, for the commands that reach it and wait for it: `mooring env
//! --compose` and `mooring wait --ready --compose`.

use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use serde_json::Value;
use substrate::body::{call, collect, empty};
use substrate::dial;
use substrate::fault::Span;
use tokio::time::Instant;

use super::announce;
use super::day::state_directory;
use super::refusal::{Refusal, lacking, late, next};
use crate::cluster::Objects;
use crate::cluster::compose::project::{Project, ServerAddresses};

/// Region of the cloud in the compose file.
const REGION: &str = "us-east-1";
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum size in bytes of a list of nodes.
const LIMIT: usize = 16 << 20;

/// Hint about docker's own commands.
const HINT: &str = "see `docker compose ps` and `docker compose logs`";

/// Selects a cluster of containers instead of a Mooring.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Containers {
    /// The cluster of containers that docker has started from compose.yaml, instead of a Mooring.
    #[arg(long, conflicts_with = "name")]
    pub compose: bool,
    /// Its compose project. Default: the only one that runs mock-ec2 or fake-apiserver.
    #[arg(long, value_name = "NAME", requires = "compose")]
    pub project: Option<String>,
}

fn failed(why: impl Into<String>) -> Refusal {
    next(lacking(why), HINT)
}

/// Returns true if docker runs exactly one project that commands can use without a name.
pub(super) fn is_there() -> bool {
    Project::find(None).is_ok()
}

/// Returns a client of its objects, the runtime for the client, and the name of the project.
///
/// # Errors
/// If docker does not answer, or the servers do not run.
pub(super) fn objects(of: &Containers) -> Result<(tokio::runtime::Runtime, Objects, String), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| lacking(format!("cannot start the runtime: {e}")))?;
    let project = Project::find(of.project.as_deref()).map_err(failed)?;
    let addresses = project.server_addresses().map_err(failed)?;
    let service = {
        let _inside = runtime.enter();
        dial::http(&addresses.kubernetes_http).and_then(|server| dial::bearing(server, addresses.token.reveal()))
    };
    let service = service.map_err(|e| failed(e.to_string()))?;
    Ok((runtime, Objects::new(service), project.name().to_owned()))
}

/// Writes a kubeconfig for this machine and returns the variables for kubectl and aws.
///
/// # Errors
/// If docker does not answer, or the servers do not run.
pub(super) fn variables(of: &Containers) -> Result<Vec<(&'static str, String)>, Refusal> {
    let project = Project::find(of.project.as_deref()).map_err(failed)?;
    let addresses = project.server_addresses().map_err(failed)?;
    let path = kubeconfig(&project).map_err(failed)?;
    let text = substrate::encode::pretty(&addresses.kubeconfig);
    let written = fake_apiserver::kubeconfig::write(&path, &text);
    written.map_err(|e| lacking(format!("{}: {e}", path.display())))?;
    Ok(announce::variables(&path.display().to_string(), &addresses.ec2, REGION))
}

/// Path of a project's kubeconfig: beside the directories of Moorings from `mooring up`.
fn kubeconfig(project: &Project) -> Result<PathBuf, String> {
    let root = state_directory::root().map_err(|(_, failure)| failure.message)?;
    let directory = root.with_file_name("mooring-compose").join(project.name());
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    Ok(directory.join("kubeconfig"))
}

/// Waits until no container has failed, every node is Ready, and the driver is registered on each. Returns the name of
/// the project.
///
/// # Errors
/// If docker does not answer. After `timeout`, lists the missing parts.
pub(super) fn wait(of: &Containers, timeout: Span) -> Result<String, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| lacking(format!("cannot start the runtime: {e}")))?;
    let project = Project::find(of.project.as_deref()).map_err(failed)?;
    let begin = Instant::now();
    loop {
        let missing = match crate::block_on(&runtime, Box::pin(missing(&project))) {
            Ok(missing) if missing.is_empty() => return Ok(project.name().to_owned()),
            Ok(missing) => missing.join("; "),
            Err(why) => why,
        };
        if begin.elapsed() > timeout.0 {
            let why = format!("project {} is not ready after {timeout}: {missing}", project.name());
            return Err(next(late(why), HINT));
        }
        std::thread::sleep(LOOK);
    }
}

/// Lists the parts that are not ready yet.
async fn missing(project: &Project) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    let health = project.health()?;
    for (service, state) in &health {
        // A health check reports seconds late, so `starting` is accepted. The servers and nodes are checked directly
        // below.
        if !matches!(state.as_str(), "healthy" | "running" | "starting") {
            missing.push(format!("{service} is {state}"));
        }
    }
    if health.contains_key("fake-apiserver") {
        let addresses = project.server_addresses()?;
        let nodes: Vec<&str> = project.services().filter(|service| service.starts_with("node-")).collect();
        let ready = list(&addresses, "/api/v1/nodes").await?;
        let drivers = list(&addresses, "/apis/storage.k8s.io/v1/csinodes").await?;
        for node in nodes {
            let find = |all: &[Value]| all.iter().find(|o| o["metadata"]["name"] == node).cloned().unwrap_or_default();
            let conditions = find(&ready)["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if !conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True") {
                missing.push(format!("node {node} is not Ready"));
            } else if find(&drivers)["spec"]["drivers"].as_array().is_none_or(Vec::is_empty) {
                missing.push(format!("no driver is registered on {node}"));
            }
        }
        if health.contains_key("addons") && list(&addresses, "/apis/storage.k8s.io/v1/storageclasses").await?.is_empty()
        {
            missing.push("there is no StorageClass".to_owned());
        }
    }
    Ok(missing)
}

/// Returns the items of a list of the API server.
async fn list(addresses: &ServerAddresses, path: &str) -> Result<Vec<Value>, String> {
    let failed = |e: substrate::BoxError| format!("fake-apiserver does not answer: {e}");
    let server = dial::http(&addresses.kubernetes_http).map_err(failed)?;
    let server = dial::bearing(server, addresses.token.reveal()).map_err(failed)?;
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
