//! State of volumes and attachments from the cloud's events, which include every state however short it lasts.

use std::collections::BTreeMap;

use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged, VolumePhase};
use substrate::Event;

use crate::scenario::predicate::{Cloud, CloudSubject, Pattern};

/// Volumes by id. Unlike the model, it keeps a deleted volume, which a step may name.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    volumes: BTreeMap<String, Volume>,
}

#[derive(Debug)]
struct Volume {
    state: VolumePhase,
    attachments: BTreeMap<String, AttachmentPhase>,
}

impl Mirror {
    /// Applies an event. Returns true if it changed anything.
    pub(super) fn observe(&mut self, event: &Event) -> bool {
        if let Some(reported) = event.get::<VolumeChanged>() {
            let new = || Volume { state: reported.state, attachments: BTreeMap::new() };
            self.volumes.entry(reported.volume.to_string()).or_insert_with(new).state = reported.state;
        } else if let Some(reported) = event.get::<AttachmentChanged>() {
            let Some(volume) = self.volumes.get_mut(&reported.volume.to_string()) else { return false };
            match reported.state {
                AttachmentPhase::Detached => drop(volume.attachments.remove(&reported.instance.to_string())),
                state => drop(volume.attachments.insert(reported.instance.to_string(), state)),
            }
        } else {
            return false;
        }
        true
    }

    /// Returns true if events alone can answer `cloud`. It must ask for one thing only, because a change is reported by
    /// several events in turn.
    pub(super) fn can_answer(cloud: &Cloud) -> bool {
        let asked = (cloud.state.is_some(), cloud.attached.is_some());
        cloud.that.is_none() && matches!((&cloud.of, asked), (CloudSubject::Volume(_), (true, false) | (false, true)))
    }

    /// Returns true if the volume `id` is as expected, with a description. None if there was no such volume.
    pub(super) fn look(&self, wanted: &Cloud, id: &str, node: impl Fn(&str) -> String) -> Option<(bool, String)> {
        let volume = self.volumes.get(id)?;
        if let Some(state) = &wanted.state {
            return Some((volume.state.as_str() == state, format!("it is {}", volume.state.as_str())));
        }
        let nodes = wanted.attached.as_ref()?;
        let all: Vec<(String, AttachmentPhase)> =
            volume.attachments.iter().map(|(id, phase)| (node(id), *phase)).collect();
        let holds = all.len() == nodes.len()
            && all.iter().all(|(node, phase)| *phase == AttachmentPhase::Attached && nodes.contains(node));
        let text: Vec<String> = all.iter().map(|(node, phase)| format!("{} on {node}", phase.as_str())).collect();
        Some((holds, if text.is_empty() { "it has no attachment".to_owned() } else { text.join(" and ") }))
    }
}

/// Volume of `cloud`.
pub(super) fn volume(cloud: &Cloud) -> Option<&Pattern> {
    match &cloud.of {
        CloudSubject::Volume(volume) => Some(volume),
        CloudSubject::Instance(_) | CloudSubject::Volumes => None,
    }
}
