//! The default admission steps that touch what this server holds (R25), and what strategies set at creation.

use substrate::json::{Value, json};

use super::status::Status;
use super::value::{self, at, has, list, name, text};
use super::{Store, quantity};
use crate::kinds::{self, Kind};

/// Marks a storage class as the default one.
const DEFAULT_CLASS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// How long a pod stays on a node that is not ready or not reachable (`DefaultTolerationSeconds`).
const TOLERATION_SECONDS: i64 = 300;

/// What a pod's priority does unless its class says otherwise.
const PREEMPT: &str = "PreemptLowerPriority";
/// Priority classes that every cluster has (`pkg/apis/scheduling`).
const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl Store {
    /// The mutating and validating steps of a creation, in upstream's order.
    pub(super) fn admit_create(&self, kind: &Kind, object: &mut Value) -> Result<(), Status> {
        match (kind.group, kind.kind) {
            ("", "Pod") => {
                self.default_limits(object);
                self.check_limits(kind, object)?;
                self.admit_service_account(kind, object)?;
                self.admit_priority(kind, object)?;
                default_tolerations(object);
                self.admit_runtime_class(kind, object)?;
                let node = text(object, &["spec", "nodeName"]).to_owned();
                if !node.is_empty() {
                    self.copy_topology(object, &node);
                }
            }
            ("", "Node") => taint_new_node(object),
            ("", "PersistentVolumeClaim") => {
                self.check_limits(kind, object)?;
                self.default_class(object);
            }
            ("", "Service") => self.give_addresses(object, None)?,
            ("networking.k8s.io", "Ingress") => self.default_ingress_class(object),
            _ => {}
        }
        if let Some(finalizer) = protection(kind) {
            add_finalizer(object, finalizer);
        }
        Ok(())
    }

    /// The steps of an update of the object itself.
    pub(super) fn admit_update(&self, kind: &Kind, object: &mut Value, old: &Value) -> Result<(), Status> {
        match (kind.group, kind.kind) {
            ("", "PersistentVolumeClaim") => {
                if !value::is_terminating(old) {
                    self.check_limits(kind, object)?;
                }
                self.admit_resize(kind, object, old)
            }
            ("", "Pod") => {
                default_tolerations(object);
                Ok(())
            }
            ("", "Service") => self.give_addresses(object, Some(old)),
            _ => Ok(()),
        }
    }

    /// A pod runs as the service account `default` unless it names one, which must exist.
    ///
    /// The token volume that upstream adds as well is left out: pods of this cluster do not call the API.
    fn admit_service_account(&self, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
        let namespace = value::namespace(pod).to_owned();
        let Some(spec) = value::map_mut(pod, "spec") else { return Ok(()) };
        value::default(spec, "serviceAccountName", "default");
        if spec.get("serviceAccountName").and_then(Value::as_str) == Some("") {
            spec.insert("serviceAccountName", "default".into());
        }
        let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The field's old name is kept equal.
        spec.insert("serviceAccount", account.as_str().into());
        if self.get(kinds::SERVICE_ACCOUNTS, &format!("{namespace}/{account}")).is_none() {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            );
            return Err(Status::forbidden(kind, name(pod), &why));
        }
        Ok(())
    }

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

    /// The number behind a pod's priority class (admission `Priority`).
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

    /// An ingress without a class gets the default one (`DefaultIngressClass`).
    fn default_ingress_class(&self, ingress: &mut Value) {
        if has(ingress, &["spec", "ingressClassName"])
            || has(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"])
        {
            return;
        }
        let marked = |class: &Value| {
            text(class, &["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"]) == "true"
        };
        let class = self.all(kinds::INGRESS_CLASSES).find(|class| marked(&class.value));
        if let (Some(class), Some(spec)) = (class, value::map_mut(ingress, "spec")) {
            spec.insert("ingressClassName", name(&class.value).into());
        }
    }

    /// A claim without a class gets the default one: the newest, and among those of one second the first by name.
    fn default_class(&self, claim: &mut Value) {
        let annotated = has(claim, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
        // A class of "" is a choice: no class.
        if annotated || has(claim, &["spec", "storageClassName"]) {
            return;
        }
        let is_default =
            |class: &Value| DEFAULT_CLASS.iter().any(|a| text(class, &["metadata", "annotations", a]) == "true");
        let created = |class: &Value| text(class, &["metadata", "creationTimestamp"]).to_owned();
        let chosen = self
            .all(kinds::STORAGE_CLASSES)
            .filter(|class| is_default(&class.value))
            // max_by_key takes the last of equals, and they come in the order of names.
            .rev_max_by(|class| created(&class.value));
        if let (Some(class), Some(spec)) = (chosen, value::map_mut(claim, "spec")) {
            spec.insert("storageClassName", name(&class.value).into());
        }
    }

    /// A claim may grow only when it is bound and its class allows it (`PersistentVolumeClaimResize`).
    fn admit_resize(&self, kind: &Kind, claim: &Value, old: &Value) -> Result<(), Status> {
        let path = ["spec", "resources", "requests", "storage"];
        let (new, was) = (quantity::nanos(text(claim, &path)), quantity::nanos(text(old, &path)));
        if !matches!((new, was), (Some(new), Some(was)) if new > was) {
            return Ok(());
        }
        if text(old, &["status", "phase"]) != "Bound" {
            return Err(Status::forbidden(kind, name(claim), "Only bound persistent volume claims can be expanded"));
        }
        let class = text(claim, &["spec", "storageClassName"]);
        let allows =
            self.get(kinds::STORAGE_CLASSES, class).is_some_and(|class| class.value["allowVolumeExpansion"] == true);
        if allows {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
        Err(Status::forbidden(kind, name(claim), why))
    }
}

/// The first of the greatest, in the order of iteration.
trait RevMax: Iterator + Sized {
    fn rev_max_by<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        self.fold(None, |best: Option<Self::Item>, item| match best {
            Some(best) if key(&best) >= key(&item) => Some(best),
            _ => Some(item),
        })
    }
}

impl<I: Iterator> RevMax for I {}

/// The finalizer that keeps an object while it is in use (`StorageObjectInUseProtection`).
fn protection(kind: &Kind) -> Option<&'static str> {
    match kind.kind {
        "PersistentVolume" => Some("kubernetes.io/pv-protection"),
        "PersistentVolumeClaim" => Some("kubernetes.io/pvc-protection"),
        "VolumeAttributesClass" => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let slot = value::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = slot.as_array_mut()
        && !finalizers.iter().any(|f| f == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

/// Tolerates a node that is not ready or unreachable for five minutes, unless the pod says otherwise.
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

/// A new node takes no pods until the node controller finds it ready (`TaintNodesByCondition`).
fn taint_new_node(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let there = |t: &Value| text(t, &["key"]) == key && text(t, &["effect"]) == "NoSchedule";
    if list(node, &["spec", "taints"]).iter().any(there) {
        return;
    }
    let Some(spec) = value::map_mut(node, "spec") else { return };
    if let Some(taints) = spec.entry("taints").or_insert_with(|| json!([])).as_array_mut() {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}
