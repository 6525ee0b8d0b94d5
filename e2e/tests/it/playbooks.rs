//! Every command of the two playbooks that the project started from, against `mooring up`: debugging a volume that does
//! not attach ("Volume Attach Flow") and a volume that does not mount ("CSI Flow").

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Output;

use anyhow::{Context, Result, ensure};
use e2e::{CLAIM_AND_POD, Up, eventually, have};

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// kubectl's messages for commands and flags of a later version.
const LATER: [&str; 3] = ["unknown command", "unknown flag", "unknown shorthand flag"];

/// Returns the output of a playbook's command, which must have succeeded. None for a command of a later kubectl: it is
/// skipped with a message, and the others run.
fn printed(line: &str, output: &Output) -> Result<Option<String>> {
    let message = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && LATER.iter().any(|later| message.contains(later)) {
        eprintln!("skipped: this kubectl is older than: {line}");
        return Ok(None);
    }
    ensure!(output.status.success(), "{line}\nended with {}: {message}", output.status);
    Ok(Some(String::from_utf8(output.stdout.clone())?))
}

/// A cluster with a volume in use, and a shell for its commands.
struct Bench {
    up: Up,
    dir: tempfile::TempDir,
}

impl Bench {
    fn start() -> Result<Self> {
        let up = Up::start(MOORING, &["--backend", "directory", "--time-scale", "10"])?;
        let bench = Self { up, dir: tempfile::tempdir()? };
        std::fs::write(bench.file(), CLAIM_AND_POD)?;
        bench.sh(&format!("kubectl apply -f {}", bench.file().display()))?;
        bench.sh("kubectl wait --for=condition=Ready pod/web --timeout=60s").context(bench.up.log())?;
        Ok(bench)
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("web.yaml")
    }

    /// Runs a line in a shell, as a user does.
    fn try_sh(&self, line: &str) -> Result<Output> {
        Ok(self.up.command("sh").args(["-c", line]).output()?)
    }

    /// Runs a line that must succeed, and returns its output.
    fn sh(&self, line: &str) -> Result<String> {
        let output = self.try_sh(line)?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line}\nended with {}: {message}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Repeats a line until its output contains all of `wanted`, since some of it appears a moment later.
    fn shows(&self, line: &str, wanted: &[&str]) -> Result<String> {
        eventually(|| {
            let message = self.sh(line)?;
            let missing: Vec<&&str> = wanted.iter().filter(|wanted| !message.contains(**wanted)).collect();
            ensure!(missing.is_empty(), "{line}\nlacks {missing:?}:\n{message}");
            Ok(message)
        })
    }

    /// Runs a command of a playbook once; see [`printed`].
    fn does(&self, line: &str) -> Result<Option<String>> {
        printed(line, &self.try_sh(line)?)
    }

    /// Runs a command of a playbook until its output contains all of `wanted`; see [`printed`].
    fn step(&self, line: &str, wanted: &[&str]) -> Result<()> {
        eventually(|| {
            let Some(message) = self.does(line)? else { return Ok(()) };
            let missing: Vec<&&str> = wanted.iter().filter(|wanted| !message.contains(**wanted)).collect();
            ensure!(missing.is_empty(), "{line}\nlacks {missing:?}:\n{message}");
            Ok(())
        })
    }

    /// Returns the value of a JSONPath of an object.
    fn path(&self, object: &str, path: &str) -> String {
        self.sh(&format!("kubectl get {object} -o jsonpath='{path}'")).unwrap()
    }
}

