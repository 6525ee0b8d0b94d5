//! `kubectl logs` on modelled pods: in one process, and with the API server and a node agent as separate processes.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::{CLAIM_AND_POD, Up, eventually, have};

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// Returns the output of a failed command.
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn kubectl_logs_prints_the_log_of_a_live_pod() {
    if !have("kubectl") {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--time-scale", "10"]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), CLAIM_AND_POD).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    kubectl(&["apply", "-f", &file.path().display().to_string()]).unwrap();
    kubectl(&["label", "pod", "web", "app=web"]).unwrap();
    // Until its container has started, the log is empty or kubelet answers that the container is waiting.
    kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).context(up.log()).unwrap();
    let whole = eventually(|| {
        let text = kubectl(&["logs", "web"])?;
        ensure!(text.contains("data: wrote record 3\n"), "{text}");
        Ok(text)
    })
    .unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines[0], "started as a modelled workload of image \"mooring/writer\"");
    assert!(lines[1].starts_with("data: volume vol-") && lines[1].ends_with("is mounted at /data"), "{whole}");
    assert_eq!(lines[2..4], ["data: found no records", "data: wrote record 1"]);

    assert_eq!(kubectl(&["logs", "web", "--tail=2"]).unwrap().lines().count(), 2);
    let stamped = kubectl(&["logs", "pod/web", "-c", "writer", "--timestamps"]).unwrap();
    let stamp = stamped.split(' ').next().unwrap();
    assert!(stamp.ends_with('Z') && stamp.len() == "2006-01-02T15:04:05.000000000Z".len(), "{stamped}");
    assert!(kubectl(&["logs", "-l", "app=web", "--tail=-1"]).unwrap().starts_with(lines[0]));
    assert!(kubectl(&["logs", "web", "--all-containers", "--prefix"]).unwrap().starts_with("[pod/web/writer] started"));
    assert!(kubectl(&["logs", "web", "--since=1h"]).unwrap().starts_with(lines[0]));
    assert_eq!(kubectl(&["logs", "web", "--limit-bytes=7"]).unwrap(), "started");
    let refused = |args: &[&str]| refusal(&up.command("kubectl").args(args).output().unwrap());
    let previous = refused(&["logs", "web", "--previous"]);
    assert!(previous.contains("previous terminated container \"writer\" in pod \"web\" not found"), "{previous}");
    // A container that has exited starts again, and its log before can be read.
    let ends = "apiVersion: v1\nkind: Pod\nmetadata: {name: ends, annotations: {mooring.dev/run-for: 5s}}\n\
                spec: {containers: [{name: app, image: i}]}\n";
    std::fs::write(file.path(), ends).unwrap();
    kubectl(&["apply", "-f", &file.path().display().to_string()]).unwrap();
    let before = eventually(|| kubectl(&["logs", "ends", "--previous"])).unwrap();
    assert_eq!(before, "started as a modelled workload of image \"i\"\nexits with code 0\n");
    let unknown = refused(&["logs", "web", "-c", "absent"]);
    assert!(unknown.contains("container absent is not valid for pod web"), "{unknown}");
    let exec = refused(&["exec", "web", "--", "true"]);
    assert!(exec.contains("container writer is a modelled workload, which runs no program"), "{exec}");

    let following = up.command("kubectl").args(["logs", "-f", "web"]).stdout(Stdio::piped()).spawn().unwrap();
    kubectl(&["delete", "pod", "web", "--timeout=60s"]).context(up.log()).unwrap();
    // It exits once the container has stopped.
    let followed = String::from_utf8(following.wait_with_output().unwrap().stdout).unwrap();
    // The request may have arrived after the pod was gone.
    assert!(followed.is_empty() || followed.ends_with("asked to stop (SIGTERM)\nstopped\n"), "{followed}");
}

/// A component as a separate process, killed when dropped.
struct Component(Child);

impl Component {
    fn start(dir: &Path, name: &str, args: &[&str]) -> Result<(Self, serde_json::Value)> {
        let (ready, log) = (dir.join(format!("{name}.ready")), dir.join(format!("{name}.log")));
        let mut command = Command::new(MOORING);
        command.args(["component", name, "--ready-file"]).arg(&ready).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let started = Self(command.spawn()?);
        let content = eventually(|| Ok(std::fs::read(&ready)?))
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok((started, serde_json::from_slice(&content)?))
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn logs_come_over_sockets_from_a_node_agent_that_is_a_program_of_its_own() {
    if !have("kubectl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let any = "127.0.0.1:0";
    let kubeconfig = path("kubeconfig");
    let server = ["--listen", any, "--http-listen", any, "--kubeconfig", &kubeconfig];
    let (_server, ready) = Component::start(dir.path(), "fake-apiserver", &server).unwrap();
    let kubernetes = ready["httpEndpoint"].as_str().unwrap();
    let (root, volumes) = (path("root"), path("volumes"));
    std::fs::create_dir_all(&volumes).unwrap();
    let identity = ["--node-name", "node-a", "--instance-id", "i-0123456789abcdef0", "--zone", "us-east-1a"];
    let place = ["--kubernetes", kubernetes, "--root", &root, "--volume-dir", &volumes, "--backend", "directory"];
    let agent = [&identity[..], &place].concat();
    let (agent, _) = Component::start(dir.path(), "node-agent", &agent).unwrap();
    let kubectl = |args: &[&str]| {
        let mut command = Command::new("kubectl");
        command.args(args).env("KUBECONFIG", &kubeconfig).env("HOME", dir.path()).output().unwrap()
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {nodeName: node-a, \
               containers: [{name: a, image: i}, {name: b, image: i}]}\n";
    std::fs::write(dir.path().join("pod.yaml"), pod).unwrap();
    let applied = kubectl(&["apply", "-f", &path("pod.yaml")]);
    assert!(applied.status.success(), "{applied:?}");
    eventually(|| {
        let read = kubectl(&["logs", "web", "-c", "b"]);
        let text = String::from_utf8_lossy(&read.stdout).into_owned();
        ensure!(text == "started as a modelled workload of image \"i\"\n", "{read:?}");
        Ok(())
    })
    .unwrap();
    let address = kubectl(&["get", "node", "node-a", "-o", "jsonpath={.status.addresses[?(@.type==\"ExternalIP\")]}"]);
    assert!(String::from_utf8_lossy(&address.stdout).contains("127.0.0.1"), "{address:?}");
    // A dead node is reported at once.
    drop(agent);
    let refused = refusal(&kubectl(&["logs", "web", "-c", "b"]));
    assert!(
        refused.contains("Get \"https://127.0.0.1:") && refused.contains("connect: connection refused"),
        "{refused}"
    );
}
