//! Binding of a pre-provisioned group to its content, in both directions.

use std::sync::Arc;

use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::binding::Misfit;
use super::decide::group_key;
use crate::kube::{Kind, Operation};

/// Checks the content that a pre-provisioned group names (`getPreprovisionedGroupSnapshotContentFromStore`).
///
/// # Errors
/// If it is not for this group.
pub fn preprovisioned(
    group: &VolumeGroupSnapshot,
    content: Arc<VolumeGroupSnapshotContent>,
) -> Result<Arc<VolumeGroupSnapshotContent>, Misfit> {
    let name = content.name();
    if content.spec.source.group_snapshot_handles.is_none() {
        let message = "VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one";
        return Err(Misfit {
            reason: "GroupSnapshotContentMismatch",
            message: message.to_owned(),
            error: format!(
                "group snapshot {} expects a pre-provisioned VolumeGroupSnapshotContent {name} but gets a dynamically \
                 provisioned one",
                group_key(group)
            ),
        });
    }
    // The content's author does not know the group's uid.
    let is_ours = content.group_key() == (group.namespace().to_owned(), group.name().to_owned())
        && (content.group_uid().is_empty() || content.group_uid() == group.uid());
    if is_ours {
        return Ok(content);
    }
    let message = format!("VolumeGroupSnapshotContent [{name}] is bound to a different group snapshot");
    Err(Misfit { reason: "GroupSnapshotContentMisbound", error: message.clone(), message })
}

/// Returns the patch that binds a pre-provisioned content to the group; empty if it is bound
/// (`checkAndBindGroupSnapshotContent`).
///
/// # Errors
/// If the content is for another group.
pub fn bind(group: &VolumeGroupSnapshot, content: &VolumeGroupSnapshotContent) -> Result<Vec<Operation>, String> {
    let of = &content.spec.volume_group_snapshot_ref;
    let uid = content.group_uid();
    if of.name.as_deref() != Some(group.name()) || (!uid.is_empty() && uid != group.uid()) {
        let (group, content) = (group.name(), content.name());
        return Err(format!(
            "Could not bind group snapshot {group} and group snapshot content {content}, the VolumeGroupSnapshotRef \
             does not match"
        ));
    }
    if !uid.is_empty() && content.spec.volume_group_snapshot_class_name.is_some() {
        return Ok(Vec::new());
    }
    let replace = |path: &str, value: &str| Operation::Replace { path: path.to_owned(), value: value.into() };
    let mut operations = vec![replace("/spec/volumeGroupSnapshotRef/uid", group.uid())];
    if let Some(class) = &group.spec.volume_group_snapshot_class_name {
        operations.push(replace("/spec/volumeGroupSnapshotClassName", class));
    }
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn group(class: Option<&str>) -> VolumeGroupSnapshot {
        let metadata = json!({ "namespace": "shop", "name": "g", "uid": "u" });
        let source = json!({ "volumeGroupSnapshotContentName": "c" });
        from_value(json!({
            "metadata": metadata, "spec": { "source": source, "volumeGroupSnapshotClassName": class },
        }))
        .unwrap()
    }

    fn content(of: &Value, source: &Value, class: Option<&str>) -> Arc<VolumeGroupSnapshotContent> {
        from_value(json!({
            "metadata": { "name": "c" },
            "spec": { "volumeGroupSnapshotRef": of, "source": source, "volumeGroupSnapshotClassName": class },
        }))
        .unwrap()
    }

    fn existing() -> Value {
        let group = json!({ "volumeGroupSnapshotHandle": "gsnap-1", "volumeSnapshotHandles": ["snap-1"] });
        json!({ "groupSnapshotHandles": group })
    }

    #[test]
    fn a_content_is_for_one_group() {
        let check = |of: Value, source: &Value| preprovisioned(&group(None), content(&of, source, None));
        let ours = json!({ "namespace": "shop", "name": "g" });
        assert!(check(ours.clone(), &existing()).is_ok(), "the author does not know the uid");
        assert!(check(json!({ "namespace": "shop", "name": "g", "uid": "u" }), &existing()).is_ok());
        let reason = |of: Value, source: &Value| check(of, source).unwrap_err().reason;
        assert_eq!(reason(ours, &json!({ "volumeHandles": ["vol-1"] })), "GroupSnapshotContentMismatch");
        let others = [
            json!({ "namespace": "other", "name": "g" }),
            json!({ "namespace": "shop", "name": "h" }),
            json!({ "namespace": "shop", "name": "g", "uid": "v" }),
        ];
        for other in others {
            assert_eq!(reason(other, &existing()), "GroupSnapshotContentMisbound");
        }
    }

    #[test]
    fn a_binding_writes_uid_and_class() {
        let of = |uid: Option<&str>| json!({ "namespace": "shop", "name": "g", "uid": uid });
        let writes = |class: Option<&str>, uid: Option<&str>, of_content: Option<&str>| {
            bind(&group(class), &content(&of(uid), &existing(), of_content)).map(|operations| operations.len())
        };
        assert_eq!(writes(Some("gold"), None, None), Ok(2));
        assert_eq!(writes(None, None, None), Ok(1));
        assert_eq!(writes(None, Some("u"), Some("gold")), Ok(0));
        assert_eq!(writes(None, Some("u"), None), Ok(1), "upstream writes the uid again if there is no class");
        let error = writes(None, Some("v"), None).unwrap_err();
        assert_eq!(
            error,
            "Could not bind group snapshot g and group snapshot content c, the VolumeGroupSnapshotRef does not match"
        );
    }
}
