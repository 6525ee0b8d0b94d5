//! A cluster of OS processes. Each component is started from this same binary, and its standard output carries its
//! trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::scenario::LatencyProfile;
use fake_apiserver::events::{
    ListWasStale, RequestEnded as KubernetesRequest, WatchClosed, WatchOpened, WatchSent, WatchSpoiled,
};
use futures_util::future::LocalBoxFuture;
use mock_ec2::InstanceSpec;
use mock_ec2::events::RequestEnded as CloudRequest;
use serde_json::Value;
use substrate::events::{FaultFired, ProcessCrashed, ProcessFailed, ProcessStarted};
use substrate::fault::{Fault, Lease, Names, Span, When};
use substrate::host::{BRIEFS_FIRST, EVERY_MESSAGE, Order, PARENT_PIPE, PROCESS_NAME, WHISPERS};
use substrate::link::Link;
use substrate::{EventType, Level, Line, World, dial};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;

use super::addresses::private_ips;
use super::assemble::ClusterError;
use super::live::{BackendChoice, Site};
use super::member::Member;
use super::node_files::Registry;
use super::nodes::container_start;
use super::{Cluster, ClusterSpec, Node, NodeSpec, driver_flags, names, supervisor};
use crate::events::{self, ClusterNode, ScenarioStep};

/// Time limit for a component to become ready.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time allowed for the last lines of a component that has ended to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Processes that lose their state when they end. In one OS process, the world keeps it.
pub(super) const FORGETFUL: [&str; 2] = ["mock-ec2", "fake-apiserver"];

/// Kinds that a component emits only for checkers.
const WHISPERED: [&str; 5] =
    [ListWasStale::KIND, WatchOpened::KIND, WatchSent::KIND, WatchSpoiled::KIND, WatchClosed::KIND];

/// Kinds that a component emits only if a scenario counts them.
const MENTIONED: [&str; 2] = [KubernetesRequest::KIND, CloudRequest::KIND];

/// State of a fault in one process.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Time at which the process was told of the fault.
    since: Duration,
    /// Number of firings there.
    fired: u64,
}

/// One component as an OS process.
pub(super) struct OsProcess {
    world: World,
    name: String,
    args: Mutex<Vec<String>>,
    /// True after its `ProcessStarted` event, until it is killed or reports its own end.
    up: Arc<AtomicBool>,
    /// True once it was started.
    started: AtomicBool,
    ready: PathBuf,
    log: PathBuf,
    child: Mutex<Option<Child>>,
    /// Faults in force, over all its incarnations.
    faults: Arc<Mutex<BTreeMap<String, Known>>>,
    /// If set, events for checkers are recorded in the trace, because the checkers are not attached yet.
    aloud: Arc<AtomicBool>,
    /// Held as long as the process must live: it ends with its standard input.
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Resolves when all output of its last incarnation has been read (the sender is dropped then).
    read: Mutex<Option<oneshot::Receiver<()>>>,
    names: Arc<Names>,
    /// Kinds to emit although they are only for subscribers.
    whispers: String,
}

impl OsProcess {
    fn new(start: &Launcher<'_>, name: &str, component: &str, args: &[(&str, String)]) -> Self {
        let Launcher { world, site, names, .. } = start;
        let file = name.replace('/', ".");
        let (ready, log) = (site.path().join(format!("{file}.ready")), site.path().join(format!("{file}.log")));
        let mut line = vec!["component".to_owned(), component.to_owned()];
        for (flag, value) in args {
            line.push((*flag).to_owned());
            // A switch has no value.
            line.extend((!value.is_empty()).then(|| value.clone()));
        }
        let scale = world.scale().factor().to_string();
        line.extend(["--ready-file".to_owned(), ready.display().to_string(), "--trace".to_owned(), "-".to_owned()]);
        line.extend(["--time-scale".to_owned(), scale, "--seed".to_owned(), world.options().seed.to_string()]);
        Self {
            world: World::clone(world),
            name: name.to_owned(),
            args: Mutex::new(line),
            up: Arc::default(),
            started: AtomicBool::new(false),
            ready,
            log,
            child: Mutex::default(),
            faults: Arc::default(),
            aloud: start.aloud.clone(),
            stdin: tokio::sync::Mutex::default(),
            read: Mutex::default(),
            names: names.clone(),
            whispers: WHISPERED.iter().chain(&start.heard).copied().collect::<Vec<_>>().join(","),
        }
    }

