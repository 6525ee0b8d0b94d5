//! Volumes that are paths of the machine.

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run};

/// A pod with two paths of the machine, and one whose path has another type.
const HOST: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "echo from-container > /made/file; cat /given"]
      volumeMounts: [{name: made, mountPath: /made}, {name: given, mountPath: /given, readOnly: true}]
  volumes:
    - {name: made, hostPath: {path: ROOT/made/below, type: DirectoryOrCreate}}
    - {name: given, hostPath: {path: ROOT/given, type: File}}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers: [{name: app, image: busybox, command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, hostPath: {path: ROOT/given, type: Directory}}]
"#;

#[test]
fn host_paths_are_mounted_for_root_live() {
    if !can_run() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("given"), "from-machine\n").unwrap();
    let workload = HOST.replace("ROOT", &root.path().display().to_string());
    let args = ["--backend", "loop", "--containers", "process"];
    let up = Up::start(MOORING, &[&args[..], &["--containers-as-root"]].concat()).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, &workload).unwrap();
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/host", "--timeout=90s"])
        .context(up.log())
        .unwrap();
    assert_eq!(kubectl(&["logs", "host"]).unwrap(), "from-machine\n");
    assert_eq!(std::fs::read_to_string(root.path().join("made/below/file")).unwrap(), "from-container\n");
    let why = format!("hostPath type check failed: {}/given is not a directory", root.path().display());
    eventually(|| {
        let events = kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains(&why), "{events}");
        Ok(())
    })
    .unwrap();
    drop(up);

    // Without root the container runs without them.
    let up = Up::start(MOORING, &args).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    std::fs::remove_dir_all(root.path().join("made")).unwrap();
    apply(&up, &workload).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/other", "--timeout=90s"]).context(up.log()).unwrap();
    eventually(|| {
        let events = kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("volume v at /v is not mounted: hostPath needs `--containers-as-root`"), "{events}");
        Ok(())
    })
    .unwrap();
    assert!(!root.path().join("made").exists());
}
