//! Seeded bugs in requests and their results: requirements of claims, classes and pods, lifetimes, limits, and the
//! answers of the cloud and the API server.

use harness::invariants::Id;

use super::{
    Case, Slip, case, grown, in_another_zone, left, moved, read_only, retained, slip, slow_attach, slow_unstage,
    with_options,
};

/// Seeded bugs that break an invariant.
pub const CASES: &[Case] = &[
    case(&["fs-type-dropped"], xfs, Id::I10, "and its StorageClass asks for xfs"),
    case(&["fs-type-not-passed"], xfs, Id::I9, "and its PersistentVolume asks for xfs"),
    case(&["fs-type-ignored"], xfs, Id::I9, "and its PersistentVolume asks for xfs"),
    case(&["mount-flags-ignored"], with_options, Id::I9, "without the mount option noatime"),
    case(&["read-only-ignored"], read_only, Id::I9, "for writing, and each pod there asks for it read-only"),
    case(&["node-expansion-skipped"], grown, Id::I9, "and the filesystem of"),
    case(&["access-modes-dropped"], once_pod, Id::I10, "without the access mode ReadWriteOncePod"),
    case(&["access-modes-not-compared"], static_volume, Id::I10, "without the access mode ReadWriteMany"),
    case(&["size-not-compared"], static_volume, Id::I10, "and its claim asks for 2147483648"),
    case(&["zone-not-compared"], zone_is_full, Id::I10, "was put on node-a in us-east-1a"),
    case(&["zone-told-not-made"], in_another_zone, Id::I10, "and the cloud has it in us-east-1a"),
    case(&["capacity-told-not-made"], of_two_gib, Id::I10, "with more bytes than the 1 GiB that the cloud has"),
    case(&["iops-dropped"], shaped, Id::I10, "with the iops 3000 in the cloud"),
    case(&["throughput-dropped"], shaped, Id::I10, "with the throughput 125 in the cloud"),
    case(&["encryption-dropped"], shaped, Id::I10, "with the encrypted false in the cloud"),
    case(&["delete-error-is-success"], delete_fails, Id::I5, "a cloud volume is left over"),
    case(
        &["released-volume-offered-again"],
        retained_and_claimed_again,
        Id::I6,
        "was released by a claim that is gone",
    ),
    case(
        &["terminating-pod-not-counted"],
        claim_goes_while_its_pod_ends,
        Id::I11,
        "was removed while pod/default/web uses it",
    ),
    case(&["read-only-volume-ignored"], given_again, Id::I9, "for writing, and its PersistentVolume is read-only"),
    case(&["node-expansion-not-asked"], grown, Id::I12, "has a filesystem of 1073741824 bytes"),
    case(&["expansion-needs-no-node"], grown, Id::I12, "has a filesystem of 1073741824 bytes"),
    case(&["bound-volume-removed"], bound_volume_deleted, Id::I11, "was removed while it is bound"),
    case(&["ready-node-forced"], unmount_fails, Id::I2, "no legitimate forced detach is on record"),
    case(&["deleted-node-is-unmounted"], node_deleted, Id::I2, "no legitimate forced detach is on record"),
    case(&["failed-attach-forgotten"], attach_fails, Id::I8, "waits for its deletion"),
    case(&["volume-goes-before-attachment"], volume_in_use_deleted, Id::I8, "waits for the detach of own"),
    case(&["attachment-finalizer-kept"], left, Id::I8, "waits for the detach of"),
    case(&["attachment-not-awaited"], slow_attach, Id::I3, "where it is not attached"),
    case(&["one-volume-reconstructed"], kubelet_down_with_two, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["formats-each-time"], moved, Id::I6, "found 0 records"),
    case(&["attach-is-not-waited-for"], attached_slowly, Id::I3, "where it is not attached"),
    case(&["selector-forgotten"], moved, Id::I7, "which is not selected"),
    case(&["deletion-told-as-change"], moved, Id::I7, "sends"),
    case(&["delete-precondition-ignored"], pod_made_again, Id::I11, "was removed by a kubelet"),
    case(&["expand-not-asked"], grown, Id::I10, "says that it has 2147483648 bytes, and the cloud has 1 GiB"),
    case(
        &["size-before-expansion"],
        grown_slowly,
        Id::I10,
        "says that it has 2147483648 bytes, and the cloud has 1 GiB",
    ),
    case(&["modify-not-asked"], modified, Id::I10, "and the cloud has the iops 3000 instead of 6000"),
    case(&["class-told-not-asked"], modified, Id::I10, "and the cloud has the iops 3000 instead of 6000"),
    case(&["volume-limits-ignored"], one_too_many, Id::I10, "as the pod with volume number 3"),
    case(&["one-volume-too-many"], one_too_many, Id::I10, "as the pod with volume number 3"),
    case(&["limit-race"], all_at_once, Id::I10, "as the pod with volume number"),
    case(
        &["volume-limits-ignored", "attach-limit-ignored"],
        one_too_many,
        Id::I10,
        "is volume number 3 attached to node-a",
    ),
    case(&["once-pod-not-compared"], second_for_one_pod, Id::I10, "of ReadWriteOncePod, which pod/default/web uses"),
    case(&["foreign-claim-taken"], claim_of_another, Id::I10, "which does not belong to it"),
    case(&["living-owner-ignored"], ephemeral_and_late, Id::I11, "was deleted while its owner pod/default/web exists"),
    case(&["pods-of-ready-node-collected"], ready_node_out_of_service, Id::I11, "and its node node-a is Ready"),
    case(&["in-use-not-awaited"], moved, Id::I3, "whose status.volumesInUse does not list it"),
    case(
        &["unstage-while-published", "mount-references-ignored"],
        unpublish_fails_twice,
        Id::I2,
        "NodeUnstageVolume was called",
    ),
    case(&["pod-removed-before-unmount"], moved, Id::I2, "was removed by its kubelet while"),
    case(&["published-for-another-pod"], two_on_a_node, Id::I9, "which does not use it"),
    case(&["retries-without-backoff"], detach_fails_for_long, Id::I8, "its caller does not wait"),
    case(&["publish-context-not-passed"], moved, Id::I9, "without the metadata of volumeattachment/"),
    case(&["attached-volume-deleted"], claim_goes_before_detach, Id::I11, "while volumeattachment/"),
    case(&["class-in-use-removed"], class_deleted, Id::I11, "was removed while pvc/default/data has it"),
    case(&["selector-not-compared"], selected, Id::I12, "selects volumes with the label disk=large"),
    case(&["template-metadata-dropped"], ephemeral_with_label, Id::I12, "lacks `of` of the labels"),
    case(&["snapshot-delete-not-asked"], snapshot_deleted, Id::I3, "DeleteSnapshot answered OK for"),
    case(&["node-unknown-early"], kubelet_away, Id::I8, "was set to Unknown"),
    case(&["toleration-seconds-ignored"], kubelet_away, Id::I11, "whose taints it tolerates for 300 seconds"),
    case(&["in-use-only-while-wanted"], slow_unstage, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["detach-not-verified"], node_seen_late, Id::I2, "ControllerUnpublishVolume was called"),
    case(&["live-pods-not-read"], pod_seen_late, Id::I11, "was removed while pod/default/web uses it"),
    case(&["missing-node-is-detached"], csinode_deleted, Id::I5, "a cloud volume is left over"),
];