/// The commands of "Debugging Volume Attach Issues" and "Debugging CSI Issues", in their order; then those of the
/// accompanying texts: an attachment's finalizers, deletion of an attachment and of a node, the out-of-service taint.
#[test]
fn every_command_of_the_playbooks_works() {
    if !["kubectl", "aws", "jq"].into_iter().all(have) {
        return;
    }
    let bench = Bench::start().unwrap();
    let (pv, node) = (bench.path("pvc data", "{.spec.volumeName}"), bench.path("pod web", "{.spec.nodeName}"));
    let va = bench.path("volumeattachment", "{.items[0].metadata.name}");

    // The VolumeAttachment's status.
    if let Some(wide) = bench.does("kubectl get volumeattachment -o wide").unwrap() {
        let row: Vec<&str> = wide.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..5], [&*va, "ebs.csi.aws.com", &*pv, &*node, "true"], "{wide}");
    }
    bench
        .step(&format!("kubectl describe volumeattachment {va}"), &["Attacher:", "ebs.csi.aws.com", "Attached:"])
        .unwrap();
    // Multi-Attach error: the node that has the volume.
    let selected = bench
        .does(&format!(
            "kubectl get volumeattachment -o json | jq -c '.items[] | \
             select(.spec.source.persistentVolumeName==\"{pv}\") | {{node:.spec.nodeName, attached:.status.attached}}'"
        ))
        .unwrap();
    assert!(selected.is_none_or(|message| message.trim() == format!("{{\"node\":\"{node}\",\"attached\":true}}")));
    // The logs of the external-attacher and of the driver's controller, by name and by label.
    let pod = "$(kubectl get pod -n kube-system -l app=ebs-csi-controller -o jsonpath='{.items[0].metadata.name}')";
    let label = "-l app=ebs-csi-controller";
    let handle = bench.sh(&format!("kubectl get pv {pv} -o jsonpath='{{.spec.csi.volumeHandle}}'")).unwrap();
    for (which, tail) in [(pod, 100), (label, 50)] {
        let attacher = format!("kubectl logs -n kube-system {which} -c csi-attacher --tail={tail}");
        bench.step(&attacher, &["rpc=\"ControllerPublishVolume\"", &handle, "code=\"OK\""]).unwrap();
    }
    for which in [pod, label] {
        let plugin = format!("kubectl logs -n kube-system {which} -c ebs-plugin --tail=100");
        bench.step(&plugin, &["action=\"AttachVolume\"", &handle]).unwrap();
    }
    // The driver on the pod's node.
    let on_node = "TARGET_NODE=$(kubectl get pod web -n default -o jsonpath='{.spec.nodeName}')
         kubectl logs -n kube-system $(kubectl get pod -n kube-system -l app=ebs-csi-node \
         --field-selector spec.nodeName=$TARGET_NODE -o jsonpath='{.items[0].metadata.name}') -c ebs-plugin --tail=100";
    bench.step(on_node, &["rpc=\"NodeStageVolume\"", "rpc=\"NodePublishVolume\"", &handle]).unwrap();
    // The attachment on the cloud's side, as both texts query it.
    let instance = bench.path(&format!("csinode {node}"), "{.spec.drivers[0].nodeID}");
    for query in [
        "Volumes[0].{State:State,Attachments:Attachments[*].{Instance:InstanceId,State:State}}",
        "Volumes[0].{State:State,Attachments:Attachments}",
    ] {
        let line = format!(
            "PV_HANDLE=$(kubectl get pv {pv} -o jsonpath='{{.spec.csi.volumeHandle}}')
             aws ec2 describe-volumes --output json --volume-ids $PV_HANDLE --query '{query}'"
        );
        bench.step(&line, &["\"State\": \"in-use\"", &instance, "\"State\": \"attached\""]).unwrap();
    }
    bench.step("kubectl describe pod web -n default", &["SuccessfulAttachVolume", "Started"]).unwrap();
    // Without its finalizer the attachment goes at once, and is created again, since the pod still needs its volume.
    let patch = format!("kubectl patch volumeattachment {va} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'");
    let patched = bench.does(&patch).unwrap();
    assert!(patched.is_none_or(|message| message.trim() == format!("volumeattachment.storage.k8s.io/{va} patched")));
    bench.does(&format!("kubectl delete volumeattachment {va} --timeout=90s")).unwrap();
    bench.step("kubectl get volumeattachment -o wide", &[&va, " true "]).unwrap();
    // After deletion of an attachment the external-attacher detaches first.
    bench.does(&format!("kubectl delete volumeattachment {va} --wait=false")).unwrap();
    let attacher = "kubectl logs -n kube-system -l app=ebs-csi-controller -c csi-attacher --tail=-1";
    bench.step(attacher, &["rpc=\"ControllerUnpublishVolume\""]).unwrap();
}

/// "Kubernetes volume recovery": a node is gone, and the user deletes it or adds the out-of-service taint.
#[test]
fn a_node_that_is_gone_is_deleted_or_tainted_as_the_playbooks_say() {
    if !have("kubectl") {
        return;
    }
    let bench = Bench::start().unwrap();
    let node = bench.path("pod web", "{.spec.nodeName}");
    let system = |node: &str| format!("kubectl get pods -n kube-system --field-selector spec.nodeName={node} -o name");
    assert_eq!(bench.shows(&system(&node), &["ebs-csi-node"]).unwrap(), format!("pod/ebs-csi-node-{node}\n"));
    // A drain does not evict the driver, and needs no flag for it.
    if let Some(drained) = bench.does(&format!("kubectl drain {node} --force --timeout=60s")).unwrap() {
        assert!(drained.contains("evicting pod default/web") && !drained.contains("ebs-csi-node"), "{drained}");
    }
    bench.sh(&format!("kubectl uncordon {node}")).unwrap();
    bench.sh(&format!("kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")).unwrap();
    assert_eq!(bench.sh(&system(&node)).unwrap(), format!("pod/ebs-csi-node-{node}\n"));
    bench.sh(&format!("kubectl taint nodes {node} node.kubernetes.io/out-of-service-")).unwrap();
    bench.sh(&format!("kubectl delete node {node}")).unwrap();
    let again = bench.try_sh("kubectl get pods -n kube-system -l app=ebs-csi-node").unwrap();
    assert!(again.status.success());
    // The control plane's pods are on no node of the cluster, and stay.
    bench.step("kubectl get pods -n kube-system", &["ebs-csi-controller-control-plane", "5/5"]).unwrap();
}

