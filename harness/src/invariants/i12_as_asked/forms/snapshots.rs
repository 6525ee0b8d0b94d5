//! Forms of snapshots: a VolumeSnapshot, its content and the snapshot of the cloud agree with each other and with the
//! class; the members of a ready group are as many as the driver took; nothing of a deleted snapshot is left, neither a
//! content nor a snapshot of the cloud.
//!
//! Not compared: contents whose status has an error; snapshots of the cloud that a step touched; the policy of a content
//! or class that was changed; the readiness of members, which upstream sets back while their group is not ready; leftovers
//! if a class has the policy Retain, if a user wrote a content, or if a fault met a creation.

use fake_apiserver::fields::quantity::nanos;
use jiff::Timestamp;
use substrate::json::Value;

use super::{Comparison, has_finalizer, key, list, name, text};

/// Value of one, as quantities count.
const ONE: i128 = 1_000_000_000;
/// Finalizer of a content that is bound.
const OF_CONTENT: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Finalizer of a snapshot from which claims can be restored.
const OF_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Finalizer of a snapshot whose content is deleted with it.
const OF_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Annotation of the content of a member of a group.
const MEMBER: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

impl Comparison<'_> {
    /// Compares each snapshot, content and group, and the snapshots that the driver took.
    pub(super) fn snapshots(&mut self) {
        if !self.has_all(&["snapshot-controller", "csi-snapshotter", "csi-mock"]) {
            return;
        }
        let stored = &self.machines.stored;
        for snapshot in stored.rare("volumesnapshots") {
            let differs = self.form_of_snapshot(snapshot);
            self.judge(None, differs.map(|differs| format!("volumesnapshot/{} {differs}", key(snapshot))));
        }
        for content in stored.rare("volumesnapshotcontents") {
            let differs = self.form_of_content(content);
            self.judge(None, differs.map(|differs| format!("volumesnapshotcontent/{} {differs}", name(content))));
        }
        for group in stored.rare("volumegroupsnapshots") {
            let differs = self.form_of_group(group);
            self.judge(None, differs.map(|differs| format!("volumegroupsnapshot/{} {differs}", key(group))));
        }
        self.taken_snapshots();
    }

    fn content(&self, name_of: &str) -> Option<&Value> {
        self.machines.stored.all_rare("volumesnapshotcontents").find(|content| name(content) == name_of)
    }

    fn form_of_snapshot(&self, snapshot: &Value) -> Option<String> {
        let (source, status) = (&snapshot["spec"]["source"], &snapshot["status"]);
        let (bound, is_ready) = (text(&status["boundVolumeSnapshotContentName"]), status["readyToUse"] == true);
        let is_told = !status["error"].is_null();
        if bound.is_empty() {
            let waits = !source["persistentVolumeClaimName"].is_null() && !is_told;
            return waits.then(|| "has neither a content nor an error".to_owned());
        }
        let Some(content) = self.content(bound) else {
            return (is_ready || !is_told).then(|| format!("has the content {bound}, which does not exist"));
        };
        let (of, state) = (&content["spec"]["volumeSnapshotRef"], &content["status"]);
        let is_its = of["uid"] == snapshot["metadata"]["uid"]
            && of["name"] == snapshot["metadata"]["name"]
            && of["namespace"] == snapshot["metadata"]["namespace"];
        if !is_its {
            return (is_ready || !is_told).then(|| format!("has the content {bound}, which is of another snapshot"));
        }
        if !has_finalizer(snapshot, OF_SOURCE) {
            return Some(format!("lacks the finalizer {OF_SOURCE}"));
        }
        let is_member = !content["metadata"]["annotations"][MEMBER].is_null();
        let goes = !is_member && text(&content["spec"]["deletionPolicy"]) == "Delete";
        if goes && !has_finalizer(snapshot, OF_BOUND) {
            return Some(format!("goes with its content, and lacks the finalizer {OF_BOUND}"));
        }
        let class = text(&snapshot["spec"]["volumeSnapshotClassName"]);
        if !source["persistentVolumeClaimName"].is_null() && text(&content["spec"]["volumeSnapshotClassName"]) != class
        {
            return Some(format!("has the class `{class}`, and its content has another"));
        }
        if !is_member && is_ready != (state["readyToUse"] == true) {
            let (one, other) = if is_ready { ("ready", "not") } else { ("not ready", "ready") };
            return Some(format!("is {one}, and its content is {other}"));
        }
        if !is_ready {
            return None;
        }
        if is_told {
            return Some("is ready, and its status has an error".to_owned());
        }
        if let Some(bytes) = state["restoreSize"].as_i64()
            && nanos(text(&status["restoreSize"])) != Some(i128::from(bytes) * ONE)
        {
            let size = text(&status["restoreSize"]);
            return Some(format!("has the restoreSize `{size}`, and its content has {bytes} bytes"));
        }
        let taken = state["creationTime"].as_i64()?;
        let told = text(&status["creationTime"]);
        let seconds = told.parse::<Timestamp>().ok().map(Timestamp::as_second);
        (seconds != Some(taken.div_euclid(1_000_000_000)))
            .then(|| format!("has the creationTime `{told}`, and its content has {taken} ns"))
    }

    fn form_of_content(&self, content: &Value) -> Option<String> {
        let stored = &self.machines.stored;
        let (spec, status) = (&content["spec"], &content["status"]);
        let uid = text(&spec["volumeSnapshotRef"]["uid"]);
        if uid.is_empty() {
            // It is reserved for a snapshot.
            return None;
        }
        let mut snapshots = stored.all_rare("volumesnapshots");
        let snapshot = snapshots.find(|snapshot| text(&snapshot["metadata"]["uid"]) == uid);
        let goes = text(&spec["deletionPolicy"]) == "Delete" && name(content) == format!("snapcontent-{uid}");
        if snapshot.is_none() && goes && self.knows_snapshots() {
            return Some("exists, and its snapshot is gone, with the deletion policy Delete".to_owned());
        }
        if !has_finalizer(content, OF_CONTENT) {
            return Some(format!("lacks the finalizer {OF_CONTENT}"));
        }
        if let Some(differs) = snapshot.and_then(|snapshot| self.unlike_the_class(content, snapshot)) {
            return Some(differs);
        }
        let volume = text(&spec["source"]["volumeHandle"]);
        let mut volumes = stored.volumes.iter().filter(|_| !volume.is_empty());
        let pv = volumes.find(|pv| text(&pv["spec"]["csi"]["volumeHandle"]) == volume);
        let driver = text(&spec["driver"]);
        if let Some(of) = pv.map(|pv| text(&pv["spec"]["csi"]["driver"])).filter(|of| *of != driver) {
            return Some(format!("has the driver {driver}, and its volume has {of}"));
        }
        let (handle, is_ready) = (text(&status["snapshotHandle"]), status["readyToUse"] == true);
        if driver != self.applied_objects.driver()
            || !status["error"].is_null()
            || self.applied_objects.has_touched(handle)
        {
            return None;
        }
        let Some(cloud) = stored.cloud_snapshots.iter().find(|snapshot| snapshot["id"] == handle) else {
            return is_ready.then(|| format!("is ready, and the cloud has no snapshot `{handle}`"));
        };
        let state = cloud["state"].as_str().unwrap_or_default();
        let is_completed = state == "completed";
        let is_member = !content["metadata"]["annotations"][MEMBER].is_null();
        let is_settled = state == "pending" || (is_completed && !is_member);
        if is_ready != is_completed && is_settled {
            let word = if is_ready { "is ready" } else { "is not ready" };
            return Some(format!("{word}, and {handle} is {state} in the cloud"));
        }
        if !volume.is_empty() && cloud["volume"] != volume {
            return Some(format!("is of {volume}, and {handle} is of {} in the cloud", cloud["volume"]));
        }
        let (size, gib) = (status["restoreSize"].as_i64()?, cloud["sizeGib"].as_i64()?);
        (size != gib << 30).then(|| format!("has {size} bytes, and {handle} has {gib} GiB in the cloud"))
    }

    /// Compares a content with the class of its snapshot, if both are as they were created.
    fn unlike_the_class(&self, content: &Value, snapshot: &Value) -> Option<String> {
        let spec = &content["spec"];
        let class_name = text(&spec["volumeSnapshotClassName"]);
        let is_new = |object: &Value| object["metadata"]["generation"].as_i64().is_none_or(|at| at <= 1);
        let mut classes = self.machines.stored.rare("volumesnapshotclasses");
        let class = classes.find(|class| name(class) == class_name)?;
        let [since, then] = [class, snapshot].map(|object| text(&object["metadata"]["creationTimestamp"]));
        if !is_new(class) || !is_new(content) || since > then || !spec["source"]["snapshotHandle"].is_null() {
            return None;
        }
        ["driver", "deletionPolicy"].into_iter().find(|field| spec[*field] != class[*field]).map(|field| {
            let [has, wants] = [spec, class].map(|object| text(&object[field]));
            format!("has the {field} {has}, and its class {class_name} has {wants}")
        })
    }

    /// Compares the number of the members of a ready group with the snapshots that the driver took.
    fn form_of_group(&self, group: &Value) -> Option<String> {
        let stored = &self.machines.stored;
        let status = &group["status"];
        if status["readyToUse"] != true {
            return None;
        }
        let bound = text(&status["boundVolumeGroupSnapshotContentName"]);
        let Some(content) = stored.rare("volumegroupsnapshotcontents").find(|content| name(content) == bound) else {
            return Some(format!("is ready, and its content `{bound}` does not exist"));
        };
        if content["spec"]["volumeGroupSnapshotRef"]["uid"] != group["metadata"]["uid"] {
            return Some(format!("is ready, and its content {bound} is of another group"));
        }
        let source = &content["spec"]["source"];
        if !source["groupSnapshotHandles"].is_null() {
            return None;
        }
        let (volumes, taken) = (list(&source["volumeHandles"]), list(&content["status"]["volumeSnapshotInfoList"]));
        let is_owner = |owner: &Value| owner["uid"] == group["metadata"]["uid"];
        let members = stored.all_rare("volumesnapshots");
        let members = members.filter(|of| list(&of["metadata"]["ownerReferences"]).iter().any(is_owner)).count();
        (volumes.len() != taken.len() || members != taken.len()).then(|| {
            let volumes = volumes.len();
            format!("is of {volumes} volumes, of which {} have a snapshot, and has {members} members", taken.len())
        })
    }

    /// Returns true if a snapshot of the cloud without a content is a leak.
    fn knows_snapshots(&self) -> bool {
        let stored = &self.machines.stored;
        let keeps = |class: &Value| text(&class["deletionPolicy"]) == "Retain";
        let is_changed = |class: &Value| class["metadata"]["generation"].as_i64().is_some_and(|at| at > 1);
        let mut classes = stored.all_rare("volumesnapshotclasses").chain(stored.all_rare("volumegroupsnapshotclasses"));
        self.present.is_whole()
            && !self.present.repeats_creations
            && !self.present.edits_snapshots
            && !classes.any(|class| keeps(class) || is_changed(class))
            && !self.applied_objects.all().any(|applied| keeps(&applied.manifest))
    }

    /// Compares each snapshot that the driver took with the contents.
    fn taken_snapshots(&mut self) {
        let stored = &self.machines.stored;
        if !self.knows_snapshots() {
            return;
        }
        for cloud in &stored.cloud_snapshots {
            let [one, group] =
                ["CSIVolumeSnapshotName", "CSIVolumeGroupSnapshotName"].map(|tag| cloud["tags"][tag].as_str());
            let Some(own) = one.or(group) else { continue };
            let id = cloud["id"].as_str().unwrap_or_default();
            let uid = own.split_once('-').map_or("", |(_, uid)| uid);
            let is_its =
                |content: &Value| text(&content["status"]["snapshotHandle"]) == id || name(content).ends_with(uid);
            let mut contents =
                stored.all_rare("volumesnapshotcontents").chain(stored.all_rare("volumegroupsnapshotcontents"));
            let is_left = !contents.any(is_its) && !self.applied_objects.has_touched(id);
            self.judge(None, is_left.then(|| format!("{id} is left in the cloud, and no content has it")));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;
    use super::{OF_BOUND, OF_CONTENT, OF_SOURCE};

    /// Returns the differences of a cluster with a snapshot of the volume `vol-1` after a change.
    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            cluster["rare"] = json!({
                "volumesnapshots": [{
                    "metadata": {
                        "namespace": "default", "name": "monday", "uid": "u", "finalizers": [OF_SOURCE, OF_BOUND],
                        "creationTimestamp": "2026-01-01T00:00:05Z",
                    },
                    "spec": { "source": { "persistentVolumeClaimName": "data" }, "volumeSnapshotClassName": "daily" },
                    "status": {
                        "boundVolumeSnapshotContentName": "snapcontent-u", "readyToUse": true, "restoreSize": "1Gi",
                        "creationTime": "2026-01-01T00:00:06Z",
                    },
                }],
                "volumesnapshotcontents": [{
                    "metadata": { "name": "snapcontent-u", "finalizers": [OF_CONTENT], "generation": 1 },
                    "spec": {
                        "volumeSnapshotRef": { "namespace": "default", "name": "monday", "uid": "u" },
                        "driver": "ebs.csi.aws.com", "deletionPolicy": "Delete", "volumeSnapshotClassName": "daily",
                        "source": { "volumeHandle": "vol-1" },
                    },
                    "status": {
                        "snapshotHandle": "snap-1", "readyToUse": true, "restoreSize": 1 << 30,
                        "creationTime": 1_767_225_606_123_000_000_i64,
                    },
                }],
                "volumesnapshotclasses": [{
                    "metadata": { "name": "daily", "creationTimestamp": "2026-01-01T00:00:00Z" },
                    "driver": "ebs.csi.aws.com", "deletionPolicy": "Delete",
                }],
            });
            cluster["cloud_snapshots"] = json!([{
                "id": "snap-1", "state": "completed", "volume": "vol-1", "sizeGib": 1,
                "tags": { "CSIVolumeSnapshotName": "snapshot-u" },
            }]);
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.snapshots())
    }

    #[rstest]
    #[case(
        "/rare/volumesnapshots/0/status",
        Json::Null,
        "volumesnapshot/default/monday has neither a content nor an error"
    )]
    #[case("/rare/volumesnapshots/0/status/readyToUse", json!(false),
        "volumesnapshot/default/monday is not ready, and its content is ready")]
    #[case("/rare/volumesnapshots/0/status/restoreSize", json!("2Gi"),
        "volumesnapshot/default/monday has the restoreSize `2Gi`, and its content has 1073741824 bytes")]
    #[case("/rare/volumesnapshots/0/status/creationTime", json!("2026-01-01T00:00:05Z"),
        "volumesnapshot/default/monday has the creationTime `2026-01-01T00:00:05Z`, and its content has 1767225606123000000 ns")]
    #[case("/rare/volumesnapshots/0/metadata/finalizers/0", json!("x"),
        "volumesnapshot/default/monday lacks the finalizer snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection")]
    #[case("/rare/volumesnapshotcontents/0/spec/volumeSnapshotRef/name", json!("tuesday"),
        "volumesnapshot/default/monday has the content snapcontent-u, which is of another snapshot")]
    #[case("/rare/volumesnapshotcontents/0/metadata/finalizers/0", json!("x"),
        "volumesnapshotcontent/snapcontent-u lacks the finalizer snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection")]
    #[case("/rare/volumesnapshotclasses/0/deletionPolicy", json!("Retain"),
        "volumesnapshotcontent/snapcontent-u has the deletionPolicy Delete, and its class daily has Retain")]
    #[case("/volumes/0/spec/csi/driver", json!("other"),
        "volumesnapshotcontent/snapcontent-u has the driver ebs.csi.aws.com, and its volume has other")]
    #[case("/cloud_snapshots/0/state", json!("pending"),
        "volumesnapshotcontent/snapcontent-u is ready, and snap-1 is pending in the cloud")]
    #[case("/cloud_snapshots/0/sizeGib", json!(2),
        "volumesnapshotcontent/snapcontent-u has 1073741824 bytes, and snap-1 has 2 GiB in the cloud")]
    #[case("/cloud_snapshots/0/volume", json!("vol-2"),
        "volumesnapshotcontent/snapcontent-u is of vol-1, and snap-1 is of \"vol-2\" in the cloud")]
    #[case("/cloud_snapshots", json!([]),
        "volumesnapshotcontent/snapcontent-u is ready, and the cloud has no snapshot `snap-1`")]
    #[case("/rare/volumesnapshots", json!([]),
        "volumesnapshotcontent/snapcontent-u exists, and its snapshot is gone, with the deletion policy Delete")]
    fn snapshot_content_and_cloud_agree(#[case] at: &str, #[case] value: Json, #[case] message: &str) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), [message]);
        assert_eq!(found(&["csi-snapshotter"], change), Vec::<String>::new());
    }

    #[test]
    fn a_snapshot_of_the_cloud_without_a_content_is_left() {
        let message = ["snap-1 is left in the cloud, and no content has it"];
        assert_eq!(found(&[], |cluster| cluster["rare"] = json!({})), message);
        let of_user = |cluster: &mut Json| {
            cluster["rare"] = json!({});
            cluster["cloud_snapshots"][0]["tags"] = json!({});
        };
        assert_eq!(found(&[], of_user), Vec::<String>::new());
    }

    #[test]
    fn a_ready_group_has_a_member_for_each_volume() {
        let with = |taken: Json| {
            move |cluster: &mut Json| {
                cluster["rare"]["volumegroupsnapshots"] = json!([{
                    "metadata": { "namespace": "default", "name": "all", "uid": "g" },
                    "status": { "boundVolumeGroupSnapshotContentName": "groupsnapcontent-g", "readyToUse": true },
                }]);
                cluster["rare"]["volumegroupsnapshotcontents"] = json!([{
                    "metadata": { "name": "groupsnapcontent-g" },
                    "spec": { "volumeGroupSnapshotRef": { "uid": "g" }, "source": { "volumeHandles": ["vol-1"] } },
                    "status": { "volumeSnapshotInfoList": taken },
                }]);
                cluster["rare"]["volumesnapshots"][0]["metadata"]["ownerReferences"] = json!([{ "uid": "g" }]);
            }
        };
        assert_eq!(found(&[], with(json!([{ "volumeHandle": "vol-1" }]))), Vec::<String>::new());
        let message = "volumegroupsnapshot/default/all is of 1 volumes, of which 0 have a snapshot, and has 1 members";
        assert_eq!(found(&[], with(json!([]))), [message]);
    }
}
