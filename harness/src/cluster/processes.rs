//! A cluster of OS processes: every component is one of its own, started from this same binary, with its trace read
//! from its standard output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_mock::settings::LockKey;
use mock_ec2::InstanceSpec;
use serde_json::Value;
use substrate::events::ProcessFailed;
use substrate::fault::Names;
use substrate::host::{Order, PARENT_PIPE, PROCESS_NAME};
use substrate::{Line, World, dial};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::assemble::ClusterError;
use super::live::{BackendChoice, Site};
use super::member::Member;
use super::{Cluster, ClusterSpec, Node, NodeSpec, names, supervisor};
use crate::events::{self, ClusterNode};

/// How long a component may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// One component as an OS process.
pub(super) struct OsProcess {
    world: World,
    name: String,
    args: Vec<String>,
    ready: PathBuf,
    log: PathBuf,
    child: Mutex<Option<Child>>,
    /// Held for as long as the process is to live.
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    names: Arc<Names>,
}

impl OsProcess {
    fn new(
        world: &World,
        site: &Site,
        names: &Arc<Names>,
        name: &str,
        component: &str,
        args: &[(&str, String)],
    ) -> Self {
        let file = name.replace('/', ".");
        let (ready, log) = (site.path().join(format!("{file}.ready")), site.path().join(format!("{file}.log")));
        let mut line = vec!["component".to_owned(), component.to_owned()];
        for (flag, value) in args {
            line.extend([(*flag).to_owned(), value.clone()]);
        }
        let scale = world.scale().factor().to_string();
        line.extend(["--ready-file".to_owned(), ready.display().to_string(), "--trace".to_owned(), "-".to_owned()]);
        line.extend(["--time-scale".to_owned(), scale, "--seed".to_owned(), world.options().seed.to_string()]);
        Self {
            world: world.clone(),
            name: name.to_owned(),
            args: line,
            ready,
            log,
            child: Mutex::default(),
            stdin: tokio::sync::Mutex::default(),
            names: names.clone(),
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts the process; its events go into the world's trace as they come.
    pub(super) fn launch(&self) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{} does not start: {e}", self.name);
        // The file of an earlier incarnation says nothing about this one.
        let _ = std::fs::remove_file(&self.ready);
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(&self.args)
            .env(PARENT_PIPE, "1")
            .env(PROCESS_NAME, &self.name)
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
        *self.child() = Some(child);
        if let Ok(mut slot) = self.stdin.try_lock() {
            *slot = stdin;
        }
        Ok(())
    }

    fn follow(&self, stdout: BufReader<tokio::process::ChildStdout>) {
        // The harness' own name for it: two drivers on two nodes have one name among themselves.
        let (world, name): (_, Arc<str>) = (self.world.clone(), self.name.as_str().into());
        let kinds = events::all();
        let reader =
            substrate::Process::start(&self.world, &format!("trace of {}", self.name), move |_| std::future::pending());
        let Some(ctx) = reader.ctx() else { return };
        ctx.spawn(async move {
            // Keeps the process handle for as long as lines come.
            let _reader = reader;
            let mut lines = stdout.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let read = serde_json::from_str::<Line>(&line).map_err(|e| format!("{e}: {line}"));
                let adopted = read.and_then(|line| {
                    // Each process counts time from its own start, so the event gets this world's time.
                    let ms = world.clock().mono().as_millis() as u64;
                    let line = Line { ms, process: name.clone(), ..line };
                    world.trace().adopt(&kinds, line).map_err(|e| e.to_string())
                });
                if let Err(error) = adopted {
                    world.trace().info(&name, ProcessFailed { error: format!("its trace cannot be read: {error}") });
                }
            }
        });
    }

