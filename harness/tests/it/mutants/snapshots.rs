//! Scenarios of snapshots and of copies.

use super::steps::{CLAIM, WEB, WEB_GOES, WEB_IS_GONE, WEB_WRITES, file};

const READY: &str = "wait: {object: vs/monday, that: 'has(self.status) && self.status.?readyToUse.orValue(false)'}";

/// A claim is deleted while the driver takes its snapshot.
pub fn snapshotted_slowly() -> String {
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
pub fn snapshot_retained() -> String {
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
pub fn restored() -> String {
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

/// A claim of a copy of another claim's volume.
pub fn cloned() -> String {
    let claim = "apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: copy}, spec: {accessModes: \
                 [ReadWriteOnce], storageClassName: gp3, dataSource: {kind: PersistentVolumeClaim, name: data}, resources: {requests: {storage: \
                 1Gi}}}}";
    let reads = "pod: {name: reader, claim: copy, node: node-a, grace: 5s}";
    let running = "wait: {object: pod/reader, is: Running, within: 10m}";
    let intact = "expect: {bytes-intact: pod/reader, records: 3}";
    let head = "objects: [{class: {name: gp3}}]";
    file(head, &[CLAIM, WEB, WEB_WRITES, WEB_GOES, WEB_IS_GONE, claim, reads, running, intact])
}

pub fn snapshot_deleted() -> String {
    let gone = ["delete: {object: vs/monday}", "wait: {object: vs/monday, is: gone}", "sleep: 5s"];
    let taken = [CLAIM, WEB, WEB_WRITES, "snapshot: {name: monday, claim: data}", READY];
    file("", &[&taken[..], &gone].concat())
}

/// A snapshot is deleted while the driver creates a volume from it.
pub fn restored_slowly() -> String {
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
