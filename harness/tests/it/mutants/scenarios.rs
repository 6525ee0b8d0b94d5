//! Scenarios of a pod with a volume, for the seeded bugs.

const WEB_RUNS: &str = "
  - wait: {object: pod/web, is: Running, on: node-a, within: 5m}
  - wait: {object: pod/web, records: 5, within: 2m}";
const WEB_GOES: &str = "
  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone, within: 3m}";
const WEB_2_RUNS: &str = "
  - wait: {object: pod/web-2, is: Running, on: node-b, within: 20m}
  - wait: {object: pod/web-2, records: 3, within: 2m}";

/// Returns a scenario text of two nodes.
pub fn scenario_text(faults: &str, steps: &str) -> String {
    let faults = if faults.is_empty() { String::new() } else { format!("faults:\n  - {faults}\n") };
    format!(
        "
name: planted
nodes: {{count: 2}}
deadline: 60m
objects:
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {{name: gp3}}
    provisioner: ebs.csi.aws.com
    parameters: {{type: gp3}}
    reclaimPolicy: Delete
    volumeBindingMode: WaitForFirstConsumer
{faults}steps:{steps}
"
    )
}

fn claim(name: &str) -> String {
    format!(
        "
  - apply:
      apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {{name: {name}}}
      spec: {{accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {{requests: {{storage: 1Gi}}}}}}"
    )
}

fn pod(name: &str, node: &str, claim: &str) -> String {
    format!(
        "
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {{name: {name}}}
      spec:
        nodeSelector: {{kubernetes.io/hostname: {node}}}
        terminationGracePeriodSeconds: 5
        containers: [{{name: writer, image: mooring/writer, volumeMounts: [{{name: data, mountPath: /data}}]}}]
        volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]"
    )
}

/// The pod `web` runs on node-a and has written.
fn up() -> String {
    claim("data") + &pod("web", "node-a", "data") + WEB_RUNS
}

/// The pod `web-2` runs on node-b and writes to the same volume.
fn up_again() -> String {
    pod("web-2", "node-b", "data") + WEB_2_RUNS
}

fn moves() -> String {
    up() + WEB_GOES + &up_again()
}

pub fn moved() -> String {
    scenario_text("", &moves())
}

/// Returns the same with a driver without STAGE_UNSTAGE_VOLUME.
pub fn unstaged(text: &str) -> String {
    format!("driver: {{capabilities: -STAGE_UNSTAGE_VOLUME}}\n{text}")
}

pub fn slow_unstage() -> String {
    scenario_text(
        "{name: slow, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {delay: 2m}}",
        &moves(),
    )
}

/// The node was out of service for a short time, long before its pod is deleted.
pub fn taken_back() -> String {
    let while_out = "
  - taint: {node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}
  - sleep: 10s
  - untaint: {node: node-a, key: node.kubernetes.io/out-of-service}
  - sleep: 1m";
    let fault = "{name: slow, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {delay: 2m}}";
    scenario_text(fault, &(while_out.to_owned() + &moves()))
}

/// A claim whose volume is retained is deleted.
pub fn retained() -> String {
    let goes = "
  - delete: {object: pvc/data}
  - wait: {object: pvc/data, is: gone, within: 3m}
  - sleep: 1m";
    scenario_text("", &(up() + WEB_GOES + goes)).replace("reclaimPolicy: Delete", "reclaimPolicy: Retain")
}

/// A class with mount options.
pub fn with_options() -> String {
    moved().replace("reclaimPolicy: Delete", "reclaimPolicy: Delete\n    mountOptions: [noatime]")
}

/// A second pod reads what the first has written, and may not write.
pub fn read_only() -> String {
    let reads = pod("reader", "node-a", "data").replace("claimName: data", "claimName: data, readOnly: true");
    scenario_text("", &(up() + WEB_GOES + &reads + "\n  - wait: {object: pod/reader, is: Running, within: 5m}"))
}

