//! The `node` program runs one machine with all its processes in one container. Machine, driver and kubelet are
//! separate OS processes, and the program restarts each that ends.

use std::ffi::OsString;
use std::io::BufRead;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use futures_util::future::select_all;
use http::Uri;
use serde_json::json;
use substrate::host::{self, Order, PARENT_PIPE, PROCESS_NAME, Stop};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::part;
use crate::cluster::live::BackendChoice;
use crate::spec::names;

/// Time limit for a part to become ready.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the servers to become reachable.
const NAME_LIMIT: Duration = Duration::from_secs(60);
/// Interval between two tries to reach them.
const NAME_LOOK: Duration = Duration::from_millis(50);
/// Delay before a part that has ended is restarted: kubelet's delay for the first restart of a container.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Interval between two checks of the stop files.
const ASKED_LOOK: Duration = Duration::from_millis(50);
/// Interval between two checks of the node's own address.
const LOOK: Duration = Duration::from_secs(2);
/// Exit code: the machine lacks something that the node needs.
const ENVIRONMENT: u8 = 3;

/// One node: the machine with its containers and devices, the driver's node service, and kubelet.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "node",
    version,
    after_help = "Example:\n  node --node-name node-a --instance-id i-0123456789abcdef0 \\\n    --ec2-endpoint http://mock-ec2:4566 --kubernetes http://fake-apiserver:8080"
)]
struct Args {
    /// Name of the Node object.
    #[arg(long, value_name = "NAME")]
    node_name: String,
    /// The id of the node's EC2 instance.
    #[arg(long, value_name = "i-…")]
    instance_id: String,
    /// Its availability zone.
    #[arg(long, value_name = "ZONE", default_value = "us-east-1a")]
    zone: String,
    /// Its instance type.
    #[arg(long, value_name = "TYPE", default_value = "m5.large")]
    instance_type: String,
    /// The cloud.
    #[arg(long, value_name = "http://HOST:PORT")]
    ec2_endpoint: String,
    /// The bearer token of the cloud's admin endpoints, for the device stream.
    #[arg(long, value_name = "TOKEN")]
    ec2_admin_token: Option<String>,
    /// The API server.
    #[arg(long, value_name = "http://HOST:PORT")]
    kubernetes: String,
    /// The bearer token for an API server off loopback.
    #[arg(long, value_name = "TOKEN")]
    kubernetes_token: Option<String>,
    /// kubelet's directory.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    root: PathBuf,
    /// The directory of the volumes' bytes, as given to mock-ec2.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/mooring/volumes")]
    volume_dir: PathBuf,
    /// The directory of sockets and ready files; the node's own is ready.json.
    #[arg(long, value_name = "DIR", default_value = "/run/mooring")]
    runtime_dir: PathBuf,
    /// The kind of disks.
    #[arg(long, value_enum, value_name = "BACKEND", default_value = "loop")]
    backend: BackendChoice,
    /// Tag of the loop devices, which names their run.
    #[arg(long, value_name = "NAME", default_value = "compose")]
    run: String,
    /// The port of kubelet, which serves logs.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    kubelet_port: u16,
    /// Parts to leave out, for one of your own: kubelet, csi-mock.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = ["kubelet", "csi-mock"])]
    without: Vec<String>,
    /// Writes the traces of all parts as JSON lines to standard output, and their own output to standard error.
    #[arg(long)]
    trace: bool,
    /// The seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Divides all waits.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = host::time_scale)]
    time_scale: f64,
}

/// Runs the program with `args`, its name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let failed = |why: String| {
        eprintln!("node: {why}");
        ExitCode::from(ENVIRONMENT)
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(format!("cannot start the runtime: {e}")),
    };
    crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = match Stop::install() {
                Ok(stop) => stop,
                Err(e) => return failed(format!("cannot install the signal handlers: {e}")),
            };
            tokio::select! { biased;
                code = stop.wait() => code,
                why = run(&args) => failed(why),
            }
        }),
    )
}

