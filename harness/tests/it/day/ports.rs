//! Two clusters need only different names. A port that was given explicitly is never replaced.

use std::net::TcpListener;

use crate::day::home::Home;

#[test]
fn two_of_them_need_only_a_name_each_live() {
    let home = Home::new();
    // Another program may use one of the usual ports, and would be named.
    let usual: Vec<_> = [4566, 6443, 1338, 1339].map(|port| TcpListener::bind(("127.0.0.1", port))).into();
    if usual.iter().any(Result::is_err) {
        eprintln!("skipped: a usual port is taken on this machine");
        return;
    }
    drop(usual);
    let up = |name| home.json(&["up", "--detach", "--name", name, "--backend", "directory", "--nodes", "2"]);
    let (one, two) = (up("one"), up("two"));
    assert_eq!((&one["ec2"], &one["kubernetes"]), (&"http://127.0.0.1:4566".into(), &"https://127.0.0.1:6443".into()));
    assert_eq!(one["imds"][1]["endpoint"], "http://127.0.0.1:1339");
    for key in ["ec2", "kubernetes", "kubernetesHttp", "admin"] {
        assert_ne!(one[key], two[key], "{key}");
    }
    let port = |at: usize| {
        let endpoint = two["imds"][at]["endpoint"].as_str().unwrap();
        endpoint.rsplit(':').next().unwrap().parse::<u16>().unwrap()
    };
    assert!(port(0) > 1339 && port(1) == port(0) + 1, "{two}");
    let nodes = |ready: &serde_json::Value| {
        let path = "/api/v1/nodes";
        crate::day::home::http(ready["kubernetesHttp"].as_str().unwrap(), "GET", path, &[], "").0
    };
    assert_eq!((nodes(&one), nodes(&two)), (200, 200));
    // A port that was given is not replaced, even if another program uses it.
    let given = ["up", "--name", "three", "--backend", "directory", "--ec2-listen", "127.0.0.1:4566"];
    let error = home.fails(3, &given);
    let who = format!("the Mooring called one (pid {})", one["pid"]);
    assert!(error.contains(&who) && error.contains("--ec2-listen 127.0.0.1:0"), "{error}");
    assert_eq!(home.ok(&["down", "--all"]), "one is down\ntwo is down\n");

    // A foreign program at a usual port is named.
    let program =
        "import socket, time; s = socket.create_server(('127.0.0.1', 4566)); print(1, flush=True); time.sleep(60)";
    let foreign =
        std::process::Command::new("python3").args(["-c", program]).stdout(std::process::Stdio::piped()).spawn();
    let Ok(mut foreign) = foreign else { return eprintln!("skipped: this machine has no python3") };
    let mut printed = foreign.stdout.take().unwrap();
    std::io::Read::read_exact(&mut printed, &mut [0, 0]).unwrap();
    let error = home.fails(3, &["up", "--name", "four", "--backend", "directory"]);
    let pid = foreign.id();
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    assert!(error.contains("python3") && error.contains(&format!("(pid {pid})")), "{error}");
    assert!(error.contains("127.0.0.1:4566") && !error.contains("doctor"), "{error}");
}
