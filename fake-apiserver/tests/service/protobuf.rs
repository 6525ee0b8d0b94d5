//! Clients that use protobuf: the CSI sidecars, the controller manager, the scheduler, the kubelet.

use bytes::{Buf, BytesMut};
use fake_apiserver::wire::protobuf::{decode, encode, envelope};
use http::Request;
use http_body_util::BodyExt;
use substrate::body::{Body, call, collect, empty, full};

use super::*;

const MEDIA: &str = "application/vnd.kubernetes.protobuf";
const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// Encodes an object with its envelope.
fn packed(object: &Value) -> Vec<u8> {
    let text = |name: &str| object[name].as_str().unwrap();
    let message = encode(text("apiVersion"), text("kind"), object).unwrap();
    envelope(text("apiVersion"), text("kind"), &message).to_vec()
}

/// Sends a request with a protobuf body, and decodes the answer, whose media type must be protobuf.
async fn send(client: &client::Client, method: Method, uri: &str, body: Option<Vec<u8>>) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", MEDIA)
        .header("accept", ACCEPT)
        .header("user-agent", "test")
        .body(body.map_or_else(empty, full))
        .unwrap();
    let response = call(client.service(), request).await.unwrap();
    assert_eq!(response.headers()["content-type"], MEDIA, "{uri}");
    let code = response.status().as_u16();
    let bytes = collect(response.into_body(), 1 << 20).await.unwrap();
    (code, unpacked(&bytes))
}

/// Decodes an object, or a list as its metadata and the names of its items.
fn unpacked(bytes: &[u8]) -> Value {
    decode(bytes, ("", "")).unwrap()
}

#[test]
fn objects_are_written_and_read_as_protobuf() {
    in_simulation(|client| async move {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "1"}},
            "data": {"k": "v"}, "binaryData": {"b": "AQI="}});
        let (code, created) = send(&client, Method::POST, CONFIGS, Some(packed(&object))).await;
        assert_eq!((code, &created["metadata"]["namespace"]), (201, &json!("default")));
        let uri = format!("{CONFIGS}/a");
        let (_, stored) = client.get(&uri).await;
        assert_eq!((&stored["data"], &stored["binaryData"]), (&object["data"], &object["binaryData"]));
        assert_eq!(send(&client, Method::GET, &uri, None).await, (200, stored.clone()));
        let mut changed = stored.clone();
        changed["data"]["k"] = json!("w");
        let (code, updated) = send(&client, Method::PUT, &uri, Some(packed(&changed))).await;
        assert_eq!((code, &updated["data"]["k"]), (200, &json!("w")));
        let (code, conflict) = send(&client, Method::PUT, &uri, Some(packed(&stored))).await;
        assert_eq!((code, &conflict["kind"], &conflict["reason"]), (409, &json!("Status"), &json!("Conflict")));
        let wrong = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}});
        assert_eq!(send(&client, Method::DELETE, &uri, Some(packed(&wrong))).await.0, 409);
        let options = json!({"apiVersion": "storage.k8s.io/v1", "kind": "DeleteOptions",
            "preconditions": {"uid": stored["metadata"]["uid"]}});
        let (code, gone) = send(&client, Method::DELETE, &uri, Some(packed(&options))).await;
        assert_eq!((code, &gone["status"]), (200, &json!("Success")));
        assert_eq!(send(&client, Method::GET, &uri, None).await.0, 404);
    });
}

#[test]
fn pods_are_bound_and_evicted_by_protobuf() {
    in_simulation(|client| async move {
        for name in ["a", "b"] {
            client.post(PODS, pod(name)).await;
        }
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "namespace": "default"},
            "target": {"kind": "Node", "name": "node-a"}});
        let (code, status) = send(&client, Method::POST, &format!("{PODS}/a/binding"), Some(packed(&binding))).await;
        assert_eq!((code, &status["status"]), (201, &json!("Success")));
        assert_eq!(client.get(&format!("{PODS}/a")).await.1["spec"]["nodeName"], "node-a");
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"},
            "deleteOptions": {"gracePeriodSeconds": 0}});
        assert_eq!(send(&client, Method::POST, &format!("{PODS}/b/eviction"), Some(packed(&eviction))).await.0, 201);
        assert_eq!(client.get(&format!("{PODS}/b")).await.0, 404);
    });
}