/// Seeded bugs that fail a step.
pub const SLIPS: &[Slip] = &[
    slip("modification-never-ends", grown_slowly, "pvc/data"),
    slip("unpublish-forgets-unmount", moved, "pod/web is gone"),
    slip("first-device-taken", two_on_a_node, "pod/other has written"),
    slip("device-by-name", devices_swapped, "pod/other has written"),
    slip("claim-without-owner", ephemeral, "pod/web"),
    slip("dependents-kept", ephemeral, "pvc/web-scratch is gone"),
    slip("claim-finalizer-kept", retained, "pvc/data is gone"),
    slip("informer-keeps-deleted", deletion_missed, "pod/next"),
    slip("lease-never-expires", leader_gone, "pod/web"),
    slip("source-dropped", cloned, "intact records"),
    slip("limit-not-told", one_too_many, "FailedScheduling"),
    slip("volume-goes-with-instance", instance_terminated, "pod/next"),
    slip("snapshot-source-released-early", snapshotted_slowly, "pvc/data is Terminating"),
    slip("snapshot-ready-early", snapshotted_slowly, "pvc/data is Terminating"),
    slip("snapshot-policy-ignored", snapshot_retained, "volumesnapshotcontents"),
    slip("snapshot-of-wrong-volume", restored, "intact records"),
    slip("snapshot-deleted-in-restore", restored_slowly, "pod/reader is Running"),
    slip("volume-data-after-mount", kubelet_down_in_a_publish, "pod/next has written"),
];