    /// Name of the process.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the next incarnation listen on the port that this one chose.
    fn pin(&self, flag: &str, endpoint: &str) {
        let address = endpoint.rsplit("//").next().unwrap_or_default();
        let mut args = lock(&self.args);
        if let Some(at) = args.iter().position(|arg| arg == flag)
            && let Some(value) = args.get_mut(at + 1)
        {
            address.clone_into(value);
        }
    }

    /// Starts the process and returns its ready file. The process receives all faults before it does anything.
    ///
    /// # Errors
    /// If it does not become ready, with its output.
    pub(super) async fn start(&self) -> Result<Value, String> {
        let again = self.started.swap(true, Ordering::SeqCst);
        let stdin = self.launch()?;
        *self.stdin.lock().await = stdin;
        self.brief().await;
        self.order(&Order::Begin).await;
        let ready = self.ready().await?;
        // The first time it rejected faults of servers that it had not started yet.
        self.brief().await;
        if again && FORGETFUL.contains(&&*self.name) {
            let error = "it has lost its state, which it keeps in memory alone; end it in runs without --processes";
            self.world.trace().info(&self.name.as_str().into(), ProcessFailed { error: error.to_owned() });
        }
        Ok(ready)
    }

    /// Starts the process and returns its standard input. Its events go into the world's trace as they arrive.
    fn launch(&self) -> Result<Option<ChildStdin>, String> {
        let failed = |e: std::io::Error| format!("{} does not start: {e}", self.name);
        // The file of an earlier incarnation must not count.
        let _ = std::fs::remove_file(&self.ready);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        if self.world.options().level == Level::Trace {
            command.env(EVERY_MESSAGE, "1");
        }
        let mut child = command
            .args(&*lock(&self.args))
            .env(PARENT_PIPE, BRIEFS_FIRST)
            .env(PROCESS_NAME, &self.name)
            .env(WHISPERS, &self.whispers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&self.log).map_err(failed)?)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            self.follow(BufReader::new(stdout));
        }
        *lock(&self.child) = Some(child);
        Ok(stdin)
    }

    fn follow(&self, stdout: BufReader<tokio::process::ChildStdout>) {
        // The harness' own name: drivers on two nodes report the same name.
        let (world, name): (_, Arc<str>) = (self.world.clone(), self.name.as_str().into());
        let kinds = events::all();
        let (faults, aloud, up) = (self.faults.clone(), self.aloud.clone(), self.up.clone());
        let (reading, read) = oneshot::channel::<()>();
        *lock(&self.read) = Some(read);
        let reader =
            substrate::Process::start(&self.world, &format!("trace of {}", self.name), move |_| std::future::pending());
        let Some(ctx) = reader.ctx() else { return };
        ctx.spawn(async move {
            // Keeps the process handle alive while lines arrive.
            let _reader = (reader, reading);
            let mut lines = stdout.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let read = serde_json::from_str::<Line>(&line).map_err(|e| format!("{e}: {line}"));
                let adopted = read.and_then(|line| {
                    match (&*line.kind, line.str("fault")) {
                        (FaultFired::KIND, Some(fault)) => {
                            lock(&faults).entry(fault.to_owned()).or_default().fired += 1;
                        }
                        (ProcessStarted::KIND, _) => up.store(true, Ordering::SeqCst),
                        (ProcessCrashed::KIND, _) => up.store(false, Ordering::SeqCst),
                        _ => {}
                    }
                    // Each process counts time from its own start, so the event gets this world's time.
                    let ms = world.clock().mono().as_millis() as u64;
                    let line = Line { ms, process: name.clone(), ..line };
                    if WHISPERED.iter().chain(&MENTIONED).any(|kind| *kind == &*line.kind)
                        && !aloud.load(Ordering::SeqCst)
                    {
                        return whisper(&world, line).map_err(|e| e.to_string());
                    }
                    world.trace().adopt(&kinds, line).map_err(|e| e.to_string())
                });
                if let Err(error) = adopted {
                    world.trace().info(&name, ProcessFailed { error: format!("its trace cannot be read: {error}") });
                }
            }
        });
    }

    /// Waits for the ready file and returns its content.
    async fn ready(&self) -> Result<Value, String> {
        let tries = START_LIMIT.as_millis() / 10;
        for _ in 0..tries {
            if let Ok(text) = std::fs::read(&self.ready) {
                return serde_json::from_slice(&text).map_err(|e| format!("{}: ready file: {e}", self.name));
            }
            let ended = match &mut *lock(&self.child) {
                Some(child) => child.try_wait().ok().flatten(),
                None => return Err(format!("{} was ended while it started", self.name)),
            };
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!(
                    "{} ended with {status} while it started; its output:\n{}",
                    self.name,
                    said.trim_end()
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("{} was not ready within {START_LIMIT:?}", self.name))
    }

    /// Sends all names and faults in force.
    async fn brief(&self) {
        self.order(&Order::Names(Names::clone(&self.names))).await;
        let now = self.world.clock().mono();
        for report in self.world.faults().list() {
            let known = lock(&self.faults).get(&report.fault.name).copied();
            let (age, fired) = known.map_or_else(Default::default, |known| {
                (now.saturating_sub(known.since).mul_f64(self.world.scale().factor()), known.fired)
            });
            if let Some(rest) = rest(report.fault, age, fired) {
                self.order(&Order::Fault(Box::new(rest))).await;
            }
        }
    }

    /// Sends an order to the process.
    pub(super) async fn order(&self, order: &Order) {
        match order {
            Order::Fault(fault) => {
                let known = || Known { since: self.world.clock().mono(), fired: 0 };
                lock(&self.faults).entry(fault.name.clone()).or_insert_with(known);
            }
            // A later fault of that name counts from zero.
            Order::End(fault) => drop(lock(&self.faults).remove(fault)),
            Order::Names(_) | Order::Begin => {}
        }
        let line = substrate::encode::line(order);
        if let Some(stdin) = &mut *self.stdin.lock().await {
            // A process that has ended receives all orders when it starts.
            let _ = stdin.write_all(&line).await;
        }
    }

    /// Ends the process as `kill -9` does.
    pub(super) async fn kill(&self) {
        let child = lock(&self.child).take();
        self.stdin.lock().await.take();
        let Some(mut child) = child else { return };
        // An error means that it has ended by itself.
        let _ = child.kill().await;
        let read = lock(&self.read).take();
        if let Some(read) = read {
            // Its last events must come before its end. The limit is for a child of it that holds its output open.
            let _ = tokio::time::timeout(LAST_WORDS, read).await;
        }
        // A process that ends by itself, for example after it lost its lease, reports that.
        if self.up.swap(false, Ordering::SeqCst) {
            self.world.trace().info(&self.name.as_str().into(), ProcessCrashed {});
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes an event from another OS process to the checkers of `world` only.
fn whisper(world: &World, line: Line) -> Result<(), serde_json::Error> {
    fn say<T: EventType>(world: &World, line: Line) -> Result<(), serde_json::Error> {
        let event: T = substrate::json::from_value(line.fields.into())?;
        world.trace().whisper(&line.process, || event);
        Ok(())
    }
    match &*line.kind {
        WatchOpened::KIND => say::<WatchOpened>(world, line),
        WatchSent::KIND => say::<WatchSent>(world, line),
        ListWasStale::KIND => say::<ListWasStale>(world, line),
        WatchSpoiled::KIND => say::<WatchSpoiled>(world, line),
        WatchClosed::KIND => say::<WatchClosed>(world, line),
        KubernetesRequest::KIND => say::<KubernetesRequest>(world, line),
        CloudRequest::KIND => say::<CloudRequest>(world, line),
        _ => Ok(()),
    }
}

/// Remainder of a fault for a process that starts again `age` after the fault was added, if the fault has fired `fired`
/// times in its earlier incarnations. A restart neither prolongs a fault nor lets it fire more often.
fn rest(fault: Fault, age: Duration, fired: u64) -> Option<Fault> {
    let When { first, nth, every, after, lasting, .. } = fault.when;
    let (turns, begin) = (every.unwrap_or(1), after.map_or(Duration::ZERO, |after| after.0));
    let first = first.map(|first| first.saturating_sub(fired.saturating_mul(turns)));
    let lasting = lasting.map(|lasting| Span((begin + lasting.0).saturating_sub(age.max(begin))));
    let ttl = fault.lease.ttl.map(|ttl| Span(ttl.0.saturating_sub(age)));
    let is_over = nth.is_some() && fired > 0
        || first.is_some_and(|first| first < turns)
        || [lasting, ttl].into_iter().flatten().any(|span| span.0.is_zero());
    let after = after.map(|after| Span(after.0.saturating_sub(age)));
    let (when, lease) = (When { first, after, lasting, ..fault.when }, Lease { ttl, ..fault.lease });
    (!is_over).then_some(Fault { when, lease, ..fault })
}

/// Starts processes and keeps their answers.
struct Launcher<'a> {
    world: &'a World,
    site: &'a Site,
    names: Arc<Names>,
    aloud: Arc<AtomicBool>,
    latency: LatencyProfile,
    heard: Vec<&'static str>,
}

impl Launcher<'_> {
    async fn start(
        &self,
        name: &str,
        component: &str,
        args: &[(&str, String)],
    ) -> Result<(Arc<OsProcess>, Value), ClusterError> {
        let process = Arc::new(OsProcess::new(self, name, component, args));
        let ready = process.start().await.map_err(ClusterError::Wiring)?;
        Ok((process, ready))
    }

    fn sockets(&self, node: &str) -> PathBuf {
        self.site.socket_dir().join(format!("{node}.sock"))
    }

    fn registry(&self, node: &str) -> PathBuf {
        self.site.socket_dir().join(format!("{node}.d"))
    }
}

impl Cluster {
    /// Starts a cluster whose components are OS processes.
    ///
    /// # Errors
    /// If a component does not become ready, with its output.
    pub fn processes<'a>(
        world: &'a World,
        spec: ClusterSpec,
        site: &'a Site,
    ) -> LocalBoxFuture<'a, Result<Self, ClusterError>> {
        // Boxed so that it is compiled once and not in each caller.
        Box::pin(Self::of_processes(world, spec, site))
    }

    async fn of_processes(world: &World, spec: ClusterSpec, site: &Site) -> Result<Self, ClusterError> {
        names::OPERATIONS.iter().for_each(|operations| world.faults().declare(operations));
        world.faults().name(names::of(&spec));
        world.faults().watch();
        let aloud = Arc::new(AtomicBool::new(true));
        let (heard, names, latency) = (spec.heard.clone(), Arc::new(names::of(&spec)), spec.latency);
        let (start, last) = (Launcher { world, site, names, aloud: aloud.clone(), latency, heard }, aloud);
        world.trace().observe(move |event| {
            // The checkers are attached before the first step.
            if event.is::<ScenarioStep>() {
                last.store(false, Ordering::SeqCst);
            }
        });
        for dir in [site.volume_dir(), site.socket_dir()] {
            std::fs::create_dir_all(&dir).map_err(|e| ClusterError::Wiring(format!("{}: {e}", dir.display())))?;
        }
        let mut members = BTreeMap::new();
        let instances = instances(world, &spec);
        let list = site.path().join("instances.json");
        write_instances(&list, &instances)?;
        let any = "127.0.0.1:0".to_owned();
        let (cloud, ready) = start
            .start(
                "mock-ec2",
                "mock-ec2",
                &[
                    ("--listen", any.clone()),
                    ("--instances", list.display().to_string()),
                    ("--volume-dir", site.volume_dir().display().to_string()),
                    ("--latency", spec.latency.as_str().to_owned()),
                    ("--zones", spec.zones.join(",")),
                ],
            )
            .await?;
        let ec2 = text(&ready, "endpoint");
        cloud.pin("--listen", &ec2);
        members.insert("mock-ec2".to_owned(), Member::Os(cloud));
        let kubeconfig = site.path().join("kubeconfig");
        let (apiserver, ready) = start
            .start(
                "fake-apiserver",
                "fake-apiserver",
                &[
                    ("--listen", any.clone()),
                    ("--http-listen", any),
                    ("--kubeconfig", kubeconfig.display().to_string()),
                ],
            )
            .await?;
        let kubernetes = text(&ready, "httpEndpoint");
        apiserver.pin("--listen", &text(&ready, "endpoint"));
        apiserver.pin("--http-listen", &kubernetes);
        members.insert("fake-apiserver".to_owned(), Member::Os(apiserver));
        let socket = format!("unix://{}", start.sockets("csi-controller").display());
        let mut csi = vec![
            ("--mode", "controller".to_owned()),
            ("--endpoint", socket.clone()),
            ("--ec2-endpoint", ec2.clone()),
            ("--batching", String::new()),
        ];
        csi.extend(driver_flags::of(&spec.driver));
        if !spec.without.contains("csi-mock") {
            let controller = start.start("csi-controller", "csi-mock", &csi).await?.0;
            members.insert("csi-controller".to_owned(), Member::Os(controller));
        }
        for (name, process) in names::loops(&spec) {
            let mut args = vec![("--kubernetes", kubernetes.clone()), ("--only", process.to_owned())];
            if controllers::processes::needs_driver(process) {
                args.push(("--csi", socket.clone()));
            }
            let without: Vec<&str> =
                spec.without.iter().map(String::as_str).filter(|name| controllers::LOOPS.contains(name)).collect();
            if !without.is_empty() {
                args.push(("--without", without.join(",")));
            }
            if spec.elects(process) {
                args.push(("--leader-elect", name.clone()));
            }
            args.extend(flags(&spec, process));
            members.insert(name.clone(), Member::Os(start.start(&name, "controllers", &args).await?.0));
        }
        let unknown = |e: &dyn std::fmt::Display| ClusterError::Wiring(format!("the addresses of instances: {e}"));
        let cloud = dial::http(&ec2).map_err(|e| unknown(&e))?;
        let addresses = private_ips(cloud, spec.admin_token.as_ref()).await.map_err(|e| unknown(&e))?;
        let mut nodes = BTreeMap::new();
        for (node, instance) in spec.nodes.iter().zip(&instances) {
            let [name, zone] = [&node.name, &node.zone].map(|text| text.as_str().into());
            let id = instance.id.as_deref().unwrap_or_default().into();
            world.trace().info(&Arc::from("cluster"), ClusterNode { node: name, instance: id, zone });
            let ip = instance.id.as_ref().and_then(|id| addresses.get(id)).map_or("", String::as_str);
            let node = start.node(&spec, (node, instance, ip), &ec2, &kubernetes).await?;
            nodes.insert(node.0, node.1);
        }
        let peers = [dial::http(&kubernetes), dial::http(&ec2)];
        let [Ok(objects), Ok(cloud)] = peers else {
            return Err(ClusterError::Wiring(format!("no clients of {kubernetes} and {ec2}")));
        };
        let user = substrate::Process::start(world, "user", |_| std::future::pending()).ctx();
        let user = user.ok_or_else(|| ClusterError::Stillborn("user".to_owned()))?;
        let (objects, cloud) = (Link::over(&user, "apiserver", objects), Link::over(&user, "ec2", cloud));
        let mut cluster = Self::new(world, spec, objects, cloud, nodes, members, user);
        cluster.doors = Some((ec2, kubeconfig));
        supervisor::start(world, &cluster);
        Ok(cluster)
    }
}

