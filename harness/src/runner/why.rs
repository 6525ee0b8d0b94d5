//! Reasons why objects are not in the requested state: Kubernetes' own messages about them and their claims, a driver
//! that no node has, a full disk.

use std::collections::BTreeSet;
use std::path::Path;

use csi_mock::efs::EFS_DRIVER_NAME;
use serde_json::{Value, json};
use substrate::json::Value as Tree;

use crate::cluster::{ObjectError, Objects};
use crate::output::cut;
use crate::spec::object::{Kind, ObjectRef};

/// Maximum length of an Event's message, in characters.
const SHOWN: usize = 300;
/// Minimum free space in bytes with which the cloud creates volumes.
const RESERVE: u64 = 64 << 20;

/// Objects that explain why something waits.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pods: Vec<Tree>,
    claims: Vec<Tree>,
    volumes: Vec<Tree>,
    classes: Vec<Tree>,
    nodes: Vec<Tree>,
    attachments: Vec<Tree>,
    events: Vec<Tree>,
}

/// An object that is not, or no longer, in the state that its user requested.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    object: ObjectRef,
    phase: String,
    why: Vec<String>,
}

impl Waiting {
    pub fn data(&self) -> Value {
        json!({ "object": self.object.to_string(), "phase": self.phase, "why": self.why })
    }

    /// Line for people, followed by those of its reasons that are not in `printed`. Adds all of them to `printed`.
    pub fn lines(&self, printed: &mut BTreeSet<String>) -> Vec<String> {
        // A running pod waits only for its condition Ready.
        let phase = if self.phase == "Running" { "Running, but not Ready" } else { &self.phase };
        let first = format!("{} is {phase}", self.object);
        printed.insert(first.clone());
        let why = self.why.iter().filter(|why| printed.insert((*why).clone())).map(|why| format!("  {why}"));
        std::iter::once(first).chain(why).collect()
    }
}

fn text<'t>(object: &'t Tree, path: &[&str]) -> &'t str {
    path.iter().fold(object, |at, key| &at[*key]).as_str().unwrap_or_default()
}

fn name(object: &Tree) -> &str {
    text(object, &["metadata", "name"])
}

/// Finds the object with this name in a list; `namespace` is none for cluster-wide kinds.
fn find<'t>(list: &'t [Tree], namespace: Option<&str>, wanted: &str) -> Option<&'t Tree> {
    let here = |object: &&Tree| namespace.is_none_or(|namespace| text(object, &["metadata", "namespace"]) == namespace);
    list.iter().filter(here).find(|object| name(object) == wanted)
}

