//! Scenarios of the requirements of claims, classes and volumes, and of the lifetimes of these.

use super::scenarios::grown;
use super::steps::{CLAIM, NEXT, NEXT_WRITES, WEB, WEB_GOES, WEB_IS_GONE, WEB_WRITES, file};

/// Returns a class `own` with these fields.
fn class(fields: &str) -> String {
    format!(
        "objects:\n  - {{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: own}}, \
         provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer, {fields}}}"
    )
}

pub fn xfs() -> String {
    let class = class("parameters: {type: gp3, csi.storage.k8s.io/fstype: xfs}");
    file(&class, &["claim: {name: data, class: own}", WEB, WEB_WRITES])
}

/// A class that asks for more than the defaults.
pub fn shaped() -> String {
    let class = class("parameters: {type: gp3, iops: '4000', throughput: '250', encrypted: 'true'}");
    file(&class, &["claim: {name: data, class: own, size: 20Gi}", WEB, WEB_WRITES])
}

pub fn once_pod() -> String {
    file("", &["claim: {name: data, mode: ReadWriteOncePod}", WEB, WEB_WRITES])
}

pub fn of_two_gib() -> String {
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
pub fn static_volume() -> String {
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
pub fn zone_is_full() -> String {
    let head = "nodes: [{name: node-a, zone: us-east-1a}, {name: node-b, zone: us-east-1b}]";
    let first = "pod: {name: first, claim: data, node: node-b, grace: 5s}";
    let writes = "wait: {object: pod/first, records: 3, within: 10m}";
    let goes = ["delete: {object: pod/first}", "wait: {object: pod/first, is: gone, within: 5m}"];
    file(head, &[CLAIM, first, writes, goes[0], goes[1], WEB, "sleep: 1m"])
}

pub fn delete_fails() -> String {
    let fault =
        "fault: {name: once, match: {plane: csi, op: DeleteVolume}, when: {first: 1}, effect: {grpc: INTERNAL}}";
    file("", &[fault, CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE, "delete: {object: pvc/data}", "sleep: 30s"])
}

/// A claim whose volume was retained is created again.
pub fn retained_and_claimed_again() -> String {
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

pub fn bound_volume_deleted() -> String {
    let goes = ["delete: {object: pv/own}", "sleep: 30s", "delete: {object: pvc/data}"];
    let gone = "wait: {object: pvc/data, is: gone, within: 3m}";
    file("", &[VOLUME_MADE, VOLUME, VOLUME_CLAIMED, IS_BOUND, goes[0], goes[1], goes[2], gone])
}

/// A volume cannot be detached for a minute. Meanwhile its PersistentVolume, claim and pod are deleted.
pub fn volume_in_use_deleted() -> String {
    let fault = "fault: {name: stays, match: {plane: csi, op: ControllerUnpublishVolume}, when: {for: 1m}, \
                 effect: {grpc: INTERNAL}}";
    let goes = ["delete: {object: pv/own}", "delete: {object: pvc/data}"];
    let gone = "wait: {object: pvc/data, is: gone, within: 3m}";
    let made = [VOLUME_MADE, VOLUME, VOLUME_CLAIMED, WEB, WEB_WRITES];
    let steps = [&made[..], &[goes[0], fault, WEB_GOES, goes[1], gone, "sleep: 3m"]].concat();
    file("", &steps)
}

pub fn grown_slowly() -> String {
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
pub fn modified() -> String {
    let has = "wait: {object: pvc/data, that: \"self.status.?currentVolumeAttributesClassName.orValue('') == 'gold'\", \
               within: 15m}";
    let made = "expect: {ec2: {volumes: all, that: 'self.exists(v, v.iops == 6000)'}}";
    with_classes(&[SILVER, WEB, WEB_WRITES, GOLD, has, made])
}

pub fn second_for_one_pod() -> String {
    let claim = "claim: {name: data, mode: ReadWriteOncePod}";
    file("", &[claim, WEB, WEB_WRITES, NEXT, "sleep: 1m", WEB_GOES, NEXT_WRITES])
}

/// A kept volume gets another PersistentVolume, which is read-only.
pub fn given_again() -> String {
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

/// A VolumeAttributesClass is deleted while a claim has it.
pub fn class_deleted() -> String {
    let goes = ["sleep: 1m", "delete: {object: vac/silver}", "sleep: 5s"];
    let gone = "wait: {object: vac/silver, is: gone, within: 15m}";
    with_classes(&[&[SILVER, WEB, WEB_WRITES][..], &goes, &[GOLD, gone]].concat())
}

/// A claim selects the larger of two static volumes.
pub fn selected() -> String {
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
