//! Parts of `mooring up` beyond everyday kubectl and AWS CLI: metadata services, ports outside loopback, devices that
//! are busy while mounted.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::http::send;
use e2e::{CLAIM_AND_POD, Up, eventually, have};
use serde_json::{Value, json};

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// Writes a shell script. A child process writes it: if this process did, a child that a parallel test just forked
/// could hold the file open for writing, and executing it would fail (ETXTBSY).
fn script(path: &Path, text: &str) -> Result<()> {
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").arg("-c").arg(write).arg(path).arg(text).status()?;
    ensure!(written.success(), "{} was not written: {written}", path.display());
    Ok(())
}

/// Applies the claim and the pod and waits until the pod runs.
fn run_pod(up: &Up) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), CLAIM_AND_POD)?;
    up.run("kubectl", &["apply", "-f", &file.path().display().to_string()])?;
    up.run("kubectl", &["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).context(up.log())?;
    Ok(())
}

#[test]
fn every_instance_has_a_metadata_service_live() {
    let up = Up::start(MOORING, &["--backend", "directory", "--nodes", "2"]).unwrap();
    let services = up.all_ready()["imds"].as_array().unwrap();
    let nodes: Vec<&str> = services.iter().filter_map(|s| s["node"].as_str()).collect();
    assert_eq!(nodes, ["node-a", "node-b"]);
    for service in services {
        let endpoint = service["endpoint"].as_str().unwrap();
        let ttl = [("x-aws-ec2-metadata-token-ttl-seconds", "60")];
        let token = send(endpoint, "PUT", "/latest/api/token", &ttl, "").unwrap();
        assert_eq!(token.status, 200, "{token:?}");
        let headers = [("x-aws-ec2-metadata-token", token.body.as_str())];
        let document = send(endpoint, "GET", "/latest/dynamic/instance-identity/document", &headers, "").unwrap();
        let document: Value = serde_json::from_str(&document.body).unwrap();
        assert_eq!(document["instanceId"], service["instance"]);
        assert_eq!(document["region"], "us-east-1");
        let foreign = send(endpoint, "GET", "/latest/meta-data/", &[("origin", "http://evil.example")], "").unwrap();
        assert_eq!(foreign.status, 403);
    }
}

#[test]
fn a_cluster_is_larger_than_the_usual_limit_of_open_files_live() {
    // As in a login shell: a soft limit of 1,024, and a higher hard limit.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("mooring");
    script(&program, &format!("ulimit -S -n 1024\nexec {MOORING} \"$@\"")).unwrap();
    let up = Up::start(program.to_str().unwrap(), &["--backend", "directory", "--nodes", "60"]).unwrap();
    assert_eq!(up.all_ready()["imds"].as_array().unwrap().len(), 60);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", up.pid())).map_or(0, Iterator::count);
    eventually(|| {
        ensure!(files() > 1_024, "{} files", files());
        Ok(())
    })
    .unwrap();
}

/// A driver of another name, as a separate program; stopped when dropped.
struct Foreign(std::process::Child);

impl Foreign {
    fn start(up: &Up, args: &[&str]) -> Result<Self> {
        let log = tempfile::NamedTempFile::new()?.into_file();
        let child = Command::new(MOORING)
            .args(["component", "csi-mock", "--driver-name", FOREIGN, "--time-scale", "10"])
            .args(["--ec2-endpoint", up.ready("ec2")])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const FOREIGN: &str = "other.example.com";

/// Writes an object to the API server, or reads one.
fn api(up: &Up, method: &str, path: &str, object: &Value) -> Result<Value> {
    let body = if object.is_null() { String::new() } else { object.to_string() };
    let answer = send(up.ready("kubernetesHttp"), method, path, &[("content-type", "application/json")], &body)?;
    ensure!(answer.status < 300, "{method} {path}: {answer:?}");
    Ok(serde_json::from_str(&answer.body)?)
}

/// The foreign driver serves from directories of its own choice: only its registration sockets and the given endpoint
/// tell where it is.
#[test]
fn a_driver_that_is_not_ours_is_found_as_kubelet_finds_it_live() {
    let sockets = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("unix://{}", sockets.path().join(name).display());
    let controller = at("c.sock");
    let leave_out = ["--without", "csi-mock", "--csi", &controller];
    let up = Up::start(
        MOORING,
        &[&["--backend", "directory", "--nodes", "2", "--time-scale", "10"][..], &leave_out].concat(),
    )
    .unwrap();
    let await_log = |text: &str| {
        eventually(|| {
            let log = up.log();
            ensure!(log.contains(text), "{text:?} is not in\n{log}");
            Ok(())
        })
        .unwrap();
    };
    await_log(&format!("no CSI driver answers at {controller}"));
    await_log("--without csi-mock,csi-attacher,csi-provisioner,csi-resizer,csi-snapshotter");
    let _controller = Foreign::start(&up, &["--mode", "controller", "--endpoint", &controller]).unwrap();
    await_log(&format!("driver {FOREIGN} answers at {controller}"));
    let mut nodes = Vec::new();
    for node in up.all_ready()["nodes"].as_array().unwrap() {
        let text = |key: &str| node[key].as_str().unwrap();
        let endpoint = at(&format!("{}.sock", text("node")));
        let args = [
            ["--mode", "node"],
            ["--endpoint", &endpoint],
            ["--node-id", text("instance")],
            ["--node-name", text("node")],
            ["--root", text("root")],
            ["--volume-dir", up.ready("volumeDir")],
            ["--backend", "directory"],
            ["--registration-dir", text("pluginsRegistry")],
        ];
        nodes.push(Foreign::start(&up, &[&args.concat()[..], &["--no-plug"]].concat()).unwrap());
        await_log(&format!("{}: driver {FOREIGN} is registered", text("node")));
        let csi_node = api(&up, "GET", &format!("/apis/storage.k8s.io/v1/csinodes/{}", text("node")), &Value::Null);
        let driver = &csi_node.unwrap()["spec"]["drivers"][0];
        assert_eq!((&driver["name"], &driver["nodeID"]), (&FOREIGN.into(), &node["instance"]));
    }

    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "other" },
        "provisioner": FOREIGN, "volumeBindingMode": "WaitForFirstConsumer",
    });
    api(&up, "POST", "/apis/storage.k8s.io/v1/storageclasses", &class).unwrap();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "other",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    api(&up, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", &claim).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": {
            "containers": [{
                "name": "writer", "image": "mooring/writer",
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    });
    api(&up, "POST", "/api/v1/namespaces/default/pods", &pod).unwrap();
    let path = "/api/v1/namespaces/default/pods/web";
    eventually(|| {
        let pod = api(&up, "GET", path, &Value::Null)?;
        ensure!(pod["status"]["phase"] == "Running", "{:#}\n{}", pod["status"], up.log());
        Ok(())
    })
    .unwrap();
    let volumes = api(&up, "GET", "/api/v1/persistentvolumes", &Value::Null).unwrap();
    assert_eq!(volumes["items"][0]["spec"]["csi"]["driver"], FOREIGN);

    // The same driver takes the volume down.
    api(&up, "DELETE", path, &Value::Null).unwrap();
    api(&up, "DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/data", &Value::Null).unwrap();
    eventually(|| {
        let volumes = api(&up, "GET", "/api/v1/persistentvolumes", &Value::Null)?;
        ensure!(volumes["items"].as_array().is_some_and(Vec::is_empty), "{volumes:#}\n{}", up.log());
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_endpoint_of_a_driver_beside_ours_is_a_usage_error() {
    for (args, wrong) in [
        (&["--csi", "unix:///x"][..], "--without csi-mock"),
        (&["--without", "csi-mock", "--csi", "/x"], "unix:///ABSOLUTE/PATH"),
    ] {
        let output = Command::new(MOORING).arg("up").args(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(wrong), "{error}");
    }
}

/// A certificate signing request of `ann`, in base64.
const REQUEST: &str = "\
    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWE1IOENBUUF3SFRFTU1Bb0dBMVVFQXd3RFlXNXVNUTB3\
    Q3dZRFZRUUtEQVIwWldGdE1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVaTE1lb2lTYkJSb1p5TkRmai9i\
    a2thWCtyRGkybHZVMzJNUmxjcGVhCmM1ZjNoMjJZcTVDUjBEbm11ZDRqM0d2Y25uOE8ycUlUTnJWb3gvSis4QXJWMjZBQU1B\
    b0dDQ3FHU000OUJBTUMKQTBnQU1FVUNJUUM3Y3RMUkxpdW5EOGhPcmJ1cUR2NjNtZ2Y5U3JHYnVFdHFrOWxyWDBNT2tBSWdh\
    WWJzVGlUeAowNTIxM2ZmM2x2dE5mQ0dVM2tBN0RmZnViaXBFNWdBMGJJcz0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVT\
    VC0tLS0tCg==";

#[test]
fn an_approved_request_for_a_certificate_is_signed_live() {
    let up = Up::start(MOORING, &["--backend", "directory", "--nodes", "1"]).unwrap();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": REQUEST, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]});
    let mut request = api(&up, "POST", requests, &json!({"metadata": {"name": "ann"}, "spec": spec})).unwrap();
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    api(&up, "PUT", &format!("{requests}/ann/approval"), &request).unwrap();
    let signed = api(&up, "GET", &format!("{requests}/ann"), &Value::Null).unwrap();
    assert!(signed["status"]["certificate"].is_string(), "{signed}");
}

/// As behind `--advertise-address`: the address that users have, in both forms.
#[test]
fn the_service_of_the_api_server_leads_to_it_live() {
    let up = Up::start(MOORING, &["--backend", "directory", "--nodes", "1"]).unwrap();
    let get = |path: &str| api(&up, "GET", path, &Value::Null).unwrap();
    let endpoints = get("/api/v1/namespaces/default/endpoints/kubernetes");
    let slice = get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes");
    let (subset, at) = (&endpoints["subsets"][0], &slice["endpoints"][0]["addresses"][0]);
    let address = |ip: &Value, port: &Value| format!("https://{}:{port}", ip.as_str().unwrap_or_default());
    assert_eq!(address(&subset["addresses"][0]["ip"], &subset["ports"][0]["port"]), up.ready("kubernetes"));
    assert_eq!(address(at, &slice["ports"][0]["port"]), up.ready("kubernetes"));
}

#[test]
fn a_kubeconfig_where_it_was_started_is_found_from_anywhere_live() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("mooring");
    script(&program, &format!("cd {}\nexec {MOORING} \"$@\"", dir.path().display())).unwrap();
    let args = ["--backend", "directory", "--nodes", "1", "--kubeconfig", "kubeconfig"];
    let up = Up::start(program.to_str().unwrap(), &args).unwrap();
    let kubeconfig = dir.path().join("kubeconfig").display().to_string();
    assert_eq!(up.ready("kubeconfig"), kubeconfig);
    let env = std::fs::read_to_string(dir.path().join("env")).unwrap();
    // Some clients read only one of the two names of the region.
    for line in
        [format!("KUBECONFIG={kubeconfig}"), "AWS_REGION=us-east-1".into(), "AWS_DEFAULT_REGION=us-east-1".into()]
    {
        assert!(env.contains(&format!("export {line}\n")), "{line} is not in\n{env}");
    }
}

#[test]
fn off_loopback_nothing_is_served_without_a_token_live() {
    for flag in ["--ec2-listen", "--imds-listen"] {
        let output = Command::new(MOORING).args(["up", flag, "0.0.0.0:0"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(flag) && error.contains("--token"), "{error}");
    }
    if !have("kubectl") {
        return;
    }
    let token = "letmein-please";
    let anywhere = ["--ec2-listen", "0.0.0.0:0", "--kubernetes-listen", "0.0.0.0:0", "--token", token];
    let up = Up::start(MOORING, &[&["--backend", "directory", "--time-scale", "10"][..], &anywhere].concat()).unwrap();
    let admin = |headers: &[(&str, &str)]| send(up.ready("ec2"), "GET", "/admin/v1/state", headers, "").unwrap().status;
    assert_eq!(admin(&[]), 401);
    assert_eq!(admin(&[("authorization", "Bearer letmein-please")]), 200);
    // The kubeconfig contains the token, and so does the node's component that follows the cloud's devices.
    run_pod(&up).unwrap();
    let refused = up.command("kubectl").args(["get", "nodes", "--token", "another"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("Unauthorized"), "{error}");
    assert!(!up.log().contains(token), "the token shows in the log");
}

#[test]
fn a_volume_that_is_detached_by_hand_is_busy_while_its_pod_has_it_mounted_live() {
    if !have("root") || !have("kubectl") || !have("aws") {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--time-scale", "10"]).unwrap();
    run_pod(&up).unwrap();
    let pv = up.run("kubectl", &["get", "pv", "-o", "jsonpath={.items[0].spec.csi.volumeHandle}"]).unwrap();
    let attachment = || -> Result<String> {
        let query = "Volumes[0].Attachments[0].State";
        let args = ["ec2", "describe-volumes", "--volume-ids", &pv, "--query", query, "--output", "text"];
        Ok(up.run("aws", &args)?.trim().to_owned())
    };
    assert_eq!(attachment().unwrap(), "attached");
    up.run("aws", &["ec2", "detach-volume", "--volume-id", &pv]).unwrap();
    eventually(|| {
        let state = attachment()?;
        ensure!(state == "busy", "{state}");
        Ok(())
    })
    .unwrap();
    // It is deleted once nothing holds it any more.
    up.run("kubectl", &["delete", "pod", "web", "--timeout=60s"]).unwrap();
    eventually(|| {
        let state = attachment()?;
        ensure!(state == "None", "{state}");
        Ok(())
    })
    .context(up.log())
    .unwrap();
}

/// A driver's node service in a container has its own mount namespace, with its node's `/dev`.
#[test]
fn a_driver_in_a_mount_namespace_of_its_own_mounts_for_the_node_live() {
    if !have("root") || !have("kubectl") {
        return;
    }
    let without = ["--without", "csi-mock", "--time-scale", "10"];
    let up = Up::start(MOORING, &[&["--backend", "loop", "--nodes", "1"][..], &without].concat()).unwrap();
    let pid = up.pid().to_string();
    let start = |args: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &pid, "unshare", "--mount", "--propagation", "unchanged", MOORING]);
        command.args(["component", "csi-mock", "--time-scale", "10", "--ec2-endpoint", up.ready("ec2")]).args(args);
        Foreign(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let _controller = start(&["--mode", "controller", "--endpoint", up.ready("csi")]);
    let node = &up.all_ready()["nodes"][0];
    let text = |key: &str| node[key].as_str().unwrap();
    let endpoint = format!("unix://{}/csi.sock", text("root"));
    let place = ["--root", text("root"), "--volume-dir", up.ready("volumeDir"), "--backend", "loop", "--no-plug"];
    let name = ["--node-id", text("instance"), "--node-name", text("node")];
    let service = ["--mode", "node", "--endpoint", &endpoint, "--registration-dir", text("pluginsRegistry")];
    let _node = start(&[&service[..], &name, &place].concat());
    run_pod(&up).unwrap();
    // The pod's data is on the volume: the mount point is empty afterwards, so it can be removed.
    up.run("kubectl", &["delete", "pod", "web", "--timeout=60s"]).context(up.log()).unwrap();
    up.run("kubectl", &["delete", "pvc", "data", "--timeout=60s"]).unwrap();
    eventually(|| {
        let left = up.run("kubectl", &["get", "pv,volumeattachment", "-o", "name"])?;
        ensure!(left.is_empty(), "left over: {left}");
        Ok(())
    })
    .context(up.log())
    .unwrap();
}

#[test]
fn a_key_file_that_holds_no_key_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    for (path, why) in [(path.as_str(), "no PEM block"), ("/nowhere/sa.key", "No such file")] {
        let output = Command::new(MOORING).args(["up", "--service-account-key-file", path]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("--service-account-key-file") && error.contains(path) && error.contains(why), "{error}");
    }
}
