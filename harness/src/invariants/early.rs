//! Pods that were put on a node before its CSINode said how many volumes it takes.
//!
//! The scheduler knows no limit for a driver that a CSINode does not list, so such a node gets any number of volumes. When
//! its driver has registered and refuses the last of them, the pod stays there and waits.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

/// Where a pod with claims was put.
#[derive(Debug)]
struct Place {
    node: String,
    /// Nobody knew the limit of the node then.
    early: bool,
}

/// Which nodes have a limit, what was put on them before they had, and which are full.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Nodes whose CSINode says how many volumes a driver takes.
    limited: BTreeSet<String>,
    /// By namespace and name.
    pods: BTreeMap<String, Place>,
    /// Nodes of which the driver said that they take no more volumes.
    full: BTreeSet<String>,
}

impl Early {
    /// Takes in an event; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if let Some(done) = event.get::<CsiDone>()
            && (&*done.rpc, &*done.code) == ("ControllerPublishVolume", "RESOURCE_EXHAUSTED")
            && let Some(node) = &done.node
        {
            self.full.insert(node_of(node));
        }
    }

    fn on_commit(&mut self, commit: &Commit) {
        let object = &*commit.object;
        match (&*commit.resource, commit.r#type) {
            ("csinodes", EventType::Deleted) => drop(self.limited.remove(object)),
            ("csinodes", _) => {
                let drivers = commit.csinode.iter().flat_map(|is| &is.drivers);
                match drivers.filter_map(|driver| driver.limit).next() {
                    Some(_) => self.limited.insert(object.to_owned()),
                    None => self.limited.remove(object),
                };
            }
            ("pods", EventType::Deleted) => drop(self.pods.remove(object)),
            ("pods", _) => {
                let Some(pod) = commit.pod.as_ref().filter(|pod| !pod.claims.is_empty()) else { return };
                let Some(node) = pod.node.as_deref().filter(|_| !self.pods.contains_key(object)) else { return };
                let early = !self.limited.contains(node);
                self.pods.insert(object.to_owned(), Place { node: node.to_owned(), early });
            }
            _ => {}
        }
    }

    /// Whether the pod waits on a node that takes no more volumes, and on which one was put that nobody counted.
    pub fn is_one_too_many(&self, pod: &str) -> bool {
        let Some(Place { node, .. }) = self.pods.get(pod).filter(|place| self.full.contains(&place.node)) else {
            return false;
        };
        self.pods.values().any(|place| place.early && place.node == *node)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fake_apiserver::events::{CsiNode, Driver, Pod};
    use substrate::{Clock, Level, Trace};

    use super::*;

    fn commit(resource: &str, object: &str, r#type: EventType, node: Option<&str>) -> Commit {
        let pod = Pod { claims: vec!["data".into()], node: node.map(Into::into), ..Pod::default() };
        Commit {
            csinode: None,
            group: None,
            node: None,
            object: object.into(),
            pod: (resource == "pods").then(|| Box::new(pod)),
            pv: None,
            pvc: None,
            resource: resource.into(),
            rv: 1,
            r#type,
            user: "test".into(),
            verb: "update".into(),
            volumeattachment: None,
        }
    }

    fn refused() -> CsiDone {
        CsiDone {
            rpc: "ControllerPublishVolume".into(),
            volume: Some("vol-1".into()),
            node: Some("i-1".into()),
            ordinal: 1,
            code: "RESOURCE_EXHAUSTED".into(),
            took_ms: 1,
            message: None,
        }
    }

    #[test]
    fn a_pod_is_one_too_many_where_one_came_before_the_limit_and_the_driver_refuses() {
        let (api, driver): (Arc<str>, Arc<str>) = ("fake-apiserver".into(), "csi-controller".into());
        let one_too_many = |registered_first: bool, is_refused: bool| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let register = || {
                let drivers = vec![Driver { limit: Some(1), name: "ebs.csi.aws.com".into() }];
                let csinode = Some(Box::new(CsiNode { drivers }));
                trace.info(&api, Commit { csinode, ..commit("csinodes", "node-a", EventType::Modified, None) });
            };
            trace.info(&api, commit("csinodes", "node-a", EventType::Added, None));
            if registered_first {
                register();
            }
            trace.info(&api, commit("pods", "default/one", EventType::Modified, Some("node-a")));
            register();
            trace.info(&api, commit("pods", "default/two", EventType::Modified, Some("node-a")));
            trace.info(&api, commit("pods", "default/three", EventType::Added, None));
            if is_refused {
                trace.info(&driver, refused());
            }
            let mut early = Early::default();
            trace.events().iter().for_each(|event| early.observe(event, |_| "node-a".to_owned()));
            assert!(!early.is_one_too_many("default/three"), "it is on no node");
            early.is_one_too_many("default/two")
        };
        assert!(one_too_many(false, true));
        assert!(!one_too_many(true, true), "the scheduler could have counted");
        assert!(!one_too_many(false, false), "it fits");
    }
}
