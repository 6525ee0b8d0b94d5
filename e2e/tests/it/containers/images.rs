//! Another image for a running container.

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run};

/// A pod that counts its starts in its volume.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox:1
      command: [sh, -c, "trap 'exit 4' TERM; echo up >> /set/starts; while :; do sleep 0.1; done"]
      volumeMounts: [{name: set, mountPath: /set}]
  volumes: [{name: set, emptyDir: {}}]
"#;

#[test]
fn a_program_is_stopped_and_starts_again_with_another_image_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    let has_started = |times: usize| {
        eventually(|| {
            let starts = kubectl(&["exec", "web", "--", "cat", "/set/starts"])?;
            ensure!(starts == "up\n".repeat(times), "{starts}");
            Ok(())
        })
    };
    apply(&up, POD).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=90s"]).context(up.log()).unwrap();
    has_started(1).unwrap();
    kubectl(&["set", "image", "pod/web", "app=busybox:2"]).unwrap();
    has_started(2).context(up.log()).unwrap();
    let again = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
    kubectl(&["wait", again, "pod/web", "--timeout=90s"]).context(up.log()).unwrap();
    let of =
        "jsonpath={.status.containerStatuses[0].image} {.status.containerStatuses[0].lastState.terminated.exitCode}";
    assert_eq!(kubectl(&["get", "pod", "web", "-o", of]).unwrap(), "busybox:2 4");
}
