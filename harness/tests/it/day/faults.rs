//! Faults of all planes at one address, and the protection of that address.

use serde_json::Value;

use crate::day::home::{Home, claim_and_pod, eventually, http, kill};

/// Returns the row of a fault in the list.
fn row(home: &Home, name: &str) -> Vec<String> {
    let list = home.ok(&["fault", "ls", "--name", "one"]);
    let row = list.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} is not in\n{list}"));
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn faults_of_every_plane_are_added_fire_and_end_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    home.ok(&["wait", "--name", "one", "--ready"]);
    let add = |args: &[&str]| home.ok(&[&["fault", "add", "--name", "one"], args].concat());
    assert_eq!(home.ok(&["fault", "ls", "--name", "one"]), "no fault is in force\n");
    for (effect, expected) in [
        ("dely=20s", "effect: `dely` is unknown; "),
        ("dely=20s", "did you mean `delay`?"),
        ("delay=20", "effect.delay: `20` is not a duration"),
        ("eror=InternalError", "did you mean `error`?"),
    ] {
        let wrong = ["fault", "add", "slow", "--name", "one", "--on", "ec2/AttachVolume", "--effect", effect];
        let error = home.fails(2, &wrong);
        assert!(error.contains(expected) && !error.contains("line 1"), "{error}");
        let json = home.run(&[&wrong[..], &["--output", "json"]].concat());
        let envelope: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(envelope["error"]["message"].as_str().unwrap().contains(expected), "{envelope}");
    }
    add(&["cloud", "--on", "ec2/AttachVolume", "--effect", "error=InternalError", "--first", "1"]);
    add(&["driver", "--on", "csi/NodeStageVolume", "--effect", "grpc=ABORTED", "--first", "1"]);
    add(&["objects", "--on", "k8s/patch", "--where", "object=default/none*", "--effect", "http=500", "--ttl", "10m"]);
    add(&["clock", "--on", "clock", "--effect", "skew=+1s"]);
    claim_and_pod(&ready);
    home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "90s"]);
    assert_eq!(row(&home, "cloud")[..4], ["cloud", "ec2/AttachVolume", "error=InternalError", "1"]);
    assert_eq!(row(&home, "driver")[..4], ["driver", "csi/NodeStageVolume", "grpc=ABORTED", "1"]);
    assert_eq!(row(&home, "objects")[1], "k8s/patch object=default/none*");
    eventually("it is printed", || home.log("one").contains("fault cloud fired: AttachVolume in "));
    assert!(home.ok(&["status", "--name", "one"]).contains("cloud (1 hits)"));
    assert_eq!(home.ok(&["fault", "rm", "--name", "one", "cloud"]), "fault cloud is over\n");
    assert!(home.fails(2, &["fault", "rm", "--name", "one", "cloud"]).contains("no fault called `cloud`"));
    home.ok(&["fault", "rm", "--name", "one", "--all"]);
    assert_eq!(home.ok(&["fault", "ls", "--name", "one"]), "no fault is in force\n");
}

#[test]
fn a_link_is_cut_and_a_process_is_down_until_that_is_over_live() {
    let home = Home::new();
    home.up("one", &["--nodes", "1"]);
    home.ok(&["wait", "--name", "one", "--ready"]);
    home.ok(&["fault", "add", "--name", "one", "cut", "--partition", "node-a,apiserver"]);
    home.ok(&["wait", "--name", "one", "--for", "node/node-a=Unknown", "--timeout", "60s"]);
    eventually("it is printed", || home.log("one").contains("node/node-a is not heard of any more"));
    home.ok(&["fault", "rm", "--name", "one", "cut"]);
    home.ok(&["wait", "--name", "one", "--for", "node/node-a=Ready", "--timeout", "60s"]);

    let output = home.ok(&["fault", "add", "--name", "one", "--crash", "csi-attacher"]);
    assert!(output.contains("mooring fault rm crash:csi-attacher"), "{output}");
    let up = || {
        let status = home.json(&["status", "--name", "one"]);
        let all = status["cluster"]["processes"].as_array().unwrap().clone();
        all.iter().find(|p| p["name"] == "csi-attacher").unwrap()["up"].clone()
    };
    assert_eq!(up(), false);
    assert_eq!(row(&home, "crash:csi-attacher")[2], "is down");
    let error = home.fails(2, &["fault", "add", "--name", "one", "--crash", "csi-atacher"]);
    assert!(error.contains("`csi-attacher`"), "{error}");
    home.ok(&["fault", "add", "--name", "one", "--crash", "node-a/kubelet"]);
    home.ok(&["fault", "rm", "--name", "one", "--all"]);
    assert_eq!(up(), true);
    eventually("it is printed", || home.log("one").contains("csi-attacher runs again"));
}