    /// Waits until the ready file is there and returns what it says.
    pub(super) async fn ready(&self) -> Result<Value, String> {
        let tries = START_LIMIT.as_millis() / 10;
        for _ in 0..tries {
            if let Ok(text) = std::fs::read(&self.ready) {
                return serde_json::from_slice(&text).map_err(|e| format!("{}: ready file: {e}", self.name));
            }
            let ended = self.child().as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!(
                    "{} ended with {status} while it started; it said:\n{}",
                    self.name,
                    said.trim_end()
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("{} was not ready within {START_LIMIT:?}", self.name))
    }

    /// Says which names and faults there are, to a process that has just become ready.
    pub(super) async fn brief(&self) {
        self.order(&Order::Names(Names::clone(&self.names))).await;
        for report in self.world.faults().list() {
            self.order(&Order::Fault(Box::new(report.fault))).await;
        }
    }

    /// Tells the process of a fault.
    pub(super) async fn order(&self, order: &Order) {
        let mut line = serde_json::to_vec(order).unwrap_or_default();
        line.push(b'\n');
        if let Some(stdin) = &mut *self.stdin.lock().await {
            // A process that has ended is briefed anew when it starts.
            let _ = stdin.write_all(&line).await;
        }
    }

    /// Ends the process as `kill -9` does.
    pub(super) async fn kill(&self) {
        let child = self.child().take();
        self.stdin.lock().await.take();
        if let Some(mut child) = child {
            // An error means that it has ended by itself.
            let _ = child.kill().await;
        }
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts processes and remembers what they answered.
struct Launcher<'a> {
    world: &'a World,
    site: &'a Site,
    names: Arc<Names>,
}

impl Launcher<'_> {
    async fn start(
        &self,
        name: &str,
        component: &str,
        args: &[(&str, String)],
    ) -> Result<(Arc<OsProcess>, Value), ClusterError> {
        let process = Arc::new(OsProcess::new(self.world, self.site, &self.names, name, component, args));
        process.launch().map_err(ClusterError::Wiring)?;
        let ready = process.ready().await.map_err(ClusterError::Wiring)?;
        process.brief().await;
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
    /// When a component does not become ready, with what it printed.
    pub async fn processes(world: &World, spec: ClusterSpec, site: &Site) -> Result<Self, ClusterError> {
        names::OPERATIONS.iter().for_each(|operations| world.faults().declare(operations));
        world.faults().name(names::of(&spec));
        world.faults().watch();
        let start = Launcher { world, site, names: Arc::new(names::of(&spec)) };
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
        members.insert("fake-apiserver".to_owned(), Member::Os(apiserver));
        let socket = format!("unix://{}", start.sockets("csi-controller").display());
        let csi =
            [("--mode", "controller".to_owned()), ("--endpoint", socket.clone()), ("--ec2-endpoint", ec2.clone()), ("--lock", lock(spec.lock).to_owned())];
        members
            .insert("csi-controller".to_owned(), Member::Os(start.start("csi-controller", "csi-mock", &csi).await?.0));
        for (name, process) in names::loops(&spec) {
            let mut args = vec![("--kubernetes", kubernetes.clone()), ("--only", process.to_owned())];
            if controllers::processes::needs_driver(process) {
                args.push(("--csi", socket.clone()));
            }
            if spec.elects(process) {
                args.push(("--leader-elect", name.clone()));
            }
            members.insert(name.clone(), Member::Os(start.start(&name, "controllers", &args).await?.0));
        }
        let mut nodes = BTreeMap::new();
        for (node, instance) in spec.nodes.iter().zip(&instances) {
            let [name, zone] = [&node.name, &node.zone].map(|text| text.as_str().into());
            let id = instance.id.as_deref().unwrap_or_default().into();
            world.trace().info(&Arc::from("cluster"), ClusterNode { node: name, instance: id, zone });
            let node = start.node(node, instance, &ec2, &kubernetes).await?;
            nodes.insert(node.0, node.1);
        }
        let peers = [dial::http(&kubernetes), dial::http(&ec2)];
        let [Ok(objects), Ok(cloud)] = peers else {
            return Err(ClusterError::Wiring(format!("no clients of {kubernetes} and {ec2}")));
        };
        let user = substrate::Process::start(world, "user", |_| std::future::pending()).ctx();
        let user = user.ok_or_else(|| ClusterError::Stillborn("user".to_owned()))?;
        let cluster = Self::new(world, spec, objects, cloud, nodes, members, user);
        supervisor::start(world, &cluster);
        Ok(cluster)
    }
}

impl Launcher<'_> {
    async fn node(
        &self,
        node: &NodeSpec,
        instance: &InstanceSpec,
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
        let driver = [
            ("--mode", "node".to_owned()),
            ("--node-id", id.clone()),
            ("--endpoint", format!("unix://{}", self.sockets(&node.name).display())),
            ("--registration-dir", registry.display().to_string()),
            ("--ec2-endpoint", ec2.to_owned()),
        ];
        let runtime = format!("unix://{}", self.site.socket_dir().join(format!("{}.runtime.sock", node.name)).display());
        let machine = self.start(&node.name, "machine", &[&place[..5], &[("--endpoint", runtime.clone())]].concat()).await?.0;
        let name = names::csi_node(&node.name);
        let driver = self.start(&name, "csi-mock", &[&place[..], &driver].concat()).await?.0;
        let agent = [
            ("--kubernetes", kubernetes.to_owned()),
            ("--instance-id", id.clone()),
            ("--instance-type", node.instance_type.clone()),
            ("--plugins-registry", registry.display().to_string()),
            ("--runtime", runtime),
        ];
        let agent = self.start(&names::kubelet(&node.name), "node-agent", &[&place[..], &agent].concat()).await?.0;
        let members = vec![Member::Os(machine), Member::Os(driver), Member::Os(agent)];
        Ok((node.name.clone(), Node { instance: id, members, disk: self.site.disk(&node.name)? }))
    }
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

fn lock(key: LockKey) -> &'static str {
    match key {
        LockKey::Volume => "volume",
        LockKey::VolumeAndNode => "volume-and-node",
    }
}
