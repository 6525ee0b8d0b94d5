//! Order of sidecars at the start and at the end of a pod.

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run};

/// A pod with two sidecars, of which the first has a startup probe. Each container writes its start and its end to one
/// file. The regular container takes two seconds to end.
const PROXIED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 60
  initContainers:
    - name: mesh
      image: busybox
      restartPolicy: Always
      command: [sh, -c, "trap 'echo mesh ends >> /out/log; exit' TERM; echo mesh starts >> /out/log; sleep 2; echo mesh is up >> /out/log; touch /out/up; while :; do sleep 0.1; done"]
      startupProbe: {exec: {command: [test, -e, /out/up]}, periodSeconds: 1, failureThreshold: 60}
      volumeMounts: [{name: out, mountPath: /out}]
    - name: logs
      image: busybox
      restartPolicy: Always
      command: [sh, -c, "trap 'echo logs ends >> /out/log; exit' TERM; touch /out/logs; while :; do sleep 0.1; done"]
      volumeMounts: [{name: out, mountPath: /out}]
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "trap 'sleep 2; echo app ends >> /out/log; exit' TERM; echo app starts >> /out/log; touch /out/app; while :; do sleep 0.1; done"]
      volumeMounts: [{name: out, mountPath: /out}]
  volumes: [{name: out, hostPath: {path: ROOT}}]
"#;

#[test]
fn sidecars_start_before_and_end_after_the_other_containers_live() {
    if !can_run() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--containers-as-root"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, &PROXIED.replace("ROOT", &root.path().display().to_string())).unwrap();
    // The traps are set once these files exist.
    eventually(|| {
        ensure!(["app", "logs"].iter().all(|name| root.path().join(name).exists()), "{}", up.log());
        Ok(())
    })
    .unwrap();
    kubectl(&["delete", "pod", "web", "--timeout=90s"]).context(up.log()).unwrap();
    let log = std::fs::read_to_string(root.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines, ["mesh starts", "mesh is up", "app starts", "app ends", "logs ends", "mesh ends"]);
}
