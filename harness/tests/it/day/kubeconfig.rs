//! The context is merged into kubeconfigs and removed again, and everything else stays.

use crate::day::home::Home;

const FOREIGN: &str = "apiVersion: v1\nkind: Config\ncurrent-context: prod\nclusters:\n- name: prod\n  cluster:\n    server: https://prod.example.com\ncontexts:\n- name: prod\n  context:\n    cluster: prod\n    user: me\nusers:\n- name: me\n  user:\n    token: \"00123\"\n";

#[test]
fn a_context_is_merged_and_taken_out_again_live() {
    let home = Home::new();
    let config = home.path().join(".kube/config");
    std::fs::create_dir(config.parent().unwrap()).unwrap();
    std::fs::write(&config, FOREIGN).unwrap();
    let read = || std::fs::read_to_string(&config).unwrap();
    let ready = home.up("one", &["--nodes", "1", "--merge"]);
    assert!(
        read().contains("current-context: mooring-one") && read().contains("https://prod.example.com"),
        "{}",
        read()
    );
    assert!(read().contains(ready["kubernetes"].as_str().unwrap()));
    home.up("two", &["--nodes", "1", "--merge"]);
    assert!(read().contains("current-context: mooring-two") && read().contains("name: mooring-one"), "{}", read());
    home.ok(&["down", "--name", "two"]);
    assert!(!read().contains("mooring-two") && read().contains("name: mooring-one"), "{}", read());
    home.ok(&["down", "--name", "one"]);
    let after = read();
    assert!(!after.contains("mooring"), "{after}");
    assert!(after.contains("server: https://prod.example.com") && after.contains("token: \"00123\""), "{after}");
    assert!(after.contains("current-context: \"\""), "no cluster is chosen for the user: {after}");
}

#[test]
fn a_kubeconfig_that_is_named_keeps_what_it_has_live() {
    let home = Home::new();
    let config = home.path().join("my.yaml");
    std::fs::write(&config, FOREIGN).unwrap();
    let ready = home.up("one", &["--nodes", "1", "--kubeconfig", "my.yaml"]);
    assert_eq!(ready["kubeconfig"], config.display().to_string());
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("mooring-one") && text.contains("https://prod.example.com"), "{text}");
    home.ok(&["down", "--name", "one"]);
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(!text.contains("mooring-one") && text.contains("https://prod.example.com"), "{text}");
    assert!(!home.path().join("env").exists());

    std::fs::write(&config, "- this\n- is a list\n").unwrap();
    let start = ["up", "--detach", "--backend", "directory", "--nodes", "1", "--kubeconfig", "my.yaml"];
    let error = home.fails(3, &[&start[..], &crate::day::home::ANY_PORTS].concat());
    assert!(error.contains("--kubeconfig") && error.contains("not a kubeconfig, and stays as it is"), "{error}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "- this\n- is a list\n");
    assert!(!home.place("default").exists());
}

#[test]
fn a_kubeconfig_is_printed_with_the_server_that_is_wanted_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let own = read(&home.ok(&["kubeconfig", "--name", "one"]));
    assert_eq!(own["clusters"][0]["cluster"]["server"], ready["kubernetes"]);
    let moved = home.ok(&["kubeconfig", "--name", "one", "--server", "https://127.0.0.1:16443"]);
    assert_eq!(read(&moved)["clusters"][0]["cluster"]["server"], "https://127.0.0.1:16443");
    assert_eq!(read(&moved)["users"], own["users"]);
    let error = home.fails(2, &["kubeconfig", "--name", "one", "--server", "127.0.0.1:16443"]);
    assert!(error.contains("did you mean https://127.0.0.1:16443?"), "{error}");
}