impl Picture {
    /// Reads the objects from the API server.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn take(objects: &Objects) -> Result<Self, ObjectError> {
        let nodes = match Kind::of_manifest("storage.k8s.io/v1", "CSINode") {
            Some(kind) => objects.list(kind).await?,
            None => Vec::new(),
        };
        Ok(Self {
            pods: objects.list(Kind::pod()).await?,
            claims: objects.list(Kind::claim()).await?,
            volumes: objects.list(Kind::volume()).await?,
            classes: objects.list(Kind::storage_class()).await?,
            nodes,
            attachments: objects.list(Kind::volume_attachment()).await?,
            events: objects.list(Kind::event()).await?,
        })
    }

    /// Returns the reasons why `object` is not yet in the requested state, each reason once.
    pub fn why(&self, object: &ObjectRef) -> Vec<String> {
        let mut why: Vec<String> = self.latest_message(object).into_iter().collect();
        let namespace = object.namespace.as_deref();
        match object.kind {
            kind if kind == Kind::pod() => {
                if let Some(pod) = find(&self.pods, namespace, &object.name) {
                    self.pod(pod, namespace, &mut why);
                }
            }
            kind if kind == Kind::claim() => {
                self.claim(object, &mut why);
                self.users(object, &mut why);
            }
            kind if kind == Kind::volume_attachment() => {
                if let Some(attachment) = find(&self.attachments, None, &object.name) {
                    self.attachment(attachment, &mut why);
                    self.driver(text(attachment, &["spec", "attacher"]), "the VolumeAttachment", &mut why);
                }
            }
            kind if kind == Kind::volume() => {
                if let Some(volume) = find(&self.volumes, None, &object.name) {
                    self.driver(text(volume, &["spec", "csi", "driver"]), "the PersistentVolume", &mut why);
                }
            }
            _ => {}
        }
        let mut seen = BTreeSet::new();
        why.retain(|line| seen.insert(line.clone()));
        why
    }

    /// Uid of a pod or claim; empty for other kinds, and if there is no such object.
    fn uid(&self, object: &ObjectRef) -> &str {
        let list = match object.kind {
            kind if kind == Kind::pod() => &self.pods,
            kind if kind == Kind::claim() => &self.claims,
            _ => return "",
        };
        find(list, object.namespace.as_deref(), &object.name).map_or("", |found| text(found, &["metadata", "uid"]))
    }

    /// The last Warning about an object, or the last Event if there is no Warning. Events about an earlier object of the
    /// same name do not count.
    fn latest_message(&self, object: &ObjectRef) -> Option<String> {
        let uid = self.uid(object);
        let about = |event: &&Tree| {
            let of = text(event, &["involvedObject", "uid"]);
            text(event, &["involvedObject", "kind"]) == object.kind.kind()
                && text(event, &["involvedObject", "name"]) == object.name
                && text(event, &["involvedObject", "namespace"]) == object.namespace.as_deref().unwrap_or_default()
                && (uid.is_empty() || of.is_empty() || of == uid)
        };
        let when = |event: &&Tree| {
            let time = [text(event, &["lastTimestamp"]), text(event, &["eventTime"])];
            (time.into_iter().find(|time| !time.is_empty()).unwrap_or_default().to_owned(), name(event).to_owned())
        };
        let warnings = self.events.iter().filter(about).filter(|event| text(event, &["type"]) == "Warning");
        let last = warnings.max_by_key(when).or_else(|| self.events.iter().filter(about).max_by_key(when))?;
        let message = text(last, &["message"]);
        Some(cut(&format!("{object}: {} {}: {message}", text(last, &["type"]), text(last, &["reason"])), SHOWN))
    }

    fn pod(&self, pod: &Tree, namespace: Option<&str>, why: &mut Vec<String>) {
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let named = text(volume, &["persistentVolumeClaim", "claimName"]);
            // The claim of an ephemeral volume is named after the pod and the volume.
            let own = volume.get("ephemeral").map(|_| format!("{}-{}", name(pod), text(volume, &["name"])));
            let claim = own.unwrap_or_else(|| named.to_owned());
            if !claim.is_empty() {
                let claim = ObjectRef::new(Kind::claim(), namespace, &claim);
                why.extend(self.latest_message(&claim).filter(|line| line.contains(": Warning ")));
                self.claim(&claim, why);
            }
        }
    }

    fn claim(&self, claim: &ObjectRef, why: &mut Vec<String>) {
        let Some(found) = find(&self.claims, claim.namespace.as_deref(), &claim.name) else {
            why.push(format!("{claim} does not exist"));
            return;
        };
        let class = text(found, &["spec", "storageClassName"]);
        let volume = text(found, &["spec", "volumeName"]);
        if text(found, &["status", "phase"]) == "Bound" {
            let of = |attachment: &&Tree| text(attachment, &["spec", "source", "persistentVolumeName"]) == volume;
            for attachment in self.attachments.iter().filter(of) {
                self.attachment(attachment, why);
            }
            why.extend(self.unregistered(claim));
            if let Some(found) = find(&self.volumes, None, volume) {
                self.driver(text(found, &["spec", "csi", "driver"]), &format!("the volume of {claim}"), why);
            }
            return;
        }
        why.push(format!(
            "{claim} is {}",
            Some(text(found, &["status", "phase"])).filter(|p| !p.is_empty()).unwrap_or("new")
        ));
        why.extend(self.latest_message(claim));
        why.extend(self.unregistered(claim));
        match find(&self.classes, None, class) {
            Some(found) => self.driver(text(found, &["provisioner"]), &format!("StorageClass {class}"), why),
            None if class.is_empty() && volume.is_empty() => {
                why.push(format!("{claim} names no StorageClass, and there is no default one"));
            }
            None if volume.is_empty() => {
                let all: Vec<&str> = self.classes.iter().map(name).collect();
                let all =
                    if all.is_empty() { "there is none".to_owned() } else { format!("there are {}", all.join(", ")) };
                why.push(format!("there is no StorageClass {class}; {all}"));
            }
            None => {}
        }
    }

    /// Adds the pods that keep a deleted claim.
    fn users(&self, claim: &ObjectRef, why: &mut Vec<String>) {
        let namespace = claim.namespace.as_deref();
        if !find(&self.claims, namespace, &claim.name).is_some_and(is_deleted) {
            return;
        }
        for pod in self.pods.iter().filter(|pod| Some(text(pod, &["metadata", "namespace"])) == namespace) {
            let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            if volumes.any(|volume| text(volume, &["persistentVolumeClaim", "claimName"]) == claim.name) {
                why.push(format!("{claim} is used by {}", ObjectRef::new(Kind::pod(), namespace, name(pod))));
            }
        }
    }

    /// The Event that names the node on which the driver of a claim has not registered. A later Warning would hide it.
    fn unregistered(&self, claim: &ObjectRef) -> Option<String> {
        let about = |event: &&Tree| {
            text(event, &["reason"]) == "DriverNotRegistered"
                && text(event, &["involvedObject", "name"]) == claim.name
                && text(event, &["involvedObject", "namespace"]) == claim.namespace.as_deref().unwrap_or_default()
        };
        let event = self.events.iter().find(about)?;
        Some(format!("{claim}: {}", text(event, &["message"])))
    }

    fn attachment(&self, attachment: &Tree, why: &mut Vec<String>) {
        let node = text(attachment, &["spec", "nodeName"]);
        let volume = text(attachment, &["spec", "source", "persistentVolumeName"]);
        let (known, is_going) = (why.len(), is_deleted(attachment));
        for (error, what) in [("attachError", "attached to"), ("detachError", "detached from")] {
            let message = text(attachment, &["status", error, "message"]);
            if !message.is_empty() {
                why.push(cut(&format!("pv/{volume} cannot be {what} {node}: {message}"), SHOWN));
            }
        }
        if is_going && why.len() == known {
            why.push(format!("pv/{volume} is not yet detached from {node}"));
        }
    }

    /// Adds a reason if no node has the driver that `of` names.
    fn driver(&self, driver: &str, of: &str, why: &mut Vec<String>) {
        let has = |node: &Tree| {
            let mut drivers = node["spec"]["drivers"].as_array().into_iter().flatten();
            drivers.any(|one| text(one, &["name"]) == driver)
        };
        if driver.is_empty() || driver.starts_with("kubernetes.io/") || self.nodes.iter().any(has) {
            return;
        }
        let drivers = self.nodes.iter().flat_map(|node| node["spec"]["drivers"].as_array().into_iter().flatten());
        let there: BTreeSet<&str> = drivers.map(|one| text(one, &["name"])).collect();
        let there = match there.len() {
            0 => "no node has any".to_owned(),
            _ => format!("nodes have {}", there.into_iter().collect::<Vec<_>>().join(", ")),
        };
        let advice = if driver == EFS_DRIVER_NAME { "; the key `efs: {}`, or `mooring up --efs`, adds it" } else { "" };
        why.push(format!("no node has the driver {driver} of {of}; {there}{advice}"));
    }

    /// Claims that are not bound, pods that do not run, and VolumeAttachments that are being deleted, each with its
    /// reasons.
    pub fn waiting(&self) -> Vec<Waiting> {
        let waits = |kind: Kind, object: &Tree| {
            let namespace = text(object, &["metadata", "namespace"]);
            let phase = text(object, &["status", "phase"]);
            let settled = matches!(phase, "Running" | "Succeeded" | "Bound") && !is_unready(object);
            let is_going = is_deleted(object);
            if namespace == "kube-system" || (settled && !is_going) {
                return None;
            }
            let object = ObjectRef::new(kind, Some(namespace), name(object));
            let phase = if is_going { "Terminating" } else { phase };
            let phase = if phase.is_empty() { "new" } else { phase };
            Some(Waiting { why: self.why(&object), phase: phase.to_owned(), object })
        };
        let claims = self.claims.iter().filter_map(|claim| waits(Kind::claim(), claim));
        let pods = self.pods.iter().filter_map(|pod| waits(Kind::pod(), pod));
        let detaching = self.attachments.iter().filter(|attachment| is_deleted(attachment)).map(|attachment| {
            let object = ObjectRef::new(Kind::volume_attachment(), None, name(attachment));
            Waiting { why: self.why(&object), phase: "Terminating".to_owned(), object }
        });
        claims.chain(pods).chain(detaching).collect()
    }
}

