//! Violations at the end of a run, each with its symptom and the missing call or write. Checkers of single events do
//! not use this file.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{Found, first_word};
use super::violation::VOLUMES;
use super::{Id, Pending, State, Symptom};

impl State {
    /// Returns the reason why the wait for the object at the start of a sentence timed out, if known.
    pub(super) fn waits(&self, sentence: &str) -> Option<BTreeMap<&'static str, serde_json::Value>> {
        self.attribution.waits(sentence).or_else(|| self.staleness.waits(sentence))
    }

    /// Reports work that is still to be done (I8).
    pub(super) fn is_pending(&mut self, pending: &Pending) {
        let Pending { what, symptom, .. } = pending;
        let message = pending.to_string();
        let volume = self.attribution.volume_of(&self.model, &message);
        let mut details = self.waits(&message).unwrap_or_default();
        let attachment = message.split(' ').next().and_then(|object| object.strip_prefix("volumeattachment/"));
        if let Some(attachment) = attachment.and_then(|name| self.model.objects.attachments.get(name)) {
            details.insert("volumeIsGone", self.model.objects.volume(attachment.pv()).is_none().into());
        }
        if *symptom == Symptom::AwaitsUnstage && self.model.is_forgotten(what) {
            details.insert("kubeletRestartedSinceUnpublish", true.into());
        }
        let first = first_word(&message);
        self.found_at_end(Id::I8, *symptom, &first, Found { message, volume, details, ..Found::default() });
    }

    /// Reports failed calls without an Event (I8).
    pub(super) fn unreported(&mut self) {
        for found in self.surfaced.at_rest() {
            let first = first_word(&found.message);
            self.found_at_end(Id::I8, Symptom::FailureNotReported, &first, found);
        }
    }

    /// Reports leftovers, each with its volume if all volumes are known.
    pub(super) fn left_at_end(&mut self, symptom: Symptom, message: String, left: &[String]) {
        let of =
            left.iter().map(|thing| self.attribution.volume_of(&self.model, thing)).collect::<Option<BTreeSet<_>>>();
        let mut found = Found { message, ..Found::default() };
        match of {
            Some(volumes) if volumes.len() == 1 => found.volume = volumes.into_iter().next(),
            Some(volumes) => drop(found.details.insert(VOLUMES, volumes.into_iter().collect())),
            None => {}
        }
        let first = left.first().map_or("", String::as_str);
        self.found_at_end(Id::I5, symptom, first, found);
    }

    /// Reports that the awaited volume is mounted on a node that should not have it, by a call that was answered with
    /// an error or because kubelet has lost its record (I8).
    pub(super) fn report_unwanted_mount(&mut self, expected: &str) {
        let Some(volume) = self.attribution.volume_of(&self.model, expected) else { return };
        let mut nodes = self.attribution.mounted_by_failed_call(&volume);
        nodes.extend(self.attribution.without_record(&volume));
        let claim = self.model.objects.volume_of(&volume).and_then(|pv| pv.state.claim.as_deref());
        let users = claim.into_iter().flat_map(|claim| self.model.objects.users(claim));
        let pods = users.filter(|(_, pod)| pod.node().is_some_and(|node| nodes.contains(node)));
        let pods: BTreeSet<String> = pods.map(|(name, _)| format!("pod/{name}")).collect();
        let is_there =
            |what: &str| pods.contains(what) || nodes.iter().any(|node| what == format!("{volume} on {node}"));
        let pending = self.model.pending().into_iter().filter(|pending| is_there(&pending.what));
        for pending in pending.collect::<Vec<_>>() {
            self.is_pending(&pending);
        }
    }

    /// Reports that the awaited volume is attached to a node that should not have it, if known (I4).
    pub(super) fn report_unwanted_attachment(&mut self, expected: &str) {
        let Some(volume) = self.attribution.volume_of(&self.model, expected) else { return };
        let mut nodes = self.attribution.attached_late(&volume);
        nodes.extend(self.staleness.without_attachment(&volume));
        nodes.retain(|node| !self.model.wants_attached(&volume, node));
        for node in nodes {
            let message =
                format!("{volume} on {node} is attached in the cloud, and not attached by its VolumeAttachment");
            let details = self.waits(&message).unwrap_or_default();
            let found = Found { message, volume: Some(volume.clone()), node: Some(node), details, ..Found::default() };
            self.found_at_end(Id::I4, Symptom::AttachedInCloudOnly, &volume, found);
        }
    }

    /// Reports a volume that was created but never saved, and that the current provisioner cannot know.
    pub(super) fn forgotten_volume(&mut self, volume: String) {
        let details = self.orphaned_volumes.why(&volume).map(|why| (why, true.into())).into_iter().collect();
        let message = format!("a cloud volume is left over: {volume}");
        let found = Found { message, volume: Some(volume.clone()), details, ..Found::default() };
        self.found_at_end(Id::I5, Symptom::CloudVolumeLeft, &volume, found);
    }

    /// Adds a violation at the end of the run, with the missing call or write. `first` is the object, volume or
    /// leftover that shows it.
    pub(super) fn found_at_end(&mut self, id: Id, symptom: Symptom, first: &str, found: Found) {
        let (ms, n, process) = self.last.clone().unwrap_or_default();
        let of = (found.volume.as_deref(), found.node.as_deref());
        let missing = self.last_acts.missing(&self.model, symptom, first, of);
        let kept = self.violations.len();
        self.add(ms, n, &process, id.name(), Found { operation: "quiescence".to_owned(), ..found });
        if let Some(violation) = self.violations.get_mut(kept) {
            (violation.symptom, violation.missing) = (Some(symptom), missing);
            let left = |volume: &str| Some((volume.to_owned(), self.model.left_at(volume)?));
            violation.left = violation.volumes().into_iter().filter_map(left).collect();
        }
    }
}
