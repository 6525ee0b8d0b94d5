//! The cluster of compose.yaml as a user runs it: an image of the program under test, docker-compose up, scenarios, a
//! claim and a pod by kubectl, a machine killed, a machine cut off, down; and no loop device is left.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use e2e::{CLAIM_AND_POD, eventually, have, root};
use serde_json::Value;
use tokio::time::Instant;

mod docker;
#[path = "../../../xtask/src/image.rs"]
mod image;

use docker::Docker;

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// A compose project, taken down when dropped.
struct Project {
    name: String,
    home: tempfile::TempDir,
    env: BTreeMap<String, String>,
    docker: Arc<Docker>,
}

impl Project {
    /// Creates a project, not started yet; `part` distinguishes the projects of this process.
    fn prepare(part: &str) -> Result<Self> {
        let docker = Docker::shared()?;
        let name = format!("{}-{part}", docker.image);
        Ok(Self { name, home: tempfile::tempdir()?, env: BTreeMap::new(), docker })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.docker.command(program, self.home.path());
        command
            .envs(&self.env)
            .env("MOORING_IMAGE", &self.docker.image)
            .env("MOORING_RUN", &self.name)
            // Any free port.
            .env("MOORING_EC2_PORT", "0")
            .env("MOORING_KUBERNETES_PORT", "0")
            .env("COMPOSE_PROJECT_NAME", &self.name);
        command
    }

    fn output(&self, program: &str, args: &[&str]) -> Result<Output> {
        self.command(program).args(args).output().with_context(|| format!("start {program}"))
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = self.output(program, args)?;
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        ensure!(output.status.success(), "{program} {}: {}\n{out}{err}", args.join(" "), output.status);
        Ok(out)
    }

    fn compose(&self, args: &[&str]) -> Result<String> {
        self.run("docker-compose", args)
    }

    fn mooring(&self, args: &[&str]) -> Result<String> {
        self.run(MOORING, args)
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run("kubectl", args)
    }

    fn object(&self, what: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", what, "--output", "json"])?)?)
    }

    /// Adopts the variables that `mooring env --compose` prints.
    fn source(&mut self) -> Result<()> {
        for line in self.mooring(&["env", "--compose", "--project", &self.name])?.lines() {
            let (name, value) = line.strip_prefix("export ").and_then(|l| l.split_once('=')).context("no export")?;
            self.env.insert(name.to_owned(), value.trim_matches('\'').to_owned());
        }
        Ok(())
    }

