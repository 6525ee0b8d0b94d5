//! Probes of containers: commands, HTTPS and gRPC; and hooks that use HTTPS.

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run, exec, text};

/// A pod that is ready once a file exists, and starts again once another one does.
const PROBED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "while :; do sleep 0.1; done"]
      readinessProbe: {exec: {command: [test, -e, /scratch/ready]}, periodSeconds: 1}
      livenessProbe: {exec: {command: [sh, -c, "! test -e /scratch/dead"]}, periodSeconds: 1, failureThreshold: 1}
      volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
"#;

/// A pod that cannot be prepared.
const UNPREPARED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: unprepared}
spec: {containers: [{name: app, image: i, command: ["true"], envFrom: [{configMapRef: {name: absent}}]}]}
"#;

#[test]
fn probes_decide_on_ready_and_on_another_start_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, &format!("{PROBED}---{UNPREPARED}")).unwrap();
    let field = |path: &str| kubectl(&["get", "pod", "probed", "-o", &format!("jsonpath={path}")]);
    eventually(|| {
        let events = kubectl(&["get", "events"])?;
        ensure!(events.contains("Unhealthy") && events.contains("Readiness probe failed"), "{events}");
        Ok(())
    })
    .unwrap();
    assert_eq!(field("{.status.containerStatuses[0].ready}").unwrap(), "false");
    kubectl(&["exec", "probed", "--", "touch", "/scratch/ready"]).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/probed", "--timeout=60s"]).unwrap();
    // The container may be killed before `touch` has ended.
    let _ = kubectl(&["exec", "probed", "--", "touch", "/scratch/dead"]);
    eventually(|| {
        let restarts = field("{.status.containerStatuses[0].restartCount}")?;
        ensure!(restarts.parse::<u32>()? > 0, "{restarts}");
        Ok(())
    })
    .unwrap();
    eventually(|| {
        let (events, pods) = (kubectl(&["get", "events"])?, kubectl(&["get", "pods"])?);
        ensure!(events.contains("Container app failed liveness probe, will be restarted"), "{events}");
        ensure!(pods.contains("CreateContainerConfigError"), "{pods}");
        Ok(())
    })
    .unwrap();
    let exec = text(&exec(&up, &["unprepared", "--", "true"], "")).1;
    assert!(exec.contains("the container is not running"), "{exec}");
}

/// A pod whose probe asks the API server over TLS, and whose hook takes the EC2 API, which has no TLS, for an HTTPS
/// server. Another pod takes it for a gRPC server.
const SERVED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: secure}
spec:
  containers:
    - name: app
      image: busybox
      command: [sleep, "1000"]
      readinessProbe: {httpGet: {scheme: HTTPS, port: API, path: /readyz}, periodSeconds: 1}
      lifecycle: {postStart: {httpGet: {scheme: HTTPS, port: EC2, path: /}}}
---
apiVersion: v1
kind: Pod
metadata: {name: grpc}
spec:
  containers:
    - name: app
      image: busybox
      command: [sleep, "1000"]
      readinessProbe: {grpc: {port: EC2}, periodSeconds: 1}
"#;

#[test]
fn probes_and_hooks_use_https_and_grpc_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    let port = |url: &str| url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let api = kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]).unwrap();
    assert!(api.starts_with("https://"), "{api}");
    apply(&up, &SERVED.replace("API", &port(&api)).replace("EC2", &port(up.ready("ec2")))).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/secure", "--timeout=90s"]).context(up.log()).unwrap();
    let events = |pod: &str| {
        let of = format!("involvedObject.name={pod}");
        kubectl(&["get", "events", "--field-selector", &of, "-o", "jsonpath={.items[*].message}"])
    };
    eventually(|| {
        let (secure, grpc) = (events("secure")?, events("grpc")?);
        let fallback = format!("lifecycle hook 127.0.0.1:{} got HTTP response, retry", port(up.ready("ec2")));
        ensure!(secure.contains(&fallback), "{secure}");
        ensure!(grpc.contains("Readiness probe failed: error: "), "{grpc}");
        Ok(())
    })
    .unwrap();
}
