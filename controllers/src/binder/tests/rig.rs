//! A miniature API server, and the rules that write to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use substrate::json::{Value, json};

use super::super::cache::BinderCache;
use super::super::claim::sync_claim;
use super::super::object::{ClaimKey, claim_phase, name, volume_phase};
use super::super::step::{About, Call, Notice, Step};
use super::super::volume::{Live, sync_volume};

/// Objects of the API server.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) version: u64,
    pub(super) volumes: BTreeMap<String, PersistentVolume>,
    pub(super) claims: BTreeMap<ClaimKey, PersistentVolumeClaim>,
}

impl Server {
    pub(super) fn stamp(&mut self, metadata: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) {
        self.version += 1;
        metadata.resource_version = Some(self.version.to_string());
    }

    pub(super) fn add_volume(&mut self, value: Value) {
        let mut volume: PersistentVolume = substrate::json::from_value(value).unwrap();
        self.stamp(&mut volume.metadata);
        self.volumes.insert(name(&volume.metadata).to_owned(), volume);
    }

    pub(super) fn add_claim(&mut self, value: Value) {
        let mut claim: PersistentVolumeClaim = substrate::json::from_value(value).unwrap();
        self.stamp(&mut claim.metadata);
        self.claims.insert(ClaimKey::of(&claim), claim);
    }

    /// Applies a write; returns None if its version is stale (409).
    pub(super) fn put_volume(&mut self, volume: PersistentVolume, status: bool) -> Option<PersistentVolume> {
        let old = self.volumes.get(name(&volume.metadata))?.clone();
        (old.metadata.resource_version == volume.metadata.resource_version).then_some(())?;
        let mut new = if status {
            PersistentVolume { status: volume.status, ..old }
        } else {
            PersistentVolume { status: old.status, ..volume }
        };
        self.stamp(&mut new.metadata);
        self.volumes.insert(name(&new.metadata).to_owned(), new.clone());
        Some(new)
    }

    pub(super) fn put_claim(&mut self, claim: PersistentVolumeClaim, status: bool) -> Option<PersistentVolumeClaim> {
        let key = ClaimKey::of(&claim);
        let old = self.claims.get(&key)?.clone();
        (old.metadata.resource_version == claim.metadata.resource_version).then_some(())?;
        let mut new = if status {
            PersistentVolumeClaim { status: claim.status, ..old }
        } else {
            PersistentVolumeClaim { status: old.status, ..claim }
        };
        self.stamp(&mut new.metadata);
        self.claims.insert(key, new.clone());
        Some(new)
    }

    /// Returns all objects without versions.
    pub(super) fn state(&self) -> Value {
        let strip = |mut value: Value| {
            value["metadata"]["resourceVersion"] = Value::Null;
            if !value["spec"]["claimRef"].is_null() {
                value["spec"]["claimRef"]["resourceVersion"] = Value::Null;
            }
            value
        };
        let volumes: Vec<Value> = self.volumes.values().map(|v| strip(substrate::json::to_value(v).unwrap())).collect();
        let claims: Vec<Value> = self.claims.values().map(|c| strip(substrate::json::to_value(c).unwrap())).collect();
        json!([volumes, claims])
    }
}

/// Controller with its caches and a record of its actions.
pub(super) struct Controller {
    pub(super) cache: BinderCache,
    pub(super) writes: Vec<String>,
    pub(super) notices: Vec<String>,
    pub(super) budget: usize,
}

impl Controller {
    /// Starts a controller that has just listed everything and crashes after `budget` writes.
    pub(super) fn start(server: &Server, classes: &[StorageClass], budget: usize) -> Self {
        let mut cache = BinderCache::default();
        for class in classes {
            cache.store_class(Arc::new(class.clone()));
        }
        for volume in server.volumes.values() {
            cache.store_volume(Arc::new(volume.clone()));
        }
        for claim in server.claims.values() {
            cache.store_claim(Arc::new(claim.clone()));
        }
        Self { cache, writes: Vec::new(), notices: Vec::new(), budget }
    }

    pub(super) fn crashed(&self) -> bool {
        self.writes.len() >= self.budget
    }

    pub(super) fn note(&mut self, notices: &[Notice]) {
        for notice in notices {
            let about = match &notice.about {
                About::Claim(claim) => format!("claim {}", name(&claim.metadata)),
                About::Volume(volume) => format!("volume {}", name(&volume.metadata)),
            };
            self.notices.push(format!("{about}: {} {}: {}", notice.kind, notice.reason, notice.message));
        }
    }