fn is_deleted(object: &Tree) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns true if a running pod is not Ready.
fn is_unready(object: &Tree) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    text(object, &["status", "phase"]) == "Running"
        && conditions.any(|one| text(one, &["type"]) == "Ready" && text(one, &["status"]) == "False")
}

/// Message if the filesystem of `directory` has no room for volumes.
pub(crate) fn full_disk(directory: &Path) -> Option<String> {
    let (free, _) = room(directory)?;
    is_short(free, &directory.display().to_string())
}

fn is_short(free: u64, directory: &str) -> Option<String> {
    (free < RESERVE).then(|| {
        format!(
            "the disk is full: the filesystem of {directory} has {} MiB left, and the cloud creates volumes only while {} \
             MiB are free",
            free >> 20,
            RESERVE >> 20
        )
    })
}

/// Free and total size of the filesystem of `directory` in bytes. None if the system does not report it.
pub(crate) fn room(directory: &Path) -> Option<(u64, u64)> {
    let space = rustix::fs::statvfs(directory).ok()?;
    Some((space.f_bavail.saturating_mul(space.f_frsize), space.f_blocks.saturating_mul(space.f_frsize)))
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn event(kind: &str, of: &str, r#type: &str, reason: &str, at: &str) -> Tree {
        json!({
            "metadata": { "name": format!("{of}.{at}") },
            "involvedObject": { "kind": kind, "name": of, "namespace": "default" },
            "type": r#type, "reason": reason, "message": format!("{reason} of {of}"), "lastTimestamp": at,
        })
    }

    fn object(name: &str, spec: Tree, status: Tree) -> Tree {
        json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec, "status": status })
    }

    fn picture() -> Picture {
        let pod = json!({ "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }] });
        Picture {
            pods: vec![object("web", pod, json!({ "phase": "Pending" }))],
            claims: vec![object("data", json!({ "storageClassName": "gp3" }), json!({ "phase": "Pending" }))],
            classes: vec![json!({ "metadata": { "name": "gp3" }, "provisioner": "ebs.csi.aws.com" })],
            nodes: vec![json!({ "spec": { "drivers": [{ "name": "ebs.csi.aws.com" }] } })],
            ..Picture::default()
        }
    }

    fn why(picture: &Picture, kind: Kind, name: &str) -> Vec<String> {
        picture.why(&ObjectRef::new(kind, None, name))
    }

    #[test]
    fn the_last_warning_counts_whatever_came_later_of_the_object_and_of_its_claims() {
        let mut picture = picture();
        picture.events = vec![
            event("Pod", "web", "Normal", "Scheduled", "2026-01-01T00:00:03Z"),
            event("Pod", "web", "Warning", "FailedScheduling", "2026-01-01T00:00:01Z"),
            event("Pod", "web", "Warning", "FailedMount", "2026-01-01T00:00:02Z"),
            event("PersistentVolumeClaim", "data", "Warning", "ProvisioningFailed", "2026-01-01T00:00:02Z"),
            event("PersistentVolumeClaim", "other", "Warning", "Strange", "2026-01-01T00:00:02Z"),
        ];
        assert_eq!(
            why(&picture, Kind::pod(), "web"),
            [
                "pod/web: Warning FailedMount: FailedMount of web",
                "pvc/data: Warning ProvisioningFailed: ProvisioningFailed of data",
                "pvc/data is Pending",
            ]
        );
        let waiting = picture.waiting();
        assert_eq!(waiting.len(), 2);
        let mut printed = BTreeSet::new();
        let lines: Vec<String> = waiting.iter().flat_map(|one| one.lines(&mut printed)).collect();
        assert_eq!(
            lines,
            [
                "pvc/data is Pending",
                "  pvc/data: Warning ProvisioningFailed: ProvisioningFailed of data",
                "pod/web is Pending",
                "  pod/web: Warning FailedMount: FailedMount of web",
            ]
        );
    }

    #[test]
    fn a_driver_a_class_or_a_claim_that_is_absent_is_named() {
        let mut bare = picture();
        bare.nodes = vec![json!({ "spec": { "drivers": [] } })];
        let reasons = |picture: &Picture| why(picture, Kind::pod(), "web").join("\n");
        assert!(
            reasons(&bare).contains("no node has the driver ebs.csi.aws.com of StorageClass gp3; no node has any"),
            "{}",
            reasons(&bare)
        );
        let mut other = picture();
        other.classes[0]["provisioner"] = "efs.csi.aws.com".into();
        assert!(
            reasons(&other).contains("of StorageClass gp3; nodes have ebs.csi.aws.com; the key `efs: {}`"),
            "{}",
            reasons(&other)
        );
        other.classes[0]["metadata"]["name"] = "gp2".into();
        assert!(reasons(&other).ends_with("there is no StorageClass gp3; there are gp2"), "{}", reasons(&other));
        other.claims.clear();
        assert_eq!(reasons(&other), "pvc/data does not exist");
        let mut bound = picture();
        bound.claims = vec![object("data", json!({ "volumeName": "pvc-1" }), json!({ "phase": "Bound" }))];
        bound.volumes = vec![json!({ "metadata": { "name": "pvc-1" }, "spec": { "csi": { "driver": "x" } } })];
        bound.attachments = vec![json!({
            "metadata": { "name": "csi-1" },
            "spec": { "nodeName": "node-a", "attacher": "x", "source": { "persistentVolumeName": "pvc-1" } },
            "status": { "attachError": { "message": "rpc error: no" } },
        })];
        assert_eq!(
            why(&bound, Kind::pod(), "web"),
            [
                "pv/pvc-1 cannot be attached to node-a: rpc error: no",
                "no node has the driver x of the volume of pvc/data; nodes have ebs.csi.aws.com",
            ]
        );
        assert_eq!(why(&bound, Kind::volume_attachment(), "csi-1").len(), 2);
    }

    #[test]
    fn a_detach_is_listed_while_it_lasts_and_events_of_an_earlier_pod_are_not() {
        let mut picture = picture();
        picture.claims[0]["status"] = json!({ "phase": "Bound" });
        picture.pods[0]["metadata"]["uid"] = "new".into();
        picture.events = vec![
            event("Pod", "web", "Normal", "Scheduled", "2026-01-01T00:00:01Z"),
            event("Pod", "web", "Normal", "Started", "2026-01-01T00:00:02Z"),
        ];
        picture.events[0]["involvedObject"]["uid"] = "new".into();
        picture.events[1]["involvedObject"]["uid"] = "old".into();
        picture.attachments = vec![json!({
            "metadata": { "name": "csi-1", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": "node-a", "attacher": "ebs.csi.aws.com", "source": { "persistentVolumeName": "pvc-1" } },
        })];
        let mut printed = BTreeSet::new();
        let lines: Vec<String> = picture.waiting().iter().flat_map(|one| one.lines(&mut printed)).collect();
        assert_eq!(
            lines,
            [
                "pod/web is Pending",
                "  pod/web: Normal Scheduled: Scheduled of web",
                "volumeattachment/csi-1 is Terminating",
                "  pv/pvc-1 is not yet detached from node-a",
            ]
        );
    }

    #[test]
    fn settled_objects_wait_for_nothing() {
        let mut picture = picture();
        picture.pods[0]["status"] =
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        picture.claims[0]["status"] = json!({ "phase": "Bound" });
        assert_eq!(picture.waiting(), []);
        picture.pods[0]["status"]["conditions"][0]["status"] = "False".into();
        picture.claims[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let waiting = picture.waiting();
        let phases: Vec<&str> = waiting.iter().map(|w| w.phase.as_str()).collect();
        assert_eq!(phases, ["Terminating", "Running"]);
        assert_eq!(waiting[0].why, ["pvc/data is used by pod/web"]);
        assert_eq!(waiting[1].lines(&mut BTreeSet::new()), ["pod/web is Running, but not Ready"]);
    }

    #[test]
    fn a_full_disk_is_reported() {
        assert_eq!(is_short(RESERVE, "/tmp"), None);
        let message = is_short(5 << 20, "/tmp").expect("it is full");
        assert!(message.contains("the filesystem of /tmp has 5 MiB left"), "{message}");
        assert!(room(Path::new("/")).is_some_and(|(free, whole)| free <= whole));
        assert!(room(Path::new("/no/such/directory")).is_none());
    }
}
