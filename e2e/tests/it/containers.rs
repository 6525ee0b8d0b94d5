//! `mooring up --containers process`: programs of containers on mounted volumes, with kubectl, on loop devices.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::{Up, eventually, have};

mod ephemeral;
mod hooks;
mod host_paths;
mod images;
mod in_cluster;
mod input;
mod messages;
mod names;
mod probes;
mod roots;
mod sidecars;

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// A claim and a ConfigMap, and a pod with an init container, a variable of each kind and all served volumes.
const WORKLOAD: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 60
  initContainers:
    - name: first
      image: busybox
      command: [sh, -c, "echo from-init > /data/init"]
      volumeMounts: [{name: data, mountPath: /data}]
  containers:
    - name: app
      image: busybox
      command: [sh, -c]
      args: ["trap 'echo bye > /data/end; exit 3' TERM; echo $(GREETING) $(NODE); cat /data/init; while :; do sleep 0.1; done"]
      env:
        - {name: GREETING, valueFrom: {configMapKeyRef: {name: settings, key: greeting}}}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: scratch, mountPath: /scratch}
        - {name: settings, mountPath: /etc/settings}
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: data}}
    - {name: scratch, emptyDir: {}}
    - {name: settings, configMap: {name: settings}}
"#;

/// A pod that reads what the other has left, and one that fails.
const LATER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "cat /data/end; exit 7"]
      volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: absent}
spec: {containers: [{name: app, image: busybox, command: [no-such-program]}]}
"#;

/// A pod with a raw device.
const RAW: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: raw}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: raw}
spec:
  containers:
    - name: app
      image: busybox
      command: [sh, -c]
      args: ["cd /dev; printf bytes > mooring-raw; echo $(head -c 5 mooring-raw) $(blockdev --getsize64 mooring-raw); sleep 100"]
      volumeDevices: [{name: raw, devicePath: /dev/mooring-raw}]
  volumes: [{name: raw, persistentVolumeClaim: {claimName: raw}}]
"#;

/// Returns true if this machine can run the tests: kubectl 1.31 is the first that uses websockets by itself.
fn can_run() -> bool {
    if !have("root") || !have("kubectl") {
        return false;
    }
    let version = std::process::Command::new("kubectl").args(["version", "--client", "-o", "json"]).output().unwrap();
    let version: serde_json::Value = serde_json::from_slice(&version.stdout).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap().trim_end_matches('+');
    let is_new = minor.parse::<u32>().unwrap() >= 31;
    if !is_new {
        eprintln!("skipped: kubectl 1.{minor} does not use websockets");
    }
    is_new
}

fn apply(up: &Up, text: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    up.run("kubectl", &["apply", "-f", &file.path().display().to_string()]).map(drop)
}

