//! Creates the stand-in pods and keeps their status, and writes Events about objects that no control loop handles.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use controllers::kube::{ApiError, Client, EventRecorder, Kind, ObjectReference};
use controllers::mirror_pod::{StandIns, is_stand_in};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use substrate::Ctx;

use super::pods::{CONTROL_PLANE, MirrorPod, NAMESPACE};
use super::suspects::Suspects;
use super::{Created, Inner, lock};
use crate::spec::{names, unserved};

/// Time in which changes are collected before they are handled.
const SETTLE: Duration = Duration::from_millis(20);
/// Delay before a retry when the API server refused or did not answer.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps the pods up to date, forever.
pub(super) async fn run(ctx: &Ctx, client: Client, inner: &Arc<Inner>) {
    let recorder = EventRecorder::new(&client, "mooring");
    let mut changed = inner.changed.subscribe();
    let pods = StandIns::new(&client, NAMESPACE);
    let mut reconciler = Reconciler { client, pods, inner: inner.clone(), written: BTreeMap::new() };
    let mut suspects = Suspects::default();
    loop {
        let (created, found): (Vec<Created>, _) = {
            let mut news = lock(&inner.news);
            (news.created.drain(..).collect(), std::mem::take(&mut news.suspects))
        };
        suspects.take(ctx.clock().mono(), found, |grace| ctx.scaled(grace));
        suspects.look(ctx.clock().mono(), &reconciler.client, &recorder, inner).await;
        for one in &created {
            reconciler.emit_created(&recorder, one).await;
        }
        let failed = reconciler.pass().await.is_err();
        let next = suspects.next();
        let again = async {
            match (failed, next) {
                (true, _) => ctx.sleep(RETRY).await,
                (false, Some(at)) => ctx.sleep_until(at).await,
                (false, None) => pending::<()>().await,
            }
        };
        tokio::select! { biased;
            // The sender lives as long as the world.
            _ = changed.changed() => {}
            () = again => {}
        }
        ctx.sleep(SETTLE).await;
    }
}

struct Reconciler {
    client: Client,
    pods: StandIns,
    inner: Arc<Inner>,
    /// Uid and status of each pod as they were last written, by name.
    written: BTreeMap<String, (String, PodStatus)>,
}

impl Reconciler {
    /// Creates, updates or deletes each pod as needed.
    async fn pass(&mut self) -> Result<(), ApiError> {
        let recovered = std::mem::take(&mut lock(&self.inner.news).recovered);
        let nodes = self.pods.nodes().await?;
        let hosts: BTreeMap<&str, Option<&str>> = nodes.iter().map(|node| (node.name(), address(node))).collect();
        let found = self.pods.pods().await?;
        let mut live: BTreeMap<&str, &Pod> = found.iter().filter(|p| is_stand_in(p)).map(|p| (p.name(), p)).collect();
        let inner = self.inner.clone();
        for pod in &inner.pods {
            let there = live.remove(&*pod.name);
            let Some(host) = hosts.get(&*pod.node).copied().or((pod.node == CONTROL_PLANE).then_some(None)) else {
                // The pod is deleted with its node.
                self.remove(there).await?;
                continue;
            };
            if recovered.iter().any(|node| **node == *pod.node) {
                self.written.remove(&pod.name);
            }
            self.keep(pod, there, host).await?;
        }
        for stranger in live.into_values() {
            self.remove(Some(stranger)).await?;
        }
        Ok(())
    }

    async fn remove(&mut self, pod: Option<&Pod>) -> Result<(), ApiError> {
        let Some(pod) = pod else { return Ok(()) };
        self.written.remove(pod.name());
        match self.pods.remove(pod.name()).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    async fn keep(&mut self, pod: &MirrorPod, there: Option<&Pod>, host: Option<&str>) -> Result<(), ApiError> {
        let unreadable = |e: serde_json::Error| ApiError::Decode(e.to_string());
        let mut object = match there {
            Some(there) if !there.is_deleting() => there.clone(),
            there => {
                // As kubelet recreates a deleted mirror pod.
                self.remove(there).await?;
                Pod::clone(&*self.pods.create(&pod.object().map_err(unreadable)?).await?)
            }
        };
        let status = {
            let log = lock(&self.inner.log);
            // A kubelet that is down writes no status.
            if self.inner.names.nodes.contains(&pod.node) && !log.life(&names::kubelet(&pod.node)).is_up() {
                return Ok(());
            }
            pod.status(|process| log.life(process), host).map_err(unreadable)?
        };
        let now = (object.uid().to_owned(), status);
        if self.written.get(&pod.name) != Some(&now) {
            object.status = Some(now.1.clone());
            // Overwrite whatever another client wrote.
            object.metadata.resource_version = None;
            self.pods.replace_status(&object).await?;
            self.written.insert(pod.name.clone(), now);
        }
        Ok(())
    }

    /// Writes an Event about an object that no control loop handles, unless it is gone by now.
    async fn emit_created(&self, recorder: &EventRecorder, created: &Created) {
        let Created { row, key } = created;
        let Ok(bytes) = self.client.get(&row.path(key)).await else { return };
        let object: substrate::json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let of = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let reference = ObjectReference {
            api_version: Some(row.api_version()),
            kind: Some(row.kind.to_owned()),
            namespace: of("namespace"),
            name: of("name"),
            uid: of("uid"),
            resource_version: of("resourceVersion"),
            field_path: None,
        };
        recorder.event(reference, "Warning", unserved::REASON, self.inner.unserved.text(row));
    }
}

/// Internal IP address of a node.
fn address(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().find(|address| address.type_ == "InternalIP").map(|address| &*address.address)
}
