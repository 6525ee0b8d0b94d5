//! Errors in the command line or the environment: upstream's message, and exit code 1.

use std::net::TcpListener;

use rstest::rstest;

use crate::pair::{Assets, Authority};

/// Runs kube-apiserver with envtest's flags and `more` until it exits. Returns the exit code and its output.
fn failed(assets: &Assets, more: &[&str]) -> (Option<i32>, String) {
    let args = assets.args();
    let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let output = assets.run("kube-apiserver", &args);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[rstest]
#[case(&["--what"], "Error: unknown flag: --what\n")]
#[case(&["--insecure-port=0"], "Error: unknown flag: --insecure-port\n")]
#[case(&["--secure-port=x"], "Error: invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax\n")]
#[case(&["x", "y"], "Error: \"kube-apiserver\" does not take any arguments, got [\"x\" \"y\"]\n")]
fn a_line_that_upstream_does_not_take_is_refused_in_its_words(#[case] more: &[&str], #[case] message: &str) {
    assert_eq!(failed(&Assets::new(), more), (Some(1), message.to_owned()));
}

#[test]
fn a_value_that_cannot_be_used_ends_the_command() {
    for (more, message) in [
        (&["--authorization-mode=Foo"][..], "authorization-mode \\\"Foo\\\" is not a valid mode"),
        (&["--enable-admission-plugins=Foo"], "enable-admission-plugins plugin \\\"Foo\\\" is unknown"),
        (&["--client-ca-file=/none"], "unable to load client CA file: open /none: no such file or directory"),
        (&["--service-cluster-ip-range=here"], "invalid CIDR address: here"),
    ] {
        let (code, log) = failed(&Assets::new(), more);
        assert!(code == Some(1) && log.contains("\"command failed\" err=") && log.contains(message), "{more:?}: {log}");
    }
}

#[test]
fn a_busy_port_ends_the_command() {
    let assets = Assets::new();
    let _taken = TcpListener::bind(("127.0.0.1", assets.port)).unwrap();
    let (code, log) = failed(&assets, &[]);
    let at = format!("127.0.0.1:{}", assets.port);
    let message = format!(
        "err=\"failed to create listener: failed to listen on {at}: listen tcp {at}: bind: address already in use\""
    );
    assert!(code == Some(1) && log.contains(&message), "{log}");
    let _taken = TcpListener::bind(("127.0.0.1", assets.etcd_port)).unwrap();
    let args = assets.etcd_args();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = assets.run("etcd", &args);
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(log.contains("\"level\":\"fatal\"") && log.contains("bind: address already in use"), "{log}");
}

#[test]
fn a_certificate_that_does_not_match_its_key_ends_the_command() {
    let assets = Assets::new();
    let (_, other) = Authority::new().server();
    assets.write("apiserver.key", &other);
    let (code, log) = failed(&assets, &[]);
    assert!(code == Some(1) && log.contains("err=\"tls: private key does not match public key\""), "{log}");
    assets.write("apiserver.crt", "nothing");
    let (code, log) = failed(&assets, &[]);
    let message = "err=\"tls: failed to find any PEM data in certificate input\"";
    assert!(code == Some(1) && log.contains(message), "{log}");
    std::fs::remove_file(assets.certs().join("apiserver.crt")).unwrap();
    let (code, log) = failed(&assets, &[]);
    assert!(code == Some(1) && log.contains("certificate and key must be supplied as a pair"), "{log}");
}

#[test]
fn a_foreign_etcd_is_refused() {
    let assets = Assets::new();
    let other = TcpListener::bind(("127.0.0.1", assets.etcd_port)).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut head = [0; 4096];
        let _ = std::io::Read::read(&mut stream, &mut head).unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let (code, log) = failed(&assets, &[]);
    answers.join().unwrap();
    assert!(code == Some(1) && log.contains("is not Mooring's etcd: start the `etcd` beside this"), "{log}");
}

#[test]
fn etcd_refuses_what_upstream_does_not_know() {
    let assets = Assets::new();
    let output = assets.run("etcd", &["--what"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "flag provided but not defined: -what\n");
    let running = assets.start_etcd();
    let output = assets
        .run("etcd", &[&format!("--data-dir={}", assets.data().display()), "--listen-client-urls=http://127.0.0.1:0"]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && log.contains("another etcd has this data directory open"), "{log}");
    drop(running);
}
