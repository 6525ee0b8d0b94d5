//! Messages of refusals, compared with a real server's.

use super::*;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Returns the message of an answer, without the name of its object.
fn code_and_message((code, status): &(u16, Value)) -> (u16, String) {
    let message = status["message"].as_str().unwrap_or_default();
    (*code, message.split_once(" is invalid: ").map_or(message, |(_, why)| why).to_owned())
}

fn volume() -> Value {
    json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d", "volumeHandle": "h"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}},
    }})
}

#[test]
fn an_immutable_volume_field_is_reported_with_a_diff() {
    in_simulation(|client| async move {
        let (code, made) = client.post(VOLUMES, volume()).await;
        assert_eq!(code, 201, "{made}");
        let uri = format!("{VOLUMES}/v");
        let other = client.merge(&uri, json!({"spec": {"csi": {"volumeHandle": "other"}}})).await;
        let why = "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n\
                   @@ -22,7 +22,7 @@\n  \"StorageOS\": null,\n  \"CSI\": {\n   \"Driver\": \"d\",\n\
                   -  \"VolumeHandle\": \"h\",\n+  \"VolumeHandle\": \"other\",\n   \"ReadOnly\": false,\n   \
                   \"FSType\": \"\",\n   \"VolumeAttributes\": null,\n";
        assert_eq!(code_and_message(&other), (422, why.to_owned()));
        let block = client.merge(&uri, json!({"spec": {"volumeMode": "Block"}})).await;
        assert_eq!(
            code_and_message(&block),
            (422, "volumeMode: Invalid value: \"Block\": field is immutable".to_owned())
        );
        let affinity = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}}});
        let why = "nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\
                   \"zone\",\"Operator\":\"In\",\"Values\":[\"b\"]}],\"MatchFields\":null}]}}: field is immutable, except for \
                   updating from beta label to GA";
        assert_eq!(code_and_message(&client.merge(&uri, affinity).await), (422, why.to_owned()));
        // The only part of a source that may be added later.
        let secret = json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "default"}}}});
        assert_eq!(client.merge(&uri, secret).await.0, 200);
    });
}

