//! A custom kind, derived from Rust types.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cases::{refused, soon};

/// A place for bytes.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kube-rs.example.com", version = "v1", kind = "Bucket", namespaced, shortname = "bk")]
#[kube(status = "BucketStatus", derive = "PartialEq")]
#[kube(scale(spec_replicas_path = ".spec.copies", status_replicas_path = ".status.copies"))]
#[kube(printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"))]
#[derive(PartialEq)]
pub struct BucketSpec {
    /// Its capacity.
    #[schemars(range(min = 1))]
    size: i64,
    /// The number of copies.
    #[serde(default = "one")]
    copies: i64,
}

fn one() -> i64 {
    1
}

/// The observed state.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
pub struct BucketStatus {
    /// The number of copies that exist.
    copies: i64,
}

async fn define(client: &Client) -> Result<Api<Bucket>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("kube-rs").force();
    definitions.patch(Bucket::crd_name(), &apply, &Patch::Apply(Bucket::crd())).await?;
    soon(await_condition(definitions, Bucket::crd_name(), conditions::is_crd_established())).await??;
    Ok(Api::default_namespaced(client.clone()))
}

async fn withdraw(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    kube::runtime::wait::delete::delete_and_finalize(definitions, Bucket::crd_name(), &DeleteParams::default()).await?;
    Ok(())
}

pub async fn a_derived_kind_is_served_at_once(client: &Client) -> Result<()> {
    let buckets = define(client).await?;
    let made = buckets.create(&PostParams::default(), &Bucket::new("a", BucketSpec { size: 3, copies: 2 })).await?;
    ensure!(made.spec == BucketSpec { size: 3, copies: 2 } && made.status.is_none());
    let small = Bucket::new("b", BucketSpec { size: 0, copies: 1 });
    ensure!(refused(buckets.create(&PostParams::default(), &small).await)? == (422, "Invalid".into()));
    let status = Patch::Merge(json!({"status": {"copies": 2}}));
    let patched = buckets.patch_status("a", &PatchParams::default(), &status).await?;
    ensure!(patched.status == Some(BucketStatus { copies: 2 }));
    let scale = buckets.get_scale("a").await?;
    ensure!(scale.status.map(|status| status.replicas) == Some(2));
    let strategic = Patch::Strategic(json!({"spec": {"size": 4}}));
    ensure!(refused(buckets.patch("a", &PatchParams::default(), &strategic).await)?.0 == 415);
    withdraw(client).await
}

/// Creates a ConfigMap for each bucket.
async fn reconcile(bucket: Arc<Bucket>, client: Arc<Client>) -> kube::Result<Action> {
    let api: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let name = bucket.name_any();
    let owned = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [bucket.controller_owner_ref(&())]},
        "data": {"size": bucket.spec.size.to_string()},
    });
    api.patch(&name, &PatchParams::apply("keeper").force(), &Patch::Apply(owned)).await?;
    let buckets: Api<Bucket> = Api::default_namespaced((*client).clone());
    let status = json!({"status": {"copies": bucket.spec.copies}});
    buckets.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(Action::await_change())
}

pub async fn a_controller_keeps_what_its_objects_own(client: &Client) -> Result<()> {
    let buckets = define(client).await?;
    let owned: Api<ConfigMap> = Api::default_namespaced(client.clone());
    buckets.create(&PostParams::default(), &Bucket::new("kept", BucketSpec { size: 3, copies: 1 })).await?;
    let controller = Controller::new(buckets.clone(), watcher::Config::default())
        .owns(owned.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client.clone()))
        .for_each(|_| async {});
    let has = async |size: &str| loop {
        let found = owned.get_opt("kept").await?;
        if found.and_then(|map| map.data).is_some_and(|data| data["size"] == size) {
            return anyhow::Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let steps = async {
        soon(has("3")).await??;
        buckets.patch("kept", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 5}}))).await?;
        soon(has("5")).await??;
        // The controller restores an owned object that was deleted.
        owned.delete("kept", &DeleteParams::default()).await?;
        soon(has("5")).await??;
        let reported = buckets.get("kept").await?;
        ensure!(reported.status == Some(BucketStatus { copies: 1 }));
        Ok(())
    };
    tokio::select! { biased;
        reported = steps => reported?,
        () = controller => bail!("the controller ended"),
    }
    owned.delete("kept", &DeleteParams::default()).await?;
    withdraw(client).await
}

pub async fn metadata_alone_can_be_watched(client: &Client) -> Result<()> {
    let buckets = define(client).await?;
    buckets.create(&PostParams::default(), &Bucket::new("seen", BucketSpec { size: 3, copies: 1 })).await?;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let events = watcher(Api::<PartialObjectMeta<Bucket>>::default_namespaced(client.clone()), config);
        pin_mut!(events);
        loop {
            match soon(events.try_next()).await?? {
                Some(watcher::Event::InitApply(object)) => ensure!(object.name_any() == "seen"),
                Some(watcher::Event::InitDone) => break,
                Some(_) => {}
                None => bail!("the stream ended"),
            }
        }
    }
    ensure!(Bucket::kind(&()) == "Bucket");
    withdraw(client).await
}
