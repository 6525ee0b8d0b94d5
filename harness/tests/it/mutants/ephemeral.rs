//! Scenarios of ephemeral volumes, whose claims belong to their pod.

use super::steps::{CLAIM, NEXT_WRITES, WEB_GOES, WEB_IS_GONE, WEB_WRITES, file};

const EPHEMERAL: &str = "apply: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 5, \
                         containers: [{name: writer, image: mooring/writer, volumeMounts: [{name: scratch, mountPath: \
                         /scratch}]}], volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: \
                         [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}}}}}]}}";

pub fn ephemeral() -> String {
    let goes = [WEB_GOES, WEB_IS_GONE, "wait: {object: pvc/web-scratch, is: gone, within: 5m}"];
    let starts = [EPHEMERAL, WEB_WRITES];
    file("objects: [{class: {name: gp3}}]", &[&starts[..], &goes].concat())
}

/// A claim with the name of an ephemeral volume's claim exists, and does not belong to the pod.
pub fn claim_of_another() -> String {
    let other = ["claim: {name: web-scratch}", EPHEMERAL, "sleep: 1m"];
    let running = [CLAIM, "pod: {name: next, claim: data, node: node-b, grace: 5s}", NEXT_WRITES];
    file("objects: [{class: {name: gp3}}]", &[&running[..], &other].concat())
}

/// The garbage collector sees the claim before it sees the pod that owns it.
pub fn ephemeral_and_late() -> String {
    let fault = "fault: {name: late, match: {plane: k8s, op: watch-event, where: {resource: pods, type: ADDED, \
                 caller: kube-controller-manager*}}, when: {nth: 2}, effect: {delay: 10s}}";
    file("objects: [{class: {name: gp3}}]", &["sleep: 1m", fault, EPHEMERAL, "sleep: 2m"])
}

/// The template of an ephemeral volume has a label.
pub fn ephemeral_with_label() -> String {
    let pod =
        EPHEMERAL.replace("volumeClaimTemplate: {spec", "volumeClaimTemplate: {metadata: {labels: {of: web}}, spec");
    file("objects: [{class: {name: gp3}}]", &[&*pod, WEB_WRITES])
}
