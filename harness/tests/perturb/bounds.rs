//! A program that forks, ignores SIGTERM and fills its log; Ctrl-C and kill -9: no process, directory or port stays.

use std::process::{Child, Stdio};

use crate::tools::{Folder, eventually};

/// A program that leaves processes behind, prints without end, and ends by no signal but SIGKILL. It makes one ConfigMap,
/// so that there is something to try. The argument marks its processes.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
mark=$1
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" &
( ( sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" & ) & )
yes 'a line of a program that says much and means little' | head -c 20000000
echo "key $AWS_SECRET_ACCESS_KEY"
maps="$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps"
while :; do
  curl -sf -o /dev/null "$maps/done" || curl -s -o /dev/null "$maps" -H 'content-type: application/json' \
    -d '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"done"}}'
  sleep 0.1
done
"#;

fn story(folder: &Folder, more: &str) {
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
    story(&folder, "");
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

/// Starts the command with a story that takes long.
fn start(folder: &Folder) -> Child {
    story(folder, "  - sleep: 50h\n");
    let own = args(folder);
    let own: Vec<&str> = std::iter::once("perturb").chain(own.iter().map(String::as_str)).collect();
    let child = folder.mooring(&own).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the program and its children run", || folder.left().len() >= 5);
    child
}

#[test]
fn nothing_is_left_after_ctrl_c_live() {
    let folder = Folder::new();
    let mut runner = start(&folder);
    let pid = runner.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(runner.wait().unwrap().code(), Some(130));
    eventually("no process is left", || folder.left().is_empty());
    let mut left = std::fs::read_dir(folder.path().join("t")).unwrap().flatten();
    assert!(left.next().is_none(), "the directories of its clusters are gone");
}

#[test]
fn no_process_is_left_after_kill_9_live() {
    let folder = Folder::new();
    let mut runner = start(&folder);
    runner.kill().unwrap();
    runner.wait().unwrap();
    eventually("no process is left", || folder.left().is_empty());
    // Its directory goes with the next command of this user.
    let ran = folder.perturb(&["--scenario", "s.yaml", "--within", "1s", "--list", "--", "./nothing"]);
    assert_eq!(ran.code, 2);
    let _ = folder.mooring(&["run", "s.yaml", "--live", "--backend", "directory", "--timeout", "1s"]).output();
    let mut left = std::fs::read_dir(folder.path().join("t")).unwrap().flatten();
    assert!(left.next().is_none(), "the directories of its clusters are gone");
}
