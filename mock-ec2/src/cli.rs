//! The `mock-ec2` program: flags in, a served cloud until it is told to end.

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use serde::Deserialize;
use serde_json::{Value, json};
use substrate::admin::Secret;
use substrate::host::Stop;
use substrate::world::Options;
use substrate::{Level, Process, Seed, TimeScale, World, ready};

use crate::config::{Config, InstanceSpec, LatencyProfile};
use crate::state::ids::{InstanceId, Malformed};
use crate::state::latency::LatencyFile;
use crate::state::saved::Saved;
use crate::{Ec2, serve};

/// Wrong usage: flags, or the seed file.
const USAGE: u8 = 2;
/// The environment does not allow it: port, directory, file.
const ENVIRONMENT: u8 = 3;
/// Longest seed file.
const SEED_FILE_LIMIT: u64 = 1 << 20;

const EXAMPLE: &str = "\
Example:
  mock-ec2 --instances instances.yaml --latency aws &
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_DEFAULT_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
  aws ec2 create-volume --availability-zone us-east-1a --size 4 --volume-type gp3

with instances.yaml:
  - {name: node-a, zone: us-east-1a}
  - {name: node-b, zone: us-east-1a, instanceType: m7i.large}";

/// EC2 and EBS for tests: the Query API as SDKs, the AWS CLI and the EBS CSI driver speak it.
#[derive(Debug, Parser)]
#[command(name = "mock-ec2", version, after_help = EXAMPLE)]
struct Flags {
    /// Where to listen; port 0 picks one. Off loopback a token is needed.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4566")]
    listen: SocketAddr,
    /// Written once requests are answered: {"endpoint": "http://…"}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// The region.
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// The account that owns everything, twelve digits.
    #[arg(long, default_value = "000000000000")]
    account_id: String,
    /// The availability zones; a, b and c of the region when absent.
    #[arg(long, value_name = "ZONE,…", value_delimiter = ',')]
    zones: Vec<String>,
    /// Where the metadata service listens: one port per instance of the list, counted up from this one.
    #[arg(long, value_name = "ADDR:PORT")]
    imds_listen: Option<SocketAddr>,
    /// How long transitions take: instant, aws, aws-recent, or a YAML file with rules.
    #[arg(long, value_name = "PROFILE|FILE", default_value = "instant")]
    latency: String,
    /// Gives every volume a sparse backing file in this directory, which must be mock-ec2's own.
    #[arg(long, value_name = "DIR")]
    volume_dir: Option<PathBuf>,
    /// Most bytes that backing files may really occupy, such as 512MiB or 10GiB.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = size)]
    disk_limit: u64,
    /// YAML or JSON list of instances that run from the start (name, zone, instanceType, id, …).
    #[arg(long, value_name = "FILE")]
    instances: Option<PathBuf>,
    /// An access key and its secret. When there are any, signatures are verified. Repeatable.
    #[arg(long, value_name = "KEY:SECRET", value_parser = credential)]
    credential: Vec<(String, Secret)>,
    /// Where the whole state is kept from one run to the next.
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Seed of all ids and durations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divides all latencies.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    time_scale: f64,
    /// A host name, besides IP addresses and localhost, under which requests may come. Repeatable.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Bearer token that admin requests must carry.
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    token: Option<Secret>,
    /// Writes every event as a JSON line to this file; `-` is stdout.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
}

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
    let config = config(&flags)?;
    let seed = Seed::root(flags.seed).child("mock-ec2");
    let saved = flags.state_file.as_deref().map(saved).transpose()?.flatten();
    let made = match saved {
        Some(saved) => Ec2::restore(&seed, config, saved),
        None => Ec2::new(&seed, config),
    };
    let ec2 = made.map_err(|error| {
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
    let sink = flags.trace.as_deref().map(sink).transpose()?;
    let listener = serve::bind(flags.listen).map_err(environment(format!("--listen {}", flags.listen)))?;
    let metadata = flags.imds_listen.map(|at| metadata(&ec2, at)).transpose()?.unwrap_or_default();
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
            .filter_map(|(id, listener)| {
                Some(json!({ "instance": id, "endpoint": endpoint(listener.local_addr().ok()?) }))
            })
            .collect();
        let process = start(&world, &ec2, listener, metadata, &flags.allow_host);
        let endpoint = endpoint(address);
        if let Some(path) = &flags.ready_file {
            let ready = match imds.is_empty() {
                true => json!({ "endpoint": endpoint }),
                false => json!({ "endpoint": endpoint, "imds": imds }),
            };
            ready::write(path, &ready).map_err(environment(format!("--ready-file {}", path.display())))?;
        }
        eprintln!("mock-ec2 serves {endpoint} (latency {}, seed {})", flags.latency, flags.seed);
        let served = process.ctx();
        stop.wait().await;
        if let (Some(path), Some(ctx)) = (&flags.state_file, served) {
            let text = serde_json::to_vec(&ec2.save(ctx.now())).map_err(std::io::Error::other);
            text.and_then(|text| write_whole(path, &text))
                .map_err(environment(format!("--state-file {}", path.display())))?;
        }
        if let Err(error) = world.trace().flush() {
            eprintln!("mock-ec2: the trace is not complete: {error}");
        }
        Ok(())
    });
    runtime.shutdown_background();
    ec2.close();
    if let Some(path) = &flags.ready_file {
        // Gone with what it announced.
        let _ = std::fs::remove_file(path);
    }
    outcome
}

