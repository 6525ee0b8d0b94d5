//! Converts short forms of common objects to manifests.

use serde_json::{Map, Value, json};

use super::checked::Checked;
use super::manifest::manifest;
use super::steps::{Steps, only};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::spec::Manifest;
use crate::spec::custom::Customs;
use crate::spec::object::{Kind, ObjectRef, check_name};
use crate::spec::snapshots;

/// Default class of claims. It is added to a file that does not define it.
pub(super) const CLASS: &str = "gp3";
/// Default size of claims.
const SIZE: &str = "1Gi";

/// The default class, with the driver's defaults.
pub(super) fn default_class() -> Manifest {
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": CLASS },
        "provisioner": "ebs.csi.aws.com",
        "parameters": { "type": "gp3" },
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    Manifest { object: ObjectRef::new(Kind::storage_class(), None, CLASS), value }
}

/// The default class of snapshots. It is added to a file that does not define it.
pub(super) fn default_snapshot_class() -> Manifest {
    let value = snapshots::default_class("ebs.csi.aws.com");
    let kind = Customs::with_snapshots().of_manifest("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass");
    // One of the embedded definitions has the kind.
    let object = ObjectRef::new(kind.unwrap_or(Kind::storage_class()), None, snapshots::CLASS);
    Manifest { object, value }
}

fn named(name: &Spanned<String>) -> Checked<()> {
    check_name(name).map_err(|m| Mistake::new(name.place, m, "this name"))
}

impl Steps<'_> {
    fn made(&mut self, place: SourceSpan, value: Value) -> Checked<Manifest> {
        let Value::Object(map) = value else { return Err(Mistake::new(place, "this is not an object", "here")) };
        let made = manifest(place, map, &mut self.customs)?;
        self.judge(place, &made)?;
        Ok(made)
    }

    pub(super) fn claim(&mut self, claim: Spanned<doc::Claim>) -> Checked<Manifest> {
        let Spanned { place, value: claim } = claim;
        named(&claim.name)?;
        let class = claim.class.unwrap_or_else(|| {
            self.needs_class = true;
            CLASS.to_owned()
        });
        let mut spec = json!({
            "accessModes": [claim.mode.unwrap_or(doc::AccessMode::ReadWriteOnce)],
            "storageClassName": class,
            "resources": { "requests": { "storage": claim.size.map_or_else(|| SIZE.to_owned(), |s| s.value) } },
        });
        if claim.block {
            spec["volumeMode"] = json!("Block");
        }
        if let Some(volume) = claim.volume {
            spec["volumeName"] = json!(volume);
        }
        let metadata = metadata(&claim.name, claim.namespace);
        self.made(
            place,
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec }),
        )
    }

    pub(super) fn pod(&mut self, pod: Spanned<doc::Pod>) -> Checked<Manifest> {
        let Spanned { place, value: pod } = pod;
        named(&pod.name)?;
        let claims: Vec<String> = pod.claim.into_iter().chain(pod.claims).collect();
        // The workload writes to the first claim of a pod.
        let volume = |i: usize| if i == 0 { "data".to_owned() } else { format!("data-{i}") };
        let volumes: Vec<Value> = claims
            .iter()
            .enumerate()
            .map(|(i, claim)| json!({ "name": volume(i), "persistentVolumeClaim": { "claimName": claim } }))
            .collect();
        let mounts: Vec<Value> = (0..claims.len())
            .map(|i| match pod.block {
                true => json!({ "name": volume(i), "devicePath": format!("/dev/{}", volume(i)) }),
                false => json!({ "name": volume(i), "mountPath": format!("/{}", volume(i)) }),
            })
            .collect();
        let mut container = json!({ "name": "writer", "image": "mooring/writer" });
        let mut spec = json!({});
        if !claims.is_empty() {
            container[if pod.block { "volumeDevices" } else { "volumeMounts" }] = mounts.into();
            spec["volumes"] = volumes.into();
        }
        spec["containers"] = json!([container]);
        if let Some(node) = pod.node {
            let node = self.node(node)?;
            spec["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
        }
        if let Some(grace) = pod.grace {
            spec["terminationGracePeriodSeconds"] = json!(grace.0.as_secs());
        }
        if pod.tolerate {
            spec["tolerations"] = json!([{ "operator": "Exists" }]);
        }
        let metadata = metadata(&pod.name, pod.namespace);
        self.made(place, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
    }

    pub(super) fn class(&mut self, class: Spanned<doc::Class>) -> Checked<Manifest> {
        let Spanned { place, value: class } = class;
        named(&class.name)?;
        let mut parameters = class.parameters;
        parameters.entry("type").or_insert_with(|| json!("gp3"));
        let value = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": class.name.value },
            "provisioner": "ebs.csi.aws.com",
            "parameters": parameters,
            "reclaimPolicy": class.reclaim.unwrap_or(doc::Reclaim::Delete),
            "volumeBindingMode": class.binding.unwrap_or(doc::Binding::WaitForFirstConsumer),
            "allowVolumeExpansion": class.expand.unwrap_or(true),
        });
        self.made(place, value)
    }
}

impl Steps<'_> {
    pub(super) fn snapshot(&mut self, snapshot: Spanned<doc::Snapshot>) -> Checked<Manifest> {
        let Spanned { place, value: snapshot } = snapshot;
        named(&snapshot.name)?;
        check_name(&snapshot.claim).map_err(|m| Mistake::new(snapshot.claim.place, m, "this claim"))?;
        let class = snapshot.class.unwrap_or_else(|| {
            self.needs_snapshot_class = true;
            snapshots::CLASS.to_owned()
        });
        let metadata = metadata(&snapshot.name, snapshot.namespace);
        let source = json!({ "persistentVolumeClaimName": snapshot.claim.value });
        let value = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": metadata,
            "spec": { "source": source, "volumeSnapshotClassName": class },
        });
        self.made(place, value)
    }
}

fn metadata(name: &str, namespace: Option<String>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    metadata
}

impl Steps<'_> {
    /// Adds the objects of a list.
    pub(super) fn objects(&mut self, list: Vec<Spanned<doc::Item>>, into: &mut Vec<Manifest>) {
        for item in list {
            if self.is_over.get() {
                return;
            }
            let taken = self.item(item, into);
            self.heed(taken);
        }
    }

    fn item(&mut self, Spanned { place, value }: Spanned<doc::Item>, into: &mut Vec<Manifest>) -> Checked<()> {
        let mut short = match value {
            doc::Item::Manifest(map) => {
                into.push(self.manifest(place, map)?);
                return Ok(());
            }
            doc::Item::Short(short) => *short,
        };
        let rule = "an item is one object";
        match only(short.take(), place, rule, doc::Short::KEYS, "make two items of it")? {
            doc::Made::Claim(claim) => into.push(self.claim(claim)?),
            doc::Made::Pod(pod) => into.push(self.pod(pod)?),
            doc::Made::Class(class) => into.push(self.class(class)?),
            doc::Made::Repeat(repeat) => {
                for body in self.repeated(repeat)? {
                    self.inside(body, |steps, items| steps.objects(items, into));
                }
            }
            doc::Made::Include(include) => {
                let body = self.included(include)?;
                self.inside(body, |steps, items| steps.objects(items, into));
            }
        }
        Ok(())
    }
}
