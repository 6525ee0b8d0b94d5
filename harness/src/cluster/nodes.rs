//! The processes of a node: the machine, the driver's node service, the node agent.

use std::future::{Future, pending};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controllers::kube::Client;
use controllers::machine::{self, MachineConfig};
use controllers::node_agent::{self, KnownPlugin, NodeAgentConfig, PLUGINS_REGISTRY, Plugins, RegistrationSocket};
use csi_disk::plug::{self, PlugConfig};
use csi_disk::{Disk, Pace};
use csi_mock::efs::{self, EFS_DRIVER_NAME, EfsNodeConfig};
use csi_mock::node::NodeConfig;
use substrate::events::ProcessFailed;
use substrate::{Ctx, Process, WorldKind};

use super::assemble::StartContext;
use super::node_files::Registry;
use super::{NodeSpec, names};
use crate::scenario::model::LatencyProfile;
use crate::spec::Containers;

/// Values that the processes of one node share.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) node: NodeSpec,
    /// Id of its instance.
    pub(super) instance: String,
    /// Private address of its instance, which the Node object reports.
    pub(super) private_ip: String,
    /// Kubelet directory.
    pub(super) root: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// Registration socket of our driver.
    pub(super) socket: RegistrationSocket,
    /// Registration socket of the EFS driver.
    pub(super) efs_socket: RegistrationSocket,
}

impl StartContext {
    /// Starts the processes of a node; the machine is the first.
    pub(super) fn start_node(&self, machine: &Machine) -> Vec<Process> {
        let name = machine.node.name.as_str();
        let mut started = vec![self.process(name, machine, Self::run_machine)];
        if !self.is_without("csi-mock") {
            started.push(self.process(&names::csi_node(name), machine, Self::run_driver));
        }
        if self.file_server.is_some() {
            started.push(self.process(&names::efs_csi_node(name), machine, Self::run_efs_driver));
        }
        if !self.is_without("kubelet") {
            started.push(self.process(&names::kubelet(name), machine, Self::run_kubelet));
        }
        started
    }

