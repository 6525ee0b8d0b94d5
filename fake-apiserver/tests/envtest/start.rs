//! Start, initial objects, and stop.

use std::net::TcpListener;

use substrate::json::{Value, json};

use crate::pair::{Assets, Pair, names_in};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// envtest's test for a flag: `(?m)^\s*--FLAG\b` in the help.
fn knows(help: &str, flag: &str) -> bool {
    help.lines()
        .filter_map(|line| line.trim_start().strip_prefix("--")?.strip_prefix(flag))
        .any(|rest| rest.chars().next().is_none_or(|next| !next.is_ascii_alphanumeric() && next != '_'))
}

#[test]
fn the_help_has_the_flags_that_envtest_looks_for() {
    let assets = Assets::new();
    let help = |program: &str| {
        let output = assets.run(program, &["--help"]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(knows(&help("etcd"), "unsafe-no-fsync"));
    let apiserver = help("kube-apiserver");
    assert!(knows(&apiserver, "secure-port") && !knows(&apiserver, "insecure-port"));
    let version = assets.run("kube-apiserver", &["--version"]);
    assert_eq!((version.status.code(), version.stdout.as_slice()), (Some(0), &b"Kubernetes v1.36.2\n"[..]));
    assert!(assets.run("etcd", &["--version"]).stdout.starts_with(b"etcd Version: 3."));
}

#[test]
fn a_new_cluster_has_only_the_objects_of_a_kube_apiserver() {
    let pair = Pair::start();
    let admin = pair.admin();
    assert_eq!(
        names(&admin.get("/api/v1/namespaces").json()),
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    let service = admin.get("/api/v1/namespaces/default/services/kubernetes").json();
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], pair.assets.port);
    let range = admin.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").json();
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    let roles = names(&admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").json());
    assert!(roles.contains(&"cluster-admin".to_owned()) && roles.contains(&"system:public-info-viewer".to_owned()));
    let classes = names(&admin.get("/apis/scheduling.k8s.io/v1/priorityclasses").json());
    assert_eq!(classes, ["system-cluster-critical", "system-node-critical"]);
    assert!(!names(&admin.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas").json()).is_empty());
    let trusted = admin.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").json();
    assert_eq!(trusted["data"]["client-ca-file"], pair.assets.clients.pem());
    // kube-controller-manager would create these; it does not run here.
    assert!(names(&admin.get("/api/v1/serviceaccounts").json()).is_empty());
    admin.write("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "a"}}));
    for path in ["serviceaccounts", "configmaps", "secrets"] {
        assert!(names(&admin.get(&format!("/api/v1/namespaces/a/{path}")).json()).is_empty(), "{path}");
    }
    // A pod needs no service account, since envtest disables that admission plugin.
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = admin.write("POST", "/api/v1/namespaces/a/pods", &pod);
    assert_eq!(made["spec"]["volumes"], Value::Null);
    // A service gets an address from the range.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = admin.write("POST", "/api/v1/namespaces/a/services", &service);
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.0.0."), "{made}");
}

#[test]
fn probes_answer_anyone_and_one_line_names_the_flags_without_effect() {
    let pair = Pair::start_in(Assets::new(), &["--profiling=false", "--feature-gates=Foo=true", "-v=2"]);
    for probe in ["/healthz", "/readyz", "/livez", "/version"] {
        assert_eq!(pair.assets.anyone().get(probe).status, 200, "{probe}");
    }
    let log = pair.assets.log("kube-apiserver");
    let warned: Vec<&str> = log.lines().filter(|line| line.starts_with('W')).collect();
    assert_eq!(warned.len(), 1, "{log}");
    assert!(warned[0].ends_with("have no effect here: --feature-gates, --profiling, --v"), "{log}");
}

#[test]
fn a_certificate_that_is_missing_is_made() {
    let assets = Assets::new();
    std::fs::remove_file(assets.certs().join("apiserver.crt")).unwrap();
    std::fs::remove_file(assets.certs().join("apiserver.key")).unwrap();
    let _etcd = assets.start_etcd();
    // Without this file no client trusts the server: the test waits for the file first, and then for the health check.
    let mut args: Vec<String> = assets.args();
    args.push("--external-hostname=api.example".to_owned());
    let made = assets.certs().join("apiserver.crt");
    let child = assets.spawn_with(&args);
    assets.wait_until(|| made.exists());
    let chain = std::fs::read_to_string(&made).unwrap();
    // The CA follows the certificate.
    let authority = chain.rfind("-----BEGIN").map(|at| chain[at..].to_owned()).unwrap();
    let (certificate, key) = assets.clients.user("admin", &["system:masters"]);
    let client = crate::client::Client::new(assets.port, &authority, Some((&certificate, &key)));
    assets.wait_until(|| client.open("GET", "/healthz", "").is_ok_and(|answer| answer.status == 200));
    assert_eq!(client.get("/api/v1/namespaces/default").status, 200);
    assert_eq!(child.end("-TERM"), Some(0));
}

#[test]
fn ten_starts_and_stops_leave_nothing() {
    let assets = Assets::new();
    for _ in 0..10 {
        let (etcd, apiserver) = (assets.start_etcd(), assets.start_apiserver(&[]));
        assert_eq!(assets.admin().get("/api/v1/namespaces/default").status, 200);
        assert_eq!((apiserver.end("-TERM"), etcd.end("-TERM")), (Some(0), Some(0)));
        // The ports are free at once.
        drop(TcpListener::bind(("127.0.0.1", assets.port)).unwrap());
        drop(TcpListener::bind(("127.0.0.1", assets.etcd_port)).unwrap());
    }
    assert_eq!(names_in(&assets.data()), ["mooring.journal", "mooring.lock"]);
    let certs = ["apiserver.crt", "apiserver.key", "client-cert-auth-ca.crt", "sa-signer.crt", "sa-signer.key"];
    assert_eq!(names_in(&assets.certs()), certs);
}

#[test]
fn it_speaks_through_an_old_watch_until_the_end_and_then_ends_it_whole() {
    let mut pair = Pair::start();
    let admin = pair.admin();
    let mut watch = admin.open("GET", "/api/v1/namespaces/default/configmaps?watch=true", "").unwrap();
    let config = json!({"metadata": {"name": "c"}});
    admin.write("POST", "/api/v1/namespaces/default/configmaps", &config);
    let reported = watch.chunk().unwrap().unwrap();
    assert!(reported.contains("ADDED") && reported.contains("\"name\":\"c\""), "{reported}");
    // SIGTERM during a watch: the stream ends with its last chunk, and the process exits at once.
    assert_eq!(pair.end_apiserver("-TERM"), Some(0));
    assert_eq!(watch.chunk().unwrap(), None);
    // etcd also exits while a client is connected.
    assert_eq!(pair.end_etcd("-TERM"), Some(0));
}
