//! Pods that represent the control loops and drivers of a cluster. Pure functions.

use std::collections::BTreeMap;

use controllers::mirror_pod::{MIRROR, MOORING, SOURCE, pod_of, status_of};
use csi_mock::events::CsiRegistration;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};
use substrate::EventType;
use substrate::events::{ProcessCrashed, ProcessStarted};

use super::log::Life;
use crate::cluster::{ClusterSpec, names};

/// Namespace of all of them.
pub(super) const NAMESPACE: &str = "kube-system";
/// Node name of processes that run on none of the cluster's nodes. There is no Node object of this name.
pub(super) const CONTROL_PLANE: &str = "control-plane";

const COLLECTOR: &str = "pod-garbage-collector-controller";

/// A container and its process.
#[derive(Clone, Debug)]
pub(super) struct Container {
    /// Name, as in upstream's deployments.
    pub name: &'static str,
    /// Process that it represents.
    pub process: String,
    /// Port of its metrics, as upstream's manifests have it.
    pub port: Option<u16>,
    /// Returns true for event kinds that belong in its log.
    pub has: fn(&str) -> bool,
}

/// A pod that represents processes.
#[derive(Clone, Debug)]
pub(super) struct MirrorPod {
    /// Name of the pod.
    pub name: String,
    /// Node of the pod.
    pub node: String,
    labels: Vec<(&'static str, &'static str)>,
    priority_class: &'static str,
    /// Containers of the pod.
    pub containers: Vec<Container>,
}

/// Ports of metrics: kube-controller-manager and kube-scheduler (`--secure-port`), and the sidecars in the chart of the
/// EBS CSI driver (`--http-endpoint`).
const PORTS: [(&str, u16); 7] = [
    ("kube-controller-manager", 10257),
    ("kube-scheduler", 10259),
    ("csi-provisioner", 3302),
    ("csi-attacher", 3303),
    ("csi-snapshotter", 3304),
    ("csi-resizer", 3305),
    (controllers::SNAPSHOT_CONTROLLER, 8080),
];

/// A process does not log its own crash.
fn own(kind: &str) -> bool {
    kind != ProcessCrashed::KIND
}

fn of_driver(kind: &str) -> bool {
    own(kind) && kind != CsiRegistration::KIND
}

fn of_registrar(kind: &str) -> bool {
    kind == CsiRegistration::KIND || kind == ProcessStarted::KIND
}

