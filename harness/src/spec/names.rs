//! Names of the processes of a cluster, and its catalogue of faults.
//!
//! | Process | Runs |
//! |---|---|
//! | `mock-ec2`, `fake-apiserver`, `csi-controller` | the servers |
//! | `kube-controller-manager`, `kube-scheduler`, `csi-attacher`, `csi-provisioner`, `csi-resizer` | control loops; a second replica is `csi-attacher-2` |
//! | `snapshot-controller`, `csi-snapshotter` | control loops; in a simulation only if its scenario has snapshots |
//! | `node-a` | the machine: its containers and the device plug |
//! | `node-a/csi-node` | the driver's node service there |
//! | `node-a/kubelet` | the node agent there |
//! | `efs-csi-controller`, `efs-csi-provisioner`, `node-a/efs-csi-node` | the EFS driver and its sidecar, if the cluster has it |
//! | `my-attacher` | a program of the user, by the name that `run:` gives it |
//!
//! `controllers` stands for all processes of control loops, a node's name for all processes on it.

use std::collections::BTreeMap;

use substrate::fault::{Catalogue, Names};

use super::ClusterSpec;

/// User agent of the runner, which performs the steps.
pub(crate) const RUNNER: &str = "mooring-scenario";

/// Group of all processes of control loops.
pub const CONTROLLERS: &str = "controllers";

/// Name of the kubelet of a node.
pub fn kubelet(node: &str) -> String {
    format!("{node}/kubelet")
}

/// Name of the driver's node service of a node.
pub fn csi_node(node: &str) -> String {
    format!("{node}/csi-node")
}

/// Controller service of the EFS driver: its process, and the name under which it is published.
pub const EFS_CONTROLLER: &str = "efs-csi-controller";
/// Provisioner of the EFS driver. It has one replica.
pub const EFS_PROVISIONER: &str = "efs-csi-provisioner";

/// Name of the EFS driver's node service of a node.
pub fn efs_csi_node(node: &str) -> String {
    format!("{node}/efs-csi-node")
}

/// Returns true if the process of this name serves metrics of its loops: a replica of a control loop process, or a
/// kubelet.
pub fn has_metrics(name: &str) -> bool {
    let is_replica = |process: &&str| {
        name.strip_prefix(*process).is_some_and(|rest| {
            let number = rest.strip_prefix('-').unwrap_or(rest);
            number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    name.ends_with("/kubelet") || name == EFS_PROVISIONER || controllers::PROCESSES.iter().any(is_replica)
}

/// Returns the name under which the metrics of a process are published.
pub fn metrics(process: &str) -> String {
    // A kubelet serves them beside the logs of its containers.
    process.strip_suffix("/kubelet").map_or_else(|| process.to_owned(), |node| format!("kubelet-{node}"))
}

/// Names of the replicas of a control loop process. The first has the plain name.
pub fn replicas(process: &str, count: usize) -> Vec<String> {
    (1..=count.max(1)).map(|i| if i == 1 { process.to_owned() } else { format!("{process}-{i}") }).collect()
}

/// Names of the control loop processes of `spec`, each with the process of which it is a replica.
pub fn loops(spec: &ClusterSpec) -> Vec<(String, &'static str)> {
    let running = controllers::PROCESSES.iter().filter(|process| controllers::runs(process, &spec.without));
    let second = spec.efs.as_ref().map(|_| (EFS_PROVISIONER.to_owned(), "csi-provisioner"));
    running
        .flat_map(|process| replicas(process, spec.replicas_of(process)).into_iter().map(move |name| (name, *process)))
        .chain(second)
        .collect()
}

/// Names that faults may use in a cluster of `spec`.
pub fn of(spec: &ClusterSpec) -> Names {
    let loops: Vec<String> = loops(spec).into_iter().map(|(name, _)| name).collect();
    let nodes = spec.nodes.iter().map(|node| node.name.clone());
    let on_nodes = spec.nodes.iter().flat_map(|node| {
        let (own, driver) = (!spec.without.contains("kubelet"), !spec.without.contains("csi-mock"));
        let efs = spec.efs.as_ref().map(|_| efs_csi_node(&node.name));
        let parts =
            [Some(node.name.clone()), own.then(|| kubelet(&node.name)), driver.then(|| csi_node(&node.name)), efs];
        parts.into_iter().flatten()
    });
    let driver = (!spec.without.contains("csi-mock")).then_some("csi-controller");
    let efs = spec.efs.as_ref().map(|_| EFS_CONTROLLER);
    let servers = ["mock-ec2", "fake-apiserver"].into_iter().chain(driver).chain(efs).map(str::to_owned);
    let has_efs = spec.efs.is_some();
    let of_node = |node: &str| {
        let second = [format!("efs-csi-{node}"), format!("efs-csi-registration-{node}")];
        let second = second.into_iter().filter(|_| has_efs).map(|service| (service, efs_csi_node(node)));
        let driver = [format!("csi-{node}"), format!("csi-registration-{node}")].map(|s| (s, csi_node(node)));
        let machine = (format!("runtime-{node}"), node.to_owned());
        let cloud = (format!("imds-{node}"), "mock-ec2".to_owned());
        let own: Vec<_> = driver.into_iter().chain(second.collect::<Vec<_>>()).collect();
        own.into_iter().chain([machine, cloud, (format!("kubelet-{node}"), kubelet(node))])
    };
    Names {
        processes: servers
            .chain(loops.iter().cloned())
            .chain(on_nodes)
            .chain(spec.programs.iter().map(|program| program.name.clone()))
            .collect(),
        groups: BTreeMap::from([(CONTROLLERS.to_owned(), loops)]),
        nodes: nodes.collect(),
        // The user makes calls, so links to it can be cut, but it is not a process that can be crashed.
        servers: [
            ("ec2", "mock-ec2"),
            ("apiserver", "fake-apiserver"),
            ("csi-controller", "csi-controller"),
            ("user", "user"),
        ]
        .map(|(server, process)| (server.to_owned(), process.to_owned()))
        .into_iter()
        .chain(efs.map(|name| (name.to_owned(), name.to_owned())))
        .chain(spec.nodes.iter().flat_map(|node| of_node(&node.name)))
        .collect(),
    }
}

/// Names that the harness itself uses in traces and faults.
const OWN: [&str; 6] = ["cluster", "mirror", "scenario", "self", "supervisor", "user"];

/// Returns true if a program of the user cannot have this name in a cluster with the names `known`.
pub fn is_taken(known: &Names, name: &str) -> bool {
    known.processes.contains(name)
        || known.groups.contains_key(name)
        || known.servers.contains_key(name)
        || OWN.contains(&name)
}

/// Catalogue of faults for a cluster of `spec`, from all servers.
pub fn catalogue(spec: &ClusterSpec) -> Catalogue {
    let mut all = Catalogue::default();
    for operations in OPERATIONS {
        all.add(operations);
    }
    all.name(of(spec));
    all.watch();
    all
}

/// Tables of operations of all servers.
pub const OPERATIONS: &[&[substrate::fault::Operation]] = &[
    mock_ec2::faults::OPERATIONS,
    fake_apiserver::faults::OPERATIONS,
    csi_mock::faults::OPERATIONS,
    substrate::fault::catalogue::OWN,
];
