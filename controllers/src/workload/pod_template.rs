//! Pods of a template (`GetPodFromTemplate`).

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Longest name of an object.
const NAME_LIMIT: usize = 253;

/// Returns the prefix of the names of a controller's pods (`getPodsPrefix`): with a dash if a name may be that long.
pub(crate) fn prefix(controller: &str) -> String {
    if controller.len() < NAME_LIMIT { format!("{controller}-") } else { controller.to_owned() }
}

/// Builds a pod of the template of the controller `name`, owned by `owner`.
pub(crate) fn pod_from_template(template: &PodTemplateSpec, name: &str, owner: OwnerReference) -> Pod {
    let given = template.metadata.as_ref();
    let metadata = ObjectMeta {
        labels: given.and_then(|given| given.labels.clone()),
        annotations: given.and_then(|given| given.annotations.clone()),
        finalizers: given.and_then(|given| given.finalizers.clone()),
        generate_name: Some(prefix(name)),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}
