//! Termination messages of containers.

use anyhow::Context;
use e2e::Up;

use super::{MOORING, apply, can_run};

/// A pod whose container writes a message, one whose log becomes its message, and one whose log does not because it
/// succeeds.
const MESSAGES: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: written}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "printf DONE > /dev/termination-custom-log; exit 3"]
      terminationMessagePath: /dev/termination-custom-log
---
apiVersion: v1
kind: Pod
metadata: {name: logged}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "printf 'first\n\nDONE'; exit 1"]
      terminationMessagePolicy: FallbackToLogsOnError
---
apiVersion: v1
kind: Pod
metadata: {name: succeeded}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "echo DONE"]
      terminationMessagePolicy: FallbackToLogsOnError
"#;

#[test]
fn the_end_of_a_container_has_its_message_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    apply(&up, MESSAGES).unwrap();
    let path = "jsonpath={.status.containerStatuses[0].state.terminated.message}";
    for (pod, phase, message) in
        [("written", "Failed", "DONE"), ("logged", "Failed", "first\n\nDONE"), ("succeeded", "Succeeded", "")]
    {
        let ended = format!("--for=jsonpath={{.status.phase}}={phase}");
        up.run("kubectl", &["wait", &ended, &format!("pod/{pod}"), "--timeout=90s"]).context(up.log()).unwrap();
        assert_eq!(up.run("kubectl", &["get", "pod", pod, "-o", path]).unwrap(), message, "{pod}");
    }
}
