//! The `addons` program creates the objects that a cluster has before its user does anything, like an addon manager. It
//! creates them again after the API server has lost its objects.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use http::Request;
use serde_json::{Value, json};
use substrate::admin::Secret;
use substrate::body::{call, collect, empty};
use substrate::host::{self, Host, HostOptions};
use substrate::{BoxError, HttpService, dial};

use crate::cluster::{Objects, defaults};
use crate::spec::ClusterSpec;

/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// Object whose uid identifies one life of the API server.
const LANDMARK: &str = "/api/v1/namespaces/kube-system";
/// Maximum size of the namespace object in bytes.
const LIMIT: usize = 1 << 20;

/// Puts the CSIDriver object of the EBS driver and StorageClasses, one of them the default, in place, once for each life of
/// the API server.
#[derive(Debug, Parser)]
#[command(name = "addons", version, after_help = "Example:\n  addons --kubernetes http://127.0.0.1:8080")]
struct Args {
    /// The API server.
    #[arg(long, value_name = "http://HOST:PORT")]
    kubernetes: String,
    /// The bearer token for an API server off loopback.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    kubernetes_token: Option<Secret>,
    #[command(flatten)]
    host: HostOptions,
}

/// Runs the program with `args`, its name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let options = args.host.clone();
    host::run("addons", &options, |_, host| run(host, args))
}

async fn run(host: Host, args: Args) -> anyhow::Result<()> {
    let apiserver = dial::http(&args.kubernetes).map_err(|e| anyhow::anyhow!("--kubernetes: {e}"))?;
    let apiserver = match &args.kubernetes_token {
        None => apiserver,
        Some(token) => {
            dial::bearing(apiserver, token.reveal()).map_err(|e| anyhow::anyhow!("--kubernetes-token: {e}"))?
        }
    };
    let objects = Objects::new(apiserver.clone());
    let (mut done, mut silent) = (String::new(), false);
    loop {
        match life(&apiserver).await {
            Ok(uid) if uid != done => {
                defaults::apply_more(&objects, &crate::spec::ClusterSpec::default()).await?;
                let people = ClusterSpec { mirrors: true, ..ClusterSpec::default() };
                people.create_snapshot_kinds(&objects).await.map_err(|why| anyhow::anyhow!(why))?;
                eprintln!("addons: the CSIDriver object, the classes and the kinds of snapshots are in place");
                done = uid;
                host.ready(&json!({ "kubernetes": args.kubernetes }))?;
            }
            Ok(_) => silent = false,
            // Print only one line each time that the API server stops answering.
            Err(error) => {
                if !std::mem::replace(&mut silent, true) {
                    eprintln!("addons: the API server does not answer: {error}");
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the uid of the landmark, which identifies the current life of the API server.
async fn life(apiserver: &HttpService) -> Result<String, BoxError> {
    let request = Request::get(LANDMARK).header("host", "localhost").body(empty())?;
    let answer = call(apiserver.clone(), request).await?;
    let status = answer.status();
    let body = collect(answer.into_body(), LIMIT).await?;
    let object: Value = serde_json::from_slice(&body)?;
    match object["metadata"]["uid"].as_str() {
        Some(uid) if status.is_success() => Ok(uid.to_owned()),
        _ => Err(format!("{LANDMARK}: {status}").into()),
    }
}
