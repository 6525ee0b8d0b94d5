//! Steps that act on objects: deletion, taints, cordons.

use serde_json::{Value, json};

use super::{Failure, Run};
use crate::scenario::model::{Delete, Taint, Untaint};
use crate::scenario::object::{Kind, ObjectRef};

impl Run<'_> {
    pub(super) async fn delete(&self, delete: &Delete) -> Result<(), Failure> {
        let grace = if delete.force { Some(0) } else { delete.grace.map(|g| g.as_secs() as i64) };
        let deleted = self.objects.delete_cascading(&delete.object, grace, delete.cascade).await;
        self.api(&format!("delete {}", delete.object), deleted)?;
        self.applied_objects().deleted(&delete.object);
        Ok(())
    }

    pub(super) async fn taints(&self, node: &str) -> Result<(ObjectRef, Vec<Value>), Failure> {
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

    pub(super) async fn unschedulable(&self, node: &str, on: bool) -> Result<(), Failure> {
        let object = ObjectRef::new(Kind::node(), None, node);
        let patch = json!({ "spec": { "unschedulable": if on { Value::Bool(true) } else { Value::Null } } });
        self.api(&format!("cordon {object}"), self.objects.patch(&object, &patch).await)?;
        self.applied_objects().cordoned(node, on);
        Ok(())
    }
}
