//! Nodes of a set (`nodeShouldRunDaemonPod`), and the pod template of a node.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
    PodTemplateSpec, Taint, Toleration,
};

use crate::kube::Kind;
use crate::scheduler::node_filters::affinity_matches;
use crate::taints::{self, NO_EXECUTE, NO_SCHEDULE, tolerates};

/// Label with the hash of the revision of a pod.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";
/// Annotation and label with the number of the template, from an older API.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";
/// Field of a node selector.
const NAME_FIELD: &str = "metadata.name";

/// Decision about a node: whether a pod shall be created there, and whether a present one may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) should_run: bool,
    pub(super) may_stay: bool,
}

/// Decides whether a pod of the set fits on a node.
pub(super) fn fit(set: &DaemonSet, node: &Node) -> Fit {
    let none = Fit { should_run: false, may_stay: false };
    let Some(template) = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else { return none };
    let named = template.node_name.as_deref().unwrap_or_default();
    let mut spec = template.clone();
    add_tolerations(&mut spec);
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    if !(named.is_empty() || named == node.name()) || !affinity_matches(&pod, node) {
        return none;
    }
    let all = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let is_tolerated = |taint: &Taint| all.iter().any(|toleration| tolerates(toleration, taint));
    let tolerates_all = |effects: &[&str]| {
        taints::of(node).iter().filter(|taint| effects.contains(&taint.effect.as_str())).all(is_tolerated)
    };
    if tolerates_all(&[NO_SCHEDULE, NO_EXECUTE]) {
        return Fit { should_run: true, may_stay: true };
    }
    Fit { should_run: false, may_stay: tolerates_all(&[NO_EXECUTE]) }
}

/// Returns true if a change of a node cannot change a decision (`shouldIgnoreNodeUpdate`).
pub(super) fn is_same_place(old: &Node, new: &Node) -> bool {
    old.metadata.labels == new.metadata.labels && taints::of(old) == taints::of(new)
}

/// Returns true if a set has to work because a node changed (`syncNodeUpdate`); `has_pods` is true if the node has pods of
/// the set, and `misscheduled` the number in its status.
pub(super) fn concerns(fit: Fit, has_pods: bool, misscheduled: i32) -> bool {
    if has_pods { !fit.may_stay || misscheduled > 0 } else { fit.should_run }
}

/// Adds the tolerations of daemons (`AddOrUpdateDaemonPodTolerations`).
fn add_tolerations(spec: &mut PodSpec) {
    let mut added = vec![
        ("node.kubernetes.io/not-ready", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", NO_EXECUTE),
        ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
        ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
        ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
        ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
    ];
    if spec.host_network == Some(true) {
        added.push(("node.kubernetes.io/network-unavailable", NO_SCHEDULE));
    }
    let all = spec.tolerations.get_or_insert_default();
    for (key, effect) in added {
        let new = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = |old: &Toleration| {
            old.key == new.key && old.effect == new.effect && old.operator == new.operator && old.value == new.value
        };
        match all.iter_mut().find(|old| same(old)) {
            Some(old) => *old = new,
            None => all.push(new),
        }
    }
}

/// Builds the template of the pods at a revision (`CreatePodTemplate`).
pub(super) fn template(set: &DaemonSet, hash: &str) -> PodTemplateSpec {
    let mut template = set.spec.clone().unwrap_or_default().template;
    add_tolerations(template.spec.get_or_insert_default());
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    if let Some(generation) = generation(set) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
    }
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    template
}

fn generation(set: &DaemonSet) -> Option<i64> {
    set.annotation(GENERATION_ANNOTATION)?.parse().ok()
}

/// Returns true if the pod is of the newest template (`IsPodUpdated`).
pub(super) fn is_updated(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let generation = generation(set).map(|generation| generation.to_string());
    (generation.is_some() && pod.label(GENERATION_LABEL) == generation.as_deref())
        || (!hash.is_empty() && pod.label(HASH_LABEL) == Some(hash))
}

/// Limits a pod to a node: the scheduler binds it there (`ReplaceDaemonSetPodNodeNameNodeAffinity`).
pub(super) fn assign(spec: &mut PodSpec, node: &str) {
    let requirement = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![requirement]), match_expressions: None };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let of_node: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let required: &mut Option<NodeSelector> = &mut of_node.required_during_scheduling_ignored_during_execution;
    *required = Some(NodeSelector { node_selector_terms: vec![term] });
}

/// Returns the node of a pod: the one to which it is bound, or to which it is limited (`GetTargetNodeName`).
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let required = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = required.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms.iter();
    let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == NAME_FIELD && field.operator == "In")?;
    match field.values.as_deref()? {
        [node] => Some(node),
        _ => None,
    }
}