/// Runs all parts until one fails to start, and returns the reason.
async fn run(args: &Args) -> String {
    match supervise(args).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn supervise(args: &Args) -> Result<std::convert::Infallible, String> {
    for dir in [&args.registry(), &args.runtime_dir] {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    prepare(args.backend)?;
    let ready = args.runtime_dir.join("ready.json");
    gone(&ready)?;
    let mut address = own_address(&args.kubernetes).await?;
    there(&args.volume_dir).await?;
    let parts = args.parts();
    let (mut in_force, mut orders) = (OrdersInForce::default(), listen());
    let mut running = Vec::new();
    for part in &parts {
        // Stop files of an earlier life do not count after a boot.
        gone(&part.stop)?;
        running.push(Some(part.start(args, address).await?));
    }
    loop {
        substrate::ready::write(&ready, &args.describe(address)).map_err(|e| format!("{}: {e}", ready.display()))?;
        let is_up: Vec<bool> = running.iter().map(Option::is_some).collect();
        let change = tokio::select! { biased;
            (at, how) = one_ends(&mut running) => Change::Ended(at, how),
            change = asked(&parts, &is_up) => change,
            Some(order) = orders.recv() => Change::OrdersInForce(order),
            moved = another_address(&args.kubernetes, address) => Change::Moved(moved),
        };
        let again = match change {
            Change::Ended(at, how) => {
                eprintln!("node: {} ended ({how}); it starts again in {RESTART_AFTER:?}", parts[at].name);
                running[at] = None;
                at
            }
            Change::Moved(moved) => {
                let was = std::mem::replace(&mut address, moved);
                // The Node object carries the address, and kubelet writes it.
                let kubelet = parts.iter().position(|part| part.component == KUBELET);
                let Some(kubelet) = kubelet.filter(|at| running[*at].is_some()) else { continue };
                eprintln!("node: its address is {moved} now, no longer {was}; kubelet starts again");
                end(&mut running[kubelet]).await;
                kubelet
            }
            // The machine stays ready: only the requested part is down.
            Change::Stop(at) => {
                end(&mut running[at]).await;
                gone(&parts[at].ready)?;
                continue;
            }
            Change::Start(at) => {
                running[at] = Some(in_force.to(parts[at].start(args, address).await?).await);
                continue;
            }
            Change::OrdersInForce(order) => {
                for (_, stdin) in running.iter_mut().flatten() {
                    send(stdin, &order).await;
                }
                in_force.note(order);
                continue;
            }
        };
        gone(&ready)?;
        gone(&parts[again].ready)?;
        tokio::time::sleep(RESTART_AFTER).await;
        if !parts[again].stop.exists() {
            running[again] = Some(in_force.to(parts[again].start(args, address).await?).await);
        }
    }
}

/// Reads orders about faults for the parts from standard input, as components do. The channel closes at end of input.
fn listen() -> mpsc::UnboundedReceiver<Order> {
    let (orders, subscriptions) = mpsc::unbounded_channel();
    // A read of standard input cannot be cancelled and would delay the shutdown of the runtime.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(order) => {
                    if orders.send(order).is_err() {
                        break;
                    }
                }
                Err(error) => eprintln!("node: an order on standard input cannot be read: {error}"),
            }
        }
    });
    subscriptions
}

/// Orders in force, which a restarted part must receive again.
#[derive(Debug, Default)]
struct OrdersInForce(Vec<Order>);

impl OrdersInForce {
    fn note(&mut self, order: Order) {
        match &order {
            Order::Names(_) => self.0.retain(|known| !matches!(known, Order::Names(_))),
            Order::End(name) => {
                self.0.retain(|known| !matches!(known, Order::Fault(fault) if fault.name == *name));
                return;
            }
            Order::Fault(_) => {
                if self.0.contains(&order) {
                    return;
                }
            }
        }
        // Names come first: faults are validated against them.
        let at = if matches!(order, Order::Names(_)) { 0 } else { self.0.len() };
        self.0.insert(at, order);
    }

    /// Sends the orders in force to a part that has just started.
    async fn to(&self, (child, mut stdin): Running) -> Running {
        for order in &self.0 {
            send(&mut stdin, order).await;
        }
        (child, stdin)
    }
}

async fn send(stdin: &mut Option<ChildStdin>, order: &Order) {
    let line = substrate::encode::line(order);
    if let Some(stdin) = stdin {
        // A part that has ended receives all orders again when it starts.
        let _ = stdin.write_all(&line).await;
    }
}

/// A running part and its standard input.
type Running = (Child, Option<ChildStdin>);