#[test]
fn bodies_of_the_wrong_kind_or_of_no_kind_are_refused() {
    in_simulation(|client| async move {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let (code, status) = send(&client, Method::POST, CONFIGS, Some(packed(&secret))).await;
        assert_eq!(code, 400, "{status}");
        for body in [&b"k8s\0\xff"[..], b"{}", b"k8s", &envelope("v1", "Nothing", b"")] {
            let (code, status) = send(&client, Method::POST, CONFIGS, Some(body.to_vec())).await;
            assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
        }
        // A patch in protobuf is refused.
        assert_eq!(send(&client, Method::PATCH, &format!("{CONFIGS}/a"), Some(packed(&secret))).await.0, 415);
    });
}

/// Frames of a protobuf watch.
struct Frames {
    body: Body,
    buffer: BytesMut,
}

impl Frames {
    async fn open(client: &client::Client, uri: &str, accept: &str) -> Self {
        let request = Request::get(uri).header("accept", accept).body(empty()).unwrap();
        let response = call(client.service(), request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
        Self { body: response.into_body(), buffer: BytesMut::new() }
    }

    /// Returns the next event that is there already: its type and its object.
    async fn next(&mut self) -> Option<(String, Value)> {
        while self.buffer.len() < 4 || self.buffer.len() < 4 + (&self.buffer[..4]).get_u32() as usize {
            let frame = tokio::time::timeout(Duration::from_millis(1), self.body.frame()).await.ok()??;
            self.buffer.extend_from_slice(&frame.ok()?.into_data().unwrap());
        }
        let length = self.buffer.get_u32() as usize;
        let event = self.buffer.split_to(length);
        // WatchEvent.type, then WatchEvent.object, which contains the envelope with its magic number.
        assert_eq!(event[0], 0x0a);
        let event_type = String::from_utf8(event[2..2 + usize::from(event[1])].to_vec()).unwrap();
        let at = event.windows(4).position(|w| w == b"k8s\0").unwrap();
        Some((event_type, unpacked(&event[at..])))
    }
}

#[test]
fn watches_come_as_protobuf_frames() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let uri = format!(
            "{CONFIGS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
        let mut watch = Frames::open(&client, &uri, &format!("{ACCEPT};stream=watch")).await;
        let (reported, object) = watch.next().await.unwrap();
        assert_eq!((reported.as_str(), object), ("ADDED", client.get(&format!("{CONFIGS}/a")).await.1));
        let (reported, bookmark) = watch.next().await.unwrap();
        assert_eq!((reported.as_str(), &bookmark["kind"]), ("BOOKMARK", &json!("ConfigMap")));
        assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "w"}})).await;
        let (reported, object) = watch.next().await.unwrap();
        assert_eq!((reported.as_str(), &object["data"]["k"]), ("MODIFIED", &json!("w")));
        client.delete(&format!("{CONFIGS}/a")).await;
        let (reported, object) = watch.next().await.unwrap();
        assert_eq!((reported.as_str(), &object["metadata"]["name"]), ("DELETED", &json!("a")));
        assert!(watch.next().await.is_none());
        // A revision that is no longer held is reported in the stream's own encoding.
        let (code, _) = client.post("/admin/v1/compact", json!({})).await;
        assert_eq!(code, 200);
        let mut watch = Frames::open(&client, &format!("{CONFIGS}?watch=1&resourceVersion=1"), MEDIA).await;
        let (reported, status) = watch.next().await.unwrap();
        assert_eq!((reported.as_str(), &status["reason"], &status["code"]), ("ERROR", &json!("Expired"), &json!(410)));
    });
}

/// Returns the strings of a message's field, at the field numbers of `path`.
fn texts(bytes: &[u8], path: &[u32]) -> Vec<String> {
    let mut messages = vec![bytes.to_vec()];
    for number in path {
        messages = messages.iter().flat_map(|m| fields(m, *number)).collect();
    }
    messages.into_iter().map(|m| String::from_utf8(m).unwrap()).collect()
}

