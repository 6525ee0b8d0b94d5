//! Pods (`pkg/registry/core/pod/strategy.go`).

use substrate::Now;
use substrate::json::{Value, json};

use super::{PLAIN, Strategy, keep_the_rest};
use crate::kinds::{self, Kind};
use crate::state::command::Part;
use crate::state::status::Status;
use crate::state::value::{self, at, copy, copy_meta, list, name, text};
use crate::state::{Store, default, validate, warnings};

pub(super) static POD: Strategy = Strategy {
    default: default::pod::apply,
    admit_create,
    admit_update: |_, part, _, pod, old| {
        if part == Part::Main {
            default_tolerations(pod);
            keep_priority(pod, old);
        }
        Ok(())
    },
    check_create: |store, kind, pod| store.check_limits(kind, pod),
    check_update: |store, part, kind, pod, old| match part {
        Part::Resize if !value::is_terminating(old) => store.check_limits(kind, pod),
        _ => Ok(()),
    },
    counts: true,
    begin: |pod, _| Some(first_status(pod)),
    prepare,
    takes_late_status: true,
    validate: validate::pod::create,
    validate_update: |part, pod, old, errors| match part {
        Part::Main => validate::pod::update(pod, old, errors),
        Part::EphemeralContainers => validate::ephemeral::update(pod, old, errors),
        Part::Resize => validate::resize::update(pod, old, errors),
        Part::Status => validate::pod_status::update(pod, old, errors),
        _ => {}
    },
    warn: |pod, old| warnings::of_pods(kinds::PODS, pod, old),
    ..PLAIN
};

/// Seconds that a pod stays on a node that is not ready or not reachable (`DefaultTolerationSeconds`).
const TOLERATION_SECONDS: i64 = 300;

/// Default preemption policy of a pod.
const PREEMPT: &str = "PreemptLowerPriority";

/// Priority classes that every cluster has (`pkg/apis/scheduling`).
const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

fn admit_create(store: &Store, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    store.default_limits(pod);
    store.admit_priority(kind, pod)?;
    default_tolerations(pod);
    store.admit_runtime_class(kind, pod)?;
    let node = text(pod, &["spec", "nodeName"]).to_owned();
    if !node.is_empty() {
        store.copy_topology(pod, &node);
    }
    Ok(())
}

/// Returns the status of a new pod. A condition says that scheduling gates hold it.
fn first_status(pod: &Value) -> Value {
    let class = default::qos_class(pod);
    if list(pod, &["spec", "schedulingGates"]).is_empty() {
        return json!({"phase": "Pending", "qosClass": class});
    }
    let gated = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    });
    json!({"phase": "Pending", "conditions": [gated], "qosClass": class})
}

fn prepare(kind: &Kind, part: Part, pod: &mut Value, old: &Value, now: Now) {
    match part {
        Part::Status => {
            keep_the_rest(kind, part, pod, old, now);
            prepare_pod_status(pod, old);
        }
        Part::EphemeralContainers => {
            let sent = pod["spec"].get("ephemeralContainers").cloned();
            copy(old, pod, "spec");
            copy(old, pod, "status");
            if let Some(spec) = value::map_mut(pod, "spec") {
                match sent {
                    Some(sent) => drop(spec.insert("ephemeralContainers", sent)),
                    None => drop(spec.remove("ephemeralContainers")),
                }
            }
        }
        Part::Resize => {
            let sent = std::mem::take(&mut pod["spec"]);
            copy(old, pod, "spec");
            copy(old, pod, "status");
            take_resources(pod, &sent);
        }
        _ => keep_the_rest(kind, part, pod, old, now),
    }
}