#[test]
fn pods_of_kube_system_are_as_upstream_has_them_and_their_logs_can_be_followed() {
    if !have("kubectl") {
        return;
    }
    let bench = Bench::start().unwrap();
    let nodes = ["ebs-csi-node-node-a", "ebs-csi-node-node-b", "ebs-csi-node-node-c"];
    let listed = bench.shows("kubectl get pods -n kube-system --no-headers", &nodes).unwrap();
    assert_eq!(listed.lines().count(), 8, "{listed}");
    bench
        .shows(
            "kubectl get pods -n kube-system -l tier=control-plane,component=kube-controller-manager",
            &["kube-controller-manager-control-plane", "1/1", "Running"],
        )
        .unwrap();
    let controller = "kubectl logs -n kube-system ebs-csi-controller-control-plane -c csi-provisioner";
    bench.shows(&format!("{controller} --timestamps"), &["Z I", "rpc=\"CreateVolume\""]).unwrap();
    assert_eq!(bench.sh(&format!("{controller} --tail=1")).unwrap().lines().count(), 1);
    let began = bench.sh(controller).unwrap().lines().count();
    // A follower receives the next volume's lines.
    let printed = bench.dir.path().join("followed");
    let mut follow = bench.up.command("sh");
    let follow = follow.args(["-c", &format!("exec {controller} -f")]).stdout(std::fs::File::create(&printed).unwrap());
    let mut following = follow.spawn().unwrap();
    bench.sh(&format!("kubectl delete -f {} --timeout=60s", bench.file().display())).unwrap();
    eventually(|| {
        let followed = std::fs::read_to_string(&printed)?;
        let deletions = followed.lines().filter(|line| line.contains("\"DeleteVolume\"")).count();
        ensure!(deletions >= 2 && began > 0, "{followed}");
        Ok(())
    })
    .unwrap();
    following.kill().unwrap();
    following.wait().unwrap();
    let refused = bench.try_sh(&format!("{controller} --previous")).unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("previous terminated container \"csi-provisioner\""), "{message}");
}

#[test]
fn an_unserved_kind_gets_a_warning_and_an_event() {
    if !have("kubectl") {
        return;
    }
    let bench = Bench::start().unwrap();
    let applied = bench.try_sh("kubectl create ingress web --rule=web.example.com/=web:80").unwrap();
    let message = String::from_utf8_lossy(&applied.stderr);
    assert!(
        message.contains("Warning: Ingress is stored, but no loop of Mooring works on it: no traffic reaches it"),
        "{message}"
    );
    bench.shows("kubectl describe ingress web", &["Warning", "NoController", "no traffic reaches it"]).unwrap();
    let classes = bench.sh("kubectl get storageclass").unwrap();
    for (class, wanted) in
        [("gp3 (default)", "Delete"), ("gp3-retain", "Retain"), ("io2", "Delete"), ("standard", "Delete")]
    {
        let row = classes.lines().find(|line| line.starts_with(class)).unwrap_or_default();
        assert!(
            row.contains("ebs.csi.aws.com") && row.contains(wanted) && row.contains("WaitForFirstConsumer"),
            "{classes}"
        );
    }
    // Each class provisions volumes.
    for class in ["gp3-retain", "io2", "standard"] {
        let text = CLAIM_AND_POD
            .replace("name: data", &format!("name: {class}"))
            .replace("claimName: data", &format!("claimName: {class}"))
            .replace("name: web", &format!("name: pod-{class}"))
            .replace("spec:\n  accessModes", &format!("spec:\n  storageClassName: {class}\n  accessModes"))
            .replace("1Gi", "4Gi");
        std::fs::write(bench.dir.path().join("class.yaml"), text).unwrap();
        bench.sh(&format!("kubectl apply -f {}", bench.dir.path().join("class.yaml").display())).unwrap();
        bench
            .sh(&format!("kubectl wait --for=condition=Ready pod/pod-{class} --timeout=60s"))
            .context(bench.up.log())
            .unwrap();
    }
}

#[test]
fn a_command_that_came_with_a_later_kubectl_is_skipped_and_no_other_failure_is() {
    let ran = |script: &str| printed(script, &std::process::Command::new("sh").args(["-c", script]).output().unwrap());
    assert_eq!(ran("echo fine").unwrap().as_deref(), Some("fine\n"));
    for later in [
        "unknown flag: --subresource",
        "unknown command \"events\" for \"kubectl\"",
        "unknown shorthand flag: 'z' in -z",
    ] {
        assert_eq!(ran(&format!("echo 'error: {}' >&2; exit 1", later.replace('\'', ""))).unwrap(), None);
    }
    let failed = ran("echo 'Error from server (NotFound): pods \"web\" not found' >&2; exit 1").unwrap_err();
    assert!(failed.to_string().contains("NotFound"), "{failed:#}");
}
