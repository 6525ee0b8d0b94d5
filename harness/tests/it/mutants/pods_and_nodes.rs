//! Scenarios of pods and nodes: mounts, attachments, limits, and processes that end or see events late.

use super::steps::{CLAIM, NEXT, NEXT_WRITES, WEB, WEB_GOES, WEB_IS_GONE, WEB_WRITES, file};

pub fn unmount_fails() -> String {
    let busy = "fault: {name: busy, match: {plane: disk, op: unstage, where: {node: node-a}}, effect: {error: EBUSY}}";
    let steps = [CLAIM, WEB, WEB_WRITES, busy, WEB_GOES, NEXT, "sleep: 8m", "clear-fault: busy", NEXT_WRITES];
    file("", &steps)
}

/// A Node is deleted while a volume is mounted there.
pub fn node_deleted() -> String {
    let goes = ["crash: node-a/kubelet", "delete: {object: node/node-a}", "delete: {object: pod/web, force: true}"];
    let steps = [CLAIM, WEB, WEB_WRITES, goes[0], goes[1], goes[2], "sleep: 2m", "crash: node-a", "sleep: 6m"];
    file("", &steps)
}

/// The driver attaches a volume and answers with an error. Meanwhile the pod is deleted.
pub fn attach_fails() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: ControllerPublishVolume}, when: {for: 1m}, \
                 effect: {grpc: INTERNAL}, at: after_effect}";
    let failed = "expect: {event: {object: pod/web, reason: FailedAttachVolume, within: 2m}}";
    file("", &[fault, CLAIM, WEB, failed, "sleep: 10s", "delete: {object: pod/web, force: true}", "sleep: 5m"])
}

pub fn kubelet_down_with_two() -> String {
    let other = ["claim: {name: other}", "pod: {name: other, claim: other, node: node-a, grace: 5s}"];
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let down =
        ["crash: node-a/kubelet", "delete: {object: pod/web, force: true}", "delete: {object: pod/other, force: true}"];
    let up = ["sleep: 5s", "restart: node-a/kubelet", NEXT, NEXT_WRITES];
    let started = [CLAIM, WEB, WEB_WRITES, other[0], other[1], writes];
    file("", &[&started[..], &down, &up].concat())
}

pub fn attached_slowly() -> String {
    file("latency: aws", &[CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE])
}

pub fn two_on_a_node() -> String {
    let other = ["claim: {name: other}", "pod: {name: other, claim: other, node: node-a, grace: 5s}"];
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let goes = ["delete: {object: pod/other}", "wait: {object: pod/other, is: gone, within: 5m}"];
    let next = "pod: {name: next, claim: other, node: node-b, grace: 5s}";
    let steps = [CLAIM, WEB, WEB_WRITES, other[0], other[1], writes, goes[0], goes[1], next, NEXT_WRITES];
    file("", &steps)
}

/// A pod is created again under its name while the kubelet's deletion of the former pod is delayed.
pub fn pod_made_again() -> String {
    let fault = "fault: {name: slow, match: {plane: k8s, op: delete, where: {resource: pods, caller: kubelet*}}, \
                 when: {first: 1}, effect: {delay: 20s}}";
    let goes = [WEB_GOES, "sleep: 15s", "delete: {object: pod/web, force: true}", WEB, "sleep: 2m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES, fault][..], &goes, &[WEB_WRITES]].concat())
}

/// Three pods with volumes, and a node that takes two volumes.
pub fn one_too_many() -> String {
    let head = "nodes: {count: 1}\ndriver: {attach-limit: 2}";
    let pod =
        |n: u32| [format!("claim: {{name: data-{n}}}"), format!("pod: {{name: web-{n}, claim: data-{n}, grace: 5s}}")];
    let runs = |n: u32| format!("wait: {{object: pod/web-{n}, is: Running, within: 5m}}");
    let waits = "expect: {event: {object: pod/web-2, reason: FailedScheduling, within: 1m}}".to_owned();
    let ends = ["delete: {object: pod/web-0}".to_owned(), runs(2)];
    let steps = [&pod(0)[..], &pod(1), &[runs(0), runs(1)], &pod(2), &[waits], &ends].concat();
    file(head, &steps.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn instance_terminated() -> String {
    let gone = ["ec2: {poke: terminate, instance: node-a}", "wait: {object: node/node-a, is: Unknown, within: 3m}"];
    let steps = [CLAIM, WEB, WEB_WRITES, gone[0], gone[1], "delete: {object: pod/web, force: true}", NEXT, NEXT_WRITES];
    file("", &steps)
}

/// Three pods whose volumes are created at the same time, and a node that takes one volume.
pub fn all_at_once() -> String {
    let head = "nodes: {count: 1}\ndriver: {attach-limit: 1}\nlatency: aws";
    let claims = "repeat: {count: 3, as: i, do: [{claim: {name: 'data-${i}'}}]}";
    let pods = "repeat: {count: 3, as: i, do: [{pod: {name: 'web-${i}', claim: 'data-${i}', grace: 5s}}]}";
    file(head, &["sleep: 1m", claims, pods, "sleep: 3m"])
}

/// An operator adds the out-of-service taint to a Ready node whose volume is unmounted slowly.
pub fn ready_node_out_of_service() -> String {
    let fault =
        "fault: {name: slow, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 1}, effect: {delay: 1m}}";
    let taint = "taint: {node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}";
    let back = "untaint: {node: node-a, key: node.kubernetes.io/out-of-service}";
    file("", &[CLAIM, WEB, WEB_WRITES, "sleep: 1m", fault, taint, "sleep: 2m", back, "sleep: 1m"])
}

pub fn detach_fails_for_long() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: ControllerUnpublishVolume}, when: {for: 20s}, \
                 effect: {grpc: INTERNAL}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, "sleep: 2m"])
}

