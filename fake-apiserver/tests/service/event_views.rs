//! One Event in its two groups, each with Go's zero values for its type.

use fake_apiserver::Config;

use super::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const VIEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn names(object: &Value) -> Vec<String> {
    object.as_object().unwrap().iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn empty_event_fields_depend_on_the_group() {
    in_simulation_with(Config { track_managers: true, ..Config::default() }, |client| async move {
        let event =
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
        assert_eq!(client.post(CORE, event).await.0, 201);
        let core = client.get(&format!("{CORE}/e")).await.1;
        let always =
            ["eventTime", "firstTimestamp", "lastTimestamp", "reportingComponent", "reportingInstance", "source"];
        assert!(always.iter().all(|name| core.get(name).is_some()), "{core}");
        let written = [
            "apiVersion",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "deprecatedSource",
            "eventTime",
            "kind",
            "metadata",
            "regarding",
        ];
        let listed = client.get(VIEW).await.1["items"][0].clone();
        for (seen, types) in [(client.get(&format!("{VIEW}/e")).await.1, true), (listed, false)] {
            let wanted: Vec<&str> =
                written.into_iter().filter(|name| types || !["apiVersion", "kind"].contains(name)).collect();
            assert_eq!(names(&seen), wanted, "{seen}");
        }
        let mut watch = client.watch(&format!("{VIEW}?watch=1")).await;
        assert_eq!(names(&watch.next().await.unwrap()["object"]), written);
        // A set field has the name of its group.
        let other = json!({"metadata": {"name": "f", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "n",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
        assert_eq!(client.post(VIEW, other).await.0, 201);
        let seen = client.get(&format!("{VIEW}/f")).await.1;
        assert_eq!(
            (&seen["reportingController"], &seen["note"], &seen["type"]),
            (&json!("c"), &json!("n"), &json!("Normal"))
        );
        assert_eq!(client.get(&format!("{CORE}/f")).await.1["reportingComponent"], "c");
        // A patch of one view keeps the zero values of the other.
        let (code, seen) = client.merge(&format!("{VIEW}/e"), json!({"note": "x"})).await;
        assert_eq!((code, seen.get("reportingController")), (200, None), "{seen}");
    });
}