#[test]
fn an_unbound_claim_does_not_grow_and_says_why() {
    in_simulation(|client| async move {
        client.post(CLAIMS, claim("c")).await;
        let uri = format!("{CLAIMS}/c");
        // The size of an unbound claim cannot change: there is only one error.
        let small = json!({"spec": {"resources": {"requests": {"storage": "1Mi"}}}});
        let (code, refused) = client.merge(&uri, small).await;
        assert_eq!((code, refused["details"]["causes"].as_array().map(Vec::len)), (422, Some(1)), "{refused}");
        assert!(code_and_message(&(code, refused)).1.starts_with("spec: Forbidden: spec is immutable after creation"));
        let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        let refused = client.merge(&uri, grown.clone()).await;
        let why = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims\n@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": \
                   null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \
                   \"VolumeName\": \"\",\n";
        assert_eq!(code_and_message(&refused), (422, why.to_owned()));
        // For a bound claim, its class decides.
        client.merge(&format!("{uri}/status"), json!({"status": {"phase": "Bound"}})).await;
        let (code, refused) = client.merge(&uri, grown).await;
        assert_eq!(code, 403, "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("only dynamically provisioned pvc can be resized"), "{message}");
        let mode = client.merge(&uri, json!({"spec": {"volumeMode": "Block"}})).await;
        assert!(
            code_and_message(&mode).1.ends_with("volumeMode: Invalid value: \"Block\": field is immutable]"),
            "{mode:?}"
        );
    });
}

#[test]
fn attachments_classes_nodes_and_capacities_do_not_change_either() {
    in_simulation(|client| async move {
        let attachment = json!({"metadata": {"name": "a"},
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        assert_eq!(client.post(ATTACHMENTS, attachment).await.0, 201);
        let moved = client.merge(&format!("{ATTACHMENTS}/a"), json!({"spec": {"nodeName": "m"}})).await;
        let why = "spec: Invalid value: {\"Attacher\":\"d\",\"Source\":{\"PersistentVolumeName\":\"v\",\
                   \"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable";
        assert_eq!(code_and_message(&moved), (422, why.to_owned()));
        let long = json!({"status": {"attached": false, "attachError": {"message": "x".repeat(1025)}}});
        let why = "status.attachError.message: Too long: may not be more than 262144 bytes";
        assert_eq!(
            code_and_message(&client.merge(&format!("{ATTACHMENTS}/a/status"), long).await),
            (422, why.to_owned())
        );

        client.post(CLASSES, json!({"metadata": {"name": "s"}, "provisioner": "d"})).await;
        let change = json!({"provisioner": "e", "parameters": {"a": "b"}, "reclaimPolicy": "Retain"});
        let why = "[parameters: Invalid value: {\"a\":\"b\"}: field is immutable, provisioner: Invalid value: \"e\": \
                   field is immutable, reclaimPolicy: Invalid value: \"Retain\": field is immutable]";
        assert_eq!(code_and_message(&client.merge(&format!("{CLASSES}/s"), change).await), (422, why.to_owned()));
        let mode = client.merge(&format!("{CLASSES}/s"), json!({"volumeBindingMode": "WaitForFirstConsumer"})).await;
        let why = "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable";
        assert_eq!(code_and_message(&mode), (422, why.to_owned()));

        let nodes = "/apis/storage.k8s.io/v1/csinodes";
        client
            .post(nodes, json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "1"}]}}))
            .await;
        let other = json!({"spec": {"drivers": [{"name": "d", "nodeID": "2", "allocatable": {"count": 3}}]}});
        let why = "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"2\",\"TopologyKeys\":null,\
                   \"Allocatable\":null}: field is immutable";
        assert_eq!(code_and_message(&client.merge(&format!("{nodes}/n"), other).await), (422, why.to_owned()));

        let drivers = "/apis/storage.k8s.io/v1/csidrivers";
        client.post(drivers, json!({"metadata": {"name": "d"}, "spec": {}})).await;
        let other = client.merge(&format!("{drivers}/d"), json!({"spec": {"attachRequired": false}})).await;
        let why = "spec.attachedRequired: Invalid value: false: field is immutable";
        assert_eq!(code_and_message(&other), (422, why.to_owned()));

        let capacities = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities";
        client.post(capacities, json!({"metadata": {"name": "c"}, "storageClassName": "s", "capacity": "1Gi"})).await;
        let uri = format!("{capacities}/c");
        assert_eq!(client.merge(&uri, json!({"capacity": "2Gi"})).await.0, 200);
        let other = client.merge(&uri, json!({"storageClassName": "t"})).await;
        assert_eq!(
            code_and_message(&other),
            (422, "storageClassName: Invalid value: \"t\": field is immutable".to_owned())
        );
    });
}

