//! What strategies set on a new object whatever the client sent (PrepareForCreate), and how generations count (R6).

use substrate::Now;
use substrate::json::{Text, Value, json};

use super::value::{self, copy_meta};
use crate::kinds::Kind;

/// Kinds that count generations from 1.
const COUNTED: &[&str] = &[
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "DeviceClass",
    "EndpointSlice",
    "FlowSchema",
    "Ingress",
    "IngressClass",
    "Job",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "ResourceSlice",
    "StatefulSet",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

fn is_counted(kind: &Kind) -> bool {
    kind.custom.is_some() || COUNTED.contains(&kind.kind)
}

/// What a strategy sets on a new object, whatever the client sent.
pub(super) fn begin(kind: &Kind, object: &mut Value, now: Now) {
    if is_counted(kind) {
        value::metadata(object).insert("generation", 1.into());
    }
    if kind.kind == "DaemonSet" {
        set_template_generation(object, 1);
    }
    if !kind.has_status || kind.kind == "Node" {
        return;
    }
    if kind.custom.is_some() {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        return;
    }
    let status = match kind.kind {
        "Pod" => json!({"phase": "Pending", "qosClass": super::default::qos_class(object)}),
        "PersistentVolumeClaim" => json!({"phase": "Pending"}),
        "PersistentVolume" => json!({"phase": "Pending", "lastPhaseTransitionTime": value::time(now.wall)}),
        "VolumeAttachment" => json!({"attached": false}),
        "Namespace" => {
            if let Some(spec) = value::map_mut(object, "spec") {
                let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
                if let Some(list) = finalizers.as_array_mut().filter(|l| !l.iter().any(|f| f == "kubernetes")) {
                    list.push("kubernetes".into());
                }
            }
            json!({"phase": "Active"})
        }
        // Fields that Go always writes; controllers count from them.
        "ReplicaSet" | "ReplicationController" => json!({"replicas": 0}),
        "StatefulSet" => json!({"replicas": 0, "availableReplicas": 0}),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        "PodDisruptionBudget" => {
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        "HorizontalPodAutoscaler" => json!({"desiredReplicas": 0}),
        "Ingress" | "Service" => json!({"loadBalancer": {}}),
        _ => json!({}),
    };
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status", status);
    }
}

/// Where a daemon set says how often its template changed; its controller labels pods with it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(set: &mut Value, generation: i64) {
    let slot = value::metadata(set).entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = slot.as_object_mut() {
        annotations.insert(TEMPLATE_GENERATION, generation.to_string().into());
    }
}

/// A daemon set counts the changes of its template, whatever the client says.
pub(super) fn count_template(kind: &Kind, object: &mut Value, old: &Value) {
    if kind.kind == "DaemonSet" {
        let before = value::text(old, &["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(1);
        let changed = object["spec"]["template"] != old["spec"]["template"];
        set_template_generation(object, before + i64::from(changed));
    }
}

/// metadata.generation counts changes of what the object wants, for the kinds that keep one.
pub(super) fn count_generation(kind: &Kind, object: &mut Value, old: &Value) {
    if !is_counted(kind) && kind.kind != "CSIDriver" {
        return;
    }
    copy_meta(old, object, "generation");
    if wanted(object) != wanted(old) {
        let generation = value::int(old, &["metadata", "generation"]).unwrap_or(0);
        value::metadata(object).insert("generation", (generation + 1).into());
    }
}

/// The fields that say what is wanted: all but the metadata and the status.
fn wanted(object: &Value) -> Vec<(&Text, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")).collect()
}
