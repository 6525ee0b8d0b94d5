//! A Mooring is found by its name, and leaves nothing behind when it is gone.

use serde_json::Value;

use crate::day::home::{ANY_PORTS, Home, eventually, kill, texts};

#[test]
fn one_in_the_background_is_listed_shown_and_ended_and_leaves_nothing_live() {
    let home = Home::new();
    assert!(home.ok(&["ls"]).contains("mooring up --detach"));
    let asked = home.path().join("ready.json");
    let ready = home.up("one", &["--nodes", "2", "--ready-file", "ready.json"]);
    let file: Value = serde_json::from_slice(&std::fs::read(&asked).unwrap()).unwrap();
    assert_eq!(file, ready);
    assert!(ready["admin"].as_str().unwrap().ends_with("/admin/v1"));
    let list = home.json(&["ls"]);
    assert_eq!((&list[0]["name"], &list[0]["status"], &list[0]["pid"]), (&"one".into(), &"up".into(), &ready["pid"]));
    let table = home.ok(&["ls"]);
    assert!(table.starts_with("NAME") && table.contains(ready["ec2"].as_str().unwrap()), "{table}");
    home.ok(&["wait", "--name", "one", "--ready"]);
    let status = home.ok(&["status", "--name", "one"]);
    for wanted in ["one: up for ", "2 Ready", "faults      none", ready["kubernetes"].as_str().unwrap()] {
        assert!(status.contains(wanted), "{wanted:?} is not in\n{status}");
    }
    // A second Mooring with the same name is refused, in the background as well.
    for detach in [&["--detach"][..], &[]] {
        let error = home.fails(3, &[&["up", "--name", "one"], detach].concat());
        assert!(
            error.contains("a Mooring called one is up already") && error.contains("mooring down --name one"),
            "{error}"
        );
        assert!(!error.contains("doctor"), "{error}");
    }
    assert_eq!(home.json(&["ls"])[0]["pid"], ready["pid"], "the first one goes on");
    assert_eq!(home.ok(&["down", "--name", "one"]), "one is down\n");
    assert!(!asked.exists() && !home.place("one").exists());
    assert_eq!(home.json(&["ls"]), serde_json::json!([]));
    let error = home.fails(3, &["down", "--name", "one"]);
    assert!(error.contains("no Mooring called one is up"), "{error}");
}

#[test]
fn leftovers_of_a_killed_cluster_are_removed_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1", "--ready-file", "ready.json", "--merge"]);
    let (asked, config) = (home.path().join("ready.json"), home.path().join(".kube/config"));
    assert!(std::fs::read_to_string(&config).unwrap().contains("mooring-one"));
    let run = std::path::Path::new(ready["volumeDir"].as_str().unwrap()).parent().unwrap().to_owned();
    kill(&ready["pid"]);
    assert!(asked.exists(), "no user could remove it");
    assert_eq!(home.json(&["ls"])[0]["status"], "killed");
    assert!(home.ok(&["ls"]).contains("mooring clean"));
    let error = home.fails(3, &["status", "--name", "one"]);
    assert!(error.contains("was killed") && error.contains("mooring clean"), "{error}");
    // In a directory without runs of other tests.
    let clean = || texts(&home.mooring(&["clean"]).env("TMPDIR", home.path()).output().unwrap()).0;
    let removed = clean();
    assert!(removed.contains("ready.json") && removed.contains("context mooring-one"), "{removed}");
    let left: Vec<_> = [asked, config, run, home.place("one")].into_iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty(), "{left:?} are left after\n{removed}");
    assert_eq!(clean(), "nothing was left behind\n");
}

/// Starts a long live run with a volume. Returns the process and the directory of the run; temporary files are in
/// `tmp`, and `before` is the directory of an earlier run.
fn long_run(home: &Home, tmp: &std::path::Path, before: &std::path::Path) -> (std::process::Child, std::path::PathBuf) {
    let text = "name: long\nnodes: {count: 1}\nsteps:\n  - claim: {name: data}\n  - pod: {name: web, claim: data}\n  \
                - wait: {object: pod/web, is: Running}\n  - sleep: 20m\n";
    let file = home.path().join("long.yaml");
    std::fs::write(&file, text).unwrap();
    let args = ["run", file.to_str().unwrap(), "--live", "--backend", "directory"];
    let mut command = home.mooring(&args);
    command.env("TMPDIR", tmp).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    let mut run = None;
    eventually("the run has a volume", || {
        let volumes = |directory: &std::path::Path| std::fs::read_dir(directory.join("volumes")).into_iter().flatten();
        let mut all = std::fs::read_dir(tmp).unwrap().flatten().map(|entry| entry.path()).filter(|path| path != before);
        run = all.find(|path| volumes(path).flatten().any(|f| f.file_name().to_string_lossy().starts_with("vol-")));
        run.is_some()
    });
    (child, run.unwrap())
}

#[test]
fn the_directory_of_a_live_run_that_was_killed_is_removed_by_clean_and_by_the_next_run_live() {
    let home = Home::new();
    let tmp = home.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let with_tmp = |args: &[&str]| home.mooring(args).env("TMPDIR", &tmp).output().unwrap();
    let (mut child, run) = long_run(&home, &tmp, &tmp);
    let (out, _) = texts(&with_tmp(&["clean"]));
    assert!(run.exists() && !out.contains(run.to_str().unwrap()), "it lives: {out}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(run.join("volumes").exists(), "no user could remove it");
    let (out, _) = texts(&with_tmp(&["clean"]));
    assert!(out.contains(&format!("removed {}, of a run that was killed", run.display())), "{out}");
    assert!(!run.exists());

    let (mut child, run) = long_run(&home, &tmp, &run);
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut next, other) = long_run(&home, &tmp, &run);
    assert!(!run.exists() && other.exists(), "the next run clears");
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn the_next_one_of_a_name_clears_what_a_killed_one_left_live() {
    let home = Home::new();
    let first = home.up("one", &["--nodes", "1", "--ready-file", "first.json"]);
    kill(&first["pid"]);
    let second = home.up("one", &["--nodes", "1", "--ready-file", "second.json"]);
    assert_ne!(first["pid"], second["pid"]);
    assert!(!home.path().join("first.json").exists() && home.path().join("second.json").exists());
}

#[test]
fn one_that_does_not_start_says_why_and_leaves_nothing_live() {
    let home = Home::new();
    for detach in [&["--detach"][..], &[]] {
        let args = [&["up", "--backend", "directory", "--service-account-key-file", "/nowhere/key"], detach].concat();
        let error = home.fails(3, &args);
        assert!(error.contains("/nowhere/key"), "{error}");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let args = [&["up", "--backend", "directory"], &ANY_PORTS[2..], &["--ec2-listen", &address], detach].concat();
        let error = home.fails(3, &args);
        assert!(error.contains(&format!("--ec2-listen: the cloud cannot listen on {address}")), "{error}");
        assert!(!home.place("default").exists(), "its directory stays");
    }
}

#[test]
fn in_the_foreground_an_interrupt_ends_it_and_its_files_live() {
    let home = Home::new();
    let args =
        [&["up", "--backend", "directory", "--nodes", "1", "--ready-file", "ready.json"], &ANY_PORTS[..]].concat();
    let child = home.mooring(&args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let child = child.unwrap();
    let ready = home.path().join("ready.json");
    eventually("it is ready", || ready.exists());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, error) = texts(&output);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(
        out.contains("mooring exec -- kubectl get nodes") && error.contains("taking everything down"),
        "{out}{error}"
    );
    assert!(!ready.exists() && !home.place("default").exists());
}
