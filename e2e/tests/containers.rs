//! `mooring up --containers process`: programs of containers on mounted volumes, with kubectl, on loop devices.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Up, eventually, have};

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

/// A pod whose hooks write to its volume, one whose hook fails, and one that then stops by another signal.
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
      command: [sh, -c, "trap 'cat /data/flushed; exit' TERM; while :; do sleep 0.1; done"]
      lifecycle:
        postStart: {exec: {command: [sh, -c, "echo started > /data/started"]}}
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
      command: [sh, -c, "trap 'exit 5' TERM; while :; do sleep 0.1; done"]
      lifecycle: {postStart: {exec: {command: [sh, -c, "exit 1"]}}}
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
      command: [sh, -c, "trap 'exit 6' USR1; while :; do sleep 0.1; done"]
      lifecycle: {stopSignal: SIGUSR1, postStart: {exec: {command: [sh, -c, "sleep 1; exit 1"]}}}
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
    let log = eventually(Duration::from_secs(30), || {
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
    let lost = eventually(Duration::from_secs(30), || {
        let log = kubectl(&["logs", "absent"])?;
        ensure!(!log.is_empty());
        Ok(log)
    });
    assert!(lost.unwrap().starts_with("(mooring: cannot start: exec: \"no-such-program\": No such file"));
    // A raw device is one in the container, and none in /dev of the machine.
    apply(&up, RAW).unwrap();
    let raw = eventually(Duration::from_secs(60), || {
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
    eventually(Duration::from_secs(30), || {
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
    let events = kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]).unwrap();
    assert!(events.contains("volume v at /v is not mounted: hostPath needs `--containers-as-root`"), "{events}");
    assert!(!root.path().join("made").exists());
}

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
    eventually(Duration::from_secs(60), || {
        let events = kubectl(&["get", "events"])?;
        ensure!(events.contains("Unhealthy") && events.contains("Readiness probe failed"), "{events}");
        Ok(())
    })
    .unwrap();
    assert_eq!(field("{.status.containerStatuses[0].ready}").unwrap(), "false");
    kubectl(&["exec", "probed", "--", "touch", "/scratch/ready"]).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/probed", "--timeout=60s"]).unwrap();
    kubectl(&["exec", "probed", "--", "touch", "/scratch/dead"]).unwrap();
    eventually(Duration::from_secs(60), || {
        let restarts = field("{.status.containerStatuses[0].restartCount}")?;
        ensure!(restarts.parse::<u32>()? > 0, "{restarts}");
        Ok(())
    })
    .unwrap();
    let events = kubectl(&["get", "events"]).unwrap();
    assert!(events.contains("Container app failed liveness probe, will be restarted"), "{events}");
    assert!(kubectl(&["get", "pods"]).unwrap().contains("CreateContainerConfigError"));
    let exec = text(&exec(&up, &["unprepared", "--", "true"], "")).1;
    assert!(exec.contains("the pod is not on this machine"), "{exec}");
}

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
    let reasons = kubectl(&reasons).unwrap();
    assert!(reasons.contains("FailedPostStartHook") && reasons.contains("Killing"), "{reasons}");

    kubectl(&["wait", "--for=condition=Ready", "pod/hooks", "--timeout=90s"]).context(up.log()).unwrap();
    kubectl(&["delete", "pod", "hooks", "--timeout=90s"]).context(up.log()).unwrap();
    apply(&up, AFTER_HOOKS).unwrap();
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/after", "--timeout=90s"])
        .context(up.log())
        .unwrap();
    assert_eq!(kubectl(&["logs", "after"]).unwrap(), "started\nflushed\n");
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
    eventually(Duration::from_secs(30), || {
        let (secure, grpc) = (events("secure")?, events("grpc")?);
        let fallback = format!("lifecycle hook 127.0.0.1:{} got HTTP response, retry", port(up.ready("ec2")));
        ensure!(secure.contains(&fallback), "{secure}");
        ensure!(grpc.contains("Readiness probe failed: error: "), "{grpc}");
        Ok(())
    })
    .unwrap();
}

/// Pods whose programs read their standard input: until their end, from one client for each start, and not at all.
const READERS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: reads}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox
      command: [sh, -c, 'while read line; do echo "got $line"; done; echo end']
      stdin: true
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: busybox, command: [sh, -c, "cat; echo over"], stdin: true, stdinOnce: true}]
---
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "until test -e /tmp/go; do echo tick; sleep 0.1; done; cat; echo over"]
"#;