/// Returns a scenario with these other fields and steps.
fn file(head: &str, steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("  - {step}\n")).collect();
    let nodes = if head.contains("nodes:") { "" } else { "nodes: {count: 2}\n" };
    format!("name: planted\ndeadline: 60m\n{nodes}{head}\nsteps:\n{steps}")
}

const CLAIM: &str = "claim: {name: data}";
const WEB: &str = "pod: {name: web, claim: data, node: node-a, grace: 5s}";
const WEB_WRITES: &str = "wait: {object: pod/web, records: 3, within: 10m}";
const WEB_GOES: &str = "delete: {object: pod/web}";
const WEB_IS_GONE: &str = "wait: {object: pod/web, is: gone, within: 5m}";
const NEXT: &str = "pod: {name: next, claim: data, node: node-b, grace: 5s}";
const NEXT_WRITES: &str = "wait: {object: pod/next, records: 3, within: 20m}";

const READY: &str = "wait: {object: vs/monday, that: 'has(self.status) && self.status.?readyToUse.orValue(false)'}";

/// A claim is deleted while the driver takes its snapshot.
fn snapshotted_slowly() -> String {
    let slow = "faults:\n  - {name: slow, match: {plane: csi, op: CreateSnapshot}, when: {first: 1}, \
                effect: {delay: 40s}}";
    let contents = "expect: {list: volumesnapshotcontents, that: 'self.all(c, c.status.readyToUse)'}";
    let gone = "wait: {object: pvc/data, is: gone, within: 5m}";
    let steps = [
        CLAIM,
        WEB,
        WEB_WRITES,
        WEB_GOES,
        WEB_IS_GONE,
        "snapshot: {name: monday, claim: data}",
        "sleep: 5s",
        "delete: {object: pvc/data}",
        "sleep: 5s",
        "wait: {object: pvc/data, is: Terminating, within: 1s}",
        READY,
        contents,
        gone,
    ];
    file(slow, &steps)
}

/// The content of a deleted snapshot stays.
fn snapshot_retained() -> String {
    let class = "objects:\n  - {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, \
                 metadata: {name: kept}, driver: ebs.csi.aws.com, deletionPolicy: Retain}";
    let steps = [
        CLAIM,
        WEB,
        WEB_WRITES,
        "snapshot: {name: monday, claim: data, class: kept}",
        READY,
        "delete: {object: vs/monday}",
        "wait: {object: vs/monday, is: gone}",
        "sleep: 5s",
        "expect: {list: volumesnapshotcontents, that: 'self.size() == 1'}",
    ];
    file(class, &steps)
}

/// One of two claims is restored from its snapshot.
fn restored() -> String {
    let copy = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: copy}, spec: {accessModes: \
                [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}, dataSource: {apiGroup: \
                snapshot.storage.k8s.io, kind: VolumeSnapshot, name: monday}}}";
    let steps = [
        CLAIM,
        WEB,
        "wait: {object: pod/web, records: 20, within: 10m}",
        WEB_GOES,
        WEB_IS_GONE,
        "claim: {name: other}",
        "pod: {name: young, claim: other, node: node-a, grace: 5s}",
        "wait: {object: pod/young, is: Running}",
        "snapshot: {name: monday, claim: data}",
        READY,
        copy,
        "pod: {name: reader, claim: copy, node: node-b}",
        "wait: {object: pod/reader, is: Running}",
        "expect: {bytes-intact: pod/reader, records: 20}",
    ];
    file("", &steps)
}

/// Returns a class `own` with these fields.
fn class(fields: &str) -> String {
    format!(
        "objects:\n  - {{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: own}}, \
         provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer, {fields}}}"
    )
}

fn xfs() -> String {
    let class = class("parameters: {type: gp3, csi.storage.k8s.io/fstype: xfs}");
    file(&class, &["claim: {name: data, class: own}", WEB, WEB_WRITES])
}

/// A class that asks for more than the defaults.
fn shaped() -> String {
    let class = class("parameters: {type: gp3, iops: '4000', throughput: '250', encrypted: 'true'}");
    file(&class, &["claim: {name: data, class: own, size: 20Gi}", WEB, WEB_WRITES])
}

fn once_pod() -> String {
    file("", &["claim: {name: data, mode: ReadWriteOncePod}", WEB, WEB_WRITES])
}

fn of_two_gib() -> String {
    file("", &["claim: {name: data, size: 2Gi}", WEB, WEB_WRITES])
}

const VOLUME_MADE: &str =
    "ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}";