/// Pods of a cluster of `spec`, without those of components that are left out. Nodes with a real kubelet have no such
/// pods: it removes mirror pods that it does not know.
pub(super) fn of(spec: &ClusterSpec) -> Vec<MirrorPod> {
    let mut pods = Vec::new();
    let has_kubelet = !spec.without.contains("kubelet");
    // A real pod garbage collector removes pods whose node does not exist.
    let place = match spec.without.contains(COLLECTOR) {
        false => Some(CONTROL_PLANE),
        true => spec.nodes.first().filter(|_| has_kubelet).map(|node| node.name.as_str()),
    };
    let loops = names::loops(spec);
    let container = |name: &'static str| {
        let found = loops.iter().find(|(own, process)| *process == name && own != names::EFS_PROVISIONER);
        let port = PORTS.iter().find(|(of, _)| *of == name).map(|(_, port)| *port);
        found.map(|(process, _)| Container { name, process: process.clone(), port, has: own })
    };
    let driver = !spec.without.contains("csi-mock");
    if let Some(node) = place {
        let on = |name: &str| (format!("{name}-{node}"), node.to_owned());
        let server = Container { name: "kube-apiserver", process: "fake-apiserver".to_owned(), port: None, has: own };
        let own = [Some(server), container("kube-controller-manager"), container("kube-scheduler")];
        let snapshots = container(controllers::SNAPSHOT_CONTROLLER);
        for container in own.into_iter().flatten() {
            let (name, node) = on(container.name);
            let labels = vec![("component", container.name), ("tier", "control-plane")];
            pods.push(MirrorPod {
                name,
                node,
                labels,
                priority_class: "system-node-critical",
                containers: vec![container],
            });
        }
        if let Some(container) = snapshots {
            let (name, node) = on(container.name);
            let labels = vec![("app.kubernetes.io/name", container.name)];
            let priority_class = "system-cluster-critical";
            pods.push(MirrorPod { name, node, labels, priority_class, containers: vec![container] });
        }
        let plugin =
            || Container { name: "ebs-plugin", process: "csi-controller".to_owned(), port: None, has: of_driver };
        let sidecars =
            ["csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"].into_iter().filter_map(container);
        let containers: Vec<Container> = driver.then(plugin).into_iter().chain(sidecars).collect();
        if !containers.is_empty() {
            let (name, node) = on("ebs-csi-controller");
            let labels = labels_of_driver("ebs-csi-controller");
            pods.push(MirrorPod { name, node, labels, priority_class: "system-cluster-critical", containers });
        }
        if spec.efs.is_some() {
            let (name, node) = on("efs-csi-controller");
            let plugin =
                Container { name: "efs-plugin", process: names::EFS_CONTROLLER.to_owned(), port: None, has: of_driver };
            let process = names::EFS_PROVISIONER.to_owned();
            let containers = vec![plugin, Container { name: "csi-provisioner", process, port: None, has: of_driver }];
            let labels = labels_of_efs("efs-csi-controller");
            pods.push(MirrorPod { name, node, labels, priority_class: "system-cluster-critical", containers });
        }
    }
    let nodes = spec.nodes.iter().filter(|_| driver && has_kubelet);
    pods.extend(nodes.map(|node| {
        let process = names::csi_node(&node.name);
        let plugin = Container { name: "ebs-plugin", process: process.clone(), port: None, has: of_driver };
        let registrar = Container { name: "node-driver-registrar", process, port: None, has: of_registrar };
        MirrorPod {
            name: format!("ebs-csi-node-{}", node.name),
            node: node.name.clone(),
            labels: labels_of_driver("ebs-csi-node"),
            priority_class: "system-node-critical",
            containers: vec![plugin, registrar],
        }
    }));
    let nodes = spec.nodes.iter().filter(|_| spec.efs.is_some() && has_kubelet);
    pods.extend(nodes.map(|node| {
        let process = names::efs_csi_node(&node.name);
        let plugin = Container { name: "efs-plugin", process: process.clone(), port: None, has: of_driver };
        let registrar = Container { name: "csi-driver-registrar", process, port: None, has: of_registrar };
        MirrorPod {
            name: format!("efs-csi-node-{}", node.name),
            node: node.name.clone(),
            labels: labels_of_efs("efs-csi-node"),
            priority_class: "system-node-critical",
            containers: vec![plugin, registrar],
        }
    }));
    pods
}

fn labels_of_efs(app: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("app", app), ("app.kubernetes.io/name", "aws-efs-csi-driver")]
}

fn labels_of_driver(app: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("app", app), ("app.kubernetes.io/name", "aws-ebs-csi-driver")]
}

impl MirrorPod {
    /// The pod as it is created.
    pub fn object(&self) -> Result<Pod, serde_json::Error> {
        let labels: BTreeMap<_, _> = self.labels.iter().copied().collect();
        let containers: Vec<Value> =
            self.containers.iter().map(|c| json!({ "name": c.name, "image": image(c) })).collect();
        pod_of(&json!({
            "metadata": {
                "name": self.name,
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": { MIRROR: MOORING, SOURCE: MOORING },
            },
            "spec": {
                "nodeName": self.node,
                "containers": containers,
                "priorityClassName": self.priority_class,
                "tolerations": [{ "operator": "Exists" }],
                "automountServiceAccountToken": false,
                "hostNetwork": true,
            },
        }))
    }