fn start(
    world: &World,
    ec2: &Ec2,
    listener: std::net::TcpListener,
    metadata: Vec<(InstanceId, std::net::TcpListener)>,
    allowed_hosts: &[String],
) -> Process {
    let (ec2, allowed_hosts) = (ec2.clone(), allowed_hosts.to_vec());
    let metadata = Arc::new(Mutex::new(metadata));
    // The process is started once; the factory's type would allow more.
    let listener = Arc::new(Mutex::new(Some(listener)));
    Process::start(world, "mock-ec2", move |ctx| {
        let (ec2, allowed_hosts) = (ec2.clone(), allowed_hosts.clone());
        let listener = listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let metadata = std::mem::take(&mut *metadata.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, listener) in metadata {
            let (service, ctx, hosts) = (ec2.metadata(&ctx, &id), ctx.clone(), allowed_hosts.clone());
            ctx.clone().spawn(async move {
                if let Err(error) = serve::http(ctx, listener, service, &hosts).await {
                    eprintln!("mock-ec2: the metadata service of {id} cannot listen: {error}");
                }
            });
        }
        async move {
            let service = ec2.start(&ctx);
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
fn metadata(ec2: &Ec2, first: SocketAddr) -> Result<Vec<(InstanceId, std::net::TcpListener)>, Failure> {
    let mut bound = Vec::new();
    for (instance, ordinal) in ec2.instances().iter().zip(0u16..) {
        let port = if first.port() == 0 { Some(0) } else { first.port().checked_add(ordinal) };
        let address = port.map(|port| SocketAddr::new(first.ip(), port));
        let failed =
            |reason: String| Failure(ENVIRONMENT, format!("--imds-listen {first}: {}: {reason}", instance.name));
        let address = address.ok_or_else(|| failed("there are no more ports".to_owned()))?;
        let listener = serve::bind(address).map_err(|e| failed(e.to_string()))?;
        let id = instance.id.parse().map_err(|e: Malformed| failed(e.to_string()))?;
        bound.push((id, listener));
    }
    Ok(bound)
}

/// The state that an earlier run left in `path`, if it did.
fn saved(path: &Path) -> Result<Option<Saved>, Failure> {
    let bad = |code, reason: String| Failure(code, format!("--state-file {}: {reason}", path.display()));
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bad(ENVIRONMENT, error.to_string())),
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| bad(USAGE, e.to_string())),
    }
}

/// Writes a file so that nobody sees half of it.
fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map(|_| ()).map_err(|e| e.error)
}

