//! A cluster of running containers, which is reached through its published ports and broken through docker.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use http::Request;
use serde_json::{Value, json};
use substrate::body::{call, collect, empty, full};
use substrate::events::FaultFired;
use substrate::fault::{Effect, Fault, Mistake, Names, Plane};
use substrate::host::Order;
use substrate::link::Link;
use substrate::{HttpService, World, dial};

use super::container::{Container, docker};
use super::disk::ContainerDisk;
use super::fault_channel::FaultChannel;
use super::part::is_part;
use super::project::Project;
use crate::cluster::Objects;
use crate::cluster::assemble::ClusterError;
use crate::cluster::member::Member;
use crate::cluster::node_files::Registry;
use crate::cluster::{Cluster, ClusterSpec, Node, names, supervisor};
use crate::events::ClusterNode;
use crate::spec::object::{Kind, ObjectRef};

/// Kubelet directory in the container of a machine.
const ROOT: &str = "/var/lib/kubelet";
/// Maximum size in bytes of an admin API's answer about a fault.
const LIMIT: usize = 1 << 20;

/// Applies the faults of a project, in a server or in a network.
pub(in crate::cluster) struct FaultAdmin {
    world: World,
    project: Project,
    /// Admin APIs of the servers.
    servers: BTreeMap<&'static str, HttpService>,
    /// Nodes that the run has cordoned: schedulable ones that are not in the scenario.
    cordoned: Vec<String>,
    /// Channel to the processes in containers, by service.
    fault_channels: Mutex<BTreeMap<String, Arc<FaultChannel>>>,
}

