//! Ephemeral containers of a running pod.

use super::*;

#[test]
fn an_ephemeral_container_runs_beside_the_others_until_its_pod_stops() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let added = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "busybox" }] } });
        rig.toy.patch("pods", "default", "p", &added);
        let status = || rig.toy.get("pods", "default", "p")["status"]["ephemeralContainerStatuses"][0].clone();
        rig.until("running", 3, || status()["state"]["running"].is_object()).await;
        assert_eq!(status()["name"], "debug");
        assert_eq!(rig.pod_phase("p"), "Running");
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        let events = rig.toy.events();
        assert!(events.iter().any(|event| event == "Killing Stopping container debug"), "{events:?}");
    });
}
