//! The summary of `/stats/summary` (upstream `kubelet/pkg/apis/stats/v1alpha1`). Pure. Only volumes are measured: CPU,
//! memory, network, file systems of the node and of containers are left out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::volume_stats::{Measured, PodVolume};
use crate::kube::time;
use crate::machine::api::{ContainerRecord, ContainerState, PodRecord};

#[derive(Serialize)]
struct Summary<'a> {
    node: NodeStats<'a>,
    pods: Vec<PodStats<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeStats<'a> {
    node_name: &'a str,
    /// Boot time of the system; None, which upstream writes as null, if it is unknown.
    start_time: Option<Time>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStats<'a> {
    pod_ref: PodReference<'a>,
    start_time: Option<Time>,
    containers: Vec<ContainerStats<'a>>,
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeStats<'a>>,
}

#[derive(Serialize)]
struct PodReference<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStats<'a> {
    name: &'a str,
    start_time: Time,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VolumeStats<'a> {
    time: Time,
    available_bytes: u64,
    capacity_bytes: u64,
    used_bytes: u64,
    inodes_free: u64,
    inodes: u64,
    inodes_used: u64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pvc_ref: Option<ClaimReference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_health_stats: Option<VolumeHealth>,
}

#[derive(Serialize)]
struct ClaimReference<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
struct VolumeHealth {
    abnormal: bool,
}

/// Returns the summary of a node as JSON: its pods with running containers, and the volumes whose drivers answered.
pub(super) fn text(node: &str, pods: &[PodRecord], volumes: &[(PodVolume, Measured)]) -> String {
    let pods = pods.iter().map(|record| pod_stats(record, volumes)).collect();
    let summary = Summary { node: NodeStats { node_name: node, start_time: None }, pods };
    serde_json::to_string(&summary).expect("strings, numbers and times have a JSON form")
}

fn pod_stats<'a>(record: &'a PodRecord, volumes: &'a [(PodVolume, Measured)]) -> PodStats<'a> {
    let (namespace, name) = record.pod.split_once('/').unwrap_or(("", &record.pod));
    let of_pod = volumes.iter().filter(|(volume, _)| volume.uid == record.uid);
    PodStats {
        pod_ref: PodReference { name, namespace, uid: &record.uid },
        start_time: record.since().map(time),
        containers: record.containers.iter().filter_map(container_stats).collect(),
        volumes: of_pod.map(|(volume, measured)| volume_stats(volume, *measured)).collect(),
    }
}

fn container_stats(record: &ContainerRecord) -> Option<ContainerStats<'_>> {
    match record.state {
        ContainerState::Running { since } => Some(ContainerStats { name: &record.name, start_time: time(since) }),
        ContainerState::Created | ContainerState::Exited(_) => None,
    }
}

fn volume_stats(volume: &PodVolume, measured: Measured) -> VolumeStats<'_> {
    let Measured { figures, at } = measured;
    VolumeStats {
        time: time(at),
        available_bytes: figures.available,
        capacity_bytes: figures.capacity,
        used_bytes: figures.used,
        inodes_free: figures.inodes_free,
        inodes: figures.inodes,
        inodes_used: figures.inodes_used,
        name: &volume.name,
        pvc_ref: volume.claim.as_ref().map(|claim| ClaimReference { name: &claim.name, namespace: &claim.namespace }),
        volume_health_stats: figures.abnormal.map(|abnormal| VolumeHealth { abnormal }),
    }
}
