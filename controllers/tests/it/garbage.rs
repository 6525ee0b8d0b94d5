//! The garbage collector against the API server, in virtual time.

use std::time::Duration;

use controllers::kube::Kind;
use controllers::kube::metadata::{MetadataPatch, Propagation, ResourcePath};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolume, Secret};
use serde::de::DeserializeOwned;
use substrate::json::{Value, json};

use crate::common::{self, Rig, S, Written, in_simulation};

/// Loops that these tests do not need.
const OTHERS: &[&str] = &["kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer"];

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn config_maps() -> ResourcePath {
    ResourcePath { root: "/api/v1".into(), plural: "configmaps".into() }
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &str, blocks: bool) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks })
}

struct GarbageRig(Rig);

impl GarbageRig {
    async fn new(world: substrate::World) -> Self {
        let rig = Rig::with_all_loops(&world, &[], OTHERS).await;
        // Long enough for the watches of all kinds.
        rig.sleep(S(5)).await;
        Self(rig)
    }

    /// Creates a ConfigMap with these owners, and returns its uid.
    async fn map(&self, namespace: &str, name: &str, owners: &[Value]) -> String {
        let metadata = json!({ "name": name, "namespace": namespace, "ownerReferences": owners });
        let api = self.0.client.namespaced::<ConfigMap>(namespace);
        api.create(&object(json!({ "metadata": metadata }))).await.expect("a ConfigMap").uid().to_owned()
    }

    async fn owned(&self, name: &str, owner: (&str, &str), blocks: bool) -> String {
        self.map("default", name, &[reference("v1", "ConfigMap", owner.0, owner.1, blocks)]).await
    }

    async fn delete(&self, name: &str, uid: &str, propagation: Propagation) {
        let deleted = self.0.client.delete_object(&config_maps(), "default", name, uid, None, propagation).await;
        deleted.expect("deleted");
    }

    async fn maps(&self) -> Vec<String> {
        let list = self.0.client.namespaced::<ConfigMap>("default").list(&Default::default()).await.expect("a list");
        list.items.iter().map(common::name).filter(|name| name != "kube-root-ca.crt").collect()
    }

    async fn until(&self, expected: &[&str]) {
        self.0
            .until(S(60), &format!("the ConfigMaps are {expected:?}"), || async { self.maps().await == expected })
            .await;
    }

    /// Returns the changing requests of the garbage collector since `from`.
    fn lines(&self, from: u64) -> Vec<String> {
        let of = |w: &Written| w.agent.contains("generic-garbage-collector") && !w.path.contains("/events");
        let written = self.0.written(from, "");
        written.iter().filter(|w| of(w)).map(|w| format!("{} {} {} {}", w.method, w.path, w.kind, w.body)).collect()
    }
}

