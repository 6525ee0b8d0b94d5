//! A driver of the user with a controller service and without a node service: the message names the next step.

use serde_json::{Value, json};

use crate::programs::tools::{Folder, eventually};

const PORTS: [&str; 6] =
    ["--ec2-listen", "127.0.0.1:0", "--imds-listen", "127.0.0.1:0", "--kubernetes-listen", "127.0.0.1:0"];

/// Starts a cluster with a driver that has only a controller service, and a pod with a volume.
fn up(folder: &Folder, more: &[&str]) -> Value {
    let start = ["up", "--detach", "--nodes", "1", "--backend", "directory", "--replaces", "csi-mock", "--run"];
    let driver = ["--run-as", "my-driver", "--", env!("CARGO_BIN_EXE_mooring"), "component", "csi-mock"];
    let flags = ["--mode", "controller", "--endpoint", "$(CSI_ENDPOINT)", "--ec2-endpoint", "$(AWS_EC2_ENDPOINT)"];
    let ran = folder.ran(&[&start[..], &PORTS, &["--output", "json"], &driver, &flags, more].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ready = ran.data["data"].clone();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": {
            "containers": [{ "name": "w", "image": "mooring/writer", "volumeMounts": [{ "name": "d", "mountPath": "/d" }] }],
            "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    });
    for (plural, object) in [("persistentvolumeclaims", claim), ("pods", pod)] {
        folder.post(&ready, &format!("/api/v1/namespaces/default/{plural}"), &object);
    }
    ready
}

/// Returns the messages of the Events about the claim with this reason.
fn events(folder: &Folder, ready: &Value, reason: &str) -> Vec<String> {
    let list = folder.get(ready, "/api/v1/namespaces/default/events");
    let all = list["items"].as_array().unwrap().iter();
    let of = all.filter(|e| e["reason"] == reason && e["involvedObject"]["kind"] == "PersistentVolumeClaim");
    of.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_missing_node_service_is_reported_by_up_status_and_the_claim_live() {
    let folder = Folder::new();
    let ready = up(&folder, &[]);
    eventually("the claim says so", || !events(&folder, &ready, "DriverNotRegistered").is_empty());
    let registry = ready["nodes"][0]["pluginsRegistry"].as_str().unwrap().to_owned();
    let message = events(&folder, &ready, "DriverNotRegistered").remove(0);
    assert!(message.starts_with("no driver ebs.csi.aws.com has registered on node-a since "), "{message}");
    assert!(message.contains("start the driver's node service there") && message.contains(&registry), "{message}");
    // The text of upstream stays.
    eventually("the provisioner says it in its words", || {
        events(&folder, &ready, "ProvisioningFailed")
            .iter()
            .any(|output| output.contains("no topology key found for node node-a"))
    });
    let status = folder.ran(&["status"]).out;
    assert!(status.contains("drivers     no driver has registered on node-a since "), "{status}");
    assert!(status.contains(&registry) && status.contains("docs/test-your-driver.md"), "{status}");
    assert!(status.contains("pvc/data: no driver ebs.csi.aws.com has registered on node-a"), "{status}");
    eventually("it is printed", || {
        let log = folder.read(".local/state/mooring/default/log");
        log.contains("pvc/data: no driver ebs.csi.aws.com has registered on node-a since ")
    });

    let of = |key: &str| ready["nodes"][0][key].as_str().unwrap().to_owned();
    let (root, instance) = (of("root"), of("instance"));
    let endpoint = format!("unix://{root}/csi.sock");
    let volumes = ready["volumeDir"].as_str().unwrap();
    let mut node = folder
        .mooring(&["component", "csi-mock", "--mode", "node", "--node-id", &instance, "--node-name", "node-a"])
        .args(["--endpoint", &endpoint, "--registration-dir", &registry, "--root", &root, "--volume-dir", volumes])
        .args(["--zone", "us-east-1a", "--backend", "directory", "--no-plug"])
        .spawn()
        .unwrap();
    // The provisioner may have doubled its backoff up to a minute.
    let ran = folder.ran(&["wait", "--for", "pod/web=Running", "--timeout", "4m"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let status = folder.ran(&["status"]).out;
    assert!(!status.contains("no driver has registered"), "{status}");
    assert_eq!(folder.ran(&["down"]).code, 0);
    node.kill().unwrap();
    node.wait().unwrap();
    assert_eq!(folder.left(), Vec::<String>::new());
}

/// A driver without topology provisions and attaches, and then no node mounts the volume.
#[test]
fn a_volume_attached_where_no_driver_mounts_it_has_a_claim_event_live() {
    let folder = Folder::new();
    let ready = up(&folder, &["--capabilities", "ebs,-VOLUME_ACCESSIBILITY_CONSTRAINTS"]);
    eventually("the claim says so", || !events(&folder, &ready, "DriverNotRegistered").is_empty());
    assert_eq!(events(&folder, &ready, "ProvisioningFailed"), Vec::<String>::new());
    let claim = folder.get(&ready, "/api/v1/namespaces/default/persistentvolumeclaims/data");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(folder.ran(&["down"]).code, 0);
}