#[test]
fn programs_read_the_input_of_attached_clients_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, READERS).unwrap();
    // More than all buffers on the way hold.
    let input = "0123456789abcde\n".repeat(400_000);
    let run = ["run", "copy", "-i", "--quiet", "--restart=Never", "--image=busybox"];
    let run = [&run[..], &["--command", "--", "sh", "-c", "cat; echo over >&2; exit 3"]].concat();
    let copied = feed(&up, &run, &input);
    let (printed, errors) = text(&copied);
    assert!(printed == format!("{input}over\n"), "{} bytes: {errors}", printed.len());
    assert_eq!(copied.status.code(), Some(3), "{errors}");

    kubectl(&["wait", "--for=condition=Ready", "pod/reads", "pod/once", "pod/deaf", "--timeout=90s"])
        .context(up.log())
        .unwrap();
    // Without stdinOnce a client leaves when its input ends, and the program reads on.
    for (line, expected) in [("one\n", "got one\n"), ("two\n", "got one\ngot two\n")] {
        let attached = feed(&up, &["attach", "-i", "-q", "reads"], line);
        assert!(attached.status.success(), "{attached:?}");
        eventually(Duration::from_secs(30), || {
            let log = kubectl(&["logs", "reads"])?;
            ensure!(log == expected, "{log}");
            Ok(())
        })
        .unwrap();
    }
    let field = |pod: &str, path: &str| kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={path}")]);
    let restarts = "{.status.containerStatuses[0].restartCount}{.status.phase}";
    assert_eq!(field("reads", restarts).unwrap(), "0Running");

    // With stdinOnce the program gets the end of the input. Its next start has a new one.
    let once = feed(&up, &["attach", "-i", "-q", "once"], "one\n");
    assert_eq!(text(&once).0, "one\nover\n", "{once:?}");
    eventually(Duration::from_secs(30), || {
        let state = field("once", "{.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].state}")?;
        ensure!(state.starts_with('1') && state.contains("running"), "{state}");
        Ok(())
    })
    .unwrap();
    let again = feed(&up, &["attach", "-i", "-q", "once"], "two\n");
    assert_eq!(text(&again).0, "two\nover\n", "{again:?}");

    // A container without stdin takes none, and shows its output to the end.
    let mut command = up.command("kubectl");
    command.args(["attach", "-i", "-q", "deaf"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"lost\n").unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "tick");
    kubectl(&["exec", "deaf", "--", "touch", "/tmp/go"]).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).filter(|line| line != "tick").collect();
    assert_eq!(rest, ["over"]);
    assert!(client.wait().unwrap().success());
}

/// A pod whose program waits for the size of its terminal.
const SCREEN: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: screen}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      stdin: true
      tty: true
      command: [sh, -c]
      args:
        - |
          tty
          for n in $(seq 300); do test "$(stty size)" = "33 77" && break; sleep 0.1; done
          stty size
          echo $TERM
          read word
          echo "got $word"
          exit 4
"#;

#[test]
fn a_program_has_a_terminal_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, SCREEN).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/screen", "--timeout=90s"]).context(up.log()).unwrap();
    // As in a cluster: the client of a terminal must have one.
    let refused = feed(&up, &["attach", "screen"], "");
    assert!(text(&refused).1.contains("tty and stderr cannot both be true"), "{refused:?}");
    let attached = in_terminal(&up, "stty rows 33 cols 77; kubectl attach -it screen", "word\\n");
    let (printed, _) = text(&attached);
    assert!(printed.contains("33 77\r\n") && printed.contains("got word\r\n"), "{attached:?}");
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Failed", "pod/screen", "--timeout=60s"]).unwrap();
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl(&["get", "pod", "screen", "-o", code]).unwrap(), "4");
    let log = kubectl(&["logs", "screen"]).unwrap();
    assert!(log.starts_with("/dev/pts/"), "{log}");
    assert!(["33 77\n", "xterm\n", "got word\n"].into_iter().all(|line| log.contains(line)), "{log}");

    let run = "kubectl run shell -it --rm --restart=Never --image=busybox --command -- sh";
    let shell = in_terminal(&up, run, "echo $((6*7)); exit\\n");
    assert!(text(&shell).0.contains("42"), "{shell:?}");
    eventually(Duration::from_secs(60), || {
        let left = kubectl(&["get", "pod", "shell", "--ignore-not-found", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .unwrap();
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
    eventually(Duration::from_secs(60), || {
        ensure!(running() >= 3, "{}", up.log());
        Ok(())
    })
    .unwrap();
    up.kill().unwrap();
    eventually(Duration::from_secs(20), || {
        ensure!(running() == 0, "{} processes", running());
        Ok(())
    })
    .unwrap();
}