const VOLUME: &str = "apply: {apiVersion: v1, kind: PersistentVolume, metadata: {name: own}, spec: {capacity: {storage: 1Gi}, \
                      accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, storageClassName: '', \
                      csi: {driver: ebs.csi.aws.com, volumeHandle: {saved: own}, fsType: ext4}}}";
const VOLUME_CLAIMED: &str = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: \
                              [ReadWriteOnce], storageClassName: '', volumeName: own, resources: {requests: {storage: 1Gi}}}}";
const IS_BOUND: &str = "wait: {object: pvc/data, is: Bound, within: 5m}";

/// A static volume, and two claims that it does not satisfy.
fn static_volume() -> String {
    let claim = |name: &str, mode: &str, size: &str| {
        format!(
            "apply: {{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: [{mode}], \
             storageClassName: '', resources: {{requests: {{storage: {size}}}}}}}}}"
        )
    };
    let (larger, shared) = (claim("larger", "ReadWriteOnce", "2Gi"), claim("shared", "ReadWriteMany", "1Gi"));
    file("", &[CLAIM, WEB, WEB_WRITES, VOLUME_MADE, VOLUME, &larger, &shared, "sleep: 1m"])
}

/// No node of the volume's zone takes the next pod.
fn zone_is_full() -> String {
    let head = "nodes: [{name: node-a, zone: us-east-1a}, {name: node-b, zone: us-east-1b}]";
    let first = "pod: {name: first, claim: data, node: node-b, grace: 5s}";
    let writes = "wait: {object: pod/first, records: 3, within: 10m}";
    let goes = ["delete: {object: pod/first}", "wait: {object: pod/first, is: gone, within: 5m}"];
    file(head, &[CLAIM, first, writes, goes[0], goes[1], WEB, "sleep: 1m"])
}

fn delete_fails() -> String {
    let fault =
        "fault: {name: once, match: {plane: csi, op: DeleteVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}";
    file("", &[fault, CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE, "delete: {object: pvc/data}", "sleep: 30s"])
}

/// A claim whose volume was retained is created again.
fn retained_and_claimed_again() -> String {
    let claim = "claim: {name: data, class: own}";
    let goes = "delete: {object: pvc/data}";
    let gone = "wait: {object: pvc/data, is: gone, within: 3m}";
    let class = class("reclaimPolicy: Retain");
    let lives = [WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE];
    let again = [goes, gone, "sleep: 1m", claim, NEXT, NEXT_WRITES];
    let second = [
        "pod: {name: second, claim: data, node: node-b, grace: 5s}",
        "wait: {object: pod/second, records: 3, within: 10m}",
        "delete: {object: pod/second}",
        "wait: {object: pod/second, is: gone, within: 5m}",
    ];
    file(&class, &[&[claim][..], &lives, &second, &again].concat())
}

fn bound_volume_deleted() -> String {
    let goes = ["delete: {object: pv/own}", "sleep: 30s", "delete: {object: pvc/data}"];
    let gone = "wait: {object: pvc/data, is: gone, within: 3m}";
    file("", &[VOLUME_MADE, VOLUME, VOLUME_CLAIMED, IS_BOUND, goes[0], goes[1], goes[2], gone])
}

/// A volume cannot be detached for a minute. Meanwhile its PersistentVolume, claim and pod are deleted.
fn volume_in_use_deleted() -> String {
    let fault = "fault: {name: stays, match: {plane: csi, op: ControllerUnpublishVolume}, when: {for: 1m}, \
                 effect: {grpc: INTERNAL}}";
    let goes = ["delete: {object: pv/own}", "delete: {object: pvc/data}"];
    let gone = "wait: {object: pvc/data, is: gone, within: 3m}";
    let made = [VOLUME_MADE, VOLUME, VOLUME_CLAIMED, WEB, WEB_WRITES];
    let steps = [&made[..], &[goes[0], fault, WEB_GOES, goes[1], gone, "sleep: 3m"]].concat();
    file("", &steps)
}

fn unmount_fails() -> String {
    let busy = "fault: {name: busy, match: {plane: disk, op: unstage, where: {node: node-a}}, effect: {error: EBUSY}}";
    let steps = [CLAIM, WEB, WEB_WRITES, busy, WEB_GOES, NEXT, "sleep: 8m", "clear-fault: busy", NEXT_WRITES];
    file("", &steps)
}

/// A Node is deleted while a volume is mounted there.
fn node_deleted() -> String {
    let goes = ["crash: node-a/kubelet", "delete: {object: node/node-a}", "delete: {object: pod/web, force: true}"];
    let steps = [CLAIM, WEB, WEB_WRITES, goes[0], goes[1], goes[2], "sleep: 2m", "crash: node-a", "sleep: 6m"];
    file("", &steps)
}

