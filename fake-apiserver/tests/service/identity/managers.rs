//! Managers of fields: single fields, versions, and an empty list.

use super::*;

#[test]
fn managers_of_open_custom_objects_own_single_fields() {
    in_simulation(|client| async move {
        define(&client, true).await;
        let uri = format!("{THINGS}/a");
        let thing = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let unforced = |manager: &'static str, spec: Value| {
            let request = Request::patch(format!("{uri}?fieldManager={manager}"))
                .header("content-type", "application/apply-patch+yaml")
                .body(full(thing(spec).to_string()))
                .expect("a request");
            client.request(request)
        };
        assert_eq!(unforced("one", json!({"x": "1", "list": [1, 2], "deep": {"a": 1}})).await.0, 201);
        let (code, merged) = unforced("two", json!({"y": "2", "deep": {"b": 2}})).await;
        assert_eq!(code, 200, "{merged}");
        assert_eq!(merged["spec"], json!({"x": "1", "y": "2", "list": [1, 2], "deep": {"a": 1, "b": 2}}));
        // Lists of unknown type are one field.
        let (code, refused) = unforced("two", json!({"y": "2", "list": [1, 2, 3]})).await;
        assert_eq!(code, 409, "{refused}");
        assert!(refused["message"].as_str().unwrap_or_default().contains(".spec.list"), "{refused}");
        let (code, refused) = unforced("two", json!({"x": "3"})).await;
        assert_eq!(code, 409, "{refused}");
        let (code, dropped) = unforced("one", json!({})).await;
        assert_eq!((code, &dropped["spec"]), (200, &json!({"y": "2", "deep": {"b": 2}})), "{dropped}");
    });
}

#[test]
fn managers_own_fields_in_the_version_of_their_request() {
    in_simulation_with(tracked(), |client| async move {
        let mut definition = definition(false);
        let mut second = definition["spec"]["versions"][0].clone();
        (second["name"], second["storage"]) = ("v2".into(), false.into());
        definition["spec"]["versions"].as_array_mut().expect("versions").push(second);
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.post(definitions, definition).await.0, 201);
        let versions = |object: &Value| -> Vec<String> {
            let entries = object["metadata"]["managedFields"].as_array().expect("managers");
            entries
                .iter()
                .map(|e| {
                    format!(
                        "{} {}",
                        e["manager"].as_str().expect("a name"),
                        e["apiVersion"].as_str().expect("a version")
                    )
                })
                .collect()
        };
        let thing = |version: &str, spec: Value| json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let second = "/apis/example.com/v2/namespaces/default/things";
        let (code, made) = client.post(&format!("{second}?fieldManager=maker"), thing("v2", json!({"x": "1"}))).await;
        assert_eq!((code, versions(&made)), (201, vec!["maker example.com/v2".to_owned()]), "{made}");
        let (code, applied) = apply(&client, &format!("{THINGS}/a"), "one", &thing("v1", json!({"y": "1"}))).await;
        assert_eq!(
            (code, versions(&applied)),
            (200, vec!["one example.com/v1".to_owned(), "maker example.com/v2".to_owned()])
        );
        // The same manager moves to the other version, and releases the fields that it no longer applies.
        let (code, moved) = apply(&client, &format!("{second}/a"), "one", &thing("v2", json!({}))).await;
        assert_eq!((code, &moved["spec"]), (200, &json!({"x": "1"})), "{moved}");
        assert_eq!(versions(&moved), ["one example.com/v2", "maker example.com/v2"]);

        // A kind whose versions differ in their fields.
        let scaler = |version: &str, spec: Value| {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            let mut object = json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}});
            for (field, value) in spec.as_object().expect("a spec") {
                object["spec"][&**field] = value.clone();
            }
            object
        };
        let uri = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h");
        let old = scaler("v1", json!({"targetCPUUtilizationPercentage": 50}));
        let (code, made) = apply(&client, &uri("v1"), "one", &old).await;
        assert_eq!((code, &made["spec"]["targetCPUUtilizationPercentage"]), (201, &json!(50)), "{made}");
        assert_eq!(
            made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:targetCPUUtilizationPercentage"],
            json!({})
        );
        assert_eq!(versions(&made), ["one autoscaling/v1"]);
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}});
        let (code, moved) = apply(&client, &uri("v2"), "one", &scaler("v2", json!({"metrics": [metric]}))).await;
        assert_eq!((code, &moved["spec"]["metrics"][0]), (200, &metric), "{moved}");
        assert_eq!(versions(&moved), ["one autoscaling/v2"]);
    });
}

#[test]
fn an_empty_list_of_managers_resets_them() {
    in_simulation_with(tracked(), |client| async move {
        define(&client, false).await;
        for (collection, object) in sorts() {
            for managers in [json!([]), json!([{}])] {
                let uri = format!("{collection}/a");
                assert_eq!(client.post(collection, object.clone()).await.0, 201);
                let (_, mut stored) = client.get(&uri).await;
                assert!(stored["metadata"]["managedFields"].is_array(), "{stored}");
                stored["metadata"]["managedFields"] = managers;
                let (code, reset) = client.put(&uri, stored.clone()).await;
                assert_eq!((code, reset["metadata"].get("managedFields")), (200, None), "{reset}");
                let patch = json!({"metadata": {"managedFields": []}});
                let (code, same) = client.merge(&uri, patch).await;
                assert_eq!((code, same["metadata"].get("managedFields")), (200, None), "{same}");
                // A client that does not know managedFields omits them, and they stay absent.
                stored["metadata"].as_object_mut().expect("metadata").remove("managedFields");
                stored["metadata"]["resourceVersion"] = reset["metadata"]["resourceVersion"].clone();
                stored["metadata"]["labels"] = json!({"a": "b"});
                let (code, put) = client.put(&uri, stored).await;
                assert_eq!((code, put["metadata"].get("managedFields")), (200, None), "{put}");
                assert_eq!(client.delete(&format!("{uri}?gracePeriodSeconds=0")).await.0, 200);
            }
        }
    });
}
