//! `pod`: applies a pod that writes to claims.

use serde_json::{Value, json};

use crate::scenario::lower::{metadata, named};
use crate::scenario::prelude::*;
use crate::spec::Manifest;

pub(crate) static KEY: Key = one("pod", Of::Map(&POD), ABOUT).like(&[
    "- pod: {name: web, claim: data, node: node-a}",
    "- pod: {name: web, claims: [data, more], grace: 5s, tolerate: true}",
]);

const ABOUT: &str = "A pod that writes to claims, without its manifest.";

static POD: Map = Map {
    name: "pod",
    about: ABOUT,
    keys: &[
        must("name", Of::Name, "The pod's name."),
        may("namespace", Of::Name, "Its namespace; `default` when absent."),
        may("claim", Of::Text, "The claim that it writes to."),
        may("claims", Of::List(&Of::Text), "The claims that it uses; it writes to the first."),
        may("block", Of::Flag, "If true, it uses the claims as raw devices."),
        may("node", Of::Text, "The node that it must run on; the scheduler chooses when absent."),
        may("grace", Of::Span, "Its termination grace period, in whole seconds; 30s when absent."),
        may("tolerate", Of::Flag, "If true, it tolerates all taints, so it is not evicted."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    name: Spanned<String>,
    namespace: Option<String>,
    claim: Option<String>,
    #[serde(default)]
    claims: Vec<String>,
    #[serde(default)]
    block: bool,
    node: Option<Spanned<String>>,
    grace: Option<Span>,
    #[serde(default)]
    tolerate: bool,
}

pub(super) fn lower(pod: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    Ok(Action::Apply(vec![manifest(pod, steps)?]))
}

pub(in crate::scenario) fn manifest(pod: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Manifest> {
    let Spanned { place, value: pod } = pod;
    named(&pod.name)?;
    let claims: Vec<String> = pod.claim.into_iter().chain(pod.claims).collect();
    // The workload writes to the first claim of a pod.
    let volume = |i: usize| if i == 0 { "data".to_owned() } else { format!("data-{i}") };
    let volumes: Vec<Value> = claims
        .iter()
        .enumerate()
        .map(|(i, claim)| json!({ "name": volume(i), "persistentVolumeClaim": { "claimName": claim } }))
        .collect();
    let mounts: Vec<Value> = (0..claims.len())
        .map(|i| match pod.block {
            true => json!({ "name": volume(i), "devicePath": format!("/dev/{}", volume(i)) }),
            false => json!({ "name": volume(i), "mountPath": format!("/{}", volume(i)) }),
        })
        .collect();
    let mut container = json!({ "name": "writer", "image": "mooring/writer" });
    let mut spec = json!({});
    if !claims.is_empty() {
        container[if pod.block { "volumeDevices" } else { "volumeMounts" }] = mounts.into();
        spec["volumes"] = volumes.into();
    }
    spec["containers"] = json!([container]);
    if let Some(node) = pod.node {
        let node = steps.node(node)?;
        spec["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    }
    if let Some(grace) = pod.grace {
        spec["terminationGracePeriodSeconds"] = json!(grace.0.as_secs());
    }
    if pod.tolerate {
        spec["tolerations"] = json!([{ "operator": "Exists" }]);
    }
    let metadata = metadata(&pod.name, pod.namespace);
    steps.made(place, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
}
