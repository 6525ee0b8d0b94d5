//! I2: a kubelet unpublishes a volume before it unstages the volume, and before it removes the pod from the API.
//!
//! A publish counts if the driver answered OK. Publishes before the kubelet's last start do not count, because the
//! kubelet may not know them. A violation has the detail `mountWasUnderWay` if the publish was done after the deletion of
//! the pod began, and the kubelet had not finished that mount when it removed the pod.

use std::collections::BTreeMap;

use controllers::node_agent::events::Mounted;
use csi_disk::events::DiskCrashed;
use csi_mock::events::{CsiCall, CsiDone, DiskUnpublished};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{InstanceChanged, InstancePhase};
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};
use substrate::json::Text;

use super::Found;
use crate::model::{RunModel, VolumeOnNode, target};
use crate::spec::names;

/// Published target paths that a kubelet knows.
#[derive(Debug, Default)]
pub(super) struct Teardown {
    published: BTreeMap<VolumeOnNode, BTreeMap<Text, Published>>,
    /// Time of the first commit in which each existing pod, by uid, was being deleted, in ms. The run model has it by
    /// name, and a pod that comes again under a name has other paths.
    deleting: BTreeMap<Text, u64>,
}

/// A publish that the driver answered with OK.
#[derive(Debug)]
struct Published {
    /// Time of the answer, in ms.
    at_ms: u64,
    /// True if the kubelet has finished the mount of which the publish is a part.
    finished: bool,
}

impl Teardown {
    pub fn check(&mut self, model: &RunModel, event: &Event) -> Option<Found> {
        if let Some(call) = event.get::<CsiCall>() {
            return self.on_call(model, call);
        }
        if let Some(done) = event.get::<CsiDone>() {
            self.on_done(model, event, done);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            if let Some(paths) = self.published.get_mut(&model.place(volume, node)) {
                paths.retain(|known, _| !path.is_empty() && known != path);
            }
        } else if let Some(Mounted { node, volume, .. }) = event.get() {
            let paths = self.published.get_mut(&model.place(volume, node)).into_iter().flatten();
            paths.for_each(|(_, published)| published.finished = true);
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.forget(model.name(node));
        } else if let Some(InstanceChanged { instance, state: InstancePhase::ShuttingDown }) = event.get() {
            self.forget(model.name(instance.as_str()));
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            let process = &event.process;
            self.published.retain(|at, _| **process != *names::kubelet(&at.node));
        }
        let commit = event.get::<Commit>()?;
        let pod = commit.pod.as_ref()?;
        if commit.r#type != EventType::Deleted {
            if pod.deleting {
                self.deleting.entry(pod.uid.clone()).or_insert(event.ms);
            }
            return None;
        }
        let deleting = self.deleting.remove(&pod.uid);
        if !commit.user.starts_with("kubelet") {
            return None;
        }
        let node = pod.node.as_deref().filter(|_| !pod.uid.is_empty())?;
        let part = format!("/{}/", pod.uid);
        let of_node = self.published.iter().filter(|(at, _)| at.node == *node);
        let mut there = of_node.flat_map(|(at, paths)| paths.iter().map(move |path| (&at.volume, path)));
        let (volume, (path, published)) = there.find(|(_, (path, _))| format!("{path}/").contains(&part))?;
        let message = format!("pod/{} was removed by its kubelet while {volume} is published at {path}", commit.object);
        let under_way = !published.finished && deleting.is_some_and(|since_ms| since_ms <= published.at_ms);
        let details = [("mountWasUnderWay", under_way.into())].into();
        Some(Found { details, ..found(message, &commit.verb, volume, node) })
    }

    fn on_call(&self, model: &RunModel, call: &CsiCall) -> Option<Found> {
        if call.rpc != "NodeUnstageVolume" || call.caller.is_some() {
            return None;
        }
        let (volume, node) = (call.volume.as_ref()?, model.name(call.node.as_ref()?));
        let (path, _) = self.published.get(&VolumeOnNode::new(volume, node))?.first_key_value()?;
        let message = format!("NodeUnstageVolume was called for {volume} on {node} while it is published at {path}");
        Some(found(message, "NodeUnstageVolume", volume, node))
    }

    fn on_done(&mut self, model: &RunModel, event: &Event, done: &CsiDone) {
        let is_published = done.rpc == "NodePublishVolume";
        if done.code != "OK" || (!is_published && done.rpc != "NodeUnpublishVolume") {
            return;
        }
        let (Some(call), Some(volume), Some(node)) = (model.calls.answered(), &done.volume, &done.node) else { return };
        let paths = self.published.entry(model.place(volume, node)).or_default();
        if is_published {
            let published = Published { at_ms: event.ms, finished: false };
            paths.entry(call.target.clone().unwrap_or_default()).or_insert(published);
        } else {
            paths.remove(target(call));
        }
    }

    fn forget(&mut self, node: &str) {
        self.published.retain(|at, _| at.node != *node);
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
        let (mut model, mut rule, mut all) = (RunModel::default(), Teardown::default(), Vec::new());
        for event in &events {
            model.observe(event);
            all.extend(rule.check(&model, event).map(|found| found.message));
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
    fn only_a_mount_that_was_under_way_is_marked_so() {
        let deleted = |world: &World| {
            let mut commit = Commit::new("pods", "default/web", 1, EventType::Modified);
            let (node, uid, deleting) = (Some("node-a".into()), "uid-1".into(), true);
            commit.pod = Some(Box::new(Pod { node, uid, deleting, ..Pod::default() }));
            world.trace().info(&"fake-apiserver".into(), commit);
        };
        let publish = |world: &World| call(world, "NodePublishVolume", 1, Some("OK"));
        let mounted = |world: &World| {
            let (node, pod, volume) = ("node-a".into(), "default/web".into(), VOLUME.into());
            world.trace().info(&"node-a/kubelet".into(), Mounted { node, pod, volume });
        };
        let under_way = |happens: &[&dyn Fn(&World)]| {
            let events = simulate(Options::default(), async |world| {
                for (happens, ms) in happens.iter().zip(1..) {
                    happens(&world);
                    world.clock().sleep_until(std::time::Duration::from_millis(ms)).await;
                }
                removed(&world, "kubelet/v1");
                world.trace().events()
            });
            let (mut model, mut rule, mut all) = (RunModel::default(), Teardown::default(), Vec::new());
            for event in &events {
                model.observe(event);
                all.extend(rule.check(&model, event));
            }
            assert_eq!(all.len(), 1);
            all[0].details["mountWasUnderWay"].as_bool().expect("a boolean")
        };
        assert!(under_way(&[&deleted, &publish]));
        assert!(!under_way(&[&publish, &deleted]), "it was on the disk when the deletion began");
        assert!(!under_way(&[&deleted, &publish, &mounted]), "the kubelet knew it");
        assert!(!under_way(&[&publish]), "the pod was not deleted");
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