/// The driver attaches a volume and answers with an error. Meanwhile the pod is deleted.
fn attach_fails() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: ControllerPublishVolume}, when: {for: 1m}, \
                 effect: {grpc: INTERNAL}, at: after_effect}";
    let failed = "expect: {event: {object: pod/web, reason: FailedAttachVolume, within: 2m}}";
    file("", &[fault, CLAIM, WEB, failed, "sleep: 10s", "delete: {object: pod/web, force: true}", "sleep: 5m"])
}

fn kubelet_down_with_two() -> String {
    let other = ["claim: {name: other}", "pod: {name: other, claim: other, node: node-a, grace: 5s}"];
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let down =
        ["crash: node-a/kubelet", "delete: {object: pod/web, force: true}", "delete: {object: pod/other, force: true}"];
    let up = ["sleep: 5s", "restart: node-a/kubelet", NEXT, NEXT_WRITES];
    let started = [CLAIM, WEB, WEB_WRITES, other[0], other[1], writes];
    file("", &[&started[..], &down, &up].concat())
}

fn attached_slowly() -> String {
    file("latency: aws", &[CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE])
}

fn two_on_a_node() -> String {
    let other = ["claim: {name: other}", "pod: {name: other, claim: other, node: node-a, grace: 5s}"];
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let goes = ["delete: {object: pod/other}", "wait: {object: pod/other, is: gone, within: 5m}"];
    let next = "pod: {name: next, claim: other, node: node-b, grace: 5s}";
    let steps = [CLAIM, WEB, WEB_WRITES, other[0], other[1], writes, goes[0], goes[1], next, NEXT_WRITES];
    file("", &steps)
}

/// A pod is created again under its name while the kubelet's deletion of the former pod is delayed.
fn pod_made_again() -> String {
    let fault = "fault: {name: slow, match: {plane: k8s, op: delete, where: {resource: pods, caller: kubelet*}}, \
                 when: {first: 1}, effect: {delay: 20s}}";
    let goes = [WEB_GOES, "sleep: 15s", "delete: {object: pod/web, force: true}", WEB, "sleep: 2m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES, fault][..], &goes, &[WEB_WRITES]].concat())
}

fn grown_slowly() -> String {
    format!("latency: aws\n{}", grown())
}

/// A claim with the VolumeAttributesClass `silver`.
const SILVER: &str = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: \
                      [ReadWriteOnce], storageClassName: gp3, volumeAttributesClassName: silver, resources: {requests: \
                      {storage: 20Gi}}}}";
/// A request for the VolumeAttributesClass `gold`.
const GOLD: &str = "patch: {object: pvc/data, with: {spec: {volumeAttributesClassName: gold}}}";

/// Returns a file with the VolumeAttributesClasses `silver` and `gold`.
fn with_classes(steps: &[&str]) -> String {
    let class = |name: &str, iops: u32| {
        format!(
            "  - {{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {{name: {name}}}, \
             driverName: ebs.csi.aws.com, parameters: {{iops: '{iops}'}}}}\n"
        )
    };
    file(&format!("objects:\n  - class: {{name: gp3}}\n{}{}", class("silver", 3000), class("gold", 6000)), steps)
}

/// A claim gets another VolumeAttributesClass.
fn modified() -> String {
    let has = "wait: {object: pvc/data, that: \"self.status.?currentVolumeAttributesClassName.orValue('') == 'gold'\", \
               within: 15m}";
    let made = "expect: {ec2: {volumes: all, that: 'self.exists(v, v.iops == 6000)'}}";
    with_classes(&[SILVER, WEB, WEB_WRITES, GOLD, has, made])
}

/// A claim of a copy of another claim's volume.
fn cloned() -> String {
    let claim = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: copy}, spec: {accessModes: \
                 [ReadWriteOnce], storageClassName: gp3, dataSource: {kind: PersistentVolumeClaim, name: data}, resources: {requests: {storage: \
                 1Gi}}}}";
    let reads = "pod: {name: reader, claim: copy, node: node-a, grace: 5s}";
    let running = "wait: {object: pod/reader, is: Running, within: 10m}";
    let intact = "expect: {bytes-intact: pod/reader, records: 3}";
    let head = "objects: [{class: {name: gp3}}]";
    file(head, &[CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE, claim, reads, running, intact])
}

