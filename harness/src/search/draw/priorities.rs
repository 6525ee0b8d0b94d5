//! Steps in which a pod preempts a pod of lower priority. They compete for the cpu of a node, or for a ReadWriteOncePod
//! claim.

use serde_json::{Value, json};

use super::builder::has_written;

/// Resource for which both pods compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prize {
    /// Most of the cpu of the node.
    Cpu,
    /// A claim with ReadWriteOncePod.
    Claim,
}

fn class(name: &str, value: u32) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value })
}

/// Returns a pod that writes to a claim.
fn pod(name: &str, node: &str, claim: &str, cpu: &str) -> Value {
    json!({ "apply": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "priorityClassName": name,
            "nodeSelector": { "kubernetes.io/hostname": node },
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "writer",
                "image": "mooring/writer",
                "resources": { "requests": { "cpu": cpu } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
        },
    } })
}

/// Returns the steps: the pod `minor` runs, and then `major` runs instead.
pub(super) fn steps(node: &str, prize: Prize) -> Vec<Value> {
    let claim = |name: &str, mode: &str| json!({ "claim": { "name": name, "mode": mode } });
    let mut steps = vec![json!({ "apply": [class("minor", 10), class("major", 1000)] })];
    let (minor, major, cpu) = match prize {
        Prize::Cpu => {
            steps.extend([claim("minor", "ReadWriteOnce"), claim("major", "ReadWriteOnce")]);
            ("minor", "major", "1200m")
        }
        Prize::Claim => {
            steps.push(claim("either", "ReadWriteOncePod"));
            ("either", "either", "10m")
        }
    };
    steps.extend([pod("minor", node, minor, cpu), has_written("minor"), pod("major", node, major, cpu)]);
    let gone = json!({ "wait": { "object": "pod/minor", "is": "gone", "within": "40m" } });
    steps.extend([gone, has_written("major")]);
    steps
}