/// The profile called `text`, or what the file of that name says.
fn latency(text: &str) -> Result<LatencyFile, Failure> {
    let error = match text.parse::<LatencyProfile>() {
        Ok(base) => return Ok(LatencyFile { base, rules: Vec::new() }),
        Err(error) => error,
    };
    let path = Path::new(text);
    if !path.is_file() {
        return Err(Failure(USAGE, format!("--latency: {error}, or the path of a file")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure(ENVIRONMENT, format!("--latency: {e}")))?;
    LatencyFile::parse(&text).map_err(|reason| Failure(USAGE, format!("--latency {}: {reason}", path.display())))
}

fn credential(text: &str) -> Result<(String, Secret), String> {
    match text.split_once(':') {
        Some((key, secret)) if !key.is_empty() && !secret.is_empty() => Ok((key.to_owned(), Secret::new(secret))),
        _ => Err("write KEY:SECRET".to_owned()),
    }
}

fn config(flags: &Flags) -> Result<Config, Failure> {
    let LatencyFile { base, rules } = latency(&flags.latency)?;
    let zones = match flags.zones.as_slice() {
        [] => ["a", "b", "c"].map(|letter| format!("{}{letter}", flags.region)).to_vec(),
        given => given.to_vec(),
    };
    Ok(Config {
        region: flags.region.clone(),
        account_id: flags.account_id.clone(),
        zones,
        latency: base,
        latency_rules: rules,
        instances: flags.instances.as_deref().map(instances).transpose()?.unwrap_or_default(),
        volume_dir: flags.volume_dir.clone(),
        disk_limit: flags.volume_dir.is_some().then_some(flags.disk_limit),
        admin_token: flags.token.clone(),
        watch_mounts: flags.volume_dir.is_some(),
        credentials: flags.credential.iter().cloned().collect(),
        keep_files: flags.state_file.is_some(),
        ..Config::default()
    })
}

/// A seed file: a list, or a map with a list called `instances`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SeedFile {
    List(Vec<InstanceSpec>),
    Map(SeedMap),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedMap {
    instances: Vec<InstanceSpec>,
}

fn instances(path: &Path) -> Result<Vec<InstanceSpec>, Failure> {
    let bad = |code, reason: String| Failure(code, format!("--instances {}: {reason}", path.display()));
    let length = std::fs::metadata(path).map_err(|e| bad(ENVIRONMENT, e.to_string()))?.len();
    if length > SEED_FILE_LIMIT {
        return Err(bad(USAGE, format!("has {length} bytes, at most {SEED_FILE_LIMIT} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| bad(ENVIRONMENT, e.to_string()))?;
    parse_instances(&text).map_err(|reason| bad(USAGE, reason))
}

fn parse_instances(text: &str) -> Result<Vec<InstanceSpec>, String> {
    // By its first shape, so that an error speaks of the field and not of both shapes.
    let list = serde_saphyr::from_str::<Vec<InstanceSpec>>(text);
    match serde_saphyr::from_str::<SeedFile>(text) {
        Ok(SeedFile::List(list) | SeedFile::Map(SeedMap { instances: list })) => Ok(list),
        Err(_) => match (list, serde_saphyr::from_str::<SeedMap>(text)) {
            (Err(error), _) if text.trim_start().starts_with(['-', '[']) => Err(error.to_string()),
            (_, Err(error)) => Err(error.to_string()),
            (_, Ok(map)) => Ok(map.instances),
        },
    }
}

fn sink(path: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::LineWriter::new(std::io::stdout())));
    }
    let file =
        std::fs::File::create(path).map_err(|e| Failure(ENVIRONMENT, format!("--trace {}: {e}", path.display())))?;
    Ok(Box::new(std::io::LineWriter::new(file)))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    if factor.is_finite() && factor > 0.0 { Ok(factor) } else { Err("must be greater than 0".to_owned()) }
}

fn token(text: &str) -> Result<Secret, String> {
    if text.trim().len() < 8 {
        return Err("must have at least 8 characters".to_owned());
    }
    Ok(Secret::new(text))
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 =
        text[..digits].parse().map_err(|_| "write a number and a unit, such as 512MiB or 10GiB".to_owned())?;
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        unit => return Err(format!("`{unit}` is not a unit: use KiB, MiB, GiB or TiB")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("10GiB"), Ok(10 << 30));
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("42"), Ok(42));
        for bad in ["", "x", "10XiB", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn both_shapes_of_a_seed_file_are_read_and_errors_name_the_field() {
        let list = parse_instances("- {name: a, zone: us-east-1a}").unwrap();
        let map = parse_instances(r#"{"instances": [{"name": "a", "zone": "us-east-1a"}]}"#).unwrap();
        assert_eq!(list, map);
        for text in ["- {name: a, zone: z, colour: red}", "instances: [{name: a, zone: z, colour: red}]"] {
            let error = parse_instances(text).unwrap_err();
            assert!(error.contains("colour"), "{error}");
        }
    }
}
