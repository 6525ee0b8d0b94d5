//! Host names of containers.

use anyhow::Context;
use e2e::Up;

use super::{MOORING, apply, can_run};

/// A pod with a name of its own, and one that is called by the pod.
const NAMES: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: given}
spec:
  hostname: web
  subdomain: all
  hostAliases: [{ip: 127.0.0.9, hostnames: [other.example]}]
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "uname -n; echo $HOSTNAME; grep -c -e other.example -e web.all.default.svc.cluster.local /etc/hosts"]
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: app, image: busybox, command: [sleep, "1000"]}]}
"#;

#[test]
fn a_container_is_called_by_its_pod_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    apply(&up, NAMES).unwrap();
    let ended = "--for=jsonpath={.status.phase}=Succeeded";
    up.run("kubectl", &["wait", ended, "pod/given", "--timeout=90s"]).context(up.log()).unwrap();
    assert_eq!(up.run("kubectl", &["logs", "given"]).unwrap(), "web\nweb\n2\n");
    up.run("kubectl", &["wait", "--for=condition=Ready", "pod/plain", "--timeout=90s"]).context(up.log()).unwrap();
    assert_eq!(up.run("kubectl", &["exec", "plain", "--", "uname", "-n"]).unwrap(), "plain\n");
}
