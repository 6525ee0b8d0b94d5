//! I8: a control loop that starts in a cluster at rest has nothing to do.
//!
//! The runner starts each loop once more beside the running one. A new loop has read everything and has no memory: if it
//! changes an object, the running loop has forgotten this work. It may have dropped a key of its queue, missed an event
//! of a watch, or ended after an error without a retry. Leases, Events and the writes of kubelets do not count, nor does
//! work that a new loop does not see either.

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_apiserver::events::Commit;
use substrate::Event;
use substrate::json::Text;

use super::Found;

/// Resources that a loop may write at any time.
const AT_ANY_TIME: [&str; 2] = ["leases", "events"];

/// Changes by control loops while new ones start.
#[derive(Debug, Default)]
pub(super) struct Idle {
    is_watching: bool,
    /// User and verb of the first change of each object, by resource and key.
    changes: BTreeMap<(Text, Arc<str>), (Text, Text)>,
}

impl Idle {
    /// Starts: new loops run from now on.
    pub fn begin(&mut self) {
        self.is_watching = true;
    }

    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        if !self.is_watching {
            return;
        }
        let Some(commit) = event.get::<Commit>() else { return };
        let is_loop = controllers::PROCESSES.iter().any(|process| commit.user.starts_with(process));
        if is_loop && !AT_ANY_TIME.contains(&commit.resource.as_str()) {
            let key = (commit.resource.clone(), commit.object.clone());
            self.changes.entry(key).or_insert_with(|| (commit.user.clone(), commit.verb.clone()));
        }
    }

    /// Ends, and returns a violation for each changed object.
    pub fn end(&mut self) -> Vec<Found> {
        self.is_watching = false;
        let changes = std::mem::take(&mut self.changes);
        let found = |((resource, object), (user, verb)): ((Text, Arc<str>), (Text, Text))| Found {
            message: format!("{resource} {object} was left unfinished: a new {user} did {verb} in a cluster at rest"),
            ..Found::default()
        };
        changes.into_iter().map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::state::EventType;
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    fn commit(world: &World, user: &str, resource: &str) {
        let mut commit = Commit::new(resource, "default/data", 1, EventType::Modified);
        (commit.user, commit.verb) = (user.into(), "patch".into());
        world.trace().info(&"fake-apiserver".into(), commit);
    }

    /// Returns what is found if this happens before and while new loops run.
    fn found(before: impl FnOnce(&World), during: impl FnOnce(&World)) -> Vec<String> {
        let mut idle = Idle::default();
        let [before, during] = simulate(Options::default(), async |world| {
            before(&world);
            let before = world.trace().take_events();
            during(&world);
            [before, world.trace().take_events()]
        });
        before.iter().for_each(|event| idle.observe(event));
        idle.begin();
        during.iter().for_each(|event| idle.observe(event));
        idle.end().into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn a_new_loop_that_works_is_found() {
        let all = found(
            |world| commit(world, "csi-attacher", "volumeattachments"),
            |world| {
                commit(world, "csi-resizer", "persistentvolumeclaims");
                commit(world, "kube-controller-manager/persistent-volume-binder", "persistentvolumeclaims");
            },
        );
        let expected = "persistentvolumeclaims default/data was left unfinished: a new csi-resizer did patch in a \
                        cluster at rest";
        assert_eq!(all, [expected]);
    }

    #[test]
    fn leases_events_and_kubelets_do_not_count() {
        let all = found(
            |_| (),
            |world| {
                commit(world, "csi-resizer", "leases");
                commit(world, "csi-resizer", "events");
                commit(world, "kubelet", "nodes");
            },
        );
        assert!(all.is_empty(), "{all:?}");
    }
}