    /// Status of the pod, from the run states of its processes.
    pub fn status(&self, life: impl Fn(&str) -> Life, host: Option<&str>) -> Result<PodStatus, serde_json::Error> {
        let lives: Vec<Life> = self.containers.iter().map(|container| life(&container.process)).collect();
        let ready = lives.iter().all(Life::is_up);
        let first = lives.iter().filter_map(|life| life.last.map(|(started, _)| started).or(life.started)).min();
        let since = lives.iter().filter_map(|life| life.ended.or(life.started)).max();
        let containers: Vec<Value> =
            self.containers.iter().zip(&lives).map(|(c, life)| self.container(c, life)).collect();
        let waiting: Vec<&str> =
            self.containers.iter().zip(&lives).filter(|(_, life)| !life.is_up()).map(|(c, _)| c.name).collect();
        let why = format!("containers with unready status: [{}]", waiting.join(" "));
        let condition = |of: &str, holds: bool, at: Option<Timestamp>| {
            let mut condition = json!({ "type": of, "status": if holds { "True" } else { "False" } });
            if let Some(at) = at {
                condition["lastTransitionTime"] = seconds(at);
            }
            if !holds {
                condition["reason"] = json!("ContainersNotReady");
                condition["message"] = json!(why);
            }
            condition
        };
        let mut status = json!({
            "phase": if first.is_some() { "Running" } else { "Pending" },
            "qosClass": "BestEffort",
            "conditions": [
                condition("PodReadyToStartContainers", true, first),
                condition("Initialized", true, first),
                condition("Ready", ready, since),
                condition("ContainersReady", ready, since),
                condition("PodScheduled", true, first),
            ],
            "containerStatuses": containers,
        });
        if let Some(first) = first {
            status["startTime"] = seconds(first);
        }
        if let Some(host) = host {
            let ips = json!([{ "ip": host }]);
            for (one, all) in [("hostIP", "hostIPs"), ("podIP", "podIPs")] {
                status[one] = json!(host);
                status[all] = ips.clone();
            }
        }
        status_of(status)
    }

    fn container(&self, container: &Container, life: &Life) -> Value {
        let id = |incarnation: u32| format!("mooring://{}/{}/{incarnation}", self.name, container.name);
        let ended = |incarnation: u32, started: Timestamp, ended: Timestamp| {
            json!({ "terminated": {
                "exitCode": 137, "reason": "Error", "startedAt": seconds(started), "finishedAt": seconds(ended),
                "containerID": id(incarnation),
            } })
        };
        let state = match (life.started, life.ended) {
            (Some(started), None) => json!({ "running": { "startedAt": seconds(started) } }),
            (Some(started), Some(end)) => ended(life.incarnation, started, end),
            (None, _) => json!({ "waiting": { "reason": "ContainerCreating" } }),
        };
        let last =
            life.last.map_or_else(|| json!({}), |(from, to)| ended(life.incarnation.saturating_sub(1), from, to));
        json!({
            "name": container.name,
            "image": image(container),
            "imageID": image(container),
            "containerID": if life.incarnation > 0 { id(life.incarnation) } else { String::new() },
            "ready": life.is_up(),
            "started": life.is_up(),
            "restartCount": life.incarnation.saturating_sub(1),
            "state": state,
            "lastState": last,
        })
    }
}

fn image(container: &Container) -> String {
    format!("mooring/{}", container.name)
}

