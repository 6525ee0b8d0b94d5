//! I9: a kubelet publishes a volume in the directory of a pod on its node that uses the volume, under the name of its
//! PersistentVolume. An occasion is a publish in a directory that belongs to a pod.
//!
//! A volume without a PersistentVolume is not checked, nor a publish for a pod that is already gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_mock::events::DiskPublished;
use fake_apiserver::events::{Commit, Load};
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id};
use crate::model::RunModel;

/// Pods by uid, also those that are gone, which the model forgets.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pods: BTreeMap<Text, Arc<str>>,
    /// True if a saved state was loaded, whose pods are not in the trace.
    is_loaded: bool,
}

impl Targets {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        if let Some(commit) = event.get::<Commit>() {
            let pod = commit.pod.as_ref().filter(|pod| !pod.uid.is_empty())?;
            self.pods.entry(pod.uid.clone()).or_insert_with(|| commit.object.clone());
            return None;
        }
        self.is_loaded |= event.is::<Load>();
        let DiskPublished { volume, node, path, .. } = event.get()?;
        let (uid, name) = parts(path)?;
        let pv = model.objects.volume_of(volume)?;
        checked.add(Id::I9, 1);
        let why = self.misplaced(model, model.name(node), pv.state.claim.as_deref(), uid).or_else(|| {
            let of_name = model.objects.volume(name).is_some_and(|pv| pv.state.handle.as_ref() == Some(volume));
            (!of_name).then(|| format!("as {name}, which is not its PersistentVolume"))
        })?;
        let node = model.name(node).to_owned();
        let message = format!("{volume} was published on {node} {why}");
        let (volume, node) = (Some(volume.to_string()), Some(node));
        Some(Found { message, operation: "NodePublishVolume".to_owned(), volume, node, ..Found::default() })
    }

    /// Returns the reason why a pod must not have the volume of a claim, as the end of a sentence.
    fn misplaced(&self, model: &RunModel, node: &str, claim: Option<&str>, uid: &str) -> Option<String> {
        let Some(key) = self.pods.get(uid) else {
            return (!self.is_loaded).then(|| format!("for a pod with the uid {uid}, and there never was one"));
        };
        let pod = model.objects.pod(key).filter(|pod| pod.state.uid == uid)?;
        if pod.state.node.as_deref() != Some(node) {
            return Some(format!("for pod/{key}, which is not there"));
        }
        let (namespace, claim) = claim?.split_once('/')?;
        let uses = |key: &str| key.split_once('/').is_some_and(|(of, _)| of == namespace);
        let uses = uses(key) && pod.state.claims.iter().any(|used| used == claim);
        (!uses).then(|| format!("for pod/{key}, which does not use it"))
    }
}

/// Returns the uid of the pod and the name of the volume in a target path.
fn parts(path: &str) -> Option<(&str, &str)> {
    if let Some((_, rest)) = path.split_once("/pods/") {
        let (uid, rest) = rest.split_once("/volumes/kubernetes.io~csi/")?;
        return Some((uid, rest.strip_suffix("/mount")?));
    }
    let (_, rest) = path.split_once("/volumeDevices/publish/")?;
    rest.split_once('/').map(|(name, uid)| (uid, name))
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Pod, Volume};
    use fake_apiserver::state::EventType;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";

    /// Returns the messages of I9 for a run in which a volume is published at this path. On its node the pod `web` uses
    /// the volume and the pod `other` does not. A third pod is on another node, and a fourth is gone.
    fn found(path: &str) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut rv = 0;
        let mut commit = |resource: &str, object: &str, r#type, say: &dyn Fn(&mut Commit)| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, r#type);
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        };
        let pv = Volume { claim: Some("default/data".into()), handle: Some(VOLUME.into()), ..Volume::default() };
        commit("persistentvolumes", "pv-1", EventType::Added, &|commit| commit.pv = Some(Box::new(pv.clone())));
        for (name, claim, node, r#type) in [
            ("web", "data", "node-a", EventType::Added),
            ("other", "else", "node-a", EventType::Added),
            ("away", "data", "node-b", EventType::Added),
            ("gone", "else", "node-a", EventType::Added),
            ("gone", "else", "node-a", EventType::Deleted),
        ] {
            let pod = Pod { claims: vec![claim.into()], node: Some(node.into()), uid: name.into(), ..Pod::default() };
            commit("pods", &format!("default/{name}"), r#type, &|commit| commit.pod = Some(Box::new(pod.clone())));
        }
        let (volume, node, path) = (VOLUME.into(), "node-a".into(), path.into());
        trace.info(&"node-a/csi-node".into(), DiskPublished { volume, node, path, readonly: false, options: None });
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I9");
        all.map(|violation| violation.message.replace(&format!("{VOLUME} was published on node-a "), "")).collect()
    }

    #[test]
    fn a_target_is_that_of_a_pod_with_the_volume() {
        let mount = |uid: &str, pv: &str| format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/{pv}/mount");
        let device = |uid: &str, pv: &str| format!("/plugins/kubernetes.io/csi/volumeDevices/publish/{pv}/{uid}");
        for path in [mount, device] {
            assert!(found(&path("web", "pv-1")).is_empty());
            assert!(found(&path("gone", "pv-1")).is_empty(), "the pod went meanwhile");
            assert_eq!(found(&path("other", "pv-1")), ["for pod/default/other, which does not use it"]);
            assert_eq!(found(&path("away", "pv-1")), ["for pod/default/away, which is not there"]);
            assert_eq!(found(&path("none", "pv-1")), ["for a pod with the uid none, and there never was one"]);
            assert_eq!(found(&path("web", "pv-2")), ["as pv-2, which is not its PersistentVolume"]);
        }
    }
}
