//! Hooks of containers: after the start, before the stop, and by another signal.

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run};

/// A pod whose hooks write to its volume, one whose hook fails, and one that then stops by another signal. Each hook after
/// the start waits until the container has its trap: the container and the hook run at the same time.
const HOOKS: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: hooks}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: hooks}
spec:
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "trap 'cat /data/flushed; exit' TERM; touch /data/trap; while :; do sleep 0.1; done"]
      lifecycle:
        postStart: {exec: {command: [sh, -c, "until [ -e /data/trap ]; do sleep 0.1; done; echo started > /data/started"]}}
        preStop: {exec: {command: [sh, -c, "echo flushed > /data/flushed"]}}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: hooks}}]
---
apiVersion: v1
kind: Pod
metadata: {name: fails}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "trap 'exit 5' TERM; touch /set/trap; while :; do sleep 0.1; done"]
      lifecycle: {postStart: {exec: {command: [sh, -c, "until [ -e /set/trap ]; do sleep 0.1; done; exit 1"]}}}
      volumeMounts: [{name: set, mountPath: /set}]
  volumes: [{name: set, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: signal}
spec:
  restartPolicy: Never
  os: {name: linux}
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "trap 'exit 6' USR1; touch /set/trap; while :; do sleep 0.1; done"]
      lifecycle:
        stopSignal: SIGUSR1
        postStart: {exec: {command: [sh, -c, "until [ -e /set/trap ]; do sleep 0.1; done; exit 1"]}}
      volumeMounts: [{name: set, mountPath: /set}]
  volumes: [{name: set, emptyDir: {}}]
"#;

/// A pod that reads what the hooks have left.
const AFTER_HOOKS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: after}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "cat /data/started /data/flushed"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: hooks}}]
"#;

#[test]
fn hooks_run_after_the_start_and_before_the_stop_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, HOOKS).unwrap();
    let ended = "--for=jsonpath={.status.phase}=Failed";
    kubectl(&["wait", ended, "pod/fails", "--timeout=90s"]).context(up.log()).unwrap();
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl(&["get", "pod", "fails", "-o", code]).unwrap(), "5", "SIGTERM came after the failed hook");
    kubectl(&["wait", ended, "pod/signal", "--timeout=90s"]).context(up.log()).unwrap();
    assert_eq!(kubectl(&["get", "pod", "signal", "-o", code]).unwrap(), "6");
    let signal = "jsonpath={.status.containerStatuses[0].stopSignal}";
    assert_eq!(kubectl(&["get", "pod", "signal", "-o", signal]).unwrap(), "SIGUSR1");
    let reasons =
        ["get", "events", "--field-selector", "involvedObject.name=fails", "-o", "jsonpath={.items[*].reason}"];
    // An Event can come after the status, as upstream.
    eventually(|| {
        let reasons = kubectl(&reasons)?;
        ensure!(reasons.contains("FailedPostStartHook") && reasons.contains("Killing"), "{reasons}");
        Ok(())
    })
    .unwrap();

    kubectl(&["wait", "--for=condition=Ready", "pod/hooks", "--timeout=90s"]).context(up.log()).unwrap();
    kubectl(&["delete", "pod", "hooks", "--timeout=90s"]).context(up.log()).unwrap();
    apply(&up, AFTER_HOOKS).unwrap();
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/after", "--timeout=90s"])
        .context(up.log())
        .unwrap();
    assert_eq!(kubectl(&["logs", "after"]).unwrap(), "started\nflushed\n");
}
