//! Reset of a Mooring.

use crate::day::home::{Home, claim_and_pod, http};

#[test]
fn after_a_reset_it_is_as_new_at_the_same_addresses_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "2"]);
    let use_volume = || {
        claim_and_pod(&ready);
        home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "60s"]);
    };
    use_volume();
    home.ok(&["fault", "add", "--name", "one", "--crash", "csi-attacher"]);
    home.ok(&["fault", "add", "--name", "one", "slow", "--on", "csi", "--effect", "delay=5s"]);
    assert_eq!(home.ok(&["reset", "--name", "one"]), "one was reset\n");
    let state = home.json(&["state", "--name", "one"]);
    let volumes = state["cloud"]["volumes"].as_array().unwrap().iter().filter(|v| v["root"] != true).count();
    assert_eq!(volumes, 0, "{:#}", state["cloud"]["volumes"]);
    let status = home.ok(&["status", "--name", "one"]);
    for wanted in ["2 Ready", "claims      none", "pods        none", "faults      none"] {
        assert!(status.contains(wanted), "{wanted:?} is not in\n{status}");
    }
    assert!(!status.contains("down "), "{status}");
    assert!(home.ok(&["timeline", "--name", "one"]).contains("there is no volume yet"));
    let class = "/apis/storage.k8s.io/v1/storageclasses/gp3";
    assert_eq!(http(ready["kubernetesHttp"].as_str().unwrap(), "GET", class, &[], "").0, 200);
    // The same steps work again, and the timeline shows only them.
    use_volume();
    let timeline = home.ok(&["timeline", "--name", "one"]);
    assert_eq!(timeline.lines().filter(|line| line.starts_with("pvc/data")).count(), 1, "{timeline}");
    let crashes = home.log("one").matches(" crashed").count();
    assert_eq!(crashes, 1, "what a reset ends is not news:\n{}", home.log("one"));
}
