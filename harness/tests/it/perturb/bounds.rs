//! A program that forks, ignores SIGTERM and fills its log; Ctrl-C and kill -9: no process, directory or port is left.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use crate::perturb::left::{all_listeners, backend, listeners};
use crate::perturb::tools::{Folder, eventually};

/// A program that leaves processes behind, prints without end, and ends only by SIGKILL. It creates one ConfigMap, so
/// that there is a call to perturb. The argument marks its processes.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
mark=$1
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" &
( ( sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" & ) & )
yes 'a line of a program that says much and means little' | head -c 10000000
echo "key $AWS_SECRET_ACCESS_KEY"
maps="$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps"
while :; do
  curl -sf -o /dev/null "$maps/done" || curl -s -o /dev/null "$maps" -H 'content-type: application/json' \
    -d '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"done"}}'
  sleep 0.1
done
"#;

fn write_files(folder: &Folder, more: &str) {
    folder.script("mine.sh", STUBBORN);
    let wait = "  - wait: {object: configmap/done, is: exists, within: 100h}\n";
    let header = "name: s\nnodes: {count: 1}\ntime-scale: 60\ndeadline: 200h\nsteps:\n";
    folder.write("s.yaml", &format!("{header}{wait}{more}"));
}

fn args(folder: &Folder) -> Vec<String> {
    let mark = folder.path().join("mark").display().to_string();
    ["--scenario", "s.yaml", "--again", "0", "--", "./mine.sh", &mark].map(str::to_owned).to_vec()
}

#[test]
fn a_program_that_forks_and_ignores_sigterm_is_gone_after_each_trial_and_its_log_is_bounded_live() {
    let folder = Folder::new();
    write_files(&folder, "");
    let own = args(&folder);
    let own: Vec<&str> =
        ["--only", "crash-after,lost-reply"].into_iter().chain(own.iter().map(String::as_str)).collect();
    let ran = folder.perturb(&own);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.count("survived"), 2, "{}", ran.out);
    assert_eq!(folder.left(), Vec::<String>::new());
    let mut left = std::fs::read_dir(folder.path().join("t")).unwrap().flatten();
    assert!(left.next().is_none(), "the directories of its clusters are gone");
    assert!(ran.out.len() < 1 << 20, "{} bytes", ran.out.len());
}

/// A controller that prints its secrets, and creates a second object when it restarts.
const TALKATIVE: &str = r#"
echo "key $AWS_SECRET_ACCESS_KEY"
echo "$AWS_SECRET_ACCESS_KEY" >> keys
sed -n 's/.*token"*: *"*\([^",}]*\).*/\1/p' "$KUBECONFIG" | tee -a keys
maps="$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps"
make() { curl -s -o /dev/null "$maps" -H 'content-type: application/json' -d "$1"; }
if ! curl -sf -o /dev/null "$maps/done"; then
  make '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"part-"}}'
  make '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"done"}}'
fi
while :; do sleep 1; done
"#;

#[test]
fn a_secret_that_a_program_prints_is_in_no_report_live() {
    let folder = Folder::new();
    write_files(&folder, "");
    folder.script("mine.sh", TALKATIVE);
    let results = ["--json", "r.json", "--junit", "r.xml", "--report", "r.html", "--out", "found"];
    let own = ["--scenario", "s.yaml", "--only", "crash-after", "--at", "part-", "--again", "0"];
    let ran = folder.perturb(&[&own[..], &results, &["--", "./mine.sh"]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let finding = &ran.data["data"]["findings"][0];
    assert_eq!(finding["evidence"]["logs"]["mine"][0], "key (masked)", "{finding}");
    let file = folder.read(finding["file"].as_str().unwrap());
    let keys = folder.read("keys");
    let keys: Vec<&str> = keys.lines().collect();
    // Four runs; in the trial it starts twice.
    assert!(keys.len() >= 10 && keys.iter().all(|key| key.len() >= 6), "{keys:?}");
    for text in [&ran.out, &folder.read("r.json"), &folder.read("r.xml"), &folder.read("r.html"), &file] {
        assert!(!text.is_empty());
        for key in &keys {
            assert!(!text.contains(key), "{key}");
        }
    }
}

/// Starts the command with a pod that uses a volume, with a scenario that takes long.
fn start(folder: &Folder) -> Child {
    let pod = "  - claim: {name: data}\n  - pod: {name: web, claim: data}\n  - wait: {object: pod/web, is: Running}\n";
    let last = "  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: last}}\n  - sleep: 50h\n";
    write_files(folder, &format!("{pod}{last}"));
    let own = args(folder);
    let own: Vec<&str> =
        ["perturb", "--backend", backend()].into_iter().chain(own.iter().map(String::as_str)).collect();
    let child = folder.mooring(&own).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the program and its children run", || folder.processes().len() >= 5);
    eventually("the cluster listens", || !listeners(child.id()).is_empty());
    if backend() == "loop" {
        eventually("the volume is a loop device and mounted", || {
            !folder.loop_devices().is_empty() && folder.mounts().iter().any(|mount| mount.contains("/pods/"))
        });
    }
    child
}

/// Asserts that all processes that ran in `folder` have ended, and that their listening sockets are closed.
fn all_is_gone(folder: &Folder, listened: &BTreeSet<String>) {
    eventually("no process is left", || folder.processes().is_empty());
    eventually("no loop device is left", || folder.loop_devices().is_empty());
    // A process has no arguments any more a moment before its sockets and its mounts are gone.
    eventually("nothing is mounted", || folder.mounts().is_empty());
    let listens = |inode: &String| all_listeners().contains_key(inode);
    eventually("no socket listens", || !listened.iter().any(listens));
}

#[test]
fn ctrl_c_leaves_nothing_live() {
    let folder = Folder::new();
    let mut runner = start(&folder);
    let (pid, listened) = (runner.id().to_string(), listeners(runner.id()));
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(runner.wait().unwrap().code(), Some(130));
    all_is_gone(&folder, &listened);
    let mut left = std::fs::read_dir(folder.path().join("t")).unwrap().flatten();
    assert!(left.next().is_none(), "the directories of its clusters are gone");
}

#[test]
fn no_process_port_or_mount_is_left_after_kill_9_live() {
    let folder = Folder::new();
    let mut runner = start(&folder);
    let listened = listeners(runner.id());
    runner.kill().unwrap();
    runner.wait().unwrap();
    all_is_gone(&folder, &listened);
    // The next command of this user removes its directory.
    let ran = folder.perturb(&["--scenario", "s.yaml", "--within", "1s", "--list", "--", "./nothing"]);
    assert_eq!(ran.code, 2);
    let _ = folder.mooring(&["run", "s.yaml", "--live", "--backend", "directory", "--timeout", "1s"]).output();
    let mut left = std::fs::read_dir(folder.path().join("t")).unwrap().flatten();
    assert!(left.next().is_none(), "the directories of its clusters are gone");
}