#[test]
fn a_fault_ends_when_its_condition_holds_and_a_file_may_hold_several_live() {
    let home = Home::new();
    home.up("one", &["--nodes", "1"]);
    let file = home.path().join("faults.yaml");
    std::fs::write(
        &file,
        "- {name: a, match: {plane: ec2, op: CreateVolume}, effect: {error: InternalError}, when: {until: node/node-a=Ready}}\n\
         - {name: b, match: {plane: csi}, effect: {delay: 10ms}}\n",
    )
    .unwrap();
    home.ok(&["fault", "add", "--name", "one", "-f", "faults.yaml"]);
    let names = || {
        let list = home.json(&["fault", "ls", "--name", "one"]);
        let name = |report: &Value| report["fault"]["name"].as_str().unwrap().to_owned();
        list["faults"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    eventually("the first one ends", || names() == ["b"]);
    for (args, wrong) in [
        (&["x", "--on", "ec2/AtachVolume", "--effect", "error=InternalError"][..], "AttachVolume"),
        (&["x", "--on", "ec", "--effect", "drop_reply"], "`ec2`"),
        (&["x", "--on", "csi", "--effect", "dely=1s"], "dely"),
        (&["x", "--partition", "node-a"], "--partition"),
        (&["x", "--partition", "node-a,apisrver"], "apiserver"),
        (&["x", "--on", "csi", "--effect", "delay=1s", "--until", "pvc/data=Bond"], "Bound"),
        (&["x", "--on", "csi"], "--effect"),
        (&[], "FAULT"),
    ] {
        let error = home.fails(2, &[&["fault", "add", "--name", "one"], args].concat());
        assert!(error.contains(wrong), "{wrong:?} is not in\n{error}");
    }
}

#[test]
fn the_admin_api_is_guarded_as_every_port_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1", "--token", "letmein-please"]);
    let admin = ready["admin"].as_str().unwrap();
    let token = ("authorization", "Bearer letmein-please");
    let get = |headers: &[(&str, &str)]| http(admin, "GET", "/admin/v1/status", headers, "").0;
    assert_eq!((get(&[]), get(&[token]), get(&[("authorization", "Bearer x")])), (401, 200, 401));
    assert_eq!(get(&[token, ("host", "evil.example")]), 421);
    assert_eq!(get(&[token, ("origin", "http://evil.example")]), 403);
    assert_eq!(get(&[token, ("sec-fetch-site", "cross-site")]), 403);
    for (path, body) in [("/reset", "{}"), ("/crashes", r#"{"process":"csi-attacher"}"#), ("/faults", "{}")] {
        let path = format!("/admin/v1{path}");
        assert_eq!(http(admin, "POST", &path, &[token, ("content-type", "text/plain")], body).0, 415, "{path}");
        assert_eq!(http(admin, "POST", &path, &[("content-type", "application/json")], body).0, 401, "{path}");
    }
    for path in ["/admin/v1/reset", "/admin/v1/crashes/csi-attacher"] {
        assert!([404, 405].contains(&http(admin, "GET", path, &[token], "").0), "a GET changes nothing");
    }
    assert_eq!(http(admin, "GET", "/admin/v1/exec", &[token], "").0, 404);
    // The commands read the token from a file that only its owner can read. The ready file does not contain it.
    home.ok(&["fault", "ls", "--name", "one"]);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home.place("one").join("token")), mode(&home.place("one"))), (0o600, 0o700));
    assert!(!ready.to_string().contains("letmein-please") && !home.log("one").contains("letmein-please"));
    let error = home.fails(2, &["up", "--name", "two", "--admin-listen", "0.0.0.0:0", "--token", "letmein-please"]);
    assert!(error.contains("--admin-listen") && error.contains("loopback"), "{error}");
    kill(&ready["pid"]);
    home.ok(&["clean"]);
}