#[test]
fn selectors_are_refused_in_gos_words() {
    in_simulation(|client| async move {
        for (query, why) in [
            ("labelSelector=a%3Db%3Dc", "found '=', expected: ',' or 'end of string'"),
            ("labelSelector=a%20b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("labelSelector=a%20in%20b", "unable to parse requirement: found 'b' expected: '('"),
            ("fieldSelector=spec.x%3D1", "field label not supported: spec.x"),
            ("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'"),
            ("fieldSelector=metadata.name%3Da%3Db", "invalid field selector: unescaped character in value: 61"),
        ] {
            let answer = client.get(&format!("{PODS}?{query}")).await;
            assert_eq!(code_and_message(&answer), (400, why.to_owned()), "{query}");
        }
        let answer = client.get(&format!("{VOLUMES}?fieldSelector=spec.x%3D1")).await;
        let why = "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        assert_eq!(code_and_message(&answer), (400, why.to_owned()));
    });
}

#[test]
fn immutable_field_errors_print_values_as_go() {
    in_simulation(|client| async move {
        let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        let jobs = "/apis/batch/v1/namespaces/default/jobs";
        assert_eq!(client.post(jobs, job).await.0, 201);
        let images = json!({"spec": {"template": {"metadata": {"annotations": {"x": "<y>"}}}}});
        let (code, code_and_message) = code_and_message(&client.merge(&format!("{jobs}/j"), images).await);
        let start = "spec.template: Invalid value: {\"labels\":{\"a\":\"b\",";
        assert!(
            code == 422 && code_and_message.starts_with(start) && code_and_message.ends_with("}}: field is immutable"),
            "{code_and_message}"
        );
        let shown = "\"annotations\":{\"x\":\"\\u003cy\\u003e\"},\"Spec\":{\"Volumes\":null,\"InitContainers\":null,\
                     \"Containers\":[{\"Name\":\"c\",\"Image\":\"i\",\"Command\":null,";
        assert!(code_and_message.contains(shown), "{code_and_message}");

        let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
        let parent = |name: &str| json!({"resource": "services", "namespace": "a", "name": name});
        let address = json!({"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": parent("b")}});
        assert_eq!(client.post(addresses, address).await.0, 201);
        let moved = client.merge(&format!("{addresses}/10.0.0.9"), json!({"spec": {"parentRef": parent("c")}})).await;
        let why = "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"a\",\
                   \"Name\":\"c\"}: field is immutable";
        assert_eq!(self::code_and_message(&moved), (422, why.to_owned()));
        // A map is shown as a whole, and a removed one as null.
        let class = json!({"metadata": {"name": "s"}, "provisioner": "d", "parameters": {"type": "a&b"}});
        assert_eq!(client.post(CLASSES, class).await.0, 201);
        let other = client.merge(&format!("{CLASSES}/s"), json!({"parameters": {"type": "<c>"}})).await;
        let why = "parameters: Invalid value: {\"type\":\"\\u003cc\\u003e\"}: field is immutable";
        assert_eq!(self::code_and_message(&other), (422, why.to_owned()));
        let gone = client.merge(&format!("{CLASSES}/s"), json!({"parameters": null})).await;
        assert_eq!(
            self::code_and_message(&gone),
            (422, "parameters: Invalid value: null: field is immutable".to_owned())
        );
    });
}

#[test]
fn updates_are_validated_like_creates() {
    in_simulation(|client| async move {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let (roles, bindings) = (format!("{rbac}/clusterroles"), format!("{rbac}/clusterrolebindings"));
        let (quotas, drivers) =
            ("/api/v1/namespaces/default/resourcequotas", "/apis/storage.k8s.io/v1/csidrivers".to_owned());
        let vacs = "/apis/storage.k8s.io/v1/volumeattributesclasses";
        let large = json!({"a": "x".repeat(256 << 10)});
        let too_long = "parameters: Too long: may not be more than 262144 bytes";
        for (uri, object, change, why) in [
            (
                CLASSES,
                json!({"provisioner": "p"}),
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "k"}]}]}),
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ),
            (
                quotas,
                json!({"spec": {"hard": {"pods": "1"}}}),
                json!({"spec": {"hard": {"pods": "-1"}}}),
                "spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (
                &roles,
                json!({"rules": []}),
                json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
                "rules[0].verbs: Required value: verbs must contain at least one value",
            ),
            (
                &bindings,
                json!({"roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}}),
                json!({"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ""}]}),
                "subjects[0].name: Required value",
            ),
            (
                &drivers,
                json!({"spec": {}}),
                json!({"spec": {"nodeAllocatableUpdatePeriodSeconds": 1}}),
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 1: must be greater than or equal to 10 seconds",
            ),
            (CLASSES, json!({"provisioner": "p"}), json!({"parameters": large}), too_long),
            (vacs, json!({"driverName": "d", "parameters": {"a": "b"}}), json!({"parameters": large}), too_long),
        ] {
            let with = |more: &Value| {
                let mut whole = object.clone();
                for (field, value) in more.as_object().unwrap() {
                    whole[field.as_str()] = value.clone();
                }
                whole
            };
            let (code, made) = client.post(uri, with(&json!({"metadata": {"name": "a"}}))).await;
            assert_eq!(code, 201, "{made}");
            let mut changed = with(&change);
            changed["metadata"] = json!({"name": "b"});
            let created = client.post(uri, changed).await;
            let patched = client.merge(&format!("{uri}/a"), change).await;
            for (code, refused) in [created, patched] {
                let code_and_message = refused["message"].as_str().unwrap();
                assert!(
                    code == 422 && code_and_message.contains(why),
                    "{uri}: {code} {}",
                    &code_and_message[..code_and_message.len().min(300)]
                );
            }
            client.delete(&format!("{uri}/a")).await;
        }
    });
}