/// Two volumes return to a node in another order.
pub fn devices_swapped() -> String {
    let claims = [CLAIM, "claim: {name: other}"];
    let other = "pod: {name: other, claim: other, node: node-a, grace: 5s}";
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let goes =
        [WEB_GOES, "delete: {object: pod/other}", WEB_IS_GONE, "wait: {object: pod/other, is: gone, within: 5m}"];
    let began = [claims[0], WEB, WEB_WRITES, claims[1], other, writes];
    file("", &[&began[..], &goes, &["sleep: 1m", other, writes, WEB, WEB_WRITES]].concat())
}

/// The watches of the controllers end at the deletion of a pod, and the controllers list the pods again.
pub fn deletion_missed() -> String {
    let fault = "fault: {name: gone, match: {plane: k8s, op: watch-event, where: {resource: pods, type: DELETED, \
                 caller: kube-controller-manager*}}, when: {first: 10}, effect: {watch: gone}}";
    let goes = [fault, "delete: {object: pod/web, force: true}", "sleep: 10s", "clear-fault: gone"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes, &[NEXT, NEXT_WRITES]].concat())
}

/// The leader of two replicas crashes.
pub fn leader_gone() -> String {
    file("replicas: 2", &["sleep: 30s", "crash: csi-attacher-2", CLAIM, WEB, WEB_WRITES])
}

pub fn unpublish_fails_twice() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 2}, \
                 effect: {grpc: INTERNAL}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, WEB_IS_GONE])
}

/// A claim is deleted while its pod waits for an unmount.
pub fn claim_goes_while_its_pod_ends() -> String {
    let fault =
        "fault: {name: slow, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 1}, effect: {delay: 1m}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, "sleep: 5s", "delete: {object: pvc/data}", "sleep: 2m"])
}

/// The detach of a volume takes long. Meanwhile its claim is deleted.
pub fn claim_goes_before_detach() -> String {
    let fault = "fault: {name: slow, match: {plane: csi, op: ControllerUnpublishVolume}, when: {first: 1}, \
                 effect: {delay: 30s}}";
    let goes = ["sleep: 1m", fault, WEB_GOES, WEB_IS_GONE, "delete: {object: pvc/data}", "sleep: 1m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes].concat())
}

/// A kubelet is down for less time than its pod tolerates.
pub fn kubelet_away() -> String {
    let away = ["crash: node-a/kubelet", "sleep: 3m", "restart: node-a/kubelet", "sleep: 1m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &away].concat())
}

/// After an attach, the controllers' watch of nodes is late: they do not see that the volume is in use.
pub fn node_seen_late() -> String {
    let attached =
        "wait: {object: node/node-a, that: 'self.status.?volumesAttached.orValue([]).size() == 1', within: 2m}";
    let late = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: nodes, caller: \
                kube-controller-manager*}}, when: {for: 2m}, effect: {delay: 2m}}";
    let slow = "fault: {name: slow, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {delay: 1m}}";
    let goes = [WEB_WRITES, slow, WEB_GOES, WEB_IS_GONE, "sleep: 3m", NEXT, NEXT_WRITES];
    file("", &[&["sleep: 11s", CLAIM, WEB, attached, "sleep: 50ms", late][..], &goes].concat())
}

/// A claim is deleted before the controllers see that its pod is on a node.
pub fn pod_seen_late() -> String {
    let late = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: pods, type: MODIFIED, caller: \
                kube-controller-manager*}}, when: {for: 1m}, effect: {delay: 1m}}";
    file("", &[CLAIM, late, WEB, "sleep: 10s", "delete: {object: pvc/data}", "sleep: 3m", WEB_GOES, WEB_IS_GONE])
}

/// A Node and its CSINode are deleted while a volume is attached there.
pub fn csinode_deleted() -> String {
    let goes = ["crash: node-a/kubelet", "delete: {object: node/node-a}", "delete: {object: csinode/node-a}"];
    let ends = ["delete: {object: pod/web, force: true}", "sleep: 2m", "crash: node-a", "sleep: 8m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes, &ends].concat())
}

/// A kubelet ends after the driver has published a volume. Meanwhile its pod is deleted.
pub fn kubelet_down_in_a_publish() -> String {
    let slow = "fault: {name: slow, match: {plane: csi, op: NodePublishVolume}, when: {first: 1}, effect: {delay: 1m}, \
                at: after_effect}";
    let down = ["expect: {fired: slow, within: 2m}", "sleep: 5s", "crash: node-a/kubelet"];
    let up = ["delete: {object: pod/web, force: true}", "sleep: 2m", "restart: node-a/kubelet", NEXT, NEXT_WRITES];
    file("", &[&[CLAIM, slow, WEB][..], &down, &up].concat())
}

/// A ReplicaSet adopts a pod, whose label its user then changes.
pub fn relabelled() -> String {
    let spec = "{terminationGracePeriodSeconds: 1, containers: [{name: app, image: busybox}]}";
    let pod =
        format!("apply: {{apiVersion: v1, kind: Pod, metadata: {{name: odd, labels: {{app: web}}}}, spec: {spec}}}");
    let template = format!("{{metadata: {{labels: {{app: web}}}}, spec: {spec}}}");
    let set = format!(
        "apply: {{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web}}, spec: {{replicas: 2, selector: \
         {{matchLabels: {{app: web}}}}, template: {template}}}}}"
    );
    let ready = "wait: {object: replicaset/web, that: 'self.?status.readyReplicas.orValue(0) == 2', within: 2m}";
    let patch = "patch: {object: pod/odd, with: {metadata: {labels: {app: web-debug}}}}";
    file("", &[&*pod, &*set, ready, patch, "sleep: 1m"])
}