/// A claim grows under its pod.
pub fn grown() -> String {
    let grows = "
  - patch: {object: pvc/data, with: {spec: {resources: {requests: {storage: 2Gi}}}}}
  - wait: {object: pvc/data, that: \"self.status.capacity.storage == '2Gi'\", within: 10m}";
    scenario_text("", &(up() + grows))
        .replace("reclaimPolicy: Delete", "reclaimPolicy: Delete\n    allowVolumeExpansion: true")
}

/// A claim requests a second expansion while the first is in progress. No step waits for the second size.
pub fn grown_twice() -> String {
    let fault = "{name: fails, match: {plane: csi, op: ControllerExpandVolume}, when: {first: 2}, \
                 effect: {grpc: UNAVAILABLE}}";
    let grows = "
  - patch: {object: pvc/data, with: {spec: {resources: {requests: {storage: 2Gi}}}}}
  - expect: {fired: fails, within: 1m}
  - patch: {object: pvc/data, with: {spec: {resources: {requests: {storage: 3Gi}}}}}";
    let text = scenario_text(fault, &(up() + grows));
    text.replace("reclaimPolicy: Delete", "reclaimPolicy: Delete\n    allowVolumeExpansion: true")
}

/// The pod is for a node in another zone than the first of the cloud.
pub fn in_another_zone() -> String {
    let zones = "nodes: [{name: node-a, zone: us-east-1a}, {name: node-b, zone: us-east-1b}]";
    let waits = "\n  - wait: {object: pvc/data, is: Bound, within: 5m}\n  - sleep: 1m";
    scenario_text("", &(claim("data") + &pod("web", "node-b", "data") + waits)).replace("nodes: {count: 2}", zones)
}

/// The claim is deleted before its pod.
pub fn claim_goes_first() -> String {
    let goes = "
  - delete: {object: pvc/data}
  - sleep: 1m";
    scenario_text("", &(up() + goes + WEB_GOES))
}

pub fn slow_attach() -> String {
    let fault =
        "{name: slow, match: {plane: csi, op: ControllerPublishVolume}, when: {first: 1}, effect: {delay: 30s}}";
    scenario_text(fault, &(up() + WEB_GOES))
}

/// For a minute both pods want the volume, which is attached to node-a.
pub fn second_pod_first() -> String {
    let waits = pod("web-2", "node-b", "data") + "\n  - sleep: 1m";
    scenario_text("", &(up() + &waits + WEB_GOES + WEB_2_RUNS))
}

/// The kubelet of node-a is cut off from the API server for less than six minutes. Meanwhile its pod is deleted and a
/// pod on another node wants the volume.
pub fn lost_kubelet() -> String {
    let cut = "
  - fault: {name: cut, match: {plane: link}, effect: {partition: [node-a/kubelet, apiserver]}}
  - wait: {object: node/node-a, is: Unknown, within: 2m}
  - delete: {object: pod/web, force: true}";
    let waits = pod("web-2", "node-b", "data") + "\n  - sleep: 3m\n  - clear-fault: cut";
    scenario_text("", &(up() + cut + &waits + WEB_2_RUNS))
}

/// At its start the kubelet finds a mounted volume without a pod.
pub fn kubelet_down() -> String {
    let down = "
  - crash: node-a/kubelet
  - delete: {object: pod/web, force: true}
  - sleep: 5s
  - restart: node-a/kubelet";
    scenario_text("", &(up() + down + &up_again()))
}

/// The pod continues to run while its kubelet is down.
pub fn kubelet_restarts() -> String {
    let away = "
  - crash: node-a/kubelet
  - sleep: 5s
  - restart: node-a/kubelet
  - sleep: 1m";
    scenario_text("", &(up() + away + WEB_GOES + &up_again()))
}

/// The next pod of the same node starts while it is uncertain whether the volume is staged.
pub fn unstage_fails_late() -> String {
    let fault = "{name: late, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 3}, \
                 effect: {grpc: INTERNAL}, at: after_effect}";
    let next = "
  - wait: {object: pod/web-2, is: Running, on: node-a, within: 20m}
  - wait: {object: pod/web-2, records: 3, within: 2m}";
    scenario_text(fault, &(up() + WEB_GOES + &pod("web-2", "node-a", "data") + next))
}

/// One of two volumes is no longer wanted.
pub fn leaves() -> String {
    let other = claim("other")
        + &pod("other", "node-b", "other")
        + "\n  - wait: {object: pod/other, is: Running, on: node-b, within: 5m}";
    other + &up() + "\n  - delete: {object: pod/web}\n  - sleep: 2m"
}

/// Without the teardown the volume stays attached: the bugs show only while it is attached.
pub fn left_standing() -> String {
    format!("teardown: false\n{}", left())
}

pub fn left() -> String {
    scenario_text("", &leaves())
}

pub fn unpublish_fails() -> String {
    let fault =
        "{name: once, match: {plane: csi, op: ControllerUnpublishVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}";
    scenario_text(fault, &leaves())
}

pub fn create_reply_lost() -> String {
    let fault = "{name: lost, match: {plane: ec2, op: CreateVolume}, when: {first: 1}, effect: {drop_reply: true}, \
                 at: after_effect}";
    scenario_text(fault, &up())
}

pub fn provisioned_twice() -> String {
    let fault = "{name: lost, match: {plane: csi, op: CreateVolume}, when: {first: 1}, \
                 effect: {grpc: DEADLINE_EXCEEDED}, at: after_effect}";
    scenario_text(fault, &up())
}

/// The node that the pod moves to cannot read the device at first.
pub fn stage_fails() -> String {
    let fault = "{name: unreadable, match: {plane: disk, op: stage, where: {node: node-b}}, when: {first: 1}, \
                 effect: {io_error: EIO}}";
    scenario_text(fault, &moves())
}

pub fn kubelet_cut_off() -> String {
    let cut = "
  - fault: {name: cut, match: {plane: link}, when: {for: 20s}, effect: {partition: [node-a/kubelet, apiserver]}}
  - sleep: 5s
  - delete: {object: pod/web}
  - sleep: 30s
  - wait: {object: pod/web, is: gone, within: 3m}";
    scenario_text("", &(up() + cut + &up_again()))
}

/// Watches end and are resumed.
pub fn stayed_long() -> String {
    scenario_text("", &(up() + "\n  - sleep: 12m" + WEB_GOES + &up_again()))
}

/// The leader of two replicas is cut off for longer than its lease.
pub fn leader_cut_off() -> String {
    let cut = "
  - partition: {name: cut, between: [csi-attacher-2, apiserver]}
  - sleep: 90s
  - heal: cut
  - sleep: 90s";
    format!("replicas: 2\n{}", scenario_text("", &(up() + cut + WEB_GOES)))
}

/// A claim is deleted and one with the same name is created while its volume is still attached.
pub fn recreated() -> String {
    let again = "
  - delete: {object: pod/web-2}
  - delete: {object: pvc/data}
  - wait: {object: pvc/data, is: gone}"
        .to_owned()
        + &claim("data")
        + &pod("web-3", "node-a", "data")
        + "\n  - wait: {object: pod/web-3, is: Running, on: node-a, within: 20m}";
    format!("latency: aws\n{}", scenario_text("", &(moves() + &again)))
}

/// A volume is created from a snapshot of a volume that is written to while the snapshot is in progress.
pub fn copied() -> String {
    let copy = "
  - ec2: {action: CreateSnapshot, with: {VolumeId: {volume: pvc/data}}, save: snapshot, from: SnapshotId}
  - sleep: 6s
  - ec2: {poke: complete, snapshot: {saved: snapshot}}
  - ec2:
      action: CreateVolume
      with: {AvailabilityZone: us-east-1a, SnapshotId: {saved: snapshot}, VolumeType: gp3}
      save: copy
      from: VolumeId
  - apply:
      apiVersion: v1
      kind: PersistentVolume
      metadata: {name: copy, annotations: {pv.kubernetes.io/provisioned-by: ebs.csi.aws.com}}
      spec:
        capacity: {storage: 1Gi}
        accessModes: [ReadWriteOnce]
        persistentVolumeReclaimPolicy: Delete
        claimRef: {namespace: default, name: copy}
        csi: {driver: ebs.csi.aws.com, volumeHandle: {saved: copy}, fsType: ext4}
  - apply:
      apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {name: copy}
      spec: {accessModes: [ReadWriteOnce], storageClassName: '', volumeName: copy, resources: {requests: {storage: 1Gi}}}";
    let reads = pod("reader", "node-a", "copy") + "\n  - wait: {object: pod/reader, records: 1, within: 40m}";
    format!("latency: aws\n{}", scenario_text("", &(up() + copy + &reads)))
}

/// The controller manager ends in the middle of an attach, and the volume is no longer wanted when it is back.
pub fn controller_manager_down() -> String {
    let fault =
        "{name: slow, match: {plane: csi, op: ControllerPublishVolume}, when: {first: 1}, effect: {delay: 40s}}";
    let down = "
  - sleep: 15s
  - crash: kube-controller-manager
  - delete: {object: pod/web, force: true}
  - sleep: 1m
  - restart: kube-controller-manager
  - sleep: 1m";
    scenario_text(fault, &(claim("data") + &pod("web", "node-a", "data") + down))
}
