//! Puts the components of a cluster together as processes of one world.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use controllers::election::Election;
use controllers::node_agent::RegistrationSocket;
use controllers::{LoopsConfig, Metrics};
use csi_disk::Disk;
use csi_mock::controller::ControllerConfig;
use csi_mock::efs::{self, FileServer};
use csi_mock::settings::Settings;
use fake_apiserver::envtest::Front;
use fake_apiserver::tls::Authority;
use fake_apiserver::{Apiserver, Rbac};
use mock_ec2::{Ec2, InstanceInfo, InstanceSpec, VolumeBytes};
use substrate::events::ProcessFailed;
use substrate::{Ctx, HttpService, Process, World, WorldKind};

use super::member::Member;
use super::mirror::Mirrors;
use super::nodes::Machine;
use super::sockets::SocketError;
use super::{Cluster, ClusterSpec, Node, NodeSpec, names, supervisor};
use crate::events::ClusterNode;
use crate::program::Program;
use crate::spec::{DriverSettings, Requests};
use crate::wiring::Wiring;

/// Why a cluster cannot be put together.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ClusterError {
    /// the cloud: {0}
    Cloud(#[from] mock_ec2::Error),
    /// {0}
    Wiring(String),
    /// {0}
    Socket(#[from] SocketError),
    /// node {0} has no instance in the cloud
    NoInstance(String),
    /// the process {0} ended while it started
    Stillborn(String),
    /// the disk of node {0}: {1}
    Disk(String, String),
}

/// Parts that differ between the two worlds.
pub struct Parts {
    /// Connections between components.
    pub wiring: Arc<dyn Wiring>,
    /// Disk of each node, by node name.
    pub disks: BTreeMap<String, Arc<dyn Disk>>,
    /// Directory of the volumes' files in the cloud. None in simulation, where the memory disks hold the bytes.
    pub volume_dir: Option<PathBuf>,
    /// Store of the volumes' bytes if the cloud has no directory for them.
    pub bytes: Option<Arc<dyn VolumeBytes>>,
    /// Kubelet root directory of each node, by node name.
    pub roots: BTreeMap<String, PathBuf>,
    /// PEM certificate of the API server's CA. None in simulation.
    pub ca_pem: Option<String>,
    /// The API server's CA, which signs approved certificate signing requests. None if it signs none.
    pub authority: Option<Arc<Authority>>,
    /// Address of the API server for users, which is the endpoint of its own service. None in simulation.
    pub advertised: Option<SocketAddr>,
    /// Listener for users of an API server that was started with its own command line.
    pub front: Option<Arc<Front>>,
}

/// Values that every component needs to start.
#[derive(Clone)]
pub(super) struct StartContext {
    pub(super) world: World,
    pub(super) spec: Arc<ClusterSpec>,
    pub(super) wiring: Arc<dyn Wiring>,
    mirrors: Option<Mirrors>,
    /// The EFS service, if the cluster has that driver.
    pub(super) file_server: Option<FileServer>,
}

impl Cluster {
    /// Starts all components of `spec` in `world`.
    ///
    /// # Errors
    /// If a server cannot listen or the cloud's configuration is refused.
    pub fn start(world: &World, spec: ClusterSpec, parts: Parts) -> Result<Self, ClusterError> {
        Self::start_with(world, spec, parts, &[])
    }

    /// Starts the cluster together with programs of the user. The caller launches the programs once the cluster runs.
    pub(super) fn start_with(
        world: &World,
        spec: ClusterSpec,
        parts: Parts,
        programs: &[Arc<Program>],
    ) -> Result<Self, ClusterError> {
        if spec.programs.len() != programs.len() {
            return Err(ClusterError::Wiring(
                "a program runs in the live world, within a cluster of one process: add --live --allow-exec".to_owned(),
            ));
        }
        if spec.efs.is_some() && spec.without.contains("csi-mock") {
            return Err(ClusterError::Wiring("the EFS driver runs beside csi-mock, which is left out".to_owned()));
        }
        let spec = spec.in_world(world.kind());
        names::OPERATIONS.iter().for_each(|operations| world.faults().declare(operations));
        world.faults().name(names::of(&spec));
        world.faults().watch();
        let mirrors = spec.mirrors.then(|| Mirrors::new(world, &spec, &parts.roots));
        let seed = world.seed().child("efs");
        let file_server = spec.efs.as_ref().map(|file_systems| FileServer::new(&seed, file_systems));
        let (world_, spec) = (world.clone(), Arc::new(spec));
        let context = StartContext { world: world_, spec, wiring: parts.wiring, mirrors, file_server };
        let ec2 = Ec2::new(&world.seed().child("ec2"), cloud_config(&context.spec, parts.volume_dir, parts.bytes))?;
        let instances = ec2.instances();
        let instances: BTreeMap<&str, &InstanceInfo> = instances.iter().map(|i| (i.name.as_str(), i)).collect();
        let introduce = |node: &NodeSpec, instance: &InstanceInfo| {
            let [name, id, zone] = [&node.name, &instance.id, &node.zone].map(|text| text.as_str().into());
            world.trace().info(&Arc::from("cluster"), ClusterNode { node: name, instance: id, zone });
        };
        // A cluster that begins with attachments emits the nodes' instances first.
        let begins = !context.spec.begin.is_empty();
        for node in context.spec.nodes.iter().filter(|_| begins) {
            instances.get(node.name.as_str()).into_iter().for_each(|instance| introduce(node, instance));
        }
        let mut members = BTreeMap::new();
        context.add(&mut members, context.cloud(ec2.clone()));
        context.add(
            &mut members,
            context.apiserver((parts.ca_pem, parts.authority), parts.advertised, parts.front.as_deref()),
        );
        if !context.is_without("csi-mock") {
            context.add(&mut members, context.csi_controller());
        }
        if let Some(server) = &context.file_server {
            context.add(&mut members, context.efs_controller(server.clone()));
        }
        for (name, process) in names::loops(&context.spec) {
            context.add(&mut members, context.loops(&name, process));
        }
        let mut nodes = BTreeMap::new();
        for node in &context.spec.nodes {
            let missing = || ClusterError::NoInstance(node.name.clone());
            let instance = instances.get(node.name.as_str()).ok_or_else(missing)?;
            let disk = parts.disks.get(&node.name).cloned().ok_or_else(missing)?;
            let root = parts.roots.get(&node.name).cloned().unwrap_or_else(|| PathBuf::from("/var/lib/kubelet"));
            if !begins {
                introduce(node, instance);
            }
            let (socket, efs_socket) = (RegistrationSocket::default(), RegistrationSocket::default());
            let (node_, id) = (node.clone(), instance.id.clone());
            let private_ip = instance.private_ip.clone();
            let machine =
                Machine { node: node_, instance: id, private_ip, root, disk: disk.clone(), socket, efs_socket };
            let registry = context.registry(&machine);
            let members = context.start_node(&machine).into_iter().map(Member::Task).collect();
            let (instance, root) = (machine.instance, machine.root);
            nodes.insert(node.name.clone(), Node { instance, members, disk, root, registry });
        }
        let user = Process::start(world, "user", |_| pending())
            .ctx()
            .ok_or_else(|| ClusterError::Stillborn("user".to_owned()))?;
        let objects = context.connect(&user, "apiserver")?;
        let cloud = context.connect(&user, "ec2")?;
        for program in programs {
            members.insert(program.name().to_owned(), Member::Program(program.clone()));
        }
        let mut cluster = Self::new(world, ClusterSpec::clone(&context.spec), objects, cloud, nodes, members, user);
        cluster.cloud = Some(ec2);
        cluster.file_server = context.file_server.clone();
        cluster.wiring = Some(context.wiring.clone());
        cluster.context = Some(context.clone());
        supervisor::start(world, &cluster);
        if let Some(mirrors) = &context.mirrors {
            cluster.mirrors = Some((mirrors.clone(), mirrors.start(world, &context.wiring)));
        }
        Ok(cluster)
    }
}

impl StartContext {
    fn add(&self, members: &mut BTreeMap<String, Member>, process: Process) {
        members.insert(process.name().to_string(), Member::Task(process));
    }

    pub(super) fn is_without(&self, component: &str) -> bool {
        self.spec.without.contains(component)
    }

    /// Names of the control loops that do not run.
    fn left_out(&self) -> BTreeSet<String> {
        let mut without = self.spec.without.clone();
        if self.world.kind() != WorldKind::Simulated {
            return without;
        }
        without.insert(controllers::TTL.to_owned());
        let rare = controllers::RARE_WORKLOADS.iter().filter(|(kind, _)| !self.spec.rare_workloads.contains(kind));
        without.extend(rare.map(|(_, name)| (*name).to_owned()));
        if !self.spec.has_owners {
            without.extend([controllers::GARBAGE_COLLECTOR, controllers::EPHEMERAL_VOLUME].map(str::to_owned));
        }
        if !self.spec.has_workloads {
            without.extend(controllers::WORKLOADS.iter().map(|name| (*name).to_owned()));
        }
        without
    }

    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, ClusterError> {
        self.wiring.connect(ctx, name).map_err(ClusterError::Wiring)
    }

    /// Publishes a service and then waits until the process is crashed. If the service cannot be published, emits
    /// `ProcessFailed` and returns.
    async fn serve(self, ctx: Ctx, name: &str, service: HttpService) {
        match self.wiring.publish(&ctx, name, service) {
            Ok(()) => pending().await,
            Err(error) => ctx.emit(ProcessFailed { error }),
        }
    }

    fn cloud(&self, ec2: Ec2) -> Process {
        let context = self.clone();
        Process::start(&self.world, "mock-ec2", move |ctx| {
            let (context, service) = (context.clone(), ec2.start(&ctx));
            let metadata = context.metadata(&ctx, &ec2);
            async move {
                for (name, service) in metadata {
                    if let Err(error) = context.wiring.publish(&ctx, &name, service) {
                        return ctx.emit(ProcessFailed { error });
                    }
                }
                context.serve(ctx, "ec2", service).await;
            }
        })
    }

    /// Instance metadata services, by the names under which they are published.
    fn metadata(&self, ctx: &Ctx, ec2: &Ec2) -> Vec<(String, HttpService)> {
        let instances = if self.spec.metadata { ec2.instances() } else { Vec::new() };
        // Ids from the cloud always parse.
        let service = |id: &str| id.parse().ok().map(|id| ec2.metadata(ctx, &id));
        instances.iter().filter_map(|i| Some((format!("imds-{}", i.name), service(&i.id)?))).collect()
    }

    fn apiserver(
        &self,
        (ca_pem, authority): (Option<String>, Option<Arc<Authority>>),
        advertised: Option<SocketAddr>,
        front: Option<&Front>,
    ) -> Process {
        let context = self.clone();
        // Webhooks are reached through sockets, which do not exist in simulation.
        let live = self.world.kind() == WorldKind::Live;
        let dial = live.then(fake_apiserver::dial::webhooks);
        let nodes = Some(self.node_dial());
        let requests = if live { Requests::None } else { self.spec.requests };
        let base = front.map(|front| front.config.clone()).unwrap_or_default();
        let of_users = || Rbac { trusts_components: true, ..Rbac::new("") };
        let token_keys = self.spec.token_keys.clone();
        let manages = !controllers::manager_is_left_out(&self.spec.without);
        let config = fake_apiserver::Config {
            dial,
            nodes,
            token_keys,
            service_accounts: self.spec.service_accounts,
            default_roles: live || requests == Requests::OfUsers,
            // In simulation no component reads managedFields.
            track_managers: live || requests > Requests::None,
            rbac: if requests == Requests::OfUsers { Some(of_users()) } else { base.rbac.clone() },
            logs: self.mirrors.as_ref().map(|mirrors| mirrors.dial(&self.wiring)),
            unserved: self.mirrors.as_ref().map(Mirrors::warnings),
            publish_root_ca: manages,
            advertised,
            authority: authority.filter(|_| manages && self.spec.origin.is_none()),
            origin: self.spec.origin.clone(),
            ..base
        };
        let config = match front {
            // The command line of the API server sets these three.
            Some(front) => fake_apiserver::Config {
                advertised: front.config.advertised,
                token_keys: front.config.token_keys.clone(),
                service_accounts: front.config.service_accounts,
                ..config
            },
            None => config,
        };
        let apiserver = Apiserver::new(&self.world.seed().child("apiserver"), config);
        Process::start(&self.world, "fake-apiserver", move |ctx| {
            let opened = context.open(&ctx, &apiserver);
            let (context, service) = (context.clone(), apiserver.start(&ctx));
            // Behind an origin the clients of this server are not the origin's.
            if let Some(ca) = ca_pem.as_ref().filter(|_| context.spec.origin.is_none()) {
                apiserver.trust(&ctx, ca);
            }
            async move {
                match opened {
                    Ok(()) => context.serve(ctx, "apiserver", service).await,
                    Err(error) => ctx.emit(ProcessFailed { error }),
                }
            }
        })
    }

    /// Creates the objects with which the cluster begins.
    fn open(&self, ctx: &Ctx, apiserver: &Apiserver) -> Result<(), String> {
        let mut resources = self.spec.begin.resources();
        self.spec.add_snapshot_kinds(&mut resources)?;
        if resources.is_empty() {
            return Ok(());
        }
        if self.spec.origin.is_some() {
            // `Cluster::create_at_origin` creates the kinds of snapshots there.
            return if self.spec.begin.is_empty() {
                Ok(())
            } else {
                Err("a cluster with a real API server begins without objects: `begin` is not possible".to_owned())
            };
        }
        let resources = substrate::json::to_value(&resources).map_err(|e| e.to_string())?;
        apiserver.open_with(ctx, &resources).map_err(|status| status.message.to_string())
    }

    /// Returns the dialer with which the API server reaches nodes: nodes of this cluster by name, other nodes by
    /// address.
    fn node_dial(&self) -> fake_apiserver::NodeDial {
        let context = self.clone();
        let others = (self.world.kind() == WorldKind::Live).then(fake_apiserver::dial::nodes);
        Arc::new(move |ctx, place| {
            let ours = !context.is_without("kubelet") && context.spec.nodes.iter().any(|node| node.name == place.node);
            match &others {
                Some(others) if !ours => others(ctx, place),
                _ => Ok(context.wiring.connect(ctx, &format!("kubelet-{}", place.node))?),
            }
        })
    }

    fn csi_controller(&self) -> Process {
        let context = self.clone();
        Process::start(&self.world, "csi-controller", move |ctx| {
            let context = context.clone();
            async move {
                let ec2 = match context.wiring.connect(&ctx, "ec2") {
                    Ok(ec2) => ec2,
                    Err(error) => return ctx.emit(ProcessFailed { error }),
                };
                let config = ControllerConfig {
                    region: context.spec.region.clone(),
                    driver_name: context.spec.driver_name.clone(),
                    // Batching is on, as in the chart of the EBS driver.
                    batching: true,
                    lock: context.spec.driver.lock,
                    settings: context.settings(),
                    ..ControllerConfig::new(ec2)
                };
                let service = csi_mock::controller::start(&ctx, config);
                context.serve(ctx, "csi-controller", service).await;
            }
        })
    }

    fn efs_controller(&self, server: FileServer) -> Process {
        let context = self.clone();
        Process::start(&self.world, names::EFS_CONTROLLER, move |ctx| {
            let service = efs::start_controller(&ctx, server.clone());
            context.clone().serve(ctx, names::EFS_CONTROLLER, service)
        })
    }

    /// Initial settings of the driver.
    pub(super) fn settings(&self) -> Settings {
        let DriverSettings { capabilities, attach_limit, capacity_gib, .. } = &self.spec.driver;
        let settings = Settings::new(capabilities.clone().unwrap_or_default());
        settings.set_attach_limit(*attach_limit);
        settings.set_capacity_gib(*capacity_gib);
        settings
    }

    /// Starts `name`, a replica of the control loop process `process`.
    pub(super) fn loops(&self, name: &str, process: &'static str) -> Process {
        let context = self.clone();
        Process::start(&self.world, name, move |ctx| {
            let context = context.clone();
            async move {
                let election = context.spec.elects(process).then(|| Election::new(&**ctx.name()));
                let timers = match context.spec.timers(process) {
                    Ok(timers) => timers,
                    Err(error) => return ctx.emit(ProcessFailed { error: error.to_string() }),
                };
                let service = Metrics::of(&ctx).service();
                if let Err(error) = context.wiring.publish(&ctx, &names::metrics(ctx.name()), service) {
                    return ctx.emit(ProcessFailed { error });
                }
                // A left-out provisioner is that of the EBS driver.
                let (driver, without) = match **ctx.name() == *names::EFS_PROVISIONER {
                    true => (names::EFS_CONTROLLER, BTreeSet::new()),
                    false => ("csi-controller", context.left_out()),
                };
                let config = LoopsConfig { without, timers, election };
                let peers = context.wiring.connect(&ctx, "apiserver").and_then(|apiserver| {
                    let needs_driver = controllers::processes::needs_driver(process);
                    Ok((apiserver, needs_driver.then(|| context.wiring.connect(&ctx, driver)).transpose()?))
                });
                match peers {
                    Ok((apiserver, csi)) => controllers::run(ctx, process, apiserver, csi, config).await,
                    Err(error) => ctx.emit(ProcessFailed { error }),
                }
            }
        })
    }
}

fn cloud_config(
    spec: &ClusterSpec,
    volume_dir: Option<PathBuf>,
    bytes: Option<Arc<dyn VolumeBytes>>,
) -> mock_ec2::Config {
    let instance = |node: &NodeSpec| InstanceSpec {
        instance_type: node.instance_type.clone(),
        id: node.instance.clone(),
        ..InstanceSpec::new(&node.name, &node.zone)
    };
    mock_ec2::Config {
        region: spec.region.clone(),
        account_id: spec.account_id.clone(),
        zones: spec.zones.clone(),
        latency: spec.latency,
        instances: spec.nodes.iter().map(instance).collect(),
        volumes: spec.begin.volumes.clone(),
        // A device on this machine is busy while it is mounted here.
        watch_mounts: volume_dir.is_some(),
        volume_dir,
        bytes,
        admin_token: spec.admin_token.clone(),
        ..mock_ec2::Config::default()
    }
}
