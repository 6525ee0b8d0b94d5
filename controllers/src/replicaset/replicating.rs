//! Kinds that keep a number of equal pods: ReplicaSets, and ReplicationControllers, which the loop handles as
//! ReplicaSets (`pkg/controller/replication/conversion.go`).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::workload::related::Selecting;

/// Kind of the loop.
pub(super) trait Replicating: Selecting {
    /// Source of its Events.
    const SOURCE: &'static str;
    /// Name of its work queue in metrics.
    const QUEUE: &'static str;

    /// Returns the object as a ReplicaSet.
    fn as_set(of: &Arc<Self>) -> Arc<ReplicaSet>;

    /// Returns true if the object has this status.
    fn has_status(&self, status: &ReplicaSetStatus) -> bool;

    /// Returns the object with this status.
    fn with_status(&self, status: ReplicaSetStatus) -> Self;
}

impl Replicating for ReplicaSet {
    const SOURCE: &'static str = "replicaset-controller";
    const QUEUE: &'static str = "replicaset";

    fn as_set(of: &Arc<Self>) -> Arc<ReplicaSet> {
        of.clone()
    }

    fn has_status(&self, status: &ReplicaSetStatus) -> bool {
        self.status.as_ref() == Some(status)
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        Self { status: Some(status), ..self.clone() }
    }
}

impl Replicating for ReplicationController {
    const SOURCE: &'static str = "replication-controller";
    const QUEUE: &'static str = "replicationmanager";

    fn as_set(of: &Arc<Self>) -> Arc<ReplicaSet> {
        let spec = of.spec.as_ref().map(|spec| ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: spec.replicas,
            selector: LabelSelector { match_labels: spec.selector.clone(), ..LabelSelector::default() },
            template: spec.template.clone(),
        });
        let status = of.status.clone().map(|status| ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions: status.conditions.map(|all| all.into_iter().map(of_set).collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            terminating_replicas: None,
        });
        Arc::new(ReplicaSet { metadata: of.metadata.clone(), spec, status })
    }

    fn has_status(&self, status: &ReplicaSetStatus) -> bool {
        self.status.as_ref() == Some(&of_controller(status.clone()))
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        Self { status: Some(of_controller(status)), ..self.clone() }
    }
}

fn of_set(condition: ReplicationControllerCondition) -> ReplicaSetCondition {
    ReplicaSetCondition {
        last_transition_time: condition.last_transition_time,
        message: condition.message,
        reason: condition.reason,
        status: condition.status,
        type_: condition.type_,
    }
}

/// Returns the status of a ReplicationController, which does not count terminating pods.
fn of_controller(status: ReplicaSetStatus) -> ReplicationControllerStatus {
    let condition = |condition: ReplicaSetCondition| ReplicationControllerCondition {
        last_transition_time: condition.last_transition_time,
        message: condition.message,
        reason: condition.reason,
        status: condition.status,
        type_: condition.type_,
    };
    ReplicationControllerStatus {
        available_replicas: status.available_replicas,
        conditions: status.conditions.map(|all| all.into_iter().map(condition).collect()),
        fully_labeled_replicas: status.fully_labeled_replicas,
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas,
        replicas: status.replicas,
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_replication_controller_is_a_set_that_selects_by_labels() {
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } });
        let controller: Arc<ReplicationController> = from_value(json!({
            "metadata": { "name": "web", "namespace": "default", "uid": "u" },
            "spec": { "replicas": 2, "selector": { "app": "web" }, "template": template },
        }))
        .map(Arc::new)
        .unwrap();
        let pod = |labels: substrate::json::Value| -> k8s_openapi::api::core::v1::Pod {
            from_value(json!({ "metadata": { "name": "p", "labels": labels } })).unwrap()
        };
        for (labels, selected) in
            [(json!({ "app": "web", "more": "x" }), true), (json!({ "app": "db" }), false), (json!({}), false)]
        {
            let pod = pod(labels);
            let set = Replicating::as_set(&controller);
            assert_eq!((controller.selects(&pod), set.selects(&pod)), (selected, selected), "{pod:?}");
        }
        let status = ReplicaSetStatus { replicas: 2, terminating_replicas: Some(1), ..ReplicaSetStatus::default() };
        assert!(!controller.has_status(&status));
        let counted = controller.with_status(status.clone());
        assert!(counted.has_status(&status) && counted.spec == controller.spec);
    }
}
