//! Starts of modelled containers: commands with a plain end, images that do not exist, and objects that a pod needs.

use super::*;

fn put(rig: &Rig, spec: &Value) {
    let mut spec = spec.clone();
    spec["nodeName"] = "node-a".into();
    let metadata = json!({ "name": "p", "uid": "uid-of-p" });
    rig.toy.put("pods", "default", json!({ "metadata": metadata, "spec": spec, "status": { "phase": "Pending" } }));
}

fn waiting(rig: &Rig, index: usize) -> Value {
    rig.toy.get("pods", "default", "p")["status"]["containerStatuses"][index]["state"]["waiting"].clone()
}

#[test]
fn a_pod_ends_by_its_commands() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        put(
            &rig,
            &json!({
                "restartPolicy": "Never",
                "initContainers": [
                    { "name": "slow", "image": "busybox", "command": ["sleep", "3"] },
                    { "name": "done", "image": "busybox", "command": ["true"] },
                ],
                "containers": [{ "name": "app", "image": "busybox", "command": ["sh", "-c", "sleep 2; exit 4"] }],
            }),
        );
        rig.until("failed", 10, || rig.pod_phase("p") == "Failed").await;
        let status = rig.toy.get("pods", "default", "p")["status"].clone();
        let code = |status: &Value| status["state"]["terminated"]["exitCode"].clone();
        assert_eq!(code(&status["containerStatuses"][0]), 4);
        let inits = &status["initContainerStatuses"];
        assert_eq!((code(&inits[0]), code(&inits[1])), (json!(0), json!(0)));
    });
}

#[test]
fn a_container_without_its_image_waits_beside_the_others() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        put(
            &rig,
            &json!({
                "containers": [{ "name": "app", "image": "busybox" }, { "name": "other", "image": "web:404" }],
            }),
        );
        rig.until("a pull", 3, || waiting(&rig, 1)["reason"] == "ErrImagePull").await;
        rig.until("a wait", 3, || waiting(&rig, 1)["reason"] == "ImagePullBackOff").await;
        let status = rig.toy.get("pods", "default", "p")["status"].clone();
        assert!(status["containerStatuses"][0]["state"]["running"].is_object(), "{status}");
        assert_eq!(status["phase"], "Pending");
        let images = json!([{ "name": "app", "image": "busybox" }, { "name": "other", "image": "web:200" }]);
        let patch = json!({ "metadata": { "generation": 2 }, "spec": { "containers": images } });
        rig.toy.patch("pods", "default", "p", &patch);
        rig.until("running", 2, || rig.pod_phase("p") == "Running").await;
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        let events = rig.toy.events();
        let has = |text: &str| events.iter().any(|event| event == text);
        assert!(has("Failed Error: ErrImagePull") && has("BackOff Back-off pulling image \"web:404\""), "{events:?}");
        assert!(has("Killing Stopping container app") && has("Killing Stopping container other"), "{events:?}");
    });
}

#[test]
fn a_pod_waits_for_the_objects_that_it_needs() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        let key = json!({ "configMapKeyRef": { "name": "m", "key": "k" } });
        let env = json!([{ "name": "K", "valueFrom": key }]);
        put(&rig, &json!({ "containers": [{ "name": "app", "image": "busybox", "env": env }] }));
        rig.until("an error", 3, || waiting(&rig, 0)["reason"] == "CreateContainerConfigError").await;
        assert_eq!(waiting(&rig, 0)["message"], "configmap \"m\" not found");
        rig.toy.put("configmaps", "default", json!({ "metadata": { "name": "m" }, "data": { "k": "v" } }));
        rig.until("running", 20, || rig.pod_phase("p") == "Running").await;
    });
}

#[test]
fn the_status_of_a_pod_follows_its_spec_at_once() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        put(&rig, &json!({ "containers": [{ "name": "app", "image": "busybox" }] }));
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let resized = json!([{ "name": "app", "image": "busybox", "resources": { "requests": { "cpu": "2" } } }]);
        let patch = json!({ "metadata": { "generation": 2 }, "spec": { "containers": resized } });
        rig.toy.patch("pods", "default", "p", &patch);
        let status = || rig.toy.get("pods", "default", "p")["status"].clone();
        rig.until("observed", 1, || status()["observedGeneration"] == 2).await;
        assert_eq!(status()["containerStatuses"][0]["allocatedResources"]["cpu"], "2");
    });
}

#[test]
fn a_running_container_starts_again_with_its_new_image() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        let of = |app: &str| json!([{ "name": "app", "image": app }, { "name": "other", "image": "busybox:1" }]);
        put(&rig, &json!({ "restartPolicy": "Never", "containers": of("busybox:1") }));
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let status = |index: usize| rig.toy.get("pods", "default", "p")["status"]["containerStatuses"][index].clone();
        let patch = json!({ "metadata": { "generation": 2 }, "spec": { "containers": of("busybox:2") } });
        rig.toy.patch("pods", "default", "p", &patch);
        let again = || status(0)["restartCount"] == 1 && status(0)["state"]["running"].is_object();
        rig.until("started again", 5, again).await;
        assert_eq!((status(0)["image"].clone(), status(1)["restartCount"].clone()), (json!("busybox:2"), json!(0)));
        assert_eq!(status(0)["lastState"]["terminated"]["exitCode"], 0);
        let events = rig.toy.events();
        let kill = "Killing Container app definition changed, will be restarted";
        assert!(events.iter().any(|event| event == kill), "{events:?}");
    });
}