/// Waits until one of the running parts ends.
async fn one_ends(running: &mut [Option<Running>]) -> (usize, String) {
    let waits: Vec<_> = running
        .iter_mut()
        .enumerate()
        .filter_map(|(at, part)| {
            let (child, _) = part.as_mut()?;
            Some(Box::pin(async move { (at, child.wait().await) }))
        })
        .collect();
    if waits.is_empty() {
        return std::future::pending().await;
    }
    let ((at, ended), ..) = select_all(waits).await;
    (at, ended.map_or_else(|e| e.to_string(), |status| status.to_string()))
}

/// Ends a part, which may have ended by itself.
async fn end(part: &mut Option<Running>) {
    if let Some((mut child, _)) = part.take() {
        let _ = child.kill().await;
    }
}

/// Waits until a stop file appears for a running part, or disappears for a stopped one.
async fn asked(parts: &[Part], is_up: &[bool]) -> Change {
    loop {
        for (at, (part, is_up)) in parts.iter().zip(is_up).enumerate() {
            match (part.stop.exists(), *is_up) {
                (true, true) => return Change::Stop(at),
                (false, false) => return Change::Start(at),
                _ => {}
            }
        }
        tokio::time::sleep(ASKED_LOOK).await;
    }
}

/// Event in the life of a running node.
enum Change {
    /// This part has ended, with this status.
    Ended(usize, String),
    /// The machine has this address now.
    Moved(IpAddr),
    /// The stop file of this part appeared; see [`super::part`].
    Stop(usize),
    /// The stop file of this part disappeared.
    Start(usize),
    /// An order for the parts arrived.
    OrdersInForce(Order),
}