    /// Returns the filesystem of the cloud's volume, as major:minor; no other project shares it.
    fn cloud(&self) -> Result<String> {
        let volume = format!("{}_cloud", self.name);
        let path = self.run("docker", &["volume", "inspect", "--format", "{{.Mountpoint}}", &volume])?;
        let volumes = Path::new(path.trim()).join("volumes");
        let output = Command::new("stat").args(["--format", "%Hd:%Ld"]).arg(&volumes).output()?;
        ensure!(output.status.success(), "{}: {}", volumes.display(), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    fn logs(&self) -> String {
        let mut all = String::new();
        for service in ["mock-ec2", "node-a", "node-b", "csi-controller", "csi-attacher", "addons"] {
            let message = self.compose(&["logs", "--no-color", "--tail", "15", service]).unwrap_or_default();
            all += &format!("--- {service}\n{message}");
        }
        all
    }

    /// Takes the project down. docker may still count the endpoint of a container that is gone, and then keeps its
    /// network: the next try removes it.
    fn down(&self) -> Result<()> {
        eventually(|| match self.compose(&["down", "--timeout", "2"]) {
            Err(error) if format!("{error:#}").contains("has active endpoints") => Err(error),
            done => Ok(done.map(drop)),
        })?
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        for args in [&["kill"][..], &["down", "--volumes", "--timeout", "2"]] {
            if let Err(error) = self.compose(args) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Returns the kernel's loop devices with a backing file on filesystem `device` (major:minor). Others do not belong to
/// this test.
fn loops_of(device: &str) -> Result<Vec<String>> {
    let output = Command::new("losetup").args(["--list", "--json", "--output", "NAME,BACK-MAJ:MIN"]).output()?;
    if output.stdout.is_empty() {
        return Ok(Vec::new());
    }
    let listed: Value = serde_json::from_slice(&output.stdout)?;
    let all = listed["loopdevices"].as_array().cloned().unwrap_or_default();
    let own = all.iter().filter(|one| one["back-maj:min"].as_str().is_some_and(|of| of.trim() == device));
    Ok(own.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
}

/// Returns true if docker and the other programs are installed; panics if a required one is missing.
fn has_docker() -> bool {
    have("docker") && have("docker-compose") && have("root") && have("kubectl")
}

fn running_on(project: &Project, node: &str) -> Result<()> {
    let pod = project.object("pod/web")?;
    ensure!(pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running", "{}", pod["status"]);
    Ok(())
}

/// Returns the node that the volume is attached to, from its VolumeAttachment.
fn attached_to(project: &Project) -> Result<String> {
    let attachments = project.object("volumeattachments")?;
    let items = attachments["items"].as_array().cloned().unwrap_or_default();
    let [one] = items.as_slice() else { bail!("{} attachments", items.len()) };
    ensure!(one["status"]["attached"] == true, "not attached: {}", one["status"]);
    Ok(one["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_cluster_of_containers_lives_through_a_crash_and_a_partition_live() {
    if !has_docker() {
        return;
    }
    let mut project = Project::prepare("day").unwrap();
    if let Err(error) = run_cluster(&mut project) {
        panic!("{error:#}\n{}", project.logs());
    }
}

#[test]
fn scenarios_run_on_a_cluster_of_containers_live() {
    if !has_docker() {
        return;
    }
    let project = Project::prepare("scenarios").unwrap();
    if let Err(error) = run_scenarios(&project) {
        panic!("{error:#}\n{}", project.logs());
    }
}

#[test]
fn one_container_has_a_whole_cluster_behind_its_published_ports_live() {
    if !has_docker() {
        return;
    }
    let project = Project::prepare("one").unwrap();
    let name = project.name.clone();
    let reported = one(&project, &name);
    let logs = project.run("docker", &["logs", &name]).unwrap_or_default();
    let removed = project.run("docker", &["rm", "--force", &name]);
    if let Err(error) = reported.and(removed.map(drop)) {
        panic!("{error:#}\n{logs}");
    }
}

/// Tests the single container of docs/compose.md, on free ports, unprivileged.
fn one(project: &Project, name: &str) -> Result<()> {
    let [ec2, kubernetes] = ["127.0.0.1:0:4566", "127.0.0.1:0:6443"];
    let safe = ["--user", "65532:65532", "--read-only", "--tmpfs", "/tmp"];
    let run = ["run", "--detach", "--name", name, "--publish", ec2, "--publish", kubernetes];
    let up = ["up", "--token", "any-eight-characters", "--ec2-listen", "0.0.0.0:4566"];
    let up = [&up[..], &["--kubernetes-listen", "0.0.0.0:6443"]].concat();
    project.run("docker", &[&run[..], &safe, &[&project.docker.image], &up].concat())?;
    let inside = |args: &[&str]| project.run("docker", &[&["exec", name, "mooring"], args].concat());
    eventually(|| inside(&["wait", "--ready", "--timeout", "20s"]))?;
    let published = |port: &str| -> Result<String> {
        let address = project.run("docker", &["port", name, port])?;
        Ok(address.lines().next().context("it is not published")?.to_owned())
    };
    let config = inside(&["kubeconfig", "--server", &format!("https://{}", published("6443")?)])?;
    let path = project.home.path().join("one-kubeconfig");
    std::fs::write(&path, config)?;
    let kubectl = |args: &[&str]| project.kubectl(&[args, &["--kubeconfig", &path.display().to_string()]].concat());
    ensure!(kubectl(&["get", "nodes", "--output", "name"])?.lines().count() == 3);
    let manifest = project.home.path().join("claim-and-pod.yaml");
    std::fs::write(&manifest, CLAIM_AND_POD)?;
    kubectl(&["apply", "--filename", &manifest.display().to_string()])?;
    inside(&["wait", "--for", "pod/web=Running", "--timeout", "60s"])?;
    ensure!(inside(&["status"])?.contains("pods        1 Running"));
    // The cloud answers on its published port, and requires a token for its admin API.
    let mut cloud = std::net::TcpStream::connect(published("4566")?)?;
    cloud.write_all(b"GET /admin/v1/state HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    cloud.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    // docker kills it after this time.
    project.run("docker", &["stop", "--time", "60", name])?;
    let code = project.run("docker", &["inspect", "--format", "{{.State.ExitCode}}", name])?;
    ensure!(code.trim() != "137", "it was killed");
    // The shortest command: as root, without flags.
    let plain = format!("{name}-plain");
    project.run("docker", &["run", "--detach", "--name", &plain, &project.docker.image, "up"])?;
    let ready =
        eventually(|| project.run("docker", &["exec", &plain, "mooring", "wait", "--ready", "--timeout", "20s"]));
    project.run("docker", &["rm", "--force", &plain])?;
    ready.map(drop)
}

/// Tests that the everyday commands work with containers too.
fn day(project: &Project) -> Result<()> {
    let of = ["--compose", "--project", &project.name];
    let mooring = |args: &[&str]| project.mooring(&[args, &of].concat());
    let status = mooring(&["status"])?;
    for wanted in ["a compose project", "3 Ready", "are well", "faults      none"] {
        ensure!(status.contains(wanted), "{wanted:?} is not in\n{status}");
    }
    let log = mooring(&["logs", "csi-controller"])?;
    ensure!(log.contains(" csi.done] ") && log.contains("rpc=\"ControllerPublishVolume\""), "{log}");
    let log = mooring(&["logs", "node-a/kubelet", "--tail", "1"])?;
    ensure!(log.starts_with("node-a/kubelet | ") && log.lines().count() == 1, "{log}");
    let timeline = mooring(&["timeline", "pvc/data"])?;
    for wanted in ["pvc/data", "ControllerPublish", "NodeStage", "node-a"] {
        ensure!(timeline.contains(wanted), "{wanted:?} is not in\n{timeline}");
    }
    mooring(&["fault", "add", "slow", "--on", "ec2/AttachVolume", "--effect", "delay=1s"])?;
    mooring(&["fault", "add", "--crash", "csi-attacher"])?;
    let list = mooring(&["fault", "ls"])?;
    ensure!(list.contains("slow") && list.contains("crash:csi-attacher"), "{list}");
    mooring(&["fault", "rm", "--all"])?;
    ensure!(mooring(&["fault", "ls"])? == "no fault is in force\n");
    mooring(&["wait", "--ready", "--timeout", "60s"])?;
    let refused = project.output(
        MOORING,
        &[&["fault", "add", "x", "--on", "csi/NodeStageVolume", "--effect", "hang"][..], &of].concat(),
    )?;
    let message = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(2) && message.contains("planes ec2 and k8s"), "{message}");
    Ok(())
}

fn start(project: &Project) -> Result<()> {
    let begin = Instant::now();
    project.compose(&["up", "--detach", "--no-build"])?;
    let up = begin.elapsed();
    project.mooring(&["wait", "--ready", "--compose", "--project", &project.name, "--timeout", "60s"])?;
    eprintln!("docker-compose up: {up:?}, ready after {:?}", begin.elapsed());
    Ok(())
}

fn run_scenarios(project: &Project) -> Result<()> {
    let begin = Instant::now();
    start(project)?;
    let migration = root().join("scenarios/migration.yaml");
    let checked = scenario(project, &migration)?;
    for (invariant, least) in [("I1", 1), ("I2", 1), ("I3", 4), ("I4", 1), ("I5", 1), ("I6", 1), ("I8", 1)] {
        ensure!(checked[invariant].as_u64() >= Some(least), "{invariant} of {checked}");
    }
    ensure!(checked.get("I7").is_none(), "no watch was seen: {checked}");
    let broken = project.home.path().join("broken.yaml");
    std::fs::write(&broken, BROKEN)?;
    scenario(project, &broken)?;
    let mute = "partition: {between: [node-a, csi-controller], one-way: true}";
    for (step, message) in [("crash: fake-apiserver", "would lose them"), (mute, "where the requests are made")] {
        std::fs::write(&broken, format!("name: no\nnodes: {{count: 1}}\nsteps:\n  - {step}\n"))?;
        let refused = project.output(MOORING, &["run", "--target", "compose", &broken.display().to_string()])?;
        let text = String::from_utf8_lossy(&refused.stderr);
        ensure!(refused.status.code() == Some(2) && text.contains(message), "{step}: {refused:?}");
    }
    eprintln!("two scenarios after {:?}", begin.elapsed());
    Ok(())
}

fn run_cluster(project: &mut Project) -> Result<()> {
    let begin = Instant::now();
    start(project)?;
    project.source()?;
    is_unprivileged(project)?;
    let alone = project.home.path().join("alone.yaml");
    std::fs::write(&alone, ALONE)?;
    scenario(project, &alone)?;

    let manifest = project.home.path().join("claim-and-pod.yaml");
    std::fs::write(
        &manifest,
        CLAIM_AND_POD
            .replace("spec:\n  containers", "spec:\n  nodeSelector: {kubernetes.io/hostname: node-a}\n  containers"),
    )?;
    project.kubectl(&["apply", "--filename", &manifest.display().to_string()])?;
    let is_ready = "pod/web: self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
    project.mooring(&["wait", "--for", is_ready, "--compose", "--project", &project.name, "--timeout", "60s"])?;
    running_on(project, "node-a")?;
    ensure!(attached_to(project)? == "node-a");
    day(project)?;
    // A real loop device of a file in the cloud's volume; its device node is in the container's /dev only.
    let cloud = project.cloud()?;
    ensure!(loops_of(&cloud)?.len() == 1, "{:?} of {cloud}", loops_of(&cloud)?);

    // A power cut: the machine's kernel objects go with it, and come back when it boots.
    let node_a = container(project, "node-a")?;
    project.run("docker", &["kill", &node_a])?;
    no_loops_of(&cloud)?;
    project.run("docker", &["start", &node_a])?;
    project.mooring(&["wait", "--ready", "--compose", "--project", &project.name, "--timeout", "60s"])?;
    eventually(|| {
        ensure!(loops_of(&cloud)?.len() == 1, "{:?} of {cloud}", loops_of(&cloud)?);
        running_on(project, "node-a")?;
        ensure!(ready(project, "web")?, "pod/web is not ready");
        Ok(())
    })?;
    let log = eventually(|| project.kubectl(&["logs", "web"]))?;
    ensure!(!log.is_empty(), "the writer says nothing");

    // A machine that is cut off from the API server starts no pod; another machine does.
    let network = format!("{}_kubernetes", project.name);
    project.run("docker", &["network", "disconnect", &network, &node_a])?;
    for node in ["node-a", "node-b"] {
        let pod = project.home.path().join("pod.yaml");
        std::fs::write(&pod, pod_on(node))?;
        project.kubectl(&["apply", "--filename", &pod.display().to_string()])?;
    }
    project.kubectl(&["wait", "--for=condition=Ready", "pod/on-node-b", "--timeout=90s"])?;
    ensure!(!ready(project, "on-node-a")?, "a machine that is cut off has started a pod");
    project.run("docker", &["network", "connect", &network, &node_a])?;
    project.kubectl(&["wait", "--for=condition=Ready", "pod/on-node-a", "--timeout=60s"])?;
    running_on(project, "node-a")?;

    // Without a graceful stop: as when the machine around them loses power.
    ensure!(!loops_of(&cloud)?.is_empty(), "there was nothing to leave behind");
    project.compose(&["kill"])?;
    no_loops_of(&cloud)?;
    project.down()?;
    let left = project.run("docker", &["ps", "--all", "--quiet", "--filter", &format!("name={}", project.name)])?;
    ensure!(left.trim().is_empty(), "{left}");
    eprintln!("all of it took {:?}", begin.elapsed());
    Ok(())
}

/// Returns a pod without a volume, on this node.
fn pod_on(node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: on-{node}}}\nspec:\n  nodeName: {node}\n  containers: [{{name: writer, image: mooring/writer}}]\n"
    )
}

fn ready(project: &Project, pod: &str) -> Result<bool> {
    let pod = project.object(&format!("pod/{pod}"))?;
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    Ok(conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// Waits until the kernel has removed the devices, which it does after the last process has exited.
fn no_loops_of(device: &str) -> Result<()> {
    eventually(|| {
        let left = loops_of(device)?;
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(())
    })
}

/// The pod moves while the attacher is dead and its new machine cut off; then that machine loses power.
const BROKEN: &str = "
name: broken
nodes: {count: 2}
deadline: 5m
steps:
  - apply:
      - apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
      - apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          nodeSelector: {kubernetes.io/hostname: node-a}
          containers: [{name: writer, image: mooring/writer, volumeMounts: [{name: data, mountPath: /data}]}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  - wait: {object: pod/web, is: Running, on: node-a, within: 1m}
  - wait: {object: pod/web, records: 3, within: 1m}
  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone, within: 1m}
  - crash: csi-attacher
  - partition: {between: [node-b, apiserver], name: cut}
  - apply:
      - apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          nodeSelector: {kubernetes.io/hostname: node-b}
          containers: [{name: writer, image: mooring/writer, volumeMounts: [{name: data, mountPath: /data}]}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  - sleep: 2s
  - restart: csi-attacher
  - heal: cut
  - wait: {object: pod/web, is: Running, on: node-b, within: 2m}
  - expect: {attached: {claim: data, node: node-b}}
  - expect: {bytes-intact: pod/web, records: 3}
  - crash: node-b
  - restart: node-b
";

/// A machine receives messages of the API server, but its own messages do not arrive: it runs a pod and cannot report
/// it. Then: without its kubelet a pod cannot be deleted, and with a restarted one it can; likewise for the driver.
const ALONE: &str = "
name: alone
nodes: {count: 2}
deadline: 5m
steps:
  - partition: {between: [node-a, apiserver], one-way: true, name: mute}
  - apply:
      - apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
      - apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          nodeSelector: {kubernetes.io/hostname: node-a}
          terminationGracePeriodSeconds: 1
          containers: [{name: writer, image: mooring/writer, volumeMounts: [{name: data, mountPath: /data}]}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      - apiVersion: v1
        kind: Pod
        metadata: {name: other}
        spec:
          nodeSelector: {kubernetes.io/hostname: node-b}
          containers: [{name: writer, image: mooring/writer}]
  - wait: {object: pod/web, that: \"has(self.spec.nodeName)\", within: 30s}
  - wait: {object: pod/other, is: Running, on: node-b, within: 1m}
  - sleep: 4s
  - expect: {object: pod/web, that: \"self.status.phase == 'Pending'\"}
  - heal: mute
  - wait: {object: pod/web, is: Running, on: node-a, within: 2m}
  - crash: node-a/kubelet
  - delete: {object: pod/web}
  - sleep: 4s
  - expect: {object: pod/web, that: \"has(self.metadata.deletionTimestamp)\"}
  - crash: node-a/csi-node
  - restart: node-a/csi-node
  - restart: node-a/kubelet
  - wait: {object: pod/web, is: gone, within: 2m}
";

/// Runs a scenario against the project; returns how often each invariant was checked.
fn scenario(project: &Project, file: &Path) -> Result<Value> {
    let args = ["--output", "json", "run", "--target", "compose", "--project", &project.name];
    let output = project.command(MOORING).args(args).arg(file).output()?;
    let message = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{}: {}\n{message}{}",
        file.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let message: Value = serde_json::from_str(&message)?;
    Ok(message["data"]["checked"].clone())
}

fn container(project: &Project, service: &str) -> Result<String> {
    Ok(project.compose(&["ps", "--quiet", service])?.trim().to_owned())
}

/// Tests that no container is privileged; servers and loops are not root and cannot write to their root filesystem.
fn is_unprivileged(project: &Project) -> Result<()> {
    let services = project.compose(&["config", "--services"])?;
    for service in services.lines() {
        let message = project.run("docker", &["inspect", &container(project, service)?])?;
        let message: Value = serde_json::from_str(&message)?;
        let (host, config) = (&message[0]["HostConfig"], &message[0]["Config"]);
        ensure!(host["Privileged"] == false, "{service} is privileged");
        if !service.starts_with("node-") {
            ensure!(config["User"] == "65532:65532" && host["ReadonlyRootfs"] == true, "{service}: {config} {host}");
        }
    }
    Ok(())
}
