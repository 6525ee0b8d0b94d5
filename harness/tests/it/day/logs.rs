//! Logs of the components of a Mooring.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::day::home::{Home, claim_and_pod, create, http};

#[test]
fn logs_are_of_one_component_or_of_all_and_go_on_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let logs = |args: &[&str]| home.ok(&[&["logs", "--name", "one"], args].concat());
    let mut following = home
        .mooring(&["logs", "--name", "one", "-f", "ebs-csi-controller-control-plane"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    claim_and_pod(&ready);
    home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "60s"]);
    let attacher = logs(&["csi-attacher"]);
    assert!(attacher.contains("csi.answered] ") && attacher.contains("rpc=\"ControllerPublishVolume\""), "{attacher}");
    assert!(!attacher.contains(" | "), "{attacher}");
    assert_eq!(logs(&["csi-attacher", "--tail", "1", "--timestamps"]).lines().count(), 1);
    // The name of a node selects all its processes. If there are several, each line has the name of its process.
    let node = logs(&["node-a"]);
    assert!(node.contains("node-a/csi-node | I") && node.contains("node-a/kubelet | I"), "{node}");
    let all = logs(&["--since", "1h"]);
    for process in ["mock-ec2", "fake-apiserver", "csi-controller", "csi-attacher", "kube-scheduler"] {
        assert!(all.contains(&format!("{process} | I")), "{process} is not in\n{all}");
    }
    let lines = home.json(&["logs", "--name", "one", "kube-scheduler"])["lines"].as_array().unwrap().len();
    assert!(lines > 0);

    let unknown = home.fails(2, &["logs", "--name", "one", "csi-atacher"]);
    assert!(unknown.contains("there is no component csi-atacher; did you mean csi-attacher?"), "{unknown}");
    let streamed = home.run(&["logs", "--name", "one", "-f", "--output", "json"]);
    assert_eq!(streamed.status.code(), Some(2));
    let output = String::from_utf8(streamed.stdout).unwrap();
    assert!(output.contains("leave out --output json"), "{output}");
    let unknown = home.fails(3, &["logs", "--name", "two"]);
    assert!(unknown.contains("no Mooring called two is up"), "{unknown}");
    // Following ends with the Mooring.
    home.ok(&["down", "--name", "one"]);
    let mut followed = String::new();
    following.stdout.take().unwrap().read_to_string(&mut followed).unwrap();
    assert!(following.wait().unwrap().success());
    assert!(followed.contains("csi-controller | ") && followed.contains("action=\"AttachVolume\""), "{followed}");
}

#[test]
fn a_cluster_for_people_has_classes_system_pods_and_warnings_also_after_a_reset_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let endpoint = ready["kubernetesHttp"].as_str().unwrap();
    let looks = || {
        for class in ["gp3", "gp3-retain", "io2", "standard"] {
            let (status, answer) =
                http(endpoint, "GET", &format!("/apis/storage.k8s.io/v1/storageclasses/{class}"), &[], "");
            assert_eq!(status, 200, "{answer}");
        }
        crate::day::home::eventually("all pods of kube-system run", || {
            let (_, pods) = http(endpoint, "GET", "/api/v1/namespaces/kube-system/pods", &[], "");
            pods.matches("\"phase\":\"Running\"").count() == 6
        });
    };
    looks();
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" },
        "spec": { "defaultBackend": backend } });
    create(&ready, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress);
    crate::day::home::eventually("an Event says that no loop works on it", || {
        http(endpoint, "GET", "/api/v1/namespaces/default/events", &[], "").1.contains("NoController")
    });
    home.ok(&["reset", "--name", "one"]);
    looks();
}