/// A time in the format of the API.
fn seconds(at: Timestamp) -> Value {
    json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use substrate::Now;

    use super::*;

    fn without(names: &[&str]) -> Vec<String> {
        let without = controllers::left_out(names.iter().copied()).unwrap();
        let shown = |pod: MirrorPod| {
            let containers: Vec<&str> = pod.containers.iter().map(|c| c.name).collect();
            format!("{} on {}: {}", pod.name, pod.node, containers.join(" "))
        };
        of(&ClusterSpec { without, ..ClusterSpec::of_nodes(1) }).into_iter().map(shown).collect()
    }

    #[test]
    fn control_loops_and_drivers_have_upstreams_containers() {
        assert_eq!(
            without(&[]),
            [
                "kube-apiserver-control-plane on control-plane: kube-apiserver",
                "kube-controller-manager-control-plane on control-plane: kube-controller-manager",
                "kube-scheduler-control-plane on control-plane: kube-scheduler",
                "snapshot-controller-control-plane on control-plane: snapshot-controller",
                "ebs-csi-controller-control-plane on control-plane: ebs-plugin csi-provisioner csi-attacher csi-resizer \
                 csi-snapshotter",
                "ebs-csi-node-node-a on node-a: ebs-plugin node-driver-registrar",
            ]
        );
    }

    #[test]
    fn a_second_driver_has_pods_of_its_own() {
        let efs = Some(vec![csi_mock::efs::FileSystemSpec::default()]);
        let without = controllers::left_out(["csi-provisioner"]).unwrap();
        let pods = of(&ClusterSpec { efs, without, ..ClusterSpec::of_nodes(1) });
        let shown = |name: &str| {
            let pod = pods.iter().find(|pod| pod.name == name).unwrap();
            pod.containers.iter().map(|c| format!("{}={}", c.name, c.process)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown("efs-csi-controller-control-plane"),
            "efs-plugin=efs-csi-controller csi-provisioner=efs-csi-provisioner"
        );
        assert_eq!(
            shown("efs-csi-node-node-a"),
            "efs-plugin=node-a/efs-csi-node csi-driver-registrar=node-a/efs-csi-node"
        );
        assert!(!shown("ebs-csi-controller-control-plane").contains("provisioner"));
    }

    #[test]
    fn left_out_components_have_no_pods() {
        let pods = without(&["kube-scheduler", "csi-attacher"]).join("\n");
        assert!(!pods.contains("kube-scheduler") && pods.contains("ebs-plugin csi-provisioner csi-resizer"), "{pods}");
        let pods =
            without(&["csi-mock", "csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter"]).join("\n");
        assert!(!pods.contains("ebs-csi"), "{pods}");
        // A single loop of a process is not a process.
        assert_eq!(without(&["persistentvolume-binder-controller"]).len(), 6);
        // The user's own pod garbage collector and kubelet remove pods that they do not know.
        assert!(without(&["kube-controller-manager"]).iter().all(|pod| pod.contains(" on node-a: ")));
        assert!(without(&["kube-controller-manager", "kubelet"]).is_empty());
        assert!(without(&["kubelet"]).iter().all(|pod| pod.contains(" on control-plane: ")));
    }

    #[test]
    fn a_status_reports_the_processes() {
        let at = |second| Some(Now::at(Duration::from_secs(second)).wall);
        let up = Life { incarnation: 1, started: at(0), ..Life::default() };
        let pods = of(&ClusterSpec::of_nodes(1));
        let pod = pods.iter().find(|pod| pod.name == "ebs-csi-controller-control-plane").unwrap();
        let status = |attacher: &Life| {
            let life = |process: &str| if process == "csi-attacher" { attacher.clone() } else { up.clone() };
            serde_json::to_value(pod.status(life, None).unwrap()).unwrap()
        };
        let running = status(&up);
        assert_eq!((&running["phase"], &running["conditions"][2]["status"]), (&json!("Running"), &json!("True")));
        let down = status(&Life { ended: at(5), ..up.clone() });
        assert_eq!(down["conditions"][2]["message"], "containers with unready status: [csi-attacher]");
        assert_eq!(down["containerStatuses"][2]["state"]["terminated"]["finishedAt"], "2026-01-01T00:00:05Z");
        let last = Some((at(0).unwrap(), at(5).unwrap()));
        let again = status(&Life { incarnation: 2, started: at(6), ended: None, last });
        assert_eq!(
            (&again["containerStatuses"][2]["restartCount"], &again["conditions"][2]["status"]),
            (&json!(1), &json!("True"))
        );
        assert_eq!(again["containerStatuses"][2]["lastState"]["terminated"]["exitCode"], 137);
    }
}
