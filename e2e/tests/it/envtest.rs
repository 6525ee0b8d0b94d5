//! `mooring envtest`: the folder, the programs behind its links, and the effect of `MOORING_ENVTEST`.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Result, ensure};
use e2e::{CLAIM_AND_POD, eventually, have};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use serde_json::{Value, json};
use substrate::host::unused_port;

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// Runs `mooring envtest` with its own home directory.
fn envtest(home: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(MOORING);
    command.arg("envtest").args(more).env("HOME", home).env_remove("XDG_CACHE_HOME").output().unwrap()
}

fn folder(home: &Path) -> PathBuf {
    let output = envtest(home, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(text.strip_suffix('\n').unwrap())
}

#[test]
fn the_folder_is_in_the_cache_and_for_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let made = folder(home.path());
    assert!(made.starts_with(home.path().join(".cache/mooring/envtest")), "{}", made.display());
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_link(made.join("etcd")).unwrap(), std::fs::canonicalize(MOORING).unwrap());
    let data: Value = serde_json::from_slice(&envtest(home.path(), &["--output", "json"]).stdout).unwrap();
    assert_eq!((&data["status"], &data["data"]["folder"]), (&json!("passed"), &json!(made)));
    assert_eq!(data["data"]["kubeApiserver"], json!(made.join("kube-apiserver")));
    let version = Command::new(made.join("kube-apiserver")).arg("--version").output().unwrap();
    assert_eq!(version.stdout, b"Kubernetes v1.36.2\n");
    // The same programs as subcommands.
    let component = Command::new(MOORING).args(["component", "etcd", "--version"]).output().unwrap();
    assert!(component.stdout.starts_with(b"etcd Version: 3."));
    let help = Command::new(MOORING).args(["envtest", "--help"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("export KUBEBUILDER_ASSETS=$(mooring envtest)"));
}

#[test]
fn without_a_home_it_says_which_variable_is_missing() {
    let output = Command::new(MOORING).arg("envtest").env_remove("HOME").env_remove("XDG_CACHE_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("HOME is not set"));
}

/// The two processes, started from the folder; stopped when dropped.
struct Pair {
    home: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SIGTERM, as envtest sends it, so that a cluster takes its disks down.
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

fn signed(ca: &CertifiedIssuer<'_, KeyPair>, names: &[&str], user: &str, group: &str) -> (String, String) {
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, ca).unwrap().pem(), key.serialize_pem())
}

impl Pair {
    fn start(mode: &str) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let assets = folder(home.path());
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let (serving, admin) = (
            signed(&ca, &["localhost", "127.0.0.1"], "localhost", "envtest"),
            signed(&ca, &[], "admin", "system:masters"),
        );
        for (name, text) in [
            ("ca.crt", ca.pem()),
            ("ca.key", ca.key().serialize_pem()),
            ("apiserver.crt", serving.0),
            ("apiserver.key", serving.1),
            ("admin.crt", admin.0),
            ("admin.key", admin.1),
        ] {
            std::fs::write(home.path().join(name), text)?;
        }
        let (etcd_port, port) = (unused_port().unwrap(), unused_port().unwrap());
        let url = format!("http://127.0.0.1:{etcd_port}");
        let mut pair = Self { home, children: Vec::new() };
        let log = |name: &str| std::fs::File::create(pair.home.path().join(name));
        let mut etcd = Command::new(assets.join("etcd"));
        etcd.args(["--data-dir=data", "--unsafe-no-fsync=true", &format!("--listen-client-urls={url}")]);
        let mut apiserver = Command::new(assets.join("kube-apiserver"));
        apiserver.env("MOORING_ENVTEST", mode).args([
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--cert-dir=.",
            "--client-ca-file=ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            &format!("--etcd-servers={url}"),
            &format!("--secure-port={port}"),
            &format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            "--service-account-key-file=ca.crt",
            "--service-account-signing-key-file=ca.key",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        let logs = [log("etcd.log")?, log("apiserver.log")?];
        for (command, log) in [&mut etcd, &mut apiserver].into_iter().zip(logs) {
            let command = command.current_dir(pair.home.path()).env("HOME", pair.home.path());
            pair.children.push(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?);
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "envtest",
            "clusters": [{"name": "envtest", "cluster":
                {"server": format!("https://127.0.0.1:{port}"), "certificate-authority": "ca.crt"}}],
            "users": [{"name": "envtest", "user": {"client-certificate": "admin.crt", "client-key": "admin.key"}}],
            "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": "envtest"}}],
        });
        std::fs::write(pair.home.path().join("kubeconfig"), kubeconfig.to_string())?;
        eventually(|| pair.kubectl(&["get", "--raw", "/readyz"]))?;
        Ok(pair)
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("kubectl")
            .arg("--kubeconfig=kubeconfig")
            .args(args)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .output()?;
        ensure!(
            output.status.success(),
            "kubectl {args:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            std::fs::read_to_string(self.home.path().join("apiserver.log"))?
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies a manifest.
    fn apply(&self, text: &str) -> Result<()> {
        std::fs::write(self.home.path().join("manifest.yaml"), text)?;
        self.kubectl(&["apply", "-f", "manifest.yaml"]).map(drop)
    }
}

#[test]
fn kubectl_works_with_the_bare_pair() {
    if !have("kubectl") {
        return;
    }
    let pair = Pair::start("").unwrap();
    let namespaces = pair.kubectl(&["get", "namespaces", "-o", "name"]).unwrap();
    assert_eq!(namespaces.lines().count(), 4, "{namespaces}");
    assert_eq!(pair.kubectl(&["get", "nodes,serviceaccounts", "-A", "-o", "name"]).unwrap(), "");
    pair.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n").unwrap();
    assert_eq!(pair.kubectl(&["get", "configmap", "c", "-o", "jsonpath={.data.a}"]).unwrap(), "b");
}

#[test]
fn with_controllers_owned_objects_go_with_their_owner() {
    if !have("kubectl") {
        return;
    }
    let pair = Pair::start("controllers").unwrap();
    pair.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owner}\n").unwrap();
    let uid = pair.kubectl(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]}});
    pair.apply(&owned.to_string()).unwrap();
    pair.kubectl(&["delete", "configmap", "owner"]).unwrap();
    eventually(|| {
        let left = pair.kubectl(&["get", "configmaps", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn with_a_cluster_a_pod_runs_with_its_volume_live() {
    if !have("kubectl") {
        return;
    }
    let _seat = e2e::seat().unwrap();
    let pair = Pair::start("cluster").unwrap();
    let nodes = eventually(|| {
        let nodes = pair.kubectl(&["get", "nodes", "-o", "name"])?;
        ensure!(nodes.lines().count() == 3, "{nodes}");
        Ok(nodes)
    });
    assert_eq!(nodes.unwrap(), "node/node-a\nnode/node-b\nnode/node-c\n");
    eventually(|| pair.kubectl(&["get", "storageclass", "gp3"])).unwrap();
    pair.apply(CLAIM_AND_POD).unwrap();
    pair.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).unwrap();
    // Requests from outside are authorized.
    let refused = pair.kubectl(&["get", "pods", "--as=ann"]).unwrap_err().to_string();
    assert!(refused.contains("User \"ann\" cannot list resource \"pods\""), "{refused}");
}