#[test]
fn maps_and_secrets_hold_a_mebibyte() {
    use base64::Engine;
    let encode = |size: usize| base64::engine::general_purpose::STANDARD.encode("x".repeat(size));
    const LIMIT: usize = 1 << 20;
    in_simulation(|client| async move {
        let secrets = "/api/v1/namespaces/default/secrets";
        let too_long = "Too long: may not be more than 1048576 bytes";
        for (uri, field, whole, rest, why) in [
            (CONFIGS, "data", "x".repeat(LIMIT), "y".to_owned(), format!("[]: {too_long}")),
            (CONFIGS, "binaryData", encode(LIMIT), encode(1), format!("[]: {too_long}")),
            (secrets, "data", encode(LIMIT), encode(1), format!("data: {too_long}")),
        ] {
            // The limit applies to the values, and to all of them together.
            let name = field.to_lowercase();
            let most = json!({"metadata": {"name": name}, field: {"whole": whole}});
            let (code, refused) = client.post(uri, most).await;
            assert_eq!(code, 201, "{}", refused["message"]);
            let object = format!("{uri}/{name}");
            let add = json!({field: {"rest": rest}});
            for (code, refused) in [
                client.merge(&object, add.clone()).await,
                client.send(Method::PATCH, &object, "application/strategic-merge-patch+json", Some(add.clone())).await,
                client.post(uri, json!({"metadata": {"name": "x"}, field: {"whole": whole, "rest": rest}})).await,
                client.put(&object, json!({"metadata": {"name": name}, field: {"whole": whole, "rest": rest}})).await,
            ] {
                assert_eq!((code, code_and_message(&(code, refused)).1), (422, why.clone()), "{uri} {field}");
            }
        }
        // Keys are validated on updates, too.
        for (key, why) in [
            ("..", "must not be '..'".to_owned()),
            ("..a", "must not start with '..'".to_owned()),
            (&"k".repeat(254), "must be no more than 253 characters".to_owned()),
        ] {
            let refused = client.merge(&format!("{CONFIGS}/data"), json!({"data": {"whole": null, key: "v"}})).await;
            assert_eq!(code_and_message(&refused), (422, format!("data[{key}]: Invalid value: {key:?}: {why}")));
        }
    });
}

#[test]
fn a_resource_version_that_is_none_is_refused_in_gos_words() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("c")).await;
        let invalid = "strconv.ParseUint: parsing \"abc\": invalid syntax";
        let shown = format!("invalid resource version: resourceVersion: Invalid value: \"abc\": {invalid}");
        let queries = [
            "/c?resourceVersion=abc",
            "?resourceVersion=abc",
            "?resourceVersion=abc&limit=1",
            "?resourceVersion=abc&resourceVersionMatch=Exact",
            "?watch=1&resourceVersion=abc",
            "?watch=1&resourceVersion=abc&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ];
        for query in queries {
            let answer = client.get(&format!("{CONFIGS}{query}")).await;
            assert_eq!(code_and_message(&answer), (400, shown.clone()), "{query}");
        }
        // Invalid combinations are reported first.
        let answer = client.get(&format!("{CONFIGS}?resourceVersion=abc&continue=x")).await;
        let why = "specifying resource version is not allowed when using continue";
        assert_eq!(code_and_message(&answer), (400, why.to_owned()));
        let answer = client.get(&format!("{CONFIGS}?watch=1&resourceVersion=abc&resourceVersionMatch=Exact")).await;
        assert_eq!(answer.0, 422);
        let answer = client.get(&format!("{CONFIGS}?resourceVersion=18446744073709551616")).await;
        let why = "strconv.ParseUint: parsing \"18446744073709551616\": value out of range";
        assert_eq!(
            answer.1["message"],
            format!("invalid resource version: resourceVersion: Invalid value: \"18446744073709551616\": {why}")
        );
        let mut object = config("c");
        object["metadata"]["resourceVersion"] = "abc".into();
        assert_eq!(code_and_message(&client.put(&format!("{CONFIGS}/c"), object).await), (500, invalid.to_owned()));
        let patch = json!({"metadata": {"resourceVersion": "abc"}});
        assert_eq!(code_and_message(&client.merge(&format!("{CONFIGS}/c"), patch).await), (500, invalid.to_owned()));
    });
}

