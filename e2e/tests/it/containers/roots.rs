//! Roots of containers.

use anyhow::Context;
use e2e::Up;

use super::{MOORING, apply, can_run};

/// A pod that may write only to its volume, and that tries to write beside it.
const READONLY: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: readonly}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "touch /tmp/beside; touch /data/within && echo volume"]
      securityContext: {readOnlyRootFilesystem: true}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
"#;

#[test]
fn a_root_without_writes_has_volumes_with_writes_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    apply(&up, READONLY).unwrap();
    let ended = "--for=jsonpath={.status.phase}=Succeeded";
    up.run("kubectl", &["wait", ended, "pod/readonly", "--timeout=90s"]).context(up.log()).unwrap();
    let log = up.run("kubectl", &["logs", "readonly"]).unwrap();
    assert!(log.contains("Read-only file system") && log.ends_with("volume\n"), "{log}");
}
