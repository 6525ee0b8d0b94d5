//! The `mock-ec2` program: flags in, a served cloud until it is told to end.

mod files;
mod flags;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use serde_json::{Value, json};
use substrate::host::Stop;
use substrate::world::Options;
use substrate::{Level, Process, Seed, TimeScale, World, ready};

use crate::state::ids::{InstanceId, Malformed};
use crate::{Ec2, Regions, serve};
use flags::Flags;

/// Wrong usage: flags, or the seed file.
const USAGE: u8 = 2;
/// The environment does not allow it: port, directory, file.
const ENVIRONMENT: u8 = 3;

/// Why the program ends early: exit code and text.
struct Failure(u8, String);

/// Runs the program with `args`, the first of which is its name, and gives its exit code: 0 when told to end,
/// 2 for wrong usage, 3 when the environment does not allow it.
pub fn main_with<I>(args: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let flags = match Flags::try_parse_from(args) {
        Ok(flags) => flags,
        Err(error) => {
            // Help and version are answers, not errors.
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, text)) => {
            eprintln!("mock-ec2: {text}");
            ExitCode::from(code)
        }
    }
}

fn run(flags: Flags) -> Result<(), Failure> {
    let reachable = [Some(flags.listen), flags.imds_listen].into_iter().flatten().find(|at| !at.ip().is_loopback());
    if let Some(at) = reachable.filter(|_| flags.token.is_none()) {
        let text = format!("{at}: other machines can reach it, so --token is needed");
        return Err(Failure(USAGE, text));
    }
    let configs = flags::configs(&flags)?;
    let seed = Seed::root(flags.seed).child("mock-ec2");
    let regions = Regions::new(&seed, configs).map_err(|error| {
        let code = if matches!(error, crate::Error::Config { .. }) { USAGE } else { ENVIRONMENT };
        Failure(code, error.to_string())
    })?;
    let environment = |what: String| move |error: std::io::Error| Failure(ENVIRONMENT, format!("{what}: {error}"));
    if let Some(path) = &flags.ready_file {
        // One of an earlier run would say that this one is ready.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(environment(format!("--ready-file {}", path.display()))(error));
            }
            _ => {}
        }
    }
    let sink = flags.trace.as_deref().map(files::sink).transpose()?;
    let listener = serve::bind(flags.listen).map_err(environment(format!("--listen {}", flags.listen)))?;
    let metadata = flags.imds_listen.map(|at| metadata(&regions, at)).transpose()?.unwrap_or_default();
    let address = listener.local_addr().map_err(environment("--listen".to_owned()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(environment("cannot start threads".to_owned()))?;
    let outcome = runtime.block_on(async {
        // Before the ready file: a signal that came earlier would kill without saving the state.
        let mut stop = Stop::install().map_err(environment("cannot wait for signals".to_owned()))?;
        let level = if sink.is_some() { Level::Trace } else { Level::Info };
        let scale = TimeScale::new(flags.time_scale);
        let process = std::env::var(substrate::host::PROCESS_NAME).ok();
        let world = World::live(Options { seed: flags.seed, level, scale, process, ..Options::default() });
        stop.obey(&world);
        substrate::host::end_on_crash_fault("mock-ec2", &world);
        // Nobody asks for past events; whoever wants them follows the stream or names a file.
        world.trace().keep(0);
        if let Some(sink) = sink {
            world.trace().write_to(sink);
        }
        // Held until the end; ending the runtime ends it without an event, since nothing crashed.
        let imds: Vec<Value> = metadata
            .iter()
            .filter_map(|(_, id, listener)| {
                Some(json!({ "instance": id, "endpoint": endpoint(listener.local_addr().ok()?) }))
            })
            .collect();
        let process = start(&world, &regions, listener, metadata, &flags.allow_host);
        let endpoint = endpoint(address);
        if let Some(path) = &flags.ready_file {
            let ready = match imds.is_empty() {
                true => json!({ "endpoint": endpoint }),
                false => json!({ "endpoint": endpoint, "imds": imds }),
            };
            ready::write(path, &ready).map_err(environment(format!("--ready-file {}", path.display())))?;
        }
        eprintln!("mock-ec2 serves {endpoint} (latency {}, seed {})", flags.latency, flags.seed);
        stop.wait().await;
        // Nothing is answered any more that would not be saved.
        process.end().await;
        if let Some(path) = &flags.state_file {
            regions.save(world.clock().now()).map_err(environment(format!("--state-file {}", path.display())))?;
        }
        if let Err(error) = world.trace().flush() {
            eprintln!("mock-ec2: the trace is not complete: {error}");
        }
        Ok(())
    });
    runtime.shutdown_background();
    regions.close();
    if let Some(path) = &flags.ready_file {
        // Gone with what it announced.
        let _ = std::fs::remove_file(path);
    }
    outcome
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
    // The process is started once; the factory's type would allow more.
    let listener = Arc::new(Mutex::new(Some(listener)));
    Process::start(world, "mock-ec2", move |ctx| {
        let (regions, allowed_hosts) = (regions.clone(), allowed_hosts.clone());
        let listener = listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let metadata = std::mem::take(&mut *metadata.lock().unwrap_or_else(PoisonError::into_inner));
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

/// The address under which clients on this machine reach the listener.
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
            |reason: String| Failure(ENVIRONMENT, format!("--imds-listen {first}: {}: {reason}", instance.name));
        let address = address.ok_or_else(|| failed("there are no more ports".to_owned()))?;
        let listener = serve::bind(address).map_err(|e| failed(e.to_string()))?;
        let id = instance.id.parse().map_err(|e: Malformed| failed(e.to_string()))?;
        bound.push((ec2.clone(), id, listener));
    }
    Ok(bound)
}
