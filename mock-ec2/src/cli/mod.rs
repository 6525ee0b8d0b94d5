//! The `mock-ec2` program: parses flags, and serves a cloud until it is asked to end.

mod files;
mod flags;

use parking_lot::Mutex;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use substrate::host::{self, Failure, Host};
use substrate::{Process, Seed, World};

use crate::state::ids::{InstanceId, Malformed};
use crate::{Ec2, Regions, serve};
use flags::Flags;

/// Name of the program.
const NAME: &str = "mock-ec2";

/// Runs the program with `args`, of which the first is its name. Returns its exit code: 0 after SIGTERM, 130 after
/// SIGINT, 2 for wrong usage, 3 for an unsuitable environment.
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    // This function is not generic, so that it is not compiled into the caller's crate.
    main_of(args.into_iter().map(Into::into).collect())
}

fn main_of(args: Vec<OsString>) -> ExitCode {
    let flags: Flags = match host::parse(args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    let options = flags.host.clone();
    host::run(NAME, &options, |world, host| run(world, host, flags))
}

async fn run(world: World, host: Host, flags: Flags) -> Result<(), Failure> {
    let reachable = [Some(flags.listen), flags.imds_listen].into_iter().flatten().find(|at| !at.ip().is_loopback());
    if let Some(at) = reachable.filter(|_| flags.token.is_none()) {
        return Err(Failure::usage(format!("{at}: other machines can reach it, so --token is needed")));
    }
    let configs = flags::configs(&flags)?;
    let seed = Seed::root(flags.host.seed).child(NAME);
    let regions = Regions::new(&seed, configs).map_err(|error| match error {
        crate::Error::Config { .. } => Failure::usage(error.to_string()),
        _ => Failure::environment(error.to_string()),
    })?;
    let environment = |what: String| move |error: std::io::Error| Failure::environment(format!("{what}: {error}"));
    let listener = serve::bind(flags.listen).map_err(environment(format!("--listen {}", flags.listen)))?;
    let metadata = flags.imds_listen.map(|at| metadata(&regions, at)).transpose()?.unwrap_or_default();
    let address = listener.local_addr().map_err(environment("--listen".to_owned()))?;
    // Past events cannot be queried here; readers follow the stream or name a file.
    world.trace().keep(0);
    let imds: Vec<Value> = metadata
        .iter()
        .filter_map(|(_, id, listener)| {
            Some(json!({ "instance": id, "endpoint": endpoint(listener.local_addr().ok()?) }))
        })
        .collect();
    let process = start(&world, &regions, listener, metadata, &flags.allow_host);
    host.at_end({
        let (world, regions, state_file) = (world.clone(), regions.clone(), flags.state_file.clone());
        async move {
            // No request is answered after this, so the state that is saved below has every answered change.
            process.end().await;
            let saved = match state_file {
                Some(path) => {
                    regions.save(world.clock().now()).map_err(environment(format!("--state-file {}", path.display())))
                }
                None => Ok(()),
            };
            regions.close();
            saved
        }
    });
    let endpoint = endpoint(address);
    host.ready(&match imds.is_empty() {
        true => json!({ "endpoint": endpoint }),
        false => json!({ "endpoint": endpoint, "imds": imds }),
    })?;
    eprintln!("{NAME} serves {endpoint} (latency {}, seed {})", flags.latency, flags.host.seed);
    std::future::pending().await
}

fn start(
    world: &World,
    regions: &Regions,
    listener: std::net::TcpListener,
    metadata: Vec<(Ec2, InstanceId, std::net::TcpListener)>,
    allowed_hosts: &[String],
) -> Process {
    let (regions, allowed_hosts) = (regions.clone(), allowed_hosts.to_vec());
    let metadata = Arc::new(Mutex::new(metadata));
    // The process starts once, although the factory's type allows more.
    let listener = Arc::new(Mutex::new(Some(listener)));
    Process::start(world, NAME, move |ctx| {
        let (regions, allowed_hosts) = (regions.clone(), allowed_hosts.clone());
        let listener = listener.lock().take();
        let metadata = std::mem::take(&mut *metadata.lock());
        for (ec2, id, listener) in metadata {
            let (service, ctx, hosts) = (ec2.metadata(&ctx, &id), ctx.clone(), allowed_hosts.clone());
            ctx.clone().spawn(async move {
                if let Err(error) = serve::http(ctx, listener, service, &hosts).await {
                    eprintln!("mock-ec2: the metadata service of {id} cannot listen: {error}");
                }
            });
        }
        let counted = regions.clone();
        ctx.spawn(substrate::memory::tidy(ctx.clone(), move || counted.requests()));
        async move {
            let service = regions.start(&ctx);
            if let Some(listener) = listener
                && let Err(error) = serve::http(ctx, listener, service, &allowed_hosts).await
            {
                eprintln!("mock-ec2: cannot listen: {error}");
            }
        }
    })
}

/// Returns the address at which clients on this machine reach the listener.
fn endpoint(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// Binds a port for each instance, from `first` on.
fn metadata(regions: &Regions, first: SocketAddr) -> Result<Vec<(Ec2, InstanceId, std::net::TcpListener)>, Failure> {
    let mut bound = Vec::new();
    let all = regions.clouds().iter().flat_map(|ec2| ec2.instances().into_iter().map(move |i| (ec2, i)));
    for ((ec2, instance), ordinal) in all.zip(0u16..) {
        let port = if first.port() == 0 { Some(0) } else { first.port().checked_add(ordinal) };
        let address = port.map(|port| SocketAddr::new(first.ip(), port));
        let failed =
            |reason: String| Failure::environment(format!("--imds-listen {first}: {}: {reason}", instance.name));
        let address = address.ok_or_else(|| failed("there are no more ports".to_owned()))?;
        let listener = serve::bind(address).map_err(|e| failed(e.to_string()))?;
        let id = instance.id.parse().map_err(|e: Malformed| failed(e.to_string()))?;
        bound.push((ec2.clone(), id, listener));
    }
    Ok(bound)
}