/// Three pods with volumes, and a node that takes two volumes.
fn one_too_many() -> String {
    let head = "nodes: {count: 1}\ndriver: {attach-limit: 2}";
    let pod =
        |n: u32| [format!("claim: {{name: data-{n}}}"), format!("pod: {{name: web-{n}, claim: data-{n}, grace: 5s}}")];
    let runs = |n: u32| format!("wait: {{object: pod/web-{n}, is: Running, within: 5m}}");
    let waits = "expect: {event: {object: pod/web-2, reason: FailedScheduling, within: 1m}}".to_owned();
    let ends = ["delete: {object: pod/web-0}".to_owned(), runs(2)];
    let steps = [&pod(0)[..], &pod(1), &[runs(0), runs(1)], &pod(2), &[waits], &ends].concat();
    file(head, &steps.iter().map(String::as_str).collect::<Vec<_>>())
}

fn instance_terminated() -> String {
    let gone = ["ec2: {poke: terminate, instance: node-a}", "wait: {object: node/node-a, is: Unknown, within: 3m}"];
    let steps = [CLAIM, WEB, WEB_WRITES, gone[0], gone[1], "delete: {object: pod/web, force: true}", NEXT, NEXT_WRITES];
    file("", &steps)
}

/// Three pods whose volumes are created at the same time, and a node that takes one volume.
fn all_at_once() -> String {
    let head = "nodes: {count: 1}\ndriver: {attach-limit: 1}\nlatency: aws";
    let claims = "repeat: {count: 3, as: i, do: [{claim: {name: 'data-${i}'}}]}";
    let pods = "repeat: {count: 3, as: i, do: [{pod: {name: 'web-${i}', claim: 'data-${i}', grace: 5s}}]}";
    file(head, &["sleep: 1m", claims, pods, "sleep: 3m"])
}

fn second_for_one_pod() -> String {
    let claim = "claim: {name: data, mode: ReadWriteOncePod}";
    file("", &[claim, WEB, WEB_WRITES, NEXT, "sleep: 1m", WEB_GOES, NEXT_WRITES])
}

const EPHEMERAL: &str = "apply: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 5, \
                         containers: [{name: writer, image: mooring/writer, volumeMounts: [{name: scratch, mountPath: \
                         /scratch}]}], volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: \
                         [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}}}}}]}}";

fn ephemeral() -> String {
    let goes = [WEB_GOES, WEB_IS_GONE, "wait: {object: pvc/web-scratch, is: gone, within: 5m}"];
    let starts = [EPHEMERAL, WEB_WRITES];
    file("objects: [{class: {name: gp3}}]", &[&starts[..], &goes].concat())
}

/// A claim with the name of an ephemeral volume's claim exists, and does not belong to the pod.
fn claim_of_another() -> String {
    let other = ["claim: {name: web-scratch}", EPHEMERAL, "sleep: 1m"];
    let running = [CLAIM, "pod: {name: next, claim: data, node: node-b, grace: 5s}", NEXT_WRITES];
    file("objects: [{class: {name: gp3}}]", &[&running[..], &other].concat())
}

/// An operator adds the out-of-service taint to a Ready node whose volume is unmounted slowly.
fn ready_node_out_of_service() -> String {
    let fault =
        "fault: {name: slow, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 1}, effect: {delay: 1m}}";
    let taint = "taint: {node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}";
    let back = "untaint: {node: node-a, key: node.kubernetes.io/out-of-service}";
    file("", &[CLAIM, WEB, WEB_WRITES, "sleep: 1m", fault, taint, "sleep: 2m", back, "sleep: 1m"])
}

fn detach_fails_for_long() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: ControllerUnpublishVolume}, when: {for: 20s}, \
                 effect: {grpc: INTERNAL}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, "sleep: 2m"])
}

/// Two volumes return to a node in another order.
fn devices_swapped() -> String {
    let claims = [CLAIM, "claim: {name: other}"];
    let other = "pod: {name: other, claim: other, node: node-a, grace: 5s}";
    let writes = "wait: {object: pod/other, records: 3, within: 10m}";
    let goes =
        [WEB_GOES, "delete: {object: pod/other}", WEB_IS_GONE, "wait: {object: pod/other, is: gone, within: 5m}"];
    let began = [claims[0], WEB, WEB_WRITES, claims[1], other, writes];
    file("", &[&began[..], &goes, &["sleep: 1m", other, writes, WEB, WEB_WRITES]].concat())
}