fn exec(up: &Up, args: &[&str], input: &str) -> Output {
    let mut command = up.command("kubectl");
    command.args(["exec", "-c", "app"]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs kubectl with this input, and reads its output meanwhile.
fn feed(up: &Up, args: &[&str], input: &str) -> Output {
    let mut command = up.command("kubectl");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = std::thread::spawn(move || {
        // kubectl does not read the rest after the end of the program.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Runs a command in a terminal, with this input.
fn in_terminal(up: &Up, command: &str, input: &str) -> Output {
    let script = format!("printf '{input}' | script -qec '{command}' /dev/null");
    up.command("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_containers_command_runs_on_its_volume_and_kubectl_reaches_it_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, WORKLOAD).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=90s"]).context(up.log()).unwrap();
    let node = kubectl(&["get", "pod", "web", "-o", "jsonpath={.spec.nodeName}"]).unwrap();
    let log = eventually(|| {
        let log = kubectl(&["logs", "web"])?;
        ensure!(log.lines().count() >= 2, "{log}");
        Ok(log)
    });
    assert_eq!(log.unwrap(), format!("hello {node}\nfrom-init\n"));

    // The volume is a mounted filesystem of its own, and the container's root is not the machine's.
    let shell = |script: &str| exec(&up, &["web", "--", "sh", "-c", script], "");
    let (mounts, _) = text(&shell("grep ' /data ' /proc/self/mounts"));
    assert!(mounts.starts_with("/dev/loop") && mounts.contains(" ext4 rw"), "{mounts}");
    assert_eq!(
        text(&shell("cat /etc/settings/greeting; id -u; echo x > /scratch/f; ls /scratch")).0,
        "hello65534\nf\n"
    );
    assert!(text(&shell("echo changed > /etc/settings/greeting")).1.contains("Read-only file system"));
    assert!(text(&shell("echo x > /etc/mooring-was-here")).1.contains("Permission denied"));
    // The token of the service account lies behind an absolute link, and the machine keeps its own directories.
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    assert!(text(&shell(&format!("cut -c1-2 {token}"))).0.starts_with("ey"));
    for path in ["/scratch/f", "/data/init", "/etc/settings/greeting", token] {
        assert!(!Path::new(path).exists(), "{path} is on the machine");
    }
    let copied =
        exec(&up, &["-i", "web", "--", "sh", "-c", "cat > /data/copy; wc -c < /data/copy"], &"x".repeat(300_000));
    assert_eq!(text(&copied).0.trim(), "300000", "{copied:?}");
    let failed = shell("echo out; echo err >&2; exit 4");
    assert_eq!((text(&failed).0.as_str(), failed.status.code()), ("out\n", Some(4)), "{failed:?}");
    assert!(text(&failed).1.starts_with("err\n"), "{failed:?}");
    let absent = exec(&up, &["web", "--", "no-such-program"], "");
    assert_eq!(absent.status.code(), Some(127), "{absent:?}");
    // A session in a terminal.
    let terminal = in_terminal(&up, "kubectl exec -it web -- sh", "tty; echo $((6*7))\\nexit\\n");
    let (printed, _) = text(&terminal);
    assert!(printed.contains("/dev/pts/") && printed.contains("42"), "{terminal:?}");

    // SIGTERM reaches the program, which has its grace period.
    kubectl(&["delete", "pod", "web", "--timeout=60s"]).context(up.log()).unwrap();
    apply(&up, LATER).unwrap();
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Failed", "pod/reader", "--timeout=90s"]).unwrap();
    assert_eq!(kubectl(&["logs", "reader"]).unwrap(), "bye\n");
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl(&["get", "pod", "reader", "-o", code]).unwrap(), "7");
    let lost = eventually(|| {
        let log = kubectl(&["logs", "absent"])?;
        ensure!(!log.is_empty());
        Ok(log)
    });
    assert!(lost.unwrap().starts_with("(mooring: cannot start: exec: \"no-such-program\": No such file"));
    // A raw device is one in the container, and none in /dev of the machine.
    apply(&up, RAW).unwrap();
    let raw = eventually(|| {
        let log = kubectl(&["logs", "raw"])?;
        ensure!(!log.is_empty());
        Ok(log)
    });
    assert_eq!(raw.unwrap(), "bytes 1073741824\n");
    assert!(!Path::new("/dev/mooring-raw").exists());
    let modelled = "apiVersion: v1\nkind: Pod\nmetadata: {name: image}\nspec: {containers: [{name: app, image: i}]}\n";
    apply(&up, modelled).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/image", "--timeout=60s"]).unwrap();
    let refused = text(&exec(&up, &["image", "--", "true"], "")).1;
    assert!(refused.contains("container app is a modelled workload"), "{refused}");
}

#[test]
fn no_program_outlives_kill_9_live() {
    if !can_run() {
        return;
    }
    let mut up = Up::start(MOORING, &["--backend", "loop", "--containers", "process"]).unwrap();
    let mark = format!("container-{}", up.pid());
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: app, image: i, \
         command: [sh, -c, 'sleep 1000 & sleep 1000; true', {mark}]}}, {{name: reads, image: i, stdin: true, \
         command: [sh, -c, 'cat; sleep 1000', {mark}]}}, {{name: screen, image: i, stdin: true, tty: true, \
         command: [sh, -c, 'trap true HUP; cat; sleep 1000; true', {mark}]}}]}}\n"
    );
    apply(&up, &pod).unwrap();
    let running = || {
        let found = std::process::Command::new("pgrep").args(["-f", &mark]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).lines().count()
    };
    eventually(|| {
        ensure!(running() >= 3, "{}", up.log());
        Ok(())
    })
    .unwrap();
    up.kill().unwrap();
    eventually(|| {
        ensure!(running() == 0, "{} processes", running());
        Ok(())
    })
    .unwrap();
}