#[test]
fn dependents_go_after_their_owner() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("default", "a", &[]).await;
        let child = garbage.owned("b", ("a", &owner), true).await;
        garbage.owned("c", ("b", &child), true).await;
        garbage.until(&["a", "b", "c"]).await;
        let from = garbage.0.now_ms();
        garbage.delete("a", &owner, Propagation::Background).await;
        garbage.until(&[]).await;
        let lines = garbage.lines(from);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        // pkg/controller/garbagecollector/operations.go, deleteObject
        assert!(lines[0].starts_with("DELETE /api/v1/namespaces/default/configmaps/b json "), "{lines:#?}");
        assert!(lines[0].contains(&format!(r#""uid":"{child}""#)), "{lines:#?}");
        assert!(lines[0].contains(r#""resourceVersion":"#), "{lines:#?}");
        assert!(lines[0].contains(r#""propagationPolicy":"Background""#), "{lines:#?}");
    });
}

#[test]
fn in_the_foreground_the_owner_goes_last() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("default", "a", &[]).await;
        let child = garbage.owned("b", ("a", &owner), true).await;
        garbage.owned("c", ("b", &child), true).await;
        garbage.owned("d", ("a", &owner), false).await;
        garbage.0.sleep(S(1)).await;
        let from = garbage.0.now_ms();
        garbage.delete("a", &owner, Propagation::Foreground).await;
        assert!(garbage.maps().await.contains(&"a".to_owned()), "it waits for its dependents");
        garbage.until(&[]).await;
        let lines = garbage.lines(from);
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
        let path = "/api/v1/namespaces/default/configmaps";
        // The dependent that has dependents is deleted in the foreground (`attemptToDeleteItem`).
        let middle = at(&format!("DELETE {path}/b")).expect("deleted");
        assert!(lines[middle].contains(r#""propagationPolicy":"Foreground""#), "{lines:#?}");
        let leaf = at(&format!("DELETE {path}/c")).expect("deleted");
        let freed = at(&format!("PATCH {path}/b merge-patch+json")).expect("freed");
        let last = at(&format!("PATCH {path}/a merge-patch+json")).expect("freed");
        assert!(middle < leaf && leaf < freed && freed < last, "{lines:#?}");
        assert!(lines[last].contains(r#""finalizers":null"#), "{lines:#?}");
    });
}

#[test]
fn orphans_stay_and_forget_their_owner() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("default", "a", &[]).await;
        let child = garbage.owned("b", ("a", &owner), true).await;
        garbage.0.sleep(S(1)).await;
        let from = garbage.0.now_ms();
        garbage.delete("a", &owner, Propagation::Orphan).await;
        garbage.until(&["b"]).await;
        let kept = garbage.0.client.namespaced::<ConfigMap>("default").get("b").await.expect("it stays");
        assert!(kept.metadata.owner_references.iter().flatten().next().is_none(), "{kept:?}");
        let lines = garbage.lines(from);
        let patch = json!({ "metadata": {
            "uid": child, "ownerReferences": [{ "$patch": "delete", "uid": owner }],
        } });
        let first = format!("PATCH /api/v1/namespaces/default/configmaps/b strategic-merge-patch+json {patch}");
        assert_eq!(lines.first(), Some(&first), "{lines:#?}");
        assert_eq!(lines.len(), 2, "{lines:#?}");
    });
}

#[test]
fn an_object_whose_owner_never_was_goes() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        garbage.owned("b", ("absent", "00000000-0000-4000-8000-000000000000"), true).await;
        garbage.until(&[]).await;
    });
}

#[test]
fn an_object_with_another_owner_stays_and_loses_the_reference() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let (a, b) = (garbage.map("default", "a", &[]).await, garbage.map("default", "b", &[]).await);
        let owners = [reference("v1", "ConfigMap", "a", &a, true), reference("v1", "ConfigMap", "b", &b, true)];
        garbage.map("default", "c", &owners).await;
        garbage.0.sleep(S(1)).await;
        garbage.delete("a", &a, Propagation::Foreground).await;
        garbage.until(&["b", "c"]).await;
        let kept = garbage.0.client.namespaced::<ConfigMap>("default").get("c").await.expect("it stays");
        let left: Vec<&str> = kept.metadata.owner_references.iter().flatten().map(|owner| &*owner.name).collect();
        assert_eq!(left, ["b"]);
    });
}

#[test]
fn an_owner_in_another_namespace_is_none_and_an_event_says_so() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("kube-system", "a", &[]).await;
        garbage.0.sleep(S(1)).await;
        let child = garbage.owned("b", ("a", &owner), true).await;
        garbage.until(&[]).await;
        let text = format!(
            r#"ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {owner}] does not exist in namespace "default""#
        );
        assert_eq!(garbage.0.messages("OwnerRefInvalidNamespace"), [text]);
        garbage.0.sleep(S(1)).await;
        let events = garbage.0.client.namespaced::<Event>("default").list(&Default::default()).await.expect("a list");
        let of = |event: &Event| event.reason.as_deref() == Some("OwnerRefInvalidNamespace");
        let event = events.items.iter().find(|event| of(event)).expect("an Event");
        assert_eq!(event.involved_object.uid.as_deref(), Some(child.as_str()));
        assert_eq!(event.source.as_ref().and_then(|s| s.component.as_deref()), Some("garbage-collector-controller"));
    });
}

#[test]
fn a_cluster_scoped_object_with_a_namespaced_owner_stays() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("default", "a", &[]).await;
        let volume = json!({
            "metadata": { "name": "mine", "ownerReferences": [reference("v1", "ConfigMap", "a", &owner, false)] },
            "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                "csi": { "driver": common::DRIVER, "volumeHandle": "vol-0" },
            },
        });
        garbage.0.client.all::<PersistentVolume>().create(&object(volume)).await.expect("a volume");
        garbage.delete("a", &owner, Propagation::Background).await;
        garbage.0.sleep(S(60)).await;
        garbage.0.client.all::<PersistentVolume>().get("mine").await.expect("nothing deletes it");
    });
}

