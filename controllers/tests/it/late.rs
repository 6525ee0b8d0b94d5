//! Requests with late answers.

use controllers::kube::{Client, DeleteParams};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;
use substrate::clock::TimeScale;
use substrate::json::{Value, json};
use substrate::link::Link;
use substrate::world::{Options, simulate};
use substrate::{Process, World};

use crate::common::{Rig, S, edit, in_simulation, name};

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn late(world: &World, of: Value, moment: &str, when: Value) {
    let fault = json!({
        "name": "late", "effect": { "delay": "40s" }, "at": moment, "when": when,
        "match": { "plane": "link", "where": of },
    });
    world.faults().add(world.clock().mono(), object(fault)).expect("a fault");
}

#[test]
fn a_time_scale_does_not_cut_off_a_request_that_is_late() {
    let answer = simulate(Options { scale: TimeScale::new(20.0), ..Options::default() }, async |world: World| {
        let apiserver = fake_apiserver::Apiserver::new(world.seed(), fake_apiserver::Config::default());
        let server = Process::start(&world, "fake-apiserver", move |ctx| {
            ctx.world().fabric().bind(&ctx, "apiserver", apiserver.start(&ctx));
            std::future::pending()
        });
        let user = Process::start(&world, "user", |_| std::future::pending());
        let ctx = user.ctx().expect("runs");
        let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "test");
        // Divided by the time scale, it is two seconds late.
        late(&world, json!({ "method": "PUT" }), "before", json!({ "first": 1 }));
        let namespaces = client.all::<Namespace>();
        let mut labelled = Namespace::clone(&*namespaces.get("default").await.expect("a namespace"));
        labelled.metadata.labels.get_or_insert_default().insert("late".to_owned(), "yes".to_owned());
        let answer = namespaces.replace(&labelled).await;
        drop(server);
        answer.map(|namespace| namespace.metadata.labels.clone().unwrap_or_default().contains_key("late"))
    });
    assert_eq!(answer.map_err(|e| e.to_string()), Ok(true));
}

/// Creates, attaches, expands, detaches and deletes a volume while one of the PATCHes of `from` is late. Returns true
/// if the fault fired.
fn goes(from: &str, moment: &str, nth: u64) -> bool {
    in_simulation(nth, async |world| {
        let rig = Rig::new(&world, &["node-a"], &[]).await;
        let classes = rig.client.all::<StorageClass>();
        let class = classes.get("ebs").await.expect("a class");
        let grows = StorageClass { allow_volume_expansion: Some(true), ..StorageClass::clone(&class) };
        classes.replace(&grows).await.expect("a class");
        late(&world, json!({ "from": from, "method": "PATCH" }), moment, json!({ "nth": nth }));
        rig.claim("data").await;
        rig.pod("p", "node-a", "data").await;
        let volumes = rig.until_attached("node-a", S(120)).await;
        rig.in_use("node-a", &volumes).await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        edit(&claims, "data", |claim| {
            let more = json!({ "requests": { "storage": "2Gi" } });
            claim.spec.get_or_insert_default().resources = Some(object(more));
        })
        .await;
        rig.sleep(S(300)).await;
        let large = |pv: &PersistentVolume| {
            let capacity = pv.spec.as_ref().and_then(|s| s.capacity.as_ref());
            capacity.is_some_and(|c| c["storage"].0 == "2Gi")
        };
        let volumes = rig.client.all::<PersistentVolume>();
        assert!(volumes.list(&Default::default()).await.expect("a list").items.iter().all(large));
        rig.force_delete("p").await;
        rig.sleep(S(2)).await;
        rig.in_use("node-a", &[]).await;
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        rig.sleep(S(300)).await;
        let left: Vec<_> = volumes.list(&Default::default()).await.expect("a list").items.iter().map(name).collect();
        assert!(left.is_empty() && rig.attachments().await.is_empty(), "{from} {moment} {nth}: {left:?}");
        !rig.events("fault.fired").is_empty()
    })
}

#[test]
fn a_patch_that_comes_late_strands_no_volume() {
    for from in ["csi-provisioner", "csi-attacher", "csi-resizer"] {
        for moment in ["before", "after_effect"] {
            let fired = (1..=4).filter(|nth| goes(from, moment, *nth)).count();
            assert!(fired > 0, "{from} patches");
        }
    }
}