impl Launcher<'_> {
    async fn node(
        &self,
        spec: &ClusterSpec,
        (node, instance, private_ip): (&NodeSpec, &InstanceSpec, &str),
        ec2: &str,
        kubernetes: &str,
    ) -> Result<(String, Node), ClusterError> {
        let id = instance.id.clone().unwrap_or_default();
        let root = self.site.node_root(&node.name);
        let registry = self.registry(&node.name);
        std::fs::create_dir_all(&registry).map_err(|e| ClusterError::Wiring(format!("{}: {e}", registry.display())))?;
        let backend = match self.site.backend() {
            BackendChoice::Loop => "loop",
            BackendChoice::Directory => "directory",
        };
        let place = [
            ("--root", root.display().to_string()),
            ("--volume-dir", self.site.volume_dir().display().to_string()),
            ("--backend", backend.to_owned()),
            ("--run", self.site.run_name()),
            ("--node-name", node.name.clone()),
            ("--zone", node.zone.clone()),
        ];
        let mut driver = vec![
            ("--mode", "node".to_owned()),
            ("--node-id", id.clone()),
            ("--endpoint", format!("unix://{}", self.sockets(&node.name).display())),
            ("--registration-dir", registry.display().to_string()),
            // The machine provides the device slots, which outlive the driver.
            ("--no-plug", String::new()),
        ];
        driver.extend(driver_flags::of(&spec.driver));
        let runtime =
            format!("unix://{}", self.site.socket_dir().join(format!("{}.runtime.sock", node.name)).display());
        let (least, most) = container_start(self.latency);
        let slots = [
            ("--endpoint", runtime.clone()),
            ("--ec2-endpoint", ec2.to_owned()),
            ("--instance-id", id.clone()),
            ("--container-start", format!("{}..{}", Span(least), Span(most))),
        ];
        let machine = self.start(&node.name, "machine", &[&place[..5], &slots].concat()).await?.0;
        let mut members = vec![Member::Os(machine)];
        if !spec.without.contains("csi-mock") {
            let name = names::csi_node(&node.name);
            members.push(Member::Os(self.start(&name, "csi-mock", &[&place[..], &driver].concat()).await?.0));
        }
        let agent = [
            ("--kubernetes", kubernetes.to_owned()),
            ("--instance-id", id.clone()),
            ("--instance-type", node.instance_type.clone()),
            ("--node-ip", private_ip.to_owned()),
            ("--plugins-registry", registry.display().to_string()),
            ("--runtime", runtime),
        ];
        if !spec.without.contains("kubelet") {
            let name = names::kubelet(&node.name);
            let args = [&place[..], &agent, &flags(spec, controllers::flags::KUBELET)].concat();
            members.push(Member::Os(self.start(&name, "node-agent", &args).await?.0));
        }
        let (disk, registry) = (self.site.disk(&node.name)?, Registry::Directory(registry));
        Ok((node.name.clone(), Node { instance: id, members, disk, root, registry }))
    }
}