/// The watches of the controllers end at the deletion of a pod, and the controllers list the pods again.
fn deletion_missed() -> String {
    let fault = "fault: {name: gone, match: {plane: k8s, op: watch-event, where: {resource: pods, type: DELETED, \
                 caller: kube-controller-manager*}}, when: {first: 10}, effect: {watch: gone}}";
    let goes = [fault, "delete: {object: pod/web, force: true}", "sleep: 10s", "clear-fault: gone"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes, &[NEXT, NEXT_WRITES]].concat())
}

/// The leader of two replicas crashes.
fn leader_gone() -> String {
    file("replicas: 2", &["sleep: 30s", "crash: csi-attacher-2", CLAIM, WEB, WEB_WRITES])
}

/// The garbage collector sees the claim before it sees the pod that owns it.
fn ephemeral_and_late() -> String {
    let fault = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: pods, type: ADDED, \
                 caller: kube-controller-manager*}}, when: {nth: 2}, effect: {delay: 10s}}";
    file("objects: [{class: {name: gp3}}]", &["sleep: 1m", fault, EPHEMERAL, "sleep: 2m"])
}

fn unpublish_fails_twice() -> String {
    let fault = "fault: {name: fails, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 2}, \
                 effect: {grpc: INTERNAL}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, WEB_IS_GONE])
}

/// A claim is deleted while its pod waits for an unmount.
fn claim_goes_while_its_pod_ends() -> String {
    let fault =
        "fault: {name: slow, match: {plane: csi, op: NodeUnpublishVolume}, when: {first: 1}, effect: {delay: 1m}}";
    file("", &[CLAIM, WEB, WEB_WRITES, fault, WEB_GOES, "sleep: 5s", "delete: {object: pvc/data}", "sleep: 2m"])
}

/// A kept volume gets another PersistentVolume, which is read-only.
fn given_again() -> String {
    let volume = |name: &str, fields: &str| {
        format!(
            "apply: {{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, spec: {{\
             capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, \
             storageClassName: '', csi: {{driver: ebs.csi.aws.com, volumeHandle: {{saved: own}}, fsType: ext4{fields}}}}}}}"
        )
    };
    let made = "ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}";
    let (first, again) = (volume("first", ""), volume("again", ", readOnly: true"));
    let claims = ["claim: {name: data, class: '', volume: first}", "claim: {name: reads, class: '', volume: again}"];
    let goes = [WEB_GOES, "delete: {object: pvc/data}", "wait: {object: pvc/data, is: gone, within: 5m}"];
    let volume_goes = ["delete: {object: pv/first}", "wait: {object: pv/first, is: gone, within: 10m}"];
    let reader = "pod: {name: reads, claim: reads, node: node-b, grace: 5s}";
    let ends = [&*again, claims[1], reader, "wait: {object: pod/reads, is: Running, within: 10m}"];
    file("", &[&[made, &*first, claims[0], WEB, WEB_WRITES][..], &goes, &volume_goes, &ends].concat())
}

/// The detach of a volume takes long. Meanwhile its claim is deleted.
fn claim_goes_before_detach() -> String {
    let fault = "fault: {name: slow, match: {plane: csi, op: ControllerUnpublishVolume}, when: {first: 1}, \
                 effect: {delay: 30s}}";
    let goes = ["sleep: 1m", fault, WEB_GOES, WEB_IS_GONE, "delete: {object: pvc/data}", "sleep: 1m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes].concat())
}

/// A VolumeAttributesClass is deleted while a claim has it.
fn class_deleted() -> String {
    let goes = ["sleep: 1m", "delete: {object: vac/silver}", "sleep: 5s"];
    let gone = "wait: {object: vac/silver, is: gone, within: 15m}";
    with_classes(&[&[SILVER, WEB, WEB_WRITES][..], &goes, &[GOLD, gone]].concat())
}

/// A claim selects the larger of two static volumes.
fn selected() -> String {
    let made = |name: &str, gib: u32| {
        format!(
            "ec2: {{action: CreateVolume, with: {{AvailabilityZone: us-east-1a, Size: {gib}}}, save: {name}, \
             from: VolumeId}}"
        )
    };
    let volume = |name: &str, gib: u32| {
        format!(
            "apply: {{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}, labels: {{disk: {name}}}}}, spec: {{\
             capacity: {{storage: {gib}Gi}}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, \
             storageClassName: '', csi: {{driver: ebs.csi.aws.com, volumeHandle: {{saved: {name}}}, fsType: ext4}}}}}}"
        )
    };
    let claim = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: \
                 [ReadWriteOnce], storageClassName: '', selector: {matchLabels: {disk: large}}, resources: {requests: \
                 {storage: 1Gi}}}}";
    file("", &[&*made("small", 1), &*made("large", 2), &*volume("small", 1), &*volume("large", 2), claim, IS_BOUND])
}