/// Both wait for each other in the foreground: upstream unblocks one of them.
#[test]
fn owners_of_one_another_go_in_the_foreground() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let a = garbage.map("default", "a", &[]).await;
        let b = garbage.owned("b", ("a", &a), true).await;
        let owners = vec![object(reference("v1", "ConfigMap", "b", &b, true))];
        let patch = MetadataPatch::SetOwners { uid: a.clone(), owners };
        garbage.0.client.patch_metadata(&config_maps(), "default", "a", &patch).await.expect("patched");
        garbage.0.sleep(S(1)).await;
        garbage.delete("a", &a, Propagation::Foreground).await;
        garbage.until(&[]).await;
    });
}

#[test]
fn a_deletion_is_finished_after_a_crash() {
    for propagation in [Propagation::Foreground, Propagation::Orphan, Propagation::Background] {
        in_simulation(1, async |world| {
            let garbage = GarbageRig::new(world).await;
            let owner = garbage.map("default", "a", &[]).await;
            garbage.owned("b", ("a", &owner), true).await;
            garbage.0.sleep(S(1)).await;
            garbage.0.crash_controllers();
            garbage.delete("a", &owner, propagation).await;
            garbage.0.sleep(S(60)).await;
            let left: &[&str] = if propagation == Propagation::Background { &["b"] } else { &["a", "b"] };
            assert_eq!(garbage.maps().await, left, "no loop carries it out");
            garbage.0.restart_controllers();
            let end: &[&str] = if propagation == Propagation::Orphan { &["b"] } else { &[] };
            garbage.until(end).await;
        });
    }
}

#[test]
fn custom_objects_are_collected_once_their_kind_is_known() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let client = &garbage.0.client;
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "things.example.com" },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
            },
        });
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect("a kind");
        garbage.0.sleep(S(5)).await;
        let things = "/apis/example.com/v1/namespaces/default/things";
        let make = async |name: &str, owners: &[Value]| {
            let metadata = json!({ "name": name, "ownerReferences": owners });
            let thing = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata });
            let answer = client.post(things, thing).await.expect("a thing");
            let made: Value = serde_json::from_slice(&answer).expect("JSON");
            made["metadata"]["uid"].as_str().expect("a uid").to_owned()
        };
        let a = make("a", &[]).await;
        make("b", &[reference("example.com/v1", "Thing", "a", &a, true)]).await;
        let secret = json!({ "metadata": {
            "name": "s", "ownerReferences": [reference("example.com/v1", "Thing", "a", &a, true)],
        } });
        client.namespaced::<Secret>("default").create(&object(secret)).await.expect("a Secret");
        // New kinds are discovered every 30 s.
        garbage.0.sleep(S(40)).await;
        let path = ResourcePath { root: "/apis/example.com/v1".into(), plural: "things".into() };
        let from = garbage.0.now_ms();
        client.delete_object(&path, "default", "a", &a, None, Propagation::Orphan).await.expect("deleted");
        garbage.0.until(S(60), "a is gone", || async { client.get(&format!("{things}/a")).await.is_err() }).await;
        client.get(&format!("{things}/b")).await.expect("it stays");
        // Custom kinds have no strategic merge: the patch is tried, then all references are replaced.
        let lines = garbage.lines(from);
        let of_b: Vec<&str> = lines
            .iter()
            .filter(|line| line.contains("/things/b "))
            .map(|line| line.split(' ').nth(2).expect("a content type"))
            .collect();
        assert_eq!(of_b, ["strategic-merge-patch+json", "merge-patch+json"], "{lines:#?}");
        client.namespaced::<Secret>("default").get("s").await.expect("it stays");
    });
}

#[test]
fn an_idle_cluster_is_left_alone() {
    in_simulation(1, async |world| {
        let garbage = GarbageRig::new(world).await;
        let owner = garbage.map("default", "a", &[]).await;
        garbage.owned("b", ("a", &owner), true).await;
        garbage.0.sleep(Duration::from_secs(600)).await;
        assert_eq!(garbage.lines(0), Vec::<String>::new());
        assert_eq!(garbage.maps().await, ["a", "b"]);
    });
}