    pub(super) fn take(&mut self, server: &mut Server, step: Step) -> Option<Live> {
        assert!(self.cache.indexes_agree());
        self.note(&step.before);
        let call = step.call?;
        let mut live = Live::NotAsked;
        let done = match call {
            Call::ReadClaim(key) => {
                live = server.claims.get(&key).map_or(Live::Missing, |claim| Live::Found(Arc::new(claim.clone())));
                return step.again.then_some(live);
            }
            _ if self.crashed() => return None,
            Call::DeleteVolume(name) => {
                self.writes.push(format!("DELETE pv {name}"));
                server.volumes.remove(&name);
                self.cache.remove_volume(&name);
                true
            }
            Call::ReplaceVolume(volume) => self.keep_volume("PUT pv", server.put_volume(*volume, false)),
            Call::ReplaceVolumeStatus(volume) => self.keep_volume("PUT pv/status", server.put_volume(*volume, true)),
            Call::ReplaceClaim(claim) => self.keep_claim("PUT pvc", server.put_claim(*claim, false)),
            Call::ReplaceClaimStatus(claim) => self.keep_claim("PUT pvc/status", server.put_claim(*claim, true)),
        };
        if !done {
            return None;
        }
        self.note(&step.after);
        step.again.then_some(live)
    }

    pub(super) fn keep_volume(&mut self, what: &str, volume: Option<PersistentVolume>) -> bool {
        let Some(volume) = volume else { return false };
        self.writes.push(format!("{what} {} {}", name(&volume.metadata), volume_phase(&volume)));
        assert!(self.cache.store_volume(Arc::new(volume)));
        true
    }

    pub(super) fn keep_claim(&mut self, what: &str, claim: Option<PersistentVolumeClaim>) -> bool {
        let Some(claim) = claim else { return false };
        self.writes.push(format!("{what} {} {}", name(&claim.metadata), claim_phase(&claim)));
        assert!(self.cache.store_claim(Arc::new(claim)));
        true
    }

    pub(super) fn claim(&mut self, server: &mut Server, key: &ClaimKey) {
        for _ in 0..10 {
            let step = sync_claim(&self.cache, key);
            if self.take(server, step).is_none() {
                return;
            }
        }
        panic!("the claim's rules write in circles: {:?}", self.writes);
    }

    pub(super) fn volume(&mut self, server: &mut Server, name: &str) {
        let mut live = Live::NotAsked;
        for _ in 0..10 {
            let step = sync_volume(&self.cache, name, &live);
            match self.take(server, step) {
                None => return,
                Some(Live::NotAsked) => {}
                Some(answer) => live = answer,
            }
        }
        panic!("the volume's rules write in circles: {:?}", self.writes);
    }

    /// Runs all syncs until there are no more writes.
    pub(super) fn settle(&mut self, server: &mut Server) {
        for _ in 0..20 {
            let before = self.writes.len();
            for key in server.claims.keys().cloned().collect::<Vec<_>>() {
                self.claim(server, &key);
            }
            for name in server.volumes.keys().cloned().collect::<Vec<_>>() {
                self.volume(server, &name);
            }
            if self.writes.len() == before {
                return;
            }
        }
        panic!("no rest: {:?}", self.writes);
    }
}

pub(super) fn volume(name: &str, size: &str, extra: Value) -> Value {
    let mut value = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": {
            "capacity": { "storage": size },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{name}") },
        },
        "status": { "phase": "Available" },
    });
    merge(&mut value, extra);
    value
}

pub(super) fn claim(name: &str, extra: Value) -> Value {
    let mut value = json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "4Gi" } },
            "storageClassName": "",
            "volumeMode": "Filesystem",
        },
        "status": { "phase": "Pending" },
    });
    merge(&mut value, extra);
    value
}

pub(super) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

pub(super) fn class(name: &str, mode: &str, extra: Value) -> StorageClass {
    let mut value = json!({
        "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": mode,
    });
    merge(&mut value, extra);
    substrate::json::from_value(value).unwrap()
}

pub(super) fn key(name: &str) -> ClaimKey {
    ClaimKey::new("default", name)
}

pub(super) fn server(volumes: &[Value], claims: &[Value]) -> Server {
    let mut server = Server::default();
    volumes.iter().for_each(|v| server.add_volume(v.clone()));
    claims.iter().for_each(|c| server.add_claim(c.clone()));
    server
}

pub(super) fn reference_to(claim: &str, uid: &str) -> Value {
    json!({ "spec": { "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": uid } } })
}