#[test]
fn patches_are_refused_in_upstreams_words() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("c")).await;
        let uri = format!("{CONFIGS}/c");
        let patch = async |media: &str, patch: Value| client.send(Method::PATCH, &uri, media, Some(patch)).await;
        let json_patch = "application/json-patch+json";
        let (code, status) = patch(json_patch, json!([{"op": "remove", "path": "/data/none"}])).await;
        let why = "the server rejected our request due to an error in our request";
        assert_eq!(
            (code, status),
            (
                422,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": why,
                    "reason": "Invalid", "details": {}, "code": 422})
            )
        );
        for (body, why) in [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!([{"op": 1}]), "number into Go struct field jsonPatchOp.op of type string"),
        ] {
            let why = format!("error decoding patch: json: cannot unmarshal {why}");
            assert_eq!(code_and_message(&patch(json_patch, body).await), (400, why));
        }
        let merge = patch("application/merge-patch+json", json!([])).await;
        let why = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(code_and_message(&merge), (400, why.to_owned()));
        client.post(PODS, pod("p")).await;
        let keyless = json!({"spec": {"containers": [{"image": "x"}]}});
        let answer = client
            .send(Method::PATCH, &format!("{PODS}/p"), "application/strategic-merge-patch+json", Some(keyless))
            .await;
        let why = "map: map[image:x] does not contain declared merge key: name";
        assert_eq!(code_and_message(&answer), (500, why.to_owned()));
    });
}

#[test]
fn bodies_are_refused_in_upstreams_words() {
    in_simulation(|client| async move {
        let send = async |method: Method, uri: &str, media: &str, body: &str| {
            let request = http::Request::builder().method(method).uri(uri).header("content-type", media);
            code_and_message(&client.request(request.body(substrate::body::full(body.to_owned())).unwrap()).await)
        };
        let json = "application/json";
        for (body, why, summary) in [
            ("hello", "invalid character 'h' looking for beginning of value", "68656c6c6f"),
            ("{\"kind\": ", "unexpected end of JSON input", "{\"kind\": "),
            ("", "unexpected end of JSON input", "<empty>"),
        ] {
            let why = format!(
                "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse \
                 error: {why} ({summary})"
            );
            assert_eq!(send(Method::POST, PODS, json, body).await, (400, why), "{body}");
        }
        client.post(CONFIGS, config("c")).await;
        let uri = format!("{CONFIGS}/c");
        let patched = send(Method::PATCH, &uri, "application/merge-patch+json", "{").await;
        assert_eq!(patched, (400, "error decoding patch: unexpected end of JSON input".to_owned()));
        let why = "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value";
        assert_eq!(send(Method::DELETE, &uri, json, "x").await, (400, why.to_owned()));
        for (sent, why) in [
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
                "ConfigMap in version \"v1\" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): \
                 unknown conversion",
            ),
            (
                json!({"apiVersion": "v2", "kind": "Pod"}),
                "Pod in version \"v2\" cannot be handled as a Pod: no kind \"Pod\" is registered for version \"v2\" in \
                 scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            ),
        ] {
            assert_eq!(code_and_message(&client.post(PODS, sent).await), (400, why.to_owned()));
        }
        let scaler =
            json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}});
        let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let why =
            "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)";
        assert_eq!(code_and_message(&client.post(scalers, scaler).await), (400, why.to_owned()));
        let mut moved = config("c");
        moved["metadata"]["namespace"] = "other".into();
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        assert_eq!(code_and_message(&client.put(&uri, moved).await), (400, why.to_owned()));
    });
}