/// Command line arguments for the flags that `spec` sets in `process`.
fn flags(spec: &ClusterSpec, process: &str) -> Vec<(&'static str, String)> {
    let own = spec.flags.iter().filter(|(of, ..)| of == process);
    own.map(|(of, name, value)| ("--flag", format!("{of}.{name}={value}"))).collect()
}

fn instances(world: &World, spec: &ClusterSpec) -> Vec<InstanceSpec> {
    let mut rng = world.seed().child("instances").rng();
    let instance = |node: &NodeSpec| InstanceSpec {
        id: Some(substrate::ids::ec2(&mut rng, "i")),
        instance_type: node.instance_type.clone(),
        ..InstanceSpec::new(&node.name, &node.zone)
    };
    spec.nodes.iter().map(instance).collect()
}

fn write_instances(path: &Path, instances: &[InstanceSpec]) -> Result<(), ClusterError> {
    let failed = |e: std::io::Error| ClusterError::Wiring(format!("{}: {e}", path.display()));
    let text = serde_json::to_vec(instances).map_err(|e| failed(e.into()))?;
    std::fs::write(path, text).map_err(failed)
}

fn text(ready: &Value, key: &str) -> String {
    ready[key].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_goes_on_where_an_earlier_incarnation_was_at() {
        let left = |when: &str, fired: u64| {
            let text = format!(
                r#"{{"name": "f", "match": {{"plane": "csi"}}, "when": {when}, "effect": {{"crash": "self"}}}}"#
            );
            let fault = serde_json::from_str(&text).expect("a fault");
            rest(fault, Duration::ZERO, fired).map(|fault| fault.when.first)
        };
        assert_eq!(left("{}", 7), Some(None));
        assert_eq!([left(r#"{"first": 2}"#, 0), left(r#"{"first": 2}"#, 1)], [Some(Some(2)), Some(Some(1))]);
        assert_eq!([left(r#"{"first": 2}"#, 2), left(r#"{"first": 2}"#, 3)], [None, None]);
        assert_eq!([left(r#"{"nth": 3}"#, 0), left(r#"{"nth": 3}"#, 1)], [Some(None), None]);
        let every = |fired| left(r#"{"first": 7, "every": 3}"#, fired);
        assert_eq!([every(0), every(1), every(2)], [Some(Some(7)), Some(Some(4)), None]);
        assert_eq!(left(r#"{"every": 3}"#, 5), Some(None));
    }

    #[test]
    fn a_fault_lasts_no_longer_in_a_process_that_starts_again() {
        let left = |when: &str, age: u64| {
            let text =
                format!(r#"{{"name": "f", "match": {{"plane": "csi"}}, "when": {when}, "effect": {{"count": true}}}}"#);
            let fault = serde_json::from_str(&text).expect("a fault");
            let secs = |span: Option<Span>| span.map(|span| span.0.as_secs());
            rest(fault, Duration::from_secs(age), 0).map(|fault| (secs(fault.when.after), secs(fault.when.lasting)))
        };
        let when = r#"{"after": "10s", "for": "5s"}"#;
        assert_eq!(
            [0, 4, 12].map(|age| left(when, age)),
            [(10, 5), (6, 5), (0, 3)].map(|(a, f)| Some((Some(a), Some(f))))
        );
        assert_eq!([left(when, 15), left(when, 60)], [None, None]);
        assert_eq!(left("{}", 60), Some((None, None)));
    }
}
