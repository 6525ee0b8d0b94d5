//! Values of the wrong type, in the words of Go's decoder.

use fake_apiserver::kinds::schema::Shape;
use fake_apiserver::kinds::{self, schema};

use super::*;

/// Returns the path to which objects of a kind are posted.
fn collection(kind: &kinds::Kind) -> String {
    let group = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let namespace = if kind.namespaced { "namespaces/default/" } else { "" };
    format!("{group}/{}/{namespace}{}", kind.version, kind.plural)
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_the_types_of_go() {
    in_simulation(|client| async move {
        let pods = |spec: Value| ("pods", json!({"metadata": {"name": "a"}, "spec": spec}));
        let claims = |spec: Value| ("persistentvolumeclaims", json!({"metadata": {"name": "a"}, "spec": spec}));
        for ((plural, object), why) in [
            (
                ("storageclasses", json!({"metadata": {"name": "a"}, "provisioner": "p", "parameters": {"a": 1}})),
                "json: cannot unmarshal number into Go struct field StorageClass.parameters of type string",
            ),
            (
                ("storageclasses", json!({"metadata": {"name": "a"}, "volumeBindingMode": true})),
                "json: cannot unmarshal bool into Go struct field StorageClass.volumeBindingMode of type v1.VolumeBindingMode",
            ),
            (
                ("configmaps", json!({"metadata": {"name": "a", "labels": {"x": {}}}})),
                "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                ("configmaps", json!({"metadata": {"name": "a"}, "data": ["x"]})),
                "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                ("configmaps", json!({"metadata": "a"})),
                "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
            (
                pods(json!({"containers": [{"name": "c", "env": [{"name": "A", "value": 5}]}]})),
                "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
            ),
            (
                pods(json!({"containers": "c"})),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                pods(json!({"containers": ["c"]})),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
            ),
            (
                pods(json!({"terminationGracePeriodSeconds": 1.5})),
                "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
            ),
            (
                pods(json!({"containers": [{"ports": [{"containerPort": 3_000_000_000_u32}]}]})),
                "json: cannot unmarshal number 3000000000 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                pods(json!({"containers": [{"resources": {"limits": "x"}}]})),
                "json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
            ),
            (
                claims(json!({"accessModes": [7]})),
                "json: cannot unmarshal number into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type v1.PersistentVolumeAccessMode",
            ),
            (
                claims(json!({"accessModes": "ReadWriteOnce"})),
                "json: cannot unmarshal string into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type []v1.PersistentVolumeAccessMode",
            ),
            (
                claims(json!({"resources": {"requests": {"storage": "1Gib"}}})),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (claims(json!({"resources": {"requests": {"storage": "1KiM"}}})), "unable to parse quantity's suffix"),
            (
                ("secrets", json!({"metadata": {"name": "a"}, "data": {"k": "a?bc"}})),
                "illegal base64 data at input byte 1",
            ),
            (
                ("secrets", json!({"metadata": {"name": "a"}, "data": {"k": 1}})),
                "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
            ),
            (
                ("services", json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1, "targetPort": true}]}})),
                "json: cannot unmarshal bool into Go value of type int32",
            ),
            (
                ("leases", json!({"metadata": {"name": "a"}, "spec": {"renewTime": "now"}})),
                "parsing time \"now\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"now\" as \"2006\"",
            ),
            (
                ("configmaps", json!({"metadata": {"name": "a", "creationTimestamp": 5}})),
                "json: cannot unmarshal number into Go value of type string",
            ),
        ] {
            let kind = kinds::all().iter().find(|kind| kind.plural == plural).unwrap();
            let (code, refused) = client.post(&collection(kind), object).await;
            let head = format!("{0} in version \"{1}\" cannot be handled as a {0}: ", kind.kind, kind.version);
            assert_eq!((code, refused["message"].as_str().unwrap()), (400, format!("{head}{why}").as_str()));
        }
    });
}

#[test]
fn every_field_of_every_kind_refuses_what_it_cannot_be() {
    in_simulation(|client| async move {
        let mut refused = 0;
        for kind in kinds::all() {
            let of = schema::built_in(kind).unwrap();
            let uri = collection(kind);
            for field in &of.fields {
                // A value of a wrong type for each field. Types that decode themselves have other messages.
                let wrong = match field.shape {
                    Shape::Any | Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString => continue,
                    Shape::String | Shape::Bytes => json!({}),
                    _ => json!("x"),
                };
                let word = if wrong.is_string() { "string" } else { "object" };
                let object = json!({"metadata": {"name": "a"}, (field.name.as_str()): wrong});
                let (code, answer) = client.post(&uri, object).await;
                let message = answer["message"].as_str().unwrap().to_owned();
                let why = match field.name.as_str() {
                    name @ ("kind" | "apiVersion") => format!(
                        "couldn't get version/kind; json parse error: json: cannot unmarshal object into Go struct field .{name} of type string"
                    ),
                    name => format!(
                        "json: cannot unmarshal {word} into Go struct field {}.{name} of type {}",
                        kind.kind,
                        field.go_type()
                    ),
                };
                assert!(code == 400 && message.contains(&why), "{code} {message}\n{why}");
                refused += 1;
            }
        }
        assert!(refused > 250, "{refused}");
    });
}

#[test]
fn reviews_and_subresources_are_decoded() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (binding, eviction) = (format!("{PODS}/p/binding"), format!("{PODS}/p/eviction"));
        let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
        for (uri, body, why) in [
            (reviews, json!({"spec": {"user": 5}}), "SubjectAccessReviewSpec.spec.user of type string"),
            (reviews, json!({"spec": []}), "SubjectAccessReview.spec of type v1.SubjectAccessReviewSpec"),
            (&binding, json!({"target": "n"}), "Binding.target of type v1.ObjectReference"),
            (
                &eviction,
                json!({"deleteOptions": {"gracePeriodSeconds": "1"}}),
                "DeleteOptions.deleteOptions.gracePeriodSeconds of type int64",
            ),
            (token, json!({"spec": {"audiences": "a"}}), "TokenRequestSpec.spec.audiences of type []string"),
        ] {
            let (code, refused) = client.post(uri, body).await;
            let message = refused["message"].as_str().unwrap();
            assert!(code == 400 && message.ends_with(why), "{code} {message}");
        }
        let (code, refused) = client.delete_with(&format!("{PODS}/p"), json!({"gracePeriodSeconds": "1"})).await;
        let why = "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64";
        assert_eq!((code, &refused["message"]), (400, &json!(why)));
        for body in [json!([1]), json!("x"), json!(1)] {
            let (code, refused) = client.post(PODS, body.clone()).await;
            let message = refused["message"].as_str().unwrap();
            let why = "couldn't get version/kind; json parse error: json: cannot unmarshal ";
            let of =
                "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string";
            assert!(code == 400 && message.contains(why) && message.contains(of), "{message}");
            assert_eq!(client.delete_with(&format!("{PODS}/p"), body).await.0, 400);
        }
    });
}