/// Takes only the resources and resize policies of the containers from the sent object (`podResizeStrategy`). Other
/// containers than before are kept for the validation, which refuses them.
fn take_resources(pod: &mut Value, sent: &Value) {
    for field in ["containers", "initContainers"] {
        let names = |spec: &Value| list(spec, &[field]).iter().map(|one| name_of(one).to_owned()).collect::<Vec<_>>();
        if names(sent) != names(&pod["spec"]) {
            copy(sent, &mut pod["spec"], field);
            continue;
        }
        let Some(containers) = pod["spec"].get_mut(field).and_then(Value::as_array_mut) else { continue };
        for (container, wanted) in containers.iter_mut().zip(list(sent, &[field])) {
            copy(wanted, container, "resources");
            copy(wanted, container, "resizePolicy");
        }
    }
}

fn name_of(container: &Value) -> &str {
    text(container, &["name"])
}

/// Copies owner references and the QoS class from the old object in a status update (`podStatusStrategy`).
fn prepare_pod_status(object: &mut Value, old: &Value) {
    copy_meta(old, object, "ownerReferences");
    let class = text(old, &["status", "qosClass"]).to_owned();
    if text(object, &["status", "qosClass"]).is_empty()
        && !class.is_empty()
        && let Some(status) = value::map_mut(object, "status")
    {
        status.insert("qosClass", class.into());
    }
}

/// Adds the tolerations for nodes that are not ready or not reachable, unless the pod has its own.
fn default_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(pod, &["spec", "tolerations"]).iter().any(|t| {
            let effect = text(t, &["effect"]);
            let of = text(t, &["key"]);
            (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if tolerated {
            continue;
        }
        let Some(spec) = value::map_mut(pod, "spec") else { return };
        if let Some(tolerations) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// Keeps the computed priority if an update omits it (admission `Priority`).
fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let kept = old["spec"].get(field).filter(|kept| !kept.is_null());
        if let Some(kept) = kept
            && let Some(spec) = value::map_mut(pod, "spec")
        {
            value::default(spec, field, kept.clone());
        }
    }
}

impl Store {
    fn copy_topology(&self, pod: &mut Value, node: &str) {
        let Some(node) = self.get(kinds::NODES, node).cloned() else { return };
        for label in ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"] {
            if let Some(found) = at(&node.value, &["metadata", "labels", label]) {
                let slot = value::metadata(pod).entry("labels").or_insert_with(|| json!({}));
                if let Some(labels) = slot.as_object_mut() {
                    labels.insert(label, found.clone());
                }
            }
        }
    }

    /// Sets a pod's priority from its class (admission `Priority`).
    fn admit_priority(&self, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
        let class = text(pod, &["spec", "priorityClassName"]).to_owned();
        let found = |class: &Value| {
            let policy = text(class, &["preemptionPolicy"]);
            (value::int(class, &["value"]).unwrap_or(0), if policy.is_empty() { PREEMPT } else { policy }.to_owned())
        };
        let ((priority, policy), named) = if class.is_empty() {
            let default = self.all(kinds::PRIORITY_CLASSES).find(|class| class.value["globalDefault"] == true);
            default.map_or(((0, PREEMPT.to_owned()), None), |class| {
                (found(&class.value), Some(name(&class.value).to_owned()))
            })
        } else if let Some(there) = self.get(kinds::PRIORITY_CLASSES, &class) {
            (found(&there.value), None)
        } else if let Some((_, priority)) = SYSTEM_CLASSES.iter().find(|(system, _)| *system == class) {
            ((*priority, PREEMPT.to_owned()), None)
        } else {
            return Err(Status::forbidden(kind, name(pod), &format!("no PriorityClass with name {class} was found")));
        };
        let sent = value::int(pod, &["spec", "priority"]);
        if sent.is_some_and(|sent| sent != priority) {
            let why = format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority admission controller \
                 computed {priority} from the given PriorityClass name",
                sent.unwrap_or_default()
            );
            return Err(Status::forbidden(kind, name(pod), &why));
        }
        if let Some(spec) = value::map_mut(pod, "spec") {
            spec.insert("priority", priority.into());
            value::default(spec, "preemptionPolicy", policy);
            if let Some(named) = named {
                spec.insert("priorityClassName", named.into());
            }
        }
        Ok(())
    }
}