/// An object must have the name that its URL has.
#[test]
fn an_object_without_its_name_is_no_update() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let uri = format!("{CONFIGS}/a");
        let why = "the name of the object (a based on URL) was undeterminable: name must be provided";
        let (code, refused) = client.send(Method::PUT, &uri, "application/json", Some(json!({"data": {}}))).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(why)));
        let patch = json!([{"op": "remove", "path": "/metadata/name"}]);
        let (code, refused) = client.send(Method::PATCH, &uri, "application/json-patch+json", Some(patch)).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(why)));
        // An apply to an existing object may omit the name; one that creates an object may not.
        let apply = "application/apply-patch+yaml";
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}});
        let applied = format!("{uri}?fieldManager=m");
        assert_eq!(client.send(Method::PATCH, &applied, apply, Some(body.clone())).await.0, 200);
        let (code, refused) =
            client.send(Method::PATCH, &format!("{CONFIGS}/b?fieldManager=m"), apply, Some(body)).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(&*why.replace("(a ", "(b "))));
    });
}

#[test]
fn options_are_refused_as_upstream_refuses_them() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("c")).await;
        let (long, one) = ("m".repeat(129), format!("{CONFIGS}/c"));
        let merge = "application/merge-patch+json";
        let apply = "application/apply-patch+yaml";
        let exact = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
        for (method, uri, media, why) in [
            (
                Method::POST,
                format!("{CONFIGS}?dryRun=x"),
                "",
                "CreateOptions: dryRun: Unsupported value: [\"x\"]: supported values: \"All\"",
            ),
            (
                Method::PUT,
                format!("{one}?dryRun=All&dryRun=x&fieldValidation=y"),
                "",
                "UpdateOptions: [dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \"All\", fieldValidation: \
                 Unsupported value: \"y\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]",
            ),
            (
                Method::POST,
                format!("{CONFIGS}?fieldManager={long}"),
                "",
                "CreateOptions: fieldManager: Too long: may not be more than 128 bytes",
            ),
            (
                Method::POST,
                format!("{CONFIGS}?fieldManager=a%0A"),
                "",
                "CreateOptions: fieldManager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
            ),
            (
                Method::PATCH,
                format!("{one}?force=true"),
                merge,
                "PatchOptions: force: Forbidden: may not be specified for non-apply patch",
            ),
            (
                Method::PATCH,
                format!("{one}?force=true"),
                apply,
                "PatchOptions: fieldManager: Required value: is required for apply patch",
            ),
            (
                Method::DELETE,
                format!("{one}?dryRun=x"),
                "",
                "DeleteOptions: dryRun: Unsupported value: [\"x\"]: supported values: \"All\"",
            ),
            (
                Method::DELETE,
                format!("{one}?orphanDependents=true&propagationPolicy=Orphan"),
                "",
                "DeleteOptions: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation \
                 cannot be both set",
            ),
            (
                Method::GET,
                format!("{CONFIGS}?resourceVersionMatch=x&sendInitialEvents=1"),
                "",
                &format!(
                    "ListOptions: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion \
                     is provided, resourceVersionMatch: Unsupported value: \"x\": {exact}, sendInitialEvents: Forbidden: \
                     sendInitialEvents is forbidden for list]"
                ),
            ),
            (
                Method::GET,
                format!("{CONFIGS}?watch=1&continue=x"),
                "",
                "ListOptions: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
        ] {
            let request = http::Request::builder().method(method.clone()).uri(&uri).header("content-type", media);
            let body =
                if matches!(method, Method::GET | Method::DELETE) { String::new() } else { config("c").to_string() };
            let (code, status) = client.request(request.body(substrate::body::full(body)).unwrap()).await;
            let (of, why) = why.split_once(": ").unwrap();
            let message = format!("{of}.meta.k8s.io \"\" is invalid: {why}");
            assert_eq!((code, &status["message"]), (422, &json!(message)), "{method} {uri}");
        }
        // The query counts only without a body.
        let (code, _) = client.delete_with(&format!("{one}?dryRun=x"), json!({"dryRun": ["All"]})).await;
        assert_eq!((code, client.get(&one).await.0), (200, 200));
    });
}