/// Creates /dev/loop-control, which a container lacks.
#[cfg(target_os = "linux")]
fn prepare(backend: BackendChoice) -> Result<(), String> {
    match backend {
        BackendChoice::Loop => csi_mock::disk::make_control().map_err(|e| e.to_string()),
        BackendChoice::Directory => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn prepare(_: BackendChoice) -> Result<(), String> {
    Ok(())
}

/// Removes a stale file; a missing one is fine.
fn gone(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

/// Waits until mock-ec2 has created the directory of the volumes' bytes. It could not write to a directory of ours.
async fn there(dir: &Path) -> Result<(), String> {
    for _ in 0..NAME_LIMIT.as_millis() / NAME_LOOK.as_millis() {
        if dir.is_dir() {
            return Ok(());
        }
        tokio::time::sleep(NAME_LOOK).await;
    }
    Err(format!("--volume-dir {}: is not there; mock-ec2 with the same --volume-dir makes it", dir.display()))
}

/// Returns the address from which this machine reaches `endpoint`. Retries, because the name resolves only once the
/// container of the server runs.
async fn own_address(endpoint: &str) -> Result<IpAddr, String> {
    let tries = NAME_LIMIT.as_millis() / NAME_LOOK.as_millis();
    let mut last = String::new();
    for _ in 0..tries {
        match address_towards(endpoint) {
            Ok(address) => return Ok(address),
            Err(why) => last = why,
        }
        tokio::time::sleep(NAME_LOOK).await;
    }
    Err(format!("--kubernetes: {last}"))
}

/// Waits until this machine has an address other than `known`. Without a route to the API server the address counts as
/// unchanged.
async fn another_address(endpoint: &str, known: IpAddr) -> IpAddr {
    loop {
        tokio::time::sleep(LOOK).await;
        match address_towards(endpoint) {
            Ok(address) if address != known => return address,
            _ => {}
        }
    }
}

fn address_towards(endpoint: &str) -> Result<IpAddr, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{endpoint}: {e}");
    let uri: Uri = endpoint.parse().map_err(|e: http::uri::InvalidUri| failed(&e))?;
    let host = uri.scheme().and_then(|_| uri.host()).ok_or_else(|| failed(&"must be http://HOST:PORT"))?;
    let mut found = (host, uri.port_u16().unwrap_or(80)).to_socket_addrs().map_err(|e| failed(&e))?;
    let server = found.next().ok_or_else(|| failed(&"its name has no address"))?;
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    // Connecting a datagram socket sends nothing: the kernel only chooses a route.
    let socket = UdpSocket::bind((any, 0)).map_err(|e| failed(&e))?;
    socket.connect(server).map_err(|e| failed(&e))?;
    socket.local_addr().map(|own| own.ip()).map_err(|e| failed(&e))
}

/// The component that is the node agent.
const KUBELET: &str = "node-agent";

/// A process of the node.
#[derive(Debug)]
struct Part {
    /// Name in traces.
    name: String,
    component: &'static str,
    args: Vec<(&'static str, String)>,
    ready: PathBuf,
    /// If this file exists, the part must be down.
    stop: PathBuf,
}

impl Args {
    fn socket(&self, name: &str) -> String {
        format!("unix://{}", self.runtime_dir.join(format!("{name}.sock")).display())
    }

    /// Content of the ready file, which `look` reads.
    fn describe(&self, address: IpAddr) -> serde_json::Value {
        json!({
            "node": self.node_name, "address": address, "backend": self.backend(), "root": self.root,
            "volumeDir": self.volume_dir, "run": self.run,
        })
    }

    fn backend(&self) -> &'static str {
        match self.backend {
            BackendChoice::Loop => "loop",
            BackendChoice::Directory => "directory",
        }
    }

    /// Kubelet's plugin registration directory, below its root.
    fn registry(&self) -> PathBuf {
        self.root.join(controllers::node_agent::PLUGINS_REGISTRY)
    }

    /// The machine, the driver and kubelet, in the order in which they start.
    fn parts(&self) -> Vec<Part> {
        let registry = self.registry().display().to_string();
        let place = vec![
            ("--root", self.root.display().to_string()),
            ("--volume-dir", self.volume_dir.display().to_string()),
            ("--backend", self.backend().to_owned()),
            ("--run", self.run.clone()),
            ("--node-name", self.node_name.clone()),
        ];
        let zone = ("--zone", self.zone.clone());
        let mut machine = place.clone();
        machine.extend([
            ("--endpoint", self.socket("runtime")),
            ("--ec2-endpoint", self.ec2_endpoint.clone()),
            ("--instance-id", self.instance_id.clone()),
        ]);
        machine.extend(self.ec2_admin_token.iter().map(|token| ("--ec2-admin-token", token.clone())));
        let mut driver = place.clone();
        driver.extend([
            zone.clone(),
            ("--mode", "node".to_owned()),
            ("--node-id", self.instance_id.clone()),
            ("--endpoint", self.socket("csi")),
            ("--registration-dir", registry.clone()),
            // The machine provides the device slots, which outlive the driver.
            ("--no-plug", String::new()),
        ]);
        let mut kubelet = place;
        kubelet.extend([
            zone,
            ("--kubernetes", self.kubernetes.clone()),
            ("--instance-id", self.instance_id.clone()),
            ("--instance-type", self.instance_type.clone()),
            ("--plugins-registry", registry),
            ("--runtime", self.socket("runtime")),
            ("--listen", format!("0.0.0.0:{}", self.kubelet_port)),
        ]);
        kubelet.extend(self.kubernetes_token.iter().map(|token| ("--kubernetes-token", token.clone())));
        let one = |name: String, component, args| {
            let (ready, stop) =
                (part::ready_file(&self.runtime_dir, component), part::stop_file(&self.runtime_dir, component));
            Part { name, component, args, ready, stop }
        };
        let mut parts = vec![
            one(self.node_name.clone(), "machine", machine),
            one(names::csi_node(&self.node_name), "csi-mock", driver),
            one(names::kubelet(&self.node_name), KUBELET, kubelet),
        ];
        parts.retain(|part| {
            let called = if part.component == KUBELET { "kubelet" } else { part.component };
            !self.without.iter().any(|out| out == called)
        });
        parts
    }
}

impl Part {
    /// Starts it and waits until it is ready. The process ends when its standard input closes, so the caller must keep
    /// it open (waiting on the child would close it).
    async fn start(&self, node: &Args, address: IpAddr) -> Result<Running, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", self.name);
        gone(&self.ready)?;
        let mut command = Command::new(std::env::current_exe().map_err(|e| failed(&e))?);
        command.args(["component", self.component]);
        for (flag, value) in &self.args {
            command.arg(flag);
            if !value.is_empty() {
                command.arg(value);
            }
        }
        if self.component == KUBELET {
            command.args(["--node-ip", &address.to_string()]);
        }
        if node.trace {
            command.args(["--trace", "-"]);
        }
        command.args(["--seed", &node.seed.to_string(), "--time-scale", &node.time_scale.to_string()]);
        command.arg("--ready-file").arg(&self.ready);
        // The process ends with its standard input, even after `kill -9` of this one.
        command.env(PARENT_PIPE, "end").env(PROCESS_NAME, &self.name).stdin(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let stdin = child.stdin.take();
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            if self.ready.exists() {
                return Ok((child, stdin));
            }
            if let Some(status) = child.try_wait().map_err(|e| failed(&e))? {
                return Err(failed(&format!("ended with {status} while it started")));
            }
            tokio::time::sleep(step).await;
        }
        Err(failed(&format!("was not ready within {START_LIMIT:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(more: &[&str]) -> Args {
        let line = ["node", "--node-name", "node-a", "--instance-id", "i-0a", "--ec2-endpoint", "http://mock-ec2:4566"];
        let line = line.iter().chain(&["--kubernetes", "http://fake-apiserver:8080"]).chain(more);
        Args::try_parse_from(line).unwrap()
    }

    fn names(args: &Args) -> Vec<String> {
        args.parts().into_iter().map(|part| part.name).collect()
    }

    #[test]
    fn a_node_has_its_parts_except_those_left_out() {
        assert_eq!(names(&args(&[])), ["node-a", "node-a/csi-node", "node-a/kubelet"]);
        assert_eq!(names(&args(&["--without", "csi-mock"])), ["node-a", "node-a/kubelet"]);
        assert_eq!(names(&args(&["--without", "kubelet,csi-mock"])), ["node-a"]);
    }

    #[test]
    fn a_restarted_part_gets_names_first_then_faults_in_force() {
        let fault = |name: &str| {
            let text = format!(
                r#"{{"fault": {{"name": "{name}", "match": {{"plane": "link"}}, "effect": {{"partition_one_way": ["a", "b"]}}}}}}"#
            );
            serde_json::from_str::<Order>(&text).unwrap()
        };
        let mut in_force = OrdersInForce::default();
        let names = || Order::Names(substrate::fault::Names::default());
        for order in [fault("a"), fault("b"), names(), fault("b"), Order::End("a".to_owned()), names()] {
            in_force.note(order);
        }
        assert_eq!(in_force.0, [names(), fault("b")]);
    }

    #[tokio::test]
    async fn a_part_is_up_or_down_as_it_is_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().display().to_string();
        let parts = args(&["--runtime-dir", &dir]).parts();
        let now = async |is_up: [bool; 3]| match tokio::time::timeout(ASKED_LOOK / 2, asked(&parts, &is_up)).await {
            Ok(Change::Stop(at)) => Some(("stop", parts[at].name.clone())),
            Ok(Change::Start(at)) => Some(("start", parts[at].name.clone())),
            Ok(_) => panic!("not called here"),
            Err(_) => None,
        };
        assert_eq!(now([true; 3]).await, None);
        std::fs::write(part::stop_file(home.path(), "node-agent"), "").unwrap();
        assert_eq!(now([true; 3]).await, Some(("stop", "node-a/kubelet".to_owned())));
        assert_eq!(now([true, true, false]).await, None);
        std::fs::remove_file(part::stop_file(home.path(), "node-agent")).unwrap();
        assert_eq!(now([true, true, false]).await, Some(("start", "node-a/kubelet".to_owned())));
    }

    #[test]
    fn tokens_go_to_the_parts_that_need_them() {
        let parts = args(&["--ec2-admin-token", "cloud-token", "--kubernetes-token", "kube-token"]).parts();
        let has = |part: &Part, text: &str| part.args.iter().any(|(_, value)| value == text);
        let those = |text: &str| parts.iter().filter(|part| has(part, text)).map(|p| p.component).collect::<Vec<_>>();
        assert_eq!(those("cloud-token"), ["machine"]);
        assert_eq!(those("kube-token"), ["node-agent"]);
    }

    #[test]
    fn the_address_is_that_of_the_way_to_the_server() {
        assert_eq!(address_towards("http://127.0.0.1:9").unwrap(), IpAddr::from([127, 0, 0, 1]));
        assert!(address_towards("127.0.0.1").is_err());
    }
}
