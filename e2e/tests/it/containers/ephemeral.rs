//! Ephemeral containers, with `kubectl debug`.

use anyhow::Context;
use e2e::Up;

use super::{MOORING, apply, can_run};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: app, image: busybox, command: [sleep, "1000"]}]}
"#;

#[test]
fn kubectl_debug_starts_a_program_beside_the_others_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, POD).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=90s"]).context(up.log()).unwrap();
    kubectl(&["debug", "web", "--image=busybox", "-c", "debug", "--", "sh", "-c", "echo looked; exit 4"]).unwrap();
    let ended = "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=4";
    kubectl(&["wait", ended, "pod/web", "--timeout=90s"]).context(up.log()).unwrap();
    assert_eq!(kubectl(&["logs", "web", "-c", "debug"]).unwrap(), "looked\n");
    let states = "jsonpath={.status.phase} {.status.ephemeralContainerStatuses[0].restartCount}";
    assert_eq!(kubectl(&["get", "pod", "web", "-o", states]).unwrap(), "Running 0");
}
