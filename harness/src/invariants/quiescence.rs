//! Checks at quiescence and at the end of a run.

use super::found::{Found, first_word};
use super::{
    AppliedObjects, Difference, Disagreement, Id, Invariants, Leftovers, Machines, Pending, Symptom, i4_agreement,
    i12_as_asked,
};

impl Invariants {
    /// Returns the work that a cluster without faults still has to do, according to the trace; empty when it has
    /// converged.
    pub fn pending(&self) -> Vec<Pending> {
        self.state().model.pending()
    }

    /// Returns true if the API server has objects of a resource, apart from the Service that it creates itself.
    pub(crate) fn has_any(&self, resource: &str) -> bool {
        self.state().present.has_any(resource)
    }

    /// Returns the time of the last change that is not a heartbeat, in milliseconds since the start of the world, and
    /// its description.
    pub fn unrest(&self) -> (u64, String) {
        self.state().model.unrest()
    }

    /// Returns the current disagreements between the cloud, Kubernetes and the nodes, in words (I4), and the number of
    /// comparisons.
    pub fn disagreements(&self, machines: &Machines) -> (Vec<Disagreement>, u64) {
        i4_agreement::compare(&self.state().model, machines)
    }

    /// Counts `compared` comparisons of I4, and reports the disagreements at quiescence.
    pub fn agreed(&self, compared: u64, disagreements: Vec<Disagreement>) {
        let mut state = self.state();
        state.checked.add(Id::I4, compared);
        for Disagreement { volume, node, message, symptom } in disagreements {
            let mut details = state.waits(&message).unwrap_or_default();
            let unlisted = volume.as_ref().zip(node.as_ref()).is_some_and(|(v, n)| state.model.was_unlisted(v, n));
            details.insert("nodeInCacheLackedVolume", unlisted.into());
            let first = volume.clone().unwrap_or_default();
            state.found_at_end(Id::I4, symptom, &first, Found { message, volume, node, details, ..Found::default() });
        }
    }

    /// Returns the current differences between the cluster and its manifests (I12), and the number of comparisons.
    pub(crate) fn differences(&self, applied_objects: &AppliedObjects, machines: &Machines) -> (Vec<Difference>, u64) {
        let state = self.state();
        let (mut found, judged) = i12_as_asked::compare(applied_objects, &state.present, &state.model, machines);
        // I8 reports these claims.
        let kept: Vec<String> = state.staleness.kept().map(|claim| format!("pvc/{claim} ")).collect();
        found.retain(|difference| !kept.iter().any(|claim| difference.message.starts_with(claim.as_str())));
        (found, judged)
    }

    /// Counts `compared` comparisons of I12, and reports the differences at quiescence.
    pub fn is_as_asked(&self, compared: u64, differences: Vec<Difference>) {
        let mut state = self.state();
        state.checked.add(Id::I12, compared);
        for Difference { volume, message } in differences {
            let details = state.waits(&message).unwrap_or_default();
            let first = first_word(&message);
            state.found_at_end(
                Id::I12,
                Symptom::NotAsAsked,
                &first,
                Found { message, volume, details, ..Found::default() },
            );
        }
    }

    /// Counts that the cluster was given time to converge, and reports the pending work (I8).
    pub fn converged(&self, pending: Vec<Pending>) {
        let mut state = self.state();
        state.checked.add(Id::I8, 1);
        let kept = |claim: &str| Pending {
            what: format!("pvc/{claim}"),
            waits_for: "its end".to_owned(),
            symptom: Symptom::ClaimKept,
        };
        let kept: Vec<Pending> = state.staleness.kept().map(kept).collect();
        pending.into_iter().chain(kept).for_each(|pending| state.is_pending(&pending));
        state.unreported();
    }

    /// Records that the cluster is at rest and new control loops start.
    pub(crate) fn fresh_loops_start(&self) {
        let mut state = self.state();
        state.checked.add(Id::I8, 1);
        state.idle.begin();
    }

    /// Reports the work that the new control loops did (I8).
    pub(crate) fn fresh_loops_end(&self) {
        let mut state = self.state();
        for found in state.idle.end() {
            let first = first_word(&found.message);
            state.found_at_end(Id::I8, Symptom::WorkForgotten, &first, found);
        }
    }

    /// Handles a failed step that expected one state and saw another: reports that its wait timed out, if the reason is
    /// known (I5, I8).
    pub fn waited(&self, expected: &str, seen: &str) {
        let mut state = self.state();
        let orphaned_volumes = state.orphaned_volumes.restarted().filter(|volume| seen.contains(*volume));
        for volume in orphaned_volumes.map(str::to_owned).collect::<Vec<_>>() {
            if !state.model.was_saved(&volume) {
                state.forgotten_volume(volume);
            }
        }
        state.report_unwanted_attachment(expected);
        state.report_unwanted_mount(expected);
        let Some(details) = state.waits(expected) else { return };
        let message = format!("{} waits in vain", expected.split(' ').next().unwrap_or_default());
        let first = first_word(&message);
        state.found_at_end(Id::I8, Symptom::WaitsInVain, &first, Found { message, details, ..Found::default() });
    }

    /// Reports an activity that never ends (I8).
    pub fn never_rests(&self, message: String) {
        let found = Found { message, ..Found::default() };
        self.state().found_at_end(Id::I8, Symptom::NeverRests, "", found);
    }

    /// Reports leftovers after every object was deleted (I5).
    pub fn at_end(&self, leftovers: &Leftovers) {
        let mut state = self.state();
        let made = state.model.made();
        state.checked.add(Id::I5, made);
        state.unreported();
        let (orphaned_stagings, others) = leftovers
            .split(|node, path| state.orphaned_stagings.volume(node, path).map(|(v, why)| (v.to_owned(), why)));
        let is_unsaved =
            |volume: &String| state.orphaned_volumes.why(volume).is_some() && !state.model.was_saved(volume);
        let (orphaned_volumes, volumes): (Vec<String>, Vec<String>) =
            others.cloud_volumes.into_iter().partition(is_unsaved);
        let others = Leftovers { cloud_volumes: volumes, ..others };
        for (symptom, message, left) in others.sentences() {
            state.left_at_end(symptom, message, &left);
        }
        for volume in orphaned_volumes {
            state.forgotten_volume(volume);
        }
        for (directory, node, (volume, why)) in orphaned_stagings {
            let details = [(why, true.into())].into();
            let message = format!("a directory is left over: {directory}");
            let (volume, node) = (Some(volume), Some(node));
            let found = Found { message, volume, node, details, ..Found::default() };
            state.found_at_end(Id::I5, Symptom::DirectoryLeft, &directory, found);
        }
    }
}
