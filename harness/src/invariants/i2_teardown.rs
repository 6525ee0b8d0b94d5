//! I2: a kubelet unpublishes a volume before it unstages the volume, and before it removes the pod from the API.
//!
//! A publish counts if the driver answered OK. Publishes before the kubelet's last start do not count, because the
//! kubelet may not know them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_mock::events::{CsiCall, CsiDone, DiskCrashed, DiskUnpublished};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{InstanceChanged, InstancePhase};
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};
use substrate::json::Text;

use super::Found;
use super::facts::Facts;
use crate::spec::names;

/// Published target paths that a kubelet knows.
#[derive(Debug, Default)]
pub(super) struct Teardown {
    /// Publish and unpublish calls in progress, by process and ordinal.
    open: BTreeMap<(Arc<str>, u64), Text>,
    published: BTreeMap<(String, String), BTreeSet<Text>>,
}

impl Teardown {
    pub fn check(&mut self, facts: &Facts, event: &Event) -> Option<Found> {
        if let Some(call) = event.get::<CsiCall>() {
            return self.on_call(facts, event, call);
        }
        if let Some(done) = event.get::<CsiDone>() {
            self.on_done(facts, event, done);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            let key = (facts.name(node).to_owned(), volume.to_string());
            if let Some(paths) = self.published.get_mut(&key) {
                paths.retain(|known| !path.is_empty() && known != path);
            }
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.forget(facts.name(node));
        } else if let Some(InstanceChanged { instance, state: InstancePhase::ShuttingDown }) = event.get() {
            self.forget(facts.name(instance.as_str()));
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            self.open.retain(|(process, _), _| *process != event.process);
            let process = &event.process;
            self.published.retain(|(node, _), _| **process != *names::kubelet(node));
        }
        let commit = event.get::<Commit>().filter(|commit| commit.r#type == EventType::Deleted)?;
        let pod = commit.pod.as_ref().filter(|_| commit.user.starts_with("kubelet"))?;
        let node = pod.node.as_deref().filter(|_| !pod.uid.is_empty())?;
        let part = format!("/{}/", pod.uid);
        let of_node = self.published.iter().filter(|((on, _), _)| on == node);
        let mut there = of_node.flat_map(|((_, volume), paths)| paths.iter().map(move |path| (volume, path)));
        let (volume, path) = there.find(|(_, path)| format!("{path}/").contains(&part))?;
        let message = format!("pod/{} was removed by its kubelet while {volume} is published at {path}", commit.object);
        Some(found(message, &commit.verb, volume, node))
    }

    fn on_call(&mut self, facts: &Facts, event: &Event, call: &CsiCall) -> Option<Found> {
        let (volume, node) = (call.volume.as_ref()?, facts.name(call.node.as_ref()?));
        match call.rpc.as_str() {
            "NodePublishVolume" | "NodeUnpublishVolume" => {
                let target = call.target.clone().unwrap_or_default();
                self.open.insert((event.process.clone(), call.ordinal), target);
                None
            }
            "NodeUnstageVolume" if call.caller.is_none() => {
                let path = self.published.get(&(node.to_owned(), volume.to_string()))?.first()?;
                let message =
                    format!("NodeUnstageVolume was called for {volume} on {node} while it is published at {path}");
                Some(found(message, "NodeUnstageVolume", volume, node))
            }
            _ => None,
        }
    }

    fn on_done(&mut self, facts: &Facts, event: &Event, done: &CsiDone) {
        let Some(target) = self.open.remove(&(event.process.clone(), done.ordinal)) else { return };
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        let paths = self.published.entry((facts.name(node).to_owned(), volume.to_string())).or_default();
        match (done.rpc.as_str(), done.code.as_str()) {
            ("NodePublishVolume", "OK") => drop(paths.insert(target)),
            ("NodeUnpublishVolume", "OK") => drop(paths.remove(&target)),
            _ => {}
        }
    }

    fn forget(&mut self, node: &str) {
        self.published.retain(|(on, _), _| on != node);
    }
}

fn found(message: String, operation: &str, volume: &str, node: &str) -> Found {
    let (volume, node) = (Some(volume.to_owned()), Some(node.to_owned()));
    Found { message, operation: operation.to_owned(), volume, node, ..Found::default() }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    const VOLUME: &str = "vol-1";
    const TARGET: &str = "/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount";

    /// Returns the findings of a run in which this happens.
    fn found(happens: impl FnOnce(&World)) -> Vec<String> {
        let events = simulate(Options::default(), async |world| {
            happens(&world);
            world.trace().events()
        });
        let (mut facts, mut rule, mut all) = (Facts::default(), Teardown::default(), Vec::new());
        for event in &events {
            facts.observe(event);
            all.extend(rule.check(&facts, event).map(|found| found.message));
        }
        all
    }

    fn call(world: &World, rpc: &str, ordinal: u64, code: Option<&str>) {
        let process = "node-a/csi-node".into();
        let (volume, node) = (Some(VOLUME.into()), Some("node-a".into()));
        let target = Some(if rpc.contains("stage") { "/staging" } else { TARGET }.into());
        let (caller, rpc, stages_nothing) = (None, Text::from(rpc), false);
        let (of, on) = (volume.clone(), node.clone());
        world.trace().info(
            &process,
            CsiCall {
                caller,
                rpc: rpc.clone(),
                volume,
                node,
                target,
                device: None,
                ordinal,
                needs_no_attachment: false,
                stages_nothing,
                for_writing: false,
            },
        );
        let Some(code) = code else { return };
        let (volume, node, code) = (of, on, code.into());
        world.trace().info(&process, CsiDone { rpc, volume, node, ordinal, code, took_ms: 1, message: None });
    }

    fn removed(world: &World, user: &str) {
        let mut commit = Commit::new("pods", "default/web", 1, EventType::Deleted);
        commit.user = user.into();
        commit.pod = Some(Box::new(Pod { node: Some("node-a".into()), uid: "uid-1".into(), ..Pod::default() }));
        world.trace().info(&"fake-apiserver".into(), commit);
    }

    #[test]
    fn a_volume_that_is_unstaged_while_it_is_published_is_found() {
        let early = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            call(world, "NodeUnpublishVolume", 2, Some("INTERNAL"));
            call(world, "NodeUnstageVolume", 3, None);
        });
        let message = format!("NodeUnstageVolume was called for {VOLUME} on node-a while it is published at {TARGET}");
        assert_eq!(early, [message]);
        let right = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            call(world, "NodeUnpublishVolume", 2, Some("OK"));
            call(world, "NodeUnstageVolume", 3, None);
        });
        assert!(right.is_empty());
    }

    #[test]
    fn a_publish_that_the_kubelet_does_not_know_is_not_its_mistake() {
        let failed = found(|world| {
            call(world, "NodePublishVolume", 1, Some("INTERNAL"));
            call(world, "NodeUnstageVolume", 2, None);
        });
        assert!(failed.is_empty());
        let restarted = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            world.trace().info(&"node-a/kubelet".into(), ProcessStarted { incarnation: 2 });
            call(world, "NodeUnstageVolume", 2, None);
        });
        assert!(restarted.is_empty());
    }

    #[test]
    fn a_pod_that_is_removed_before_its_volume_is_unpublished_is_found() {
        let early = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            removed(world, "kubelet/v1");
        });
        let message = format!("pod/default/web was removed by its kubelet while {VOLUME} is published at {TARGET}");
        assert_eq!(early, [message]);
        let forced = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            removed(world, "kubectl");
        });
        assert!(forced.is_empty(), "a user removed it by force");
        let right = found(|world| {
            call(world, "NodePublishVolume", 1, Some("OK"));
            call(world, "NodeUnpublishVolume", 2, Some("OK"));
            removed(world, "kubelet/v1");
        });
        assert!(right.is_empty());
    }
}