fn fields(mut bytes: &[u8], wanted: u32) -> Vec<Vec<u8>> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes.get_u8();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while bytes.has_remaining() {
        let tag = varint(&mut bytes);
        if tag & 7 == 0 {
            varint(&mut bytes);
            continue;
        }
        let length = varint(&mut bytes) as usize;
        if tag >> 3 == u64::from(wanted) {
            found.push(bytes[..length].to_vec());
        }
        bytes.advance(length);
    }
    found
}

/// Returns the list in an envelope, in parts.
async fn listed(client: &client::Client, uri: &str, accept: &str) -> (String, Vec<u8>) {
    let request = Request::get(uri).header("accept", accept).body(empty()).unwrap();
    let response = call(client.service(), request).await.unwrap();
    assert_eq!(response.headers()["content-type"], MEDIA);
    let bytes = collect(response.into_body(), 1 << 20).await.unwrap();
    let unknown = bytes.strip_prefix(b"k8s\0").unwrap();
    (texts(unknown, &[1, 2]).remove(0), fields(unknown, 2).remove(0))
}

#[test]
fn lists_come_as_protobuf_whole_or_as_metadata() {
    in_simulation(|client| async move {
        for name in ["a", "b", "c"] {
            client.post(CONFIGS, config(name)).await;
        }
        let revision = client.get(CONFIGS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let (kind, list) = listed(&client, &format!("{CONFIGS}?limit=2"), ACCEPT).await;
        assert_eq!((kind.as_str(), texts(&list, &[1, 2])), ("ConfigMapList", vec![revision]));
        assert_eq!(texts(&list, &[2, 1, 1]), ["a", "b"]);
        assert_eq!(texts(&list, &[2, 2, 2]), ["v", "v"]);
        assert_eq!(texts(&list, &[1, 3]).len(), 1, "a continue token");
        let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let (kind, list) = listed(&client, CONFIGS, accept).await;
        assert_eq!(kind, "PartialObjectMetadataList");
        assert_eq!(texts(&list, &[2, 1, 1]), ["a", "b", "c"]);
        assert!(fields(&fields(&list, 2)[0], 2).is_empty());
    });
}

#[test]
fn both_views_of_an_event_have_their_own_message() {
    in_simulation(|client| async move {
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "note": "n", "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "type": "Normal",
            "reportingController": "c", "reportingInstance": "i", "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z"});
        let uri = "/apis/events.k8s.io/v1/namespaces/default/events";
        let (code, created) = send(&client, Method::POST, uri, Some(packed(&event))).await;
        assert_eq!((code, &created["note"]), (201, &json!("n")));
        let (_, core) = send(&client, Method::GET, "/api/v1/namespaces/default/events/e", None).await;
        assert_eq!((&core["message"], &core["apiVersion"]), (&json!("n"), &json!("v1")));
        let (_, view) = send(&client, Method::GET, &format!("{uri}/e"), None).await;
        assert_eq!((&view["regarding"]["name"], &view["eventTime"]), (&json!("p"), &event["eventTime"]));
    });
}

/// Sends the creates and updates of external-attacher and external-provisioner.
#[test]
fn volumes_and_attachments_are_made_by_protobuf() {
    in_simulation(|client| async move {
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "csi": {"driver": "d", "volumeHandle": "vol-1", "volumeAttributes": {"a": "b"}}}});
        let (code, created) = send(&client, Method::POST, "/api/v1/persistentvolumes", Some(packed(&volume))).await;
        assert_eq!((code, &created["spec"]["csi"]), (201, &volume["spec"]["csi"]), "{created}");
        let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}});
        let (code, created) = send(&client, Method::POST, ATTACHMENTS, Some(packed(&attachment))).await;
        assert_eq!((code, &created["spec"]), (201, &attachment["spec"]), "{created}");
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "renewTime": "2026-01-01T00:00:00.123456Z"}});
        let uri = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let (code, created) = send(&client, Method::POST, uri, Some(packed(&lease))).await;
        assert_eq!((code, &created["spec"]), (201, &lease["spec"]), "{created}");
    });
}