    fn process<F>(
        &self,
        name: &str,
        machine: &Machine,
        run: impl Fn(Self, Ctx, Machine) -> F + Send + Sync + 'static,
    ) -> Process
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (context, machine) = (self.clone(), machine.clone());
        Process::start(&self.world, name, move |ctx| {
            let work = run(context.clone(), ctx.clone(), machine.clone());
            async move {
                if let Err(error) = work.await {
                    ctx.emit(ProcessFailed { error });
                }
            }
        })
    }

    /// Disk for process `ctx`. Simulated disks get latency; faults act on the use of either kind.
    fn disk(&self, ctx: &Ctx, machine: &Machine) -> Arc<dyn Disk> {
        let disk = match pace(self.spec.latency) {
            Some(pace) if self.world.kind() == WorldKind::Simulated => csi_disk::paced(ctx, machine.disk.clone(), pace),
            _ => machine.disk.clone(),
        };
        csi_disk::faulty(ctx, disk)
    }

    /// Runs the parts that live as long as the machine has power: containers and device slots.
    async fn run_machine(self, ctx: Ctx, machine: Machine) -> Result<(), String> {
        let (name, disk) = (machine.node.name.as_str(), self.disk(&ctx, &machine));
        let ec2 = self.wiring.connect(&ctx, "ec2")?;
        let token = self.spec.admin_token.as_ref().map(|t| t.reveal().to_owned());
        let config = PlugConfig { token, ..PlugConfig::new(ec2, &machine.instance, name, disk.clone()) };
        ctx.spawn(plug::run(ctx.clone(), config));
        if !self.is_without("kubelet") {
            let config = MachineConfig {
                container_start: container_start(self.spec.latency),
                programs: self.spec.containers.programs(&machine.root),
                ..MachineConfig::new(name, disk)
            };
            self.wiring.publish(&ctx, &runtime(name), machine::start(&ctx, config))?;
        }
        pending().await
    }

    /// Runs the driver's node service.
    async fn run_driver(self, ctx: Ctx, machine: Machine) -> Result<(), String> {
        let (name, disk) = (machine.node.name.as_str(), self.disk(&ctx, &machine));
        let mut config = NodeConfig::new(name, &machine.instance, &machine.node.zone, disk);
        config.driver_name = self.spec.driver_name.clone();
        config.settings = self.settings();
        // As the EBS driver: the root volume takes one place, and 0 would be no limit.
        config.max_volumes = i64::from(mock_ec2::most_volumes(&machine.node.instance_type)).saturating_sub(1).max(1);
        let csi = format!("csi-{name}");
        self.wiring.publish(&ctx, &csi, csi_mock::node::start(&ctx, config))?;
        let registration = csi_mock::registration::start(&ctx, &self.spec.driver_name, &csi);
        self.wiring.publish(&ctx, &format!("csi-registration-{name}"), registration)?;
        machine.socket.create();
        pending().await
    }

    /// Runs the node service of the EFS driver.
    async fn run_efs_driver(self, ctx: Ctx, machine: Machine) -> Result<(), String> {
        let (name, disk) = (machine.node.name.as_str(), self.disk(&ctx, &machine));
        let server = self.file_server.clone().ok_or("this cluster has no file systems")?;
        let config = EfsNodeConfig {
            node_name: name.to_owned(),
            node_id: machine.instance.clone(),
            zone: machine.node.zone.clone(),
            disk,
            server,
        };
        let csi = format!("efs-csi-{name}");
        self.wiring.publish(&ctx, &csi, efs::start_node(&ctx, config))?;
        let registration = csi_mock::registration::start(&ctx, EFS_DRIVER_NAME, &csi);
        self.wiring.publish(&ctx, &format!("efs-csi-registration-{name}"), registration)?;
        machine.efs_socket.create();
        pending().await
    }

    /// Place in which kubelet finds drivers.
    pub(super) fn registry(&self, machine: &Machine) -> Registry {
        if self.is_without("csi-mock") && self.world.kind() == WorldKind::Live {
            // As for the real kubelet: any driver registers in this directory.
            return Registry::Directory(machine.root.join(PLUGINS_REGISTRY));
        }
        let second = self.file_server.as_ref().map(|_| machine.efs_socket.clone());
        Registry::Known([machine.socket.clone()].into_iter().chain(second).collect())
    }

    /// Returns the drivers of a node that kubelet knows from the start.
    fn plugins(&self, ctx: &Ctx, machine: &Machine) -> Result<Vec<KnownPlugin>, String> {
        let plugin = |prefix: &str, socket: &RegistrationSocket| {
            let connect = |service: &str| self.wiring.connect(ctx, &format!("{prefix}{service}-{}", machine.node.name));
            Ok(KnownPlugin { registration: connect("csi-registration")?, csi: connect("csi")?, socket: socket.clone() })
        };
        let second = self.file_server.as_ref().map(|_| plugin("efs-", &machine.efs_socket));
        [plugin("", &machine.socket)].into_iter().chain(second).collect()
    }

    /// Runs the node agent.
    async fn run_kubelet(self, ctx: Ctx, machine: Machine) -> Result<(), String> {
        let (name, disk) = (machine.node.name.as_str(), self.disk(&ctx, &machine));
        let client = Client::new(&ctx, self.wiring.connect(&ctx, "apiserver")?, "kubelet");
        let plugins = match self.registry(&machine) {
            Registry::Directory(registry) => Plugins::Directory(registry),
            Registry::Known(_) => Plugins::Known(self.plugins(&ctx, &machine)?),
        };
        let runtime = self.wiring.connect(&ctx, &runtime(name))?;
        let config = NodeAgentConfig {
            region: self.spec.region.clone(),
            instance_type: machine.node.instance_type.clone(),
            root: machine.root.clone(),
            internal_ip: Some(machine.private_ip.clone()),
            programs: self.spec.containers != Containers::Modelled,
            host_paths: self.spec.containers == Containers::Process { as_root: true },
            timers: self.spec.timers(controllers::flags::KUBELET).map_err(|error| error.to_string())?,
            ..NodeAgentConfig::new(name, &machine.instance, &machine.node.zone, disk, plugins, runtime)
        };
        self.wiring.publish(
            &ctx,
            &format!("kubelet-{name}"),
            node_agent::service(&ctx, &config.logs, config.runtime.clone()),
        )?;
        node_agent::run(ctx, client, config).await;
        Ok(())
    }
}

/// Name under which a machine's container runtime is reached.
fn runtime(node: &str) -> String {
    format!("runtime-{node}")
}

/// Durations of mkfs and mounts.
fn pace(profile: LatencyProfile) -> Option<Pace> {
    match profile {
        LatencyProfile::Instant => None,
        LatencyProfile::Aws => Some(Pace::aws()),
        LatencyProfile::AwsRecent => Some(Pace::aws_recent()),
    }
}

/// Minimum and maximum time from the mounts of a container until it runs: 1–3 s, as operators measured with the image
/// present.
pub(super) fn container_start(profile: LatencyProfile) -> (Duration, Duration) {
    match profile {
        LatencyProfile::Instant => (Duration::ZERO, Duration::ZERO),
        LatencyProfile::Aws | LatencyProfile::AwsRecent => (Duration::from_secs(1), Duration::from_secs(3)),
    }
}