/// Point at which a fault is injected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// In the admin API of this server.
    Server(&'static str),
    /// Between this service and this network.
    Network(String, &'static str),
    /// In the processes of this service.
    Processes(String),
}

/// Returns the point at which a fault is injected into containers.
///
/// # Errors
/// Names the field that rules the fault out.
pub(super) fn place(names: &Names, fault: &Fault) -> Result<At, Mistake> {
    if fault.when.until.is_some() {
        return Err(Mistake::new(
            "when.until",
            "in containers conditions are not watched: end the fault with the step clear-fault",
        ));
    }
    match &fault.effect {
        Effect::Crash(_) | Effect::Reboot(_) => {
            let message = "in containers a fault cannot end a process: use the steps crash and restart";
            Err(Mistake::new("effect", message))
        }
        Effect::Partition(_) | Effect::PartitionOneWay(_) if fault.when != substrate::fault::When::default() => {
            let message = "in containers a partition holds from the step on: end it with the step heal";
            Err(Mistake::new("when", message))
        }
        Effect::PartitionOneWay([a, b]) => {
            let caller = caller(names, a, b).or_else(|| caller(names, b, a));
            caller.map(At::Processes).ok_or_else(|| {
                let message = format!(
                    "{a} and {b}: the way is cut where the requests are made. One end must be apiserver, ec2 or \
                     csi-controller, the other who calls it: a node, csi-controller or a process of control loops"
                );
                Mistake::new("effect.partition_one_way", message)
            })
        }
        Effect::Partition([a, b]) => between(names, a, b)
            .or_else(|| between(names, b, a))
            .map(|(service, network)| At::Network(service, network))
            .ok_or_else(|| {
                let message = format!(
                    "docker cannot cut {a} off {b}: one end must be apiserver or ec2, the other a node, \
                         csi-controller or a process of control loops"
                );
                Mistake::new("effect.partition", message)
            }),
        _ => match fault.matches.plane {
            Plane::Ec2 => Ok(At::Server("mock-ec2")),
            Plane::K8s => Ok(At::Server("fake-apiserver")),
            other => {
                let message =
                    format!("containers take faults of the planes ec2 and k8s and partitions, not of {}", other.name());
                Err(Mistake::new("match.plane", message))
            }
        },
    }
}

/// Returns service and network to disconnect so that `end` does not reach `server`.
fn between(names: &Names, end: &str, server: &str) -> Option<(String, &'static str)> {
    let network = match server {
        "apiserver" | "fake-apiserver" => "kubernetes",
        "ec2" | "mock-ec2" => "cloud",
        _ => return None,
    };
    let is_loop = controllers::PROCESSES.contains(&end);
    let there = match network {
        "kubernetes" => names.nodes.contains(end) || is_loop,
        _ => names.nodes.contains(end) || end == "csi-controller",
    };
    there.then(|| (end.to_owned(), network))
}

/// Returns the service whose processes send the requests of `end` to `server`.
fn caller(names: &Names, end: &str, server: &str) -> Option<String> {
    let (machine, part) = end.split_once('/').map_or((end, None), |(machine, part)| (machine, Some(part)));
    let is_node = names.nodes.contains(machine) && part.is_none_or(|_| names.processes.contains(end));
    let is_loop = controllers::PROCESSES.contains(&end) && names.processes.contains(end);
    let calls = match server {
        "apiserver" | "fake-apiserver" => is_node || is_loop,
        "ec2" | "mock-ec2" => is_node || end == "csi-controller",
        "csi-controller" => is_loop && controllers::processes::needs_driver(end),
        _ => false,
    };
    calls.then(|| machine.to_owned())
}

impl FaultAdmin {
    /// Applies a fault.
    ///
    /// # Errors
    /// Names the field and the reason.
    pub(in crate::cluster) async fn put(&self, fault: &Fault) -> Result<(), Mistake> {
        let names = self.world.faults().known().names().cloned().unwrap_or_default();
        match place(&names, fault)? {
            At::Server(server) => {
                let body = serde_json::to_string(fault).map_err(|e| Mistake::new("fault", e.to_string()))?;
                let request = self.request("POST", "/admin/v1/faults", body);
                self.ask(server, request).await.map_err(|why| Mistake::new("fault", why))
            }
            At::Network(service, network) => {
                self.wire(&service, network, "disconnect")
                    .await
                    .map_err(|why| Mistake::new("effect.partition", why))?;
                let fired = FaultFired::new(fault.name.as_str(), "network", fault.effect.clone());
                self.world.trace().info(&Arc::from("docker"), fired);
                Ok(())
            }
            At::Processes(service) => {
                let fault_channel = self
                    .fault_channel(&service, Names::clone(&names))
                    .map_err(|why| Mistake::new("effect.partition_one_way", why))?;
                fault_channel.order(Order::Fault(Box::new(fault.clone()))).await;
                Ok(())
            }
        }
    }

    /// Ends a fault.
    pub(in crate::cluster) async fn end(&self, fault: &Fault) {
        let names = self.world.faults().known().names().cloned().unwrap_or_default();
        let ended = match place(&names, fault) {
            Ok(At::Server(server)) => {
                let request = self.request("DELETE", &format!("/admin/v1/faults/{}", fault.name), String::new());
                // The server answers 404 if the fault is over already.
                self.ask(server, request).await.or_else(|why| if why.starts_with("404") { Ok(()) } else { Err(why) })
            }
            Ok(At::Network(service, network)) => self.wire(&service, network, "connect").await,
            Ok(At::Processes(service)) => match self.fault_channel(&service, Names::clone(&names)) {
                Ok(fault_channel) => {
                    fault_channel.order(Order::End(fault.name.clone())).await;
                    Ok(())
                }
                Err(why) => Err(why),
            },
            // The fault was never applied.
            Err(_) => Ok(()),
        };
        if let Err(why) = ended {
            eprintln!("warning: fault {} could not be ended: {why}", fault.name);
        }
    }

    /// Returns the channel to the processes of a service, and opens it on first use.
    fn fault_channel(&self, service: &str, names: Names) -> Result<Arc<FaultChannel>, String> {
        let container = self.project.container(service)?;
        let mut fault_channels = self.fault_channels.lock();
        let fault_channel = fault_channels.entry(service.to_owned());
        Ok(fault_channel
            .or_insert_with(|| Arc::new(FaultChannel::start(&self.world, service, container, names)))
            .clone())
    }

    /// Disconnects a container from a network of the project, or connects it again under its own name.
    async fn wire(&self, service: &str, network: &str, verb: &str) -> Result<(), String> {
        let (network, container) = (format!("{}_{network}", self.project.name()), self.project.container(service)?);
        let alias: &[&str] = if verb == "connect" { &["--alias", service] } else { &[] };
        docker(&[&["network", verb][..], alias, &[&network, container]].concat()).await.map(drop)
    }

    fn request(&self, method: &str, path: &str, body: String) -> Request<substrate::Body> {
        let body = if body.is_empty() { empty() } else { full(body) };
        let mut request = Request::new(body);
        *request.method_mut() = method.parse().unwrap_or_default();
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert("host", http::HeaderValue::from_static("localhost"));
        headers.insert("content-type", http::HeaderValue::from_static("application/json"));
        request
    }

    async fn ask(&self, server: &str, request: Request<substrate::Body>) -> Result<(), String> {
        let service = self.servers.get(server).cloned().ok_or_else(|| format!("there is no {server}"))?;
        let answer = call(service, request).await.map_err(|e| format!("{server} does not answer: {e}"))?;
        let status = answer.status();
        let body = collect(answer.into_body(), LIMIT).await.map_err(|e| e.to_string())?;
        if status.is_success() {
            return Ok(());
        }
        let wording: Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(format!("{} {}", status.as_u16(), wording["error"].as_str().unwrap_or_default()))
    }
}

fn wiring(why: impl std::fmt::Display) -> ClusterError {
    ClusterError::Wiring(why.to_string())
}

impl Cluster {
    /// Connects to a compose project that runs already, as a cluster of `spec`.
    ///
    /// # Errors
    /// If a node of `spec` is not in the project, if the cluster has pods or claims already (the end of a run would
    /// delete them), or if a server does not answer.
    pub fn compose(
        world: &World,
        spec: ClusterSpec,
        project: Project,
    ) -> LocalBoxFuture<'_, Result<Self, ClusterError>> {
        // Boxed so that it is compiled once and not in each caller.
        Box::pin(Self::of_compose(world, spec, project))
    }

    async fn of_compose(world: &World, spec: ClusterSpec, project: Project) -> Result<Self, ClusterError> {
        names::OPERATIONS.iter().for_each(|operations| world.faults().declare(operations));
        world.faults().name(names::of(&spec));
        world.faults().watch();
        let addresses = project.server_addresses().map_err(wiring)?;
        let token = addresses.token.reveal();
        let connect = |endpoint: &str| dial::http(endpoint).map_err(wiring);
        let apiserver = dial::bearing(connect(&addresses.kubernetes_http)?, token).map_err(wiring)?;
        let admin = dial::bearing(connect(&addresses.ec2)?, token).map_err(wiring)?;
        let user = substrate::Process::start(world, "user", |_| std::future::pending()).ctx();
        let user = user.ok_or_else(|| ClusterError::Stillborn("user".to_owned()))?;
        let objects = Link::over(&user, "apiserver", apiserver.clone());
        let cloud = Link::over(&user, "ec2", connect(&addresses.ec2)?);
        let reader = Objects::new(objects.clone());
        is_fresh(&reader).await?;
        let known: BTreeSet<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
        let mut members = BTreeMap::new();
        let processes: BTreeSet<String> = names::of(&spec).processes;
        for service in project.services().filter(|service| processes.contains(*service) && !known.contains(service)) {
            let container = project.container(service).map_err(wiring)?;
            let container = Container::new(world, service, container, &[service.to_owned()]);
            members.insert(service.to_owned(), Member::Container(container));
        }
        let mut nodes = BTreeMap::new();
        let there = reader.list(Kind::node()).await.map_err(wiring)?;
        for node in &spec.nodes {
            let container =
                project.container(&node.name).map_err(|why| wiring(format!("the scenario's nodes: {why}")))?;
            let own = there.iter().find(|o| o["metadata"]["name"] == node.name.as_str());
            let provider = own.and_then(|o| o["spec"]["providerID"].as_str()).unwrap_or_default();
            let mut parts = provider.trim_start_matches("aws:///").split('/');
            let (Some(zone), Some(instance)) = (parts.next(), parts.next()) else {
                return Err(ClusterError::NoInstance(node.name.clone()));
            };
            if zone != node.zone {
                return Err(wiring(format!(
                    "{}: it is in {zone}, and the scenario has it in {}",
                    node.name, node.zone
                )));
            }
            let [name, in_zone] = [node.name.as_str(), zone].map(Into::into);
            world
                .trace()
                .info(&Arc::from("cluster"), ClusterNode { node: name, instance: instance.into(), zone: in_zone });
            let disk = Arc::new(ContainerDisk { node: node.name.clone(), container: container.to_owned() });
            let parts = [node.name.clone(), names::csi_node(&node.name), names::kubelet(&node.name)];
            let container = Container::new(world, &node.name, container, &parts);
            // These processes start and end with their machine, so they are not members of the node.
            for part in parts.iter().filter(|part| is_part(part)) {
                members.insert(part.clone(), Member::Container(container.part(part)));
            }
            let member = Member::Container(container);
            let (instance, root) = (instance.to_owned(), Path::new(ROOT).to_owned());
            let registry = Registry::Directory(root.join(controllers::node_agent::PLUGINS_REGISTRY));
            nodes.insert(node.name.clone(), Node { instance, members: vec![member], disk, root, registry });
        }
        let mut cordoned = Vec::new();
        for object in &there {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if !known.contains(name) && object["spec"]["unschedulable"] != true {
                cordon(&reader, name, true).await.map_err(wiring)?;
                cordoned.push(name.to_owned());
            }
        }
        let servers = BTreeMap::from([("mock-ec2", admin), ("fake-apiserver", apiserver)]);
        let spec = ClusterSpec { admin_token: Some(addresses.token.clone()), ..spec };
        let mut cluster = Self::new(world, spec, objects, cloud, nodes, members, user);
        cluster.fault_admin = Some(Arc::new(FaultAdmin {
            world: world.clone(),
            project,
            servers,
            cordoned,
            fault_channels: Mutex::default(),
        }));
        supervisor::start(world, &cluster);
        Ok(cluster)
    }

    /// Releases a compose project: ends faults, starts everything that a step ended, and uncordons its nodes. The
    /// containers keep running.
    pub async fn release(&self) {
        self.clear_faults().await;
        for name in self.down_nodes() {
            if let Err(why) = self.restart(&name).await {
                eprintln!("warning: {why}");
            }
        }
        let Some(fault_admin) = &self.fault_admin else { return };
        for node in &fault_admin.cordoned {
            if let Err(why) = cordon(self.objects(), node, false).await {
                eprintln!("warning: {node} stays unschedulable: {why}");
            }
        }
    }
}

