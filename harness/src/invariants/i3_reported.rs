//! I3: attach-detach detaches a volume only after the node's status no longer lists it in volumesAttached. Otherwise the
//! kubelet may mount a volume that is being detached (kubernetes#27836). If the write of the status fails, attach-detach
//! does not detach (`reconcileDetach` upstream). An occasion is a detach.
//!
//! A detach is not checked if attach-detach may have had a cached node without the volume: then upstream's write is empty.

use controllers::events::Detach;
use substrate::Event;

use super::{Checked, Found, Id};
use crate::model::RunModel;

/// Checks an event; `may_lack` returns true if attach-detach may have a node in its cache that does not list a volume.
pub(super) fn check(
    model: &RunModel,
    checked: &mut Checked,
    event: &Event,
    may_lack: impl Fn(&str, &str) -> bool,
) -> Option<Found> {
    let Detach { volume, node, .. } = event.get()?;
    let status = &model.objects.nodes.get(node.as_str())?.state;
    checked.add(Id::I3, 1);
    let end = format!("^{volume}");
    if !status.volumes_attached.iter().any(|listed| listed.ends_with(&end)) || may_lack(node, volume) {
        return None;
    }
    let message =
        format!("attach-detach began to detach {volume} from {node}, whose status.volumesAttached still lists it");
    let (volume, node) = (Some(volume.to_string()), Some(node.to_string()));
    Some(Found { message, operation: "Detach".to_owned(), volume, node, ..Found::default() })
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Commit, Node};
    use fake_apiserver::state::EventType;
    use substrate::{Clock, Level, Trace};

    use super::*;

    /// Returns the findings of a detach from a node that lists these volumes.
    fn found(listed: &[&str], may_lack: bool) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut commit = Commit::new("nodes", "node-a", 1, EventType::Modified);
        let volumes_attached = listed.iter().map(|name| (*name).into()).collect();
        commit.node = Some(Box::new(Node { volumes_attached, ..Node::default() }));
        trace.info(&"fake-apiserver".into(), commit);
        let detach =
            Detach { volume: "vol-1".into(), pv: "pv-1".into(), node: "node-a".into(), forced: false, reason: None };
        trace.info(&"kube-controller-manager".into(), detach);
        let (mut model, mut checked, mut all) = (RunModel::default(), Checked::default(), Vec::new());
        for event in &trace.events() {
            model.observe(event);
            all.extend(check(&model, &mut checked, event, |_, _| may_lack).map(|found| found.message));
        }
        all
    }

    #[test]
    fn a_volume_is_detached_only_after_the_node_has_stopped_listing_it() {
        let early = "attach-detach began to detach vol-1 from node-a, whose status.volumesAttached still lists it";
        assert_eq!(found(&["kubernetes.io/csi/ebs^vol-1"], false), [early]);
        assert!(found(&["kubernetes.io/csi/ebs^vol-1"], true).is_empty(), "its cached node may not list the volume");
        assert!(found(&["kubernetes.io/csi/ebs^vol-2"], false).is_empty());
    }
}
