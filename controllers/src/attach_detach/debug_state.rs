//! Desired and actual state of world, for observers.

use super::reconcile::Reconciler;
use super::volume::parse_unique_name;
use crate::events::LoopState;

impl Reconciler {
    /// Returns the volumes that the pods need, and the attachments that the controller knows.
    pub(super) fn state(&self) -> LoopState {
        let short = |volume: &str| parse_unique_name(volume).map_or(volume.to_owned(), |(_, handle)| handle.to_owned());
        let desired = self.desired.volumes().map(|(node, volume, wanted)| {
            let name = |pod: &std::sync::Arc<k8s_openapi::api::core::v1::ObjectReference>| {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                format!("{}/{}", part(&pod.namespace), part(&pod.name))
            };
            let mut pods: Vec<String> = wanted.pods.values().map(name).collect();
            pods.sort();
            format!("{} on {node} for {}", short(volume), pods.join(", "))
        });
        let actual = self.actual.volumes().flat_map(|(volume, attached)| {
            attached.nodes.iter().map(move |(node, on)| {
                let mut is = vec![if on.confirmed { "attached" } else { "uncertain" }];
                is.extend(on.mounted.then_some("in use"));
                let since = on.detach_requested.map(|since| format!("to be detached since {}ms", since.as_millis()));
                format!(
                    "{} on {node}: {}{}",
                    short(volume),
                    is.join(", "),
                    since.map(|s| format!(", {s}")).unwrap_or_default()
                )
            })
        });
        let (mut desired, mut actual): (Vec<String>, Vec<String>) = (desired.collect(), actual.collect());
        desired.sort();
        actual.sort();
        LoopState { of: "attach-detach".into(), desired, actual }
    }
}
