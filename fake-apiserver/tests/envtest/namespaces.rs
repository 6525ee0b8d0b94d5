//! Namespaces: without controllers, as with a kube-apiserver alone, or with those that envtest's users enable.

use substrate::json::{Value, json};

use crate::client::Client;
use crate::pair::{Assets, Pair};

const NAMESPACE: &str = "/api/v1/namespaces/a";

fn furnish(admin: &Client) {
    admin.write("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "a"}}));
    admin.write("POST", &format!("{NAMESPACE}/configmaps"), &json!({"metadata": {"name": "c"}}));
}

#[test]
fn a_deleted_namespace_stays_terminating_until_a_client_finalizes_it() {
    let pair = Pair::start();
    let admin = pair.admin();
    furnish(&admin);
    let deleted = admin.send("DELETE", NAMESPACE, "");
    assert_eq!((deleted.status, &deleted.json()["status"]["phase"]), (200, &json!("Terminating")));
    let mut found = admin.get(NAMESPACE).json();
    assert_eq!(found["status"]["phase"], "Terminating");
    assert_eq!(found["spec"]["finalizers"], json!(["kubernetes"]));
    // The content stays, objects cannot be added, and the namespace stays after the content is gone.
    assert_eq!(admin.get(&format!("{NAMESPACE}/configmaps/c")).status, 200);
    let refused = admin.send("POST", &format!("{NAMESPACE}/configmaps"), r#"{"metadata": {"name": "d"}}"#);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("because it is being terminated"), "{refused:?}");
    assert_eq!(admin.send("DELETE", &format!("{NAMESPACE}/configmaps/c"), "").status, 200);
    assert_eq!(admin.get(NAMESPACE).status, 200);
    // Suites do this.
    found["spec"]["finalizers"] = json!([]);
    admin.write("PUT", &format!("{NAMESPACE}/finalize"), &found);
    assert_eq!(admin.get(NAMESPACE).status, 404);
}

#[test]
fn with_controllers_a_deleted_namespace_goes_with_its_content() {
    let pair = Pair::start_as("controllers");
    let admin = pair.admin();
    furnish(&admin);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/f"]}});
    admin.write("POST", &format!("{NAMESPACE}/configmaps"), &held);
    assert_eq!(admin.send("DELETE", NAMESPACE, "").status, 200);
    assert_eq!(admin.get(&format!("{NAMESPACE}/configmaps/c")).status, 404);
    // An object with a finalizer keeps the namespace.
    assert_eq!(admin.get(NAMESPACE).json()["status"]["phase"], "Terminating");
    admin.write("PATCH", &format!("{NAMESPACE}/configmaps/held"), &json!({"metadata": {"finalizers": null}}));
    assert_eq!(admin.get(NAMESPACE).status, 404);
    // There is no other controller: a namespace has no service account.
    let accounts = admin.get("/api/v1/namespaces/default/serviceaccounts").json();
    assert_eq!(accounts["items"], Value::Array(Vec::new()));
}

#[test]
fn another_mode_is_refused_with_the_three_that_there_are() {
    for (mode, message) in [
        ("all", "MOORING_ENVTEST=all: must be bare, controllers or cluster"),
        // The program that tests start has no cluster.
        ("cluster", "MOORING_ENVTEST=cluster: this program has no cluster"),
    ] {
        let mut assets = Assets::new();
        assets.variables.push(("MOORING_ENVTEST".to_owned(), mode.to_owned()));
        let args = assets.args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = assets.run("kube-apiserver", &args);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && log.contains(message), "{mode}: {log}");
    }
}