/// The template of an ephemeral volume has a label.
fn ephemeral_with_label() -> String {
    let pod =
        EPHEMERAL.replace("volumeClaimTemplate: {spec", "volumeClaimTemplate: {metadata: {labels: {of: web}}, spec");
    file("objects: [{class: {name: gp3}}]", &[&*pod, WEB_WRITES])
}

fn snapshot_deleted() -> String {
    let gone = ["delete: {object: vs/monday}", "wait: {object: vs/monday, is: gone}", "sleep: 5s"];
    let taken = [CLAIM, WEB, WEB_WRITES, "snapshot: {name: monday, claim: data}", READY];
    file("", &[&taken[..], &gone].concat())
}

/// A kubelet is down for less time than its pod tolerates.
fn kubelet_away() -> String {
    let away = ["crash: node-a/kubelet", "sleep: 3m", "restart: node-a/kubelet", "sleep: 1m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &away].concat())
}

/// After an attach, the controllers' watch of nodes is late: they do not see that the volume is in use.
fn node_seen_late() -> String {
    let attached =
        "wait: {object: node/node-a, that: 'self.status.?volumesAttached.orValue([]).size() == 1', within: 2m}";
    let late = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: nodes, caller: \
                kube-controller-manager*}}, when: {for: 2m}, effect: {delay: 2m}}";
    let slow = "fault: {name: slow, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {delay: 1m}}";
    let goes = [WEB_WRITES, slow, WEB_GOES, WEB_IS_GONE, "sleep: 3m", NEXT, NEXT_WRITES];
    file("", &[&["sleep: 11s", CLAIM, WEB, attached, "sleep: 50ms", late][..], &goes].concat())
}

/// A claim is deleted before the controllers see that its pod is on a node.
fn pod_seen_late() -> String {
    let late = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: pods, type: MODIFIED, caller: \
                kube-controller-manager*}}, when: {for: 1m}, effect: {delay: 1m}}";
    file("", &[CLAIM, late, WEB, "sleep: 10s", "delete: {object: pvc/data}", "sleep: 3m", WEB_GOES, WEB_IS_GONE])
}

/// A Node and its CSINode are deleted while a volume is attached there.
fn csinode_deleted() -> String {
    let goes = ["crash: node-a/kubelet", "delete: {object: node/node-a}", "delete: {object: csinode/node-a}"];
    let ends = ["delete: {object: pod/web, force: true}", "sleep: 2m", "crash: node-a", "sleep: 8m"];
    file("", &[&[CLAIM, WEB, WEB_WRITES][..], &goes, &ends].concat())
}

/// A snapshot is deleted while the driver creates a volume from it.
fn restored_slowly() -> String {
    let slow = "fault: {name: slow, match: {plane: csi, op: CreateVolume}, when: {first: 1}, effect: {delay: 30s}}";
    let copy = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: copy}, spec: {accessModes: \
                [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}, dataSource: {apiGroup: \
                snapshot.storage.k8s.io, kind: VolumeSnapshot, name: monday}}}";
    let taken =
        [CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE, "snapshot: {name: monday, claim: data}", READY, slow, copy];
    let used = [
        "pod: {name: reader, claim: copy, node: node-b}",
        "expect: {fired: slow, within: 1m}",
        "delete: {object: vs/monday}",
        "sleep: 5s",
        "wait: {object: vs/monday, is: Terminating, within: 1s}",
        "wait: {object: pod/reader, is: Running, within: 10m}",
        "wait: {object: vs/monday, is: gone, within: 5m}",
    ];
    file("", &[&taken[..], &used].concat())
}

/// A kubelet ends after the driver has published a volume. Meanwhile its pod is deleted.
fn kubelet_down_in_a_publish() -> String {
    let slow = "fault: {name: slow, match: {plane: csi, op: NodePublishVolume}, when: {first: 1}, effect: {delay: 1m}, \
                at: after_effect}";
    let down = ["expect: {fired: slow, within: 2m}", "sleep: 5s", "crash: node-a/kubelet"];
    let up = ["delete: {object: pod/web, force: true}", "sleep: 2m", "restart: node-a/kubelet", NEXT, NEXT_WRITES];
    file("", &[&[CLAIM, slow, WEB][..], &down, &up].concat())
}