/// Checks that the cluster has no pods and no claims, because the teardown of a run deletes all of them.
async fn is_fresh(objects: &Objects) -> Result<(), ClusterError> {
    for (kind, what) in [(Kind::pod(), "pod"), (Kind::claim(), "PersistentVolumeClaim")] {
        let there = objects.list(kind).await.map_err(wiring)?;
        if let Some(first) = there.first() {
            let part = |key: &str| first["metadata"][key].as_str().unwrap_or_default().to_owned();
            let name = format!("{}/{}", part("namespace"), part("name"));
            return Err(wiring(format!(
                "the cluster has the {what} {name} already, and a run deletes all at its end: delete it first"
            )));
        }
    }
    Ok(())
}

async fn cordon(objects: &Objects, node: &str, is: bool) -> Result<(), crate::cluster::ObjectError> {
    let value = if is { Value::Bool(true) } else { Value::Null };
    objects.patch(&ObjectRef::new(Kind::node(), None, node), &json!({ "spec": { "unschedulable": value } })).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<At, String> {
        let spec = ClusterSpec {
            nodes: vec![crate::spec::NodeSpec {
                name: "node-a".to_owned(),
                zone: "us-east-1a".to_owned(),
                instance_type: "m5.large".to_owned(),
                instance: None,
            }],
            ..ClusterSpec::default()
        };
        let fault: Fault = serde_json::from_str(text).unwrap();
        place(&names::of(&spec), &fault).map_err(|mistake| mistake.to_string())
    }

    fn cut(effect: &str) -> Result<At, String> {
        at(&format!(r#"{{"name": "f", "match": {{"plane": "link"}}, "effect": {effect}}}"#))
    }

    #[test]
    fn a_partition_takes_the_end_that_is_no_server_off_the_servers_network() {
        let network = |service: &str, network| Ok(At::Network(service.to_owned(), network));
        assert_eq!(cut(r#"{"partition": ["node-a", "apiserver"]}"#), network("node-a", "kubernetes"));
        assert_eq!(cut(r#"{"partition": ["ec2", "csi-controller"]}"#), network("csi-controller", "cloud"));
        assert_eq!(cut(r#"{"partition": ["csi-attacher", "apiserver"]}"#), network("csi-attacher", "kubernetes"));
    }

    #[test]
    fn one_way_is_cut_in_the_processes_whose_requests_take_it() {
        let processes = |service: &str| Ok(At::Processes(service.to_owned()));
        assert_eq!(cut(r#"{"partition_one_way": ["node-a", "apiserver"]}"#), processes("node-a"));
        assert_eq!(cut(r#"{"partition_one_way": ["node-a/kubelet", "apiserver"]}"#), processes("node-a"));
        assert_eq!(cut(r#"{"partition_one_way": ["apiserver", "csi-attacher"]}"#), processes("csi-attacher"));
        assert_eq!(cut(r#"{"partition_one_way": ["csi-attacher", "csi-controller"]}"#), processes("csi-attacher"));
        assert_eq!(cut(r#"{"partition_one_way": ["ec2", "csi-controller"]}"#), processes("csi-controller"));
        let timed = r#"{"name": "f", "match": {"plane": "link"}, "when": {"for": "5s"},
                        "effect": {"partition_one_way": ["node-a", "apiserver"]}}"#;
        assert!(at(timed).unwrap_err().contains("end it with the step heal"));
    }

    #[test]
    fn faults_docker_cannot_do_are_refused() {
        for (effect, wording) in [
            (r#"{"partition": ["node-b", "apiserver"]}"#, "cannot cut node-b"),
            (r#"{"partition": ["csi-attacher", "csi-controller"]}"#, "cannot cut csi-attacher"),
            (r#"{"partition": ["csi-controller", "apiserver"]}"#, "cannot cut csi-controller"),
            (r#"{"partition_one_way": ["node-a", "csi-controller"]}"#, "where the requests are made"),
            (r#"{"partition_one_way": ["kube-scheduler", "csi-controller"]}"#, "where the requests are made"),
            (r#"{"partition_one_way": ["csi-attacher", "node-a"]}"#, "where the requests are made"),
            (r#"{"crash": "csi-attacher"}"#, "use the steps crash and restart"),
        ] {
            let error = cut(effect).unwrap_err();
            assert!(error.contains(wording), "{effect}: {error}");
        }
        let error = at(r#"{"name": "f", "match": {"plane": "csi"}, "effect": {"count": true}}"#).unwrap_err();
        assert!(error.contains("not of csi"), "{error}");
        let fault = r#"{"name": "f", "match": {"plane": "ec2"}, "effect": {"count": true}}"#;
        assert_eq!(at(fault), Ok(At::Server("mock-ec2")));
    }
}
