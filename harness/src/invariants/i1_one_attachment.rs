//! I1, before any write: the attach-detach controller does not begin to attach a volume with single-node access while
//! another node has it. The other node has it if an attached VolumeAttachment stays, and the status of that node lists
//! the volume.

use controllers::events::Attach;
use substrate::Event;
use substrate::json::Text;

use super::Found;
use crate::model::RunModel;

pub(super) fn check(model: &RunModel, event: &Event) -> Option<Found> {
    let Attach { volume, pv, node, .. } = event.get()?;
    if model.is_shared(volume) {
        return None;
    }
    // `kubernetes.io/csi/DRIVER^HANDLE`
    let is_it = |name: &Text| name.split_once('^').is_some_and(|(_, handle)| handle == volume.as_str());
    let stays =
        |node: &str| model.objects.nodes.get(node).is_some_and(|node| node.state.volumes_attached.iter().any(is_it));
    let all = model.objects.attachments.values();
    let mut others = all.filter(|other| other.pv() == pv.as_str() && other.node() != node.as_str());
    let other = others.find(|other| other.state.attached && !other.state.deleting && stays(other.node()))?;
    Some(Found {
        message: format!("an attach of {volume} to {node} began while it is attached to {}", other.node()),
        operation: "attach".to_owned(),
        volume: Some(volume.to_string()),
        node: Some(node.to_string()),
        ..Found::default()
    })
}
