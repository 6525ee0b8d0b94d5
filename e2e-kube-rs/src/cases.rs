//! Client operations on built-in kinds.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event as EventV1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Discovery, Scope};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, finalizer, watcher};
use kube::{Client, Error, Resource, ResourceExt};
use serde_json::json;

/// Time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for an event that must come.
pub async fn soon<T>(future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(TIMEOUT, future).await.context("it did not happen in time")
}

/// Returns the status code with which a request was refused.
pub fn refused<T>(answer: kube::Result<T>) -> Result<(u16, String)> {
    match answer {
        Ok(_) => bail!("it was not refused"),
        Err(Error::Api(status)) => Ok((status.code, status.reason.clone())),
        Err(other) => Err(other.into()),
    }
}

fn of<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}

fn settings(name: &str, value: &str) -> ConfigMap {
    let mut map =
        ConfigMap { data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some(BTreeMap::from([("suite".to_owned(), "kube-rs".to_owned())]));
    map
}

fn configs(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn pod(name: &str) -> Result<Pod> {
    of(json!({"metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]}}))
}

/// Deletes every ConfigMap of the suite.
async fn clean(client: &Client) -> Result<()> {
    let ours = ListParams::default().labels("suite=kube-rs");
    configs(client).delete_collection(&DeleteParams::default(), &ours).await?;
    Ok(())
}

pub async fn discovery_lists_groups_kinds_and_capabilities(client: &Client) -> Result<()> {
    ensure!(client.apiserver_version().await?.minor == "36");
    let found = Discovery::new(client.clone()).run().await?;
    let storage = found.get("storage.k8s.io").context("no storage.k8s.io")?;
    let (attachment, able) = storage.recommended_kind("VolumeAttachment").context("no VolumeAttachment")?;
    ensure!(attachment.plural == "volumeattachments" && able.scope == Scope::Cluster);
    ensure!(able.supports_operation(discovery::verbs::WATCH));
    let aggregated = Discovery::new(client.clone()).run_aggregated().await?;
    ensure!(aggregated.groups().count() == found.groups().count());
    let kind = GroupVersionKind::gvk("", "v1", "PersistentVolumeClaim");
    let (claims, able) = discovery::pinned_kind(client, &kind).await?;
    ensure!(claims.plural == "persistentvolumeclaims" && able.scope == Scope::Namespaced);
    Ok(())
}

pub async fn an_object_lives_and_ends(client: &Client) -> Result<()> {
    let api = configs(client);
    let made = api.create(&PostParams::default(), &settings("lives", "1")).await?;
    ensure!(
        refused(api.create(&PostParams::default(), &settings("lives", "1")).await)? == (409, "AlreadyExists".into())
    );
    let mut changed = made.clone();
    changed.data.get_or_insert_default().insert("k".to_owned(), "2".to_owned());
    let replaced = api.replace("lives", &PostParams::default(), &changed).await?;
    ensure!(replaced.resource_version() != made.resource_version());
    ensure!(refused(api.replace("lives", &PostParams::default(), &changed).await)? == (409, "Conflict".into()));
    let patch =
        json!([{"op": "test", "path": "/data/k", "value": "2"}, {"op": "replace", "path": "/data/k", "value": "3"}]);
    let patch: kube::core::params::Patch<ConfigMap> = Patch::Json(of(patch)?);
    ensure!(api.patch("lives", &PatchParams::default(), &patch).await?.data.unwrap_or_default()["k"] == "3");
    let merge = Patch::Merge(json!({"data": {"k": null, "l": "1"}}));
    ensure!(!api.patch("lives", &PatchParams::default(), &merge).await?.data.unwrap_or_default().contains_key("k"));
    ensure!(api.list(&ListParams::default().labels("suite=kube-rs").limit(1)).await?.items.len() == 1);
    ensure!(api.get_metadata("lives").await?.metadata.uid == made.metadata.uid);
    kube::runtime::wait::delete::delete_and_finalize(api.clone(), "lives", &DeleteParams::default()).await?;
    ensure!(api.get_opt("lives").await?.is_none());
    ensure!(refused(api.get("lives").await)? == (404, "NotFound".into()));
    Ok(())
}

pub async fn applied_fields_have_an_owner(client: &Client) -> Result<()> {
    let api = configs(client);
    let apply = async |manager: &str, value: &str, force: bool| {
        let mut map = settings("applied", value);
        map.metadata.managed_fields = None;
        let parameters = PatchParams { force, ..PatchParams::apply(manager) };
        api.patch("applied", &parameters, &Patch::Apply(&map)).await
    };
    let made = apply("one", "1", false).await?;
    ensure!(made.managed_fields().len() == 1 && made.managed_fields()[0].manager.as_deref() == Some("one"));
    ensure!(refused(apply("two", "2", false).await)? == (409, "Conflict".into()));
    let taken = apply("two", "2", true).await?;
    ensure!(taken.data.unwrap_or_default()["k"] == "2");
    clean(client).await
}

pub async fn an_entry_is_made_or_changed(client: &Client) -> Result<()> {
    let api = configs(client);
    for wanted in ["1", "2"] {
        let mut entry = api.entry("entry").await?.or_insert(|| settings("entry", ""));
        entry.get_mut().data.get_or_insert_default().insert("k".to_owned(), wanted.to_owned());
        entry.commit(&PostParams::default()).await?;
        ensure!(api.get("entry").await?.data.unwrap_or_default()["k"] == wanted);
    }
    clean(client).await
}

pub async fn a_watcher_sees_what_is_there_and_what_happens(client: &Client) -> Result<()> {
    let api = configs(client);
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        api.create(&PostParams::default(), &settings("first", "1")).await?;
        let events = watcher(api.clone(), config.labels("suite=kube-rs"));
        pin_mut!(events);
        let mut seen = Vec::new();
        while seen.len() < 6 {
            let event = soon(events.try_next()).await??.context("the stream ended")?;
            let (word, object) = match event {
                watcher::Event::Init => ("init", None),
                watcher::Event::InitApply(object) => ("there", Some(object)),
                watcher::Event::InitDone => ("done", None),
                watcher::Event::Apply(object) => ("applied", Some(object)),
                watcher::Event::Delete(object) => ("deleted", Some(object)),
            };
            seen.push(format!("{word} {}", object.as_ref().map(ResourceExt::name_any).unwrap_or_default()));
            match seen.len() {
                3 => drop(api.create(&PostParams::default(), &settings("second", "1")).await?),
                4 => {
                    let patch = Patch::Merge(json!({"metadata": {"labels": {"suite": "other"}}}));
                    api.patch("second", &PatchParams::default(), &patch).await?;
                    api.delete("first", &DeleteParams::default()).await?;
                }
                _ => {}
            }
        }
        // For this watch, the removal of the label is a deletion.
        ensure!(
            seen == ["init ", "there first", "done ", "applied second", "deleted second", "deleted first"],
            "{seen:?}"
        );
        api.delete("second", &DeleteParams::default()).await?;
    }
    Ok(())
}

pub async fn a_reflector_keeps_up_by_pages_and_by_streams(client: &Client) -> Result<()> {
    let api = configs(client);
    for i in 0..25 {
        api.create(&PostParams::default(), &settings(&format!("many-{i:02}"), "1")).await?;
    }
    for config in [watcher::Config::default().page_size(10), watcher::Config::default().streaming_lists()] {
        let (reader, writer) = reflector::store();
        let stream = reflector::reflector(writer, watcher(api.clone(), config.labels("suite=kube-rs")))
            .default_backoff()
            .touched_objects();
        let follow = stream.for_each(|_| async {});
        let steps = async {
            soon(reader.wait_until_ready()).await??;
            ensure!(reader.state().len() == 25, "{}", reader.state().len());
            api.create(&PostParams::default(), &settings("later", "1")).await?;
            let later = ObjectRef::new("later").within("default");
            let appears = async {
                while reader.get(&later).is_none() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            soon(appears).await?;
            api.delete("later", &DeleteParams::default()).await?;
            let goes = async {
                while reader.get(&later).is_some() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            soon(goes).await
        };
        tokio::select! { biased;
            events_v1 = steps => events_v1?,
            () = follow => bail!("the stream ended"),
        }
    }
    clean(client).await
}

pub async fn subresources_are_written_apart(client: &Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &of(json!({"metadata": {"name": "kube-rs"}}))?).await?;
    ensure!(nodes.cordon("kube-rs").await?.spec.and_then(|spec| spec.unschedulable) == Some(true));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let patched = nodes.patch_status("kube-rs", &PatchParams::default(), &Patch::Strategic(ready)).await?;
    ensure!(patched.status.and_then(|status| status.conditions).is_some_and(|c| c.iter().any(|c| c.type_ == "Ready")));
    nodes.delete("kube-rs", &DeleteParams::default()).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let web = of(
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}),
    )?;
    deployments.create(&PostParams::default(), &web).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch_scale("web", &PatchParams::default(), &patch).await?;
    ensure!(deployments.get_scale("web").await?.spec.and_then(|spec| spec.replicas) == Some(3));
    deployments.delete("web", &DeleteParams::foreground().grace_period(0)).await?;
    let held = deployments.get("web").await?;
    ensure!(held.finalizers() == ["foregroundDeletion"]);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    deployments.patch("web", &PatchParams::default(), &free).await?;
    Ok(())
}

pub async fn a_pod_is_evicted_as_its_budget_allows(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("evicted")?).await?;
    let running =
        Patch::Merge(json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
    pods.patch_status("evicted", &PatchParams::default(), &running).await?;
    soon(await_condition(pods.clone(), "evicted", conditions::is_pod_running())).await??;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let budget = of(
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "evicted"}}}}),
    )?;
    budgets.create(&PostParams::default(), &budget).await?;
    // The status that the disruption controller would write. A refusal cannot be tested here: the client retries
    // evictions until they are allowed.
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1,
        "desiredHealthy": 0, "expectedPods": 1}});
    budgets.patch_status("b", &PatchParams::default(), &Patch::Merge(allowed)).await?;
    pods.evict("evicted", &EvictParams::default()).await?;
    soon(async {
        while matches!(pods.get_opt("evicted").await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await?;
    let spent = budgets.get("b").await?.status.map(|status| status.disruptions_allowed);
    ensure!(spent == Some(Some(0)) || spent == None, "{spent:?}");
    budgets.delete("b", &DeleteParams::default()).await?;
    Ok(())
}

pub async fn events_are_published_and_counted(client: &Client) -> Result<()> {
    let api = configs(client);
    let about = api.create(&PostParams::default(), &settings("told", "1")).await?;
    let reporter = Reporter { controller: "kube-rs".to_owned(), instance: Some("one".to_owned()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "Tried".to_owned(),
        note: Some("it was tried".to_owned()),
        action: "Try".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &about.object_ref(&())).await?;
    }
    let events_v1: Api<EventV1> = Api::default_namespaced(client.clone());
    let of_it = format!("regarding.uid={}", about.uid().unwrap_or_default());
    let found = events_v1.list(&ListParams::default().fields(&of_it)).await?.items;
    ensure!(found.len() == 1 && found[0].series.as_ref().map(|series| series.count) == Some(3), "{found:?}");
    clean(client).await
}

pub async fn a_finalizer_holds_until_its_work_is_done(client: &Client) -> Result<()> {
    const NAME: &str = "example.com/kube-rs";
    let api = configs(client);
    let reconcile = async |object: ConfigMap| {
        let mut done = "";
        finalizer(&api, NAME, Arc::new(object), |event| {
            done = match event {
                finalizer::Event::Apply(_) => "applied",
                finalizer::Event::Cleanup(_) => "cleaned",
            };
            async { Ok::<_, Error>(Action::await_change()) }
        })
        .await?;
        anyhow::Ok(done)
    };
    let made = api.create(&PostParams::default(), &settings("held", "1")).await?;
    // The first reconcile adds the finalizer, the second does the work.
    ensure!(reconcile(made).await?.is_empty());
    let held = api.get("held").await?;
    ensure!(held.finalizers() == [NAME] && reconcile(held).await? == "applied");
    ensure!(api.delete("held", &DeleteParams::default()).await?.is_left());
    ensure!(reconcile(api.get("held").await?).await? == "cleaned");
    ensure!(api.get_opt("held").await?.is_none());
    Ok(())
}
