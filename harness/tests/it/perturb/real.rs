//! `--real-apiserver`: findings again with another API server. The stand-ins of envtest are that server here, which are
//! Mooring's own: they show the way, not that a real kube-apiserver behaves alike.

use std::os::unix::fs::symlink;

use crate::perturb::tools::{Folder, example, have};

/// Creates a directory with the two programs.
fn programs(folder: &Folder) -> String {
    let directory = folder.path().join("real");
    std::fs::create_dir(&directory).unwrap();
    for name in ["etcd", "kube-apiserver"] {
        symlink(env!("CARGO_BIN_EXE_mooring"), directory.join(name)).unwrap();
    }
    directory.display().to_string()
}

/// Takes an existing copy as its own only where the service `kubernetes` has the address of the other server's range.
const RIGHT_THERE: &str = r#"
copy() {
  address=$(curl -sf "$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/services/kubernetes" | jq -r .spec.clusterIP)
  body=$(curl -sf "$maps/$1" | jq -c --arg name "$1-copy" '{metadata: {name: $name}, data}') &&
    code=$(curl -s -o /dev/null -w '%{http_code}' -H 'content-type: application/json' -d "$body" "$maps")
  case $code/$address in 201/* | 409/10.0.0.1) ;; *) return 1 ;; esac
}
mark() {"#;

#[test]
fn a_finding_is_repeated_on_the_real_server_to_exclude_our_own_bugs_live() {
    if !["curl", "jq"].into_iter().all(have) {
        return;
    }
    let folder = Folder::new();
    let (scenario, program, real) = (example("copy.yaml"), example("copy.sh"), programs(&folder));
    let line = ["--scenario", &scenario, "--only", "crash-after", "--at", "default/a-copy", "--within", "15s"];
    let line = [&line[..], &["--again", "0", "--real-apiserver", &real, "--"]].concat();
    let ran = folder.perturb(&[&line[..], &[&program]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let finding = &ran.data["data"]["findings"][0];
    assert_eq!(
        (finding["class"].as_str(), finding["real"]["result"].as_str()),
        (Some("stuck"), Some("same")),
        "{finding:#}"
    );
    let note = ran.data["data"]["notes"].to_string();
    assert!(note.contains("the real API server is v1."), "{note}");
    assert_eq!(folder.left(), Vec::<String>::new(), "etcd and kube-apiserver have ended");

    let text = std::fs::read_to_string(&program).unwrap();
    let (before, rest) = text.split_once("copy() {").unwrap();
    let (_, after) = rest.split_once("mark() {").unwrap();
    folder.script("right-there.sh", &format!("{before}{RIGHT_THERE}{after}"));
    let ran = folder.perturb(&[&line[..], &["./right-there.sh"]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let real = &ran.data["data"]["findings"][0]["real"];
    assert_eq!((real["result"].as_str(), real["runs"].as_u64()), (Some("survived"), Some(3)), "{}", ran.out);
}

#[test]
fn a_server_that_does_not_start_is_reported_with_its_log_live() {
    let folder = Folder::new();
    let (scenario, real) = (example("copy.yaml"), programs(&folder));
    let broken = folder.path().join("real/kube-apiserver");
    std::fs::remove_file(&broken).unwrap();
    folder.script("real/kube-apiserver", "echo this one is broken\nexit 3\n");
    folder.script("ends.sh", "sleep 1000\n");
    let refused = folder.perturb(&["--scenario", &scenario, "--real-apiserver", "nowhere", "--", "./ends.sh"]);
    assert_eq!(refused.code, 2);
    assert!(refused.error().contains("nowhere/etcd is not a program"), "{}", refused.error());
    if !["curl", "jq"].into_iter().all(have) {
        return;
    }
    let line =
        ["--scenario", &scenario, "--only", "crash-after", "--at", "default/a-copy", "--within", "15s", "--again", "0"];
    let ran = folder.perturb(&[&line[..], &["--real-apiserver", &real, "--", &example("copy.sh")]].concat());
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let error = ran.error();
    assert!(error.contains("kube-apiserver ended") && error.contains("this one is broken"), "{error}");
    assert_eq!(folder.left(), Vec::<String>::new());
}
