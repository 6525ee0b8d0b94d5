//! Steps that act on objects: deletion, eviction, taints, cordons.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Failure, Run};
use crate::scenario::{Delete, Evict, Taint, Untaint};
use crate::spec::object::{Kind, ObjectRef};

/// Pause after a refused eviction (kubectl `drain.go` evictPods).
const EVICTION_RETRY: Duration = Duration::from_secs(5);

impl Run<'_> {
    pub(super) async fn delete(&self, delete: &Delete) -> Result<(), Failure> {
        let grace = if delete.force { Some(0) } else { delete.grace.map(|g| g.as_secs() as i64) };
        let deleted = self.objects.delete_cascading(&delete.object, grace, delete.cascade).await;
        self.api(&format!("delete {}", delete.object), deleted)?;
        self.applied_objects().deleted(&delete.object);
        Ok(())
    }

    /// Evicts a pod as `kubectl drain` does: while a disruption budget refuses, it asks again every five seconds.
    pub(super) async fn evict(&self, evict: &Evict) -> Result<(), Failure> {
        let (pod, what) = (&evict.pod, format!("evict {}", evict.pod));
        let mut waited = Duration::ZERO;
        loop {
            match self.objects.evict(pod, evict.grace.map(|grace| grace.as_secs() as i64)).await {
                Err(error) if error.is_too_many() && evict.refused => return Ok(()),
                Err(error) if error.is_too_many() && waited < evict.within => {
                    tokio::time::sleep(self.cluster.scaled(EVICTION_RETRY)).await;
                    waited += EVICTION_RETRY;
                }
                Ok(()) if evict.refused => return Err(self.failure(format!("{what} is refused"), "it was accepted")),
                result => {
                    self.api(&what, result)?;
                    self.applied_objects().deleted(pod);
                    return Ok(());
                }
            }
        }
    }

    async fn taints(&self, node: &str) -> Result<(ObjectRef, Vec<Value>), Failure> {
        let object = ObjectRef::new(Kind::node(), None, node);
        let value = self.api(&format!("get {object}"), self.objects.get(&object).await)?;
        let taints = value.and_then(|n| n["spec"]["taints"].as_array().cloned()).unwrap_or_default();
        Ok((object, taints.into_iter().map(Value::from).collect()))
    }

    pub(super) async fn taint(&self, taint: &Taint) -> Result<(), Failure> {
        let (object, mut taints) = self.taints(&taint.node).await?;
        taints.retain(|t| t["key"] != *taint.key || t["effect"] != *taint.effect);
        taints.push(json!({ "key": taint.key, "value": taint.value, "effect": taint.effect }));
        let patch = json!({ "spec": { "taints": taints } });
        self.api(&format!("taint {object}"), self.objects.patch(&object, &patch).await)
    }

    pub(super) async fn untaint(&self, untaint: &Untaint) -> Result<(), Failure> {
        let (object, mut taints) = self.taints(&untaint.node).await?;
        taints.retain(|t| t["key"] != *untaint.key);
        let patch = json!({ "spec": { "taints": taints } });
        self.api(&format!("untaint {object}"), self.objects.patch(&object, &patch).await)
    }

    pub(super) async fn cordon(&self, node: &str) -> Result<(), Failure> {
        self.unschedulable(node, true).await
    }

    pub(super) async fn uncordon(&self, node: &str) -> Result<(), Failure> {
        self.unschedulable(node, false).await
    }

    async fn unschedulable(&self, node: &str, on: bool) -> Result<(), Failure> {
        let object = ObjectRef::new(Kind::node(), None, node);
        let patch = json!({ "spec": { "unschedulable": if on { Value::Bool(true) } else { Value::Null } } });
        self.api(&format!("cordon {object}"), self.objects.patch(&object, &patch).await)?;
        self.applied_objects().cordoned(node, on);
        Ok(())
    }
}
