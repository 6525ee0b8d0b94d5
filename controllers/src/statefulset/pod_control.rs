//! Writes of pods and claims of a set, with their Events (`StatefulPodControl`).

use std::sync::Arc;

use anyhow::{Result, anyhow};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use substrate::mutant;

use super::identity::{
    claim_name, claim_templates, claims, identity_matches, ordinal, storage_matches, update_identity, update_storage,
};
use super::{ownership, plan};
use crate::kube::{ApiError, Client, DeleteParams, EventRecorder, Informer, Kind, reference};
use crate::workload::aggregate::aggregate;
use crate::workload::consistency::Consistency;
use crate::workload::retry::{DEFAULT_BACKOFF, Retry};

/// Writer of a set's pods and claims.
pub(super) struct StatefulPodControl {
    pub(super) client: Client,
    pub(super) recorder: EventRecorder,
    pub(super) pods: Informer<Pod>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) written: Arc<Consistency>,
}

fn title(verb: &str) -> String {
    verb.get(..1).unwrap_or_default().to_uppercase() + verb.get(1..).unwrap_or_default()
}

impl StatefulPodControl {
    /// Creates a pod after its claims (`CreateStatefulPod`).
    ///
    /// # Errors
    /// The first write that failed.
    pub(super) async fn create(&self, set: &StatefulSet, pod: &Pod) -> Result<()> {
        if let Err(error) = self.create_claims(set, pod).await {
            self.record_pod("create", set, pod, Some(&error.to_string()));
            return Err(error);
        }
        let created = self.client.namespaced::<Pod>(set.namespace()).create(pod).await;
        if let Err(error) = &created
            && error.is_already_exists()
        {
            return Err(error.clone().into());
        }
        if let Ok(created) = &created {
            self.written.wrote(set, &**created);
        }
        if let Err(error) = self.update_claims(set, pod).await {
            self.record_pod("update", set, pod, Some(&error.to_string()));
            return Err(error);
        }
        self.record_pod("create", set, pod, created.as_ref().err().map(ToString::to_string).as_deref());
        created.map(drop).map_err(Into::into)
    }

    /// Deletes a pod (`DeleteStatefulPod`). A pod that is gone counts as deleted.
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(super) async fn delete(&self, set: &StatefulSet, pod: &Pod) -> Result<(), ApiError> {
        let api = self.client.namespaced::<Pod>(pod.namespace());
        let answer = match api.delete(pod.name(), &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        };
        self.record_pod("delete", set, pod, answer.as_ref().err().map(ToString::to_string).as_deref());
        answer
    }

    /// Corrects identity, volumes and owners of claims (`UpdateStatefulPod`). `set` is at the update revision.
    ///
    /// # Errors
    /// The first write that failed.
    pub(super) async fn update(&self, set: &StatefulSet, pod: &Pod) -> Result<()> {
        let mut pod = pod.clone();
        let mut retry = Retry::new(self.client.ctx(), DEFAULT_BACKOFF);
        let mut is_attempted = false;
        let answer: Result<()> = loop {
            let mut is_consistent = true;
            if !identity_matches(set, &pod) {
                update_identity(set, &mut pod);
                is_consistent = false;
            }
            if !storage_matches(set, &pod) {
                update_storage(set, &mut pod);
                is_consistent = false;
                if let Err(error) = self.create_claims(set, &pod).await {
                    self.record_pod("update", set, &pod, Some(&error.to_string()));
                    break Err(error);
                }
            }
            if !plan::claims_match(set, &pod, &|name| self.claims.get(set.namespace(), name)) {
                if let Err(error) = self.update_claims(set, &pod).await {
                    self.record_pod("update", set, &pod, Some(&error.to_string()));
                    break Err(error);
                }
                is_consistent = false;
            }
            if is_consistent {
                break Ok(());
            }
            is_attempted = true;
            let error = match self.client.namespaced::<Pod>(set.namespace()).replace(&pod).await {
                Ok(updated) => {
                    self.written.wrote(set, &*updated);
                    break Ok(());
                }
                Err(error) => error,
            };
            if let Some(cached) = self.pods.get(set.namespace(), pod.name()) {
                pod = Pod::clone(&cached);
            }
            if !(error.is_conflict() && retry.again(pod.name()).await) {
                break Err(error.into());
            }
        };
        if is_attempted {
            self.record_pod("update", set, &pod, answer.as_ref().err().map(ToString::to_string).as_deref());
        }
        answer
    }

    /// Creates missing claims of a pending pod (`createMissingPersistentVolumeClaims`).
    ///
    /// # Errors
    /// The first write that failed.
    pub(super) async fn create_missing_claims(&self, set: &StatefulSet, pod: &Pod) -> Result<()> {
        self.create_claims(set, pod).await?;
        let answer = self.update_claims(set, pod).await;
        if let Err(error) = &answer {
            self.record_pod("update", set, pod, Some(&error.to_string()));
        }
        answer
    }

    /// Creates the claims that the cache does not have (`createPersistentVolumeClaims`).
    async fn create_claims(&self, set: &StatefulSet, pod: &Pod) -> Result<()> {
        let mut errors = Vec::new();
        for mut claim in claims(set, pod) {
            if mutant!(self.client.ctx(), "claim-labels-dropped") {
                claim.metadata.labels = None;
            }
            let name = claim.name();
            match self.claims.get(set.namespace(), name) {
                Some(present) if present.is_deleting() => errors.push(format!("pvc {name} is being deleted")),
                Some(_) => {}
                None => {
                    let api = self.client.namespaced::<PersistentVolumeClaim>(set.namespace());
                    let answer = api.create(&claim).await;
                    match &answer {
                        Ok(created) => self.written.wrote(set, &**created),
                        Err(error) => errors.push(format!("failed to create PVC {name}: {error}")),
                    }
                    if answer.as_ref().err().is_none_or(|error| !error.is_already_exists()) {
                        self.record_claim(set, pod, name, answer.err().map(|error| error.to_string()).as_deref());
                    }
                }
            }
        }
        aggregate(&errors)
    }

    /// Sets the owners of the claims by the retention policy (`UpdatePodClaimForRetentionPolicy`).
    ///
    /// # Errors
    /// The first write that failed.
    pub(super) async fn update_claims(&self, set: &StatefulSet, pod: &Pod) -> Result<()> {
        let Some(ordinal) = ordinal(pod) else { return Ok(()) };
        for template in claim_templates(set) {
            let name = claim_name(set, template, ordinal);
            let Some(claim) = self.claims.get(set.namespace(), &name) else { continue };
            if ownership::has_unexpected_controller(&claim, set, pod) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the \
                     retention policy is ignored for this claim"
                );
                self.recorder.event(reference(set), "Warning", "ConflictingController", message);
            }
            if ownership::is_up_to_date(&claim, set, pod) {
                continue;
            }
            let mut claim = PersistentVolumeClaim::clone(&claim);
            ownership::update(&mut claim, set, pod);
            let answer = self.client.namespaced::<PersistentVolumeClaim>(set.namespace()).replace(&claim).await;
            let updated = answer
                .map_err(|error| anyhow!("could not update claim {name} for delete policy ownerRefs: {error}"))?;
            self.written.wrote(set, &*updated);
        }
        Ok(())
    }

    /// Deletes the claims of a pod: a seeded bug.
    pub(super) async fn delete_claims(&self, set: &StatefulSet, pod: &Pod) {
        let api = self.client.namespaced::<PersistentVolumeClaim>(set.namespace());
        for claim in claims(set, pod) {
            // The bug deletes what it can.
            let _ = api.delete(claim.name(), &DeleteParams::default()).await;
        }
    }

    fn record_pod(&self, verb: &str, set: &StatefulSet, pod: &Pod, error: Option<&str>) {
        let (verb, pod, name) = (title(verb), pod.name(), set.name());
        let (kind, reason, message) = match error {
            None => {
                ("Normal", format!("Successful{verb}"), format!("{verb} Pod {pod} in StatefulSet {name} successful"))
            }
            Some(why) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {name} failed error: {why}");
                ("Warning", format!("Failed{verb}"), message)
            }
        };
        self.recorder.event(reference(set), kind, &reason, message);
    }

    fn record_claim(&self, set: &StatefulSet, pod: &Pod, claim: &str, error: Option<&str>) {
        let (pod, name) = (pod.name(), set.name());
        let (kind, reason, message) = match error {
            None => {
                let message = format!("Create Claim {claim} Pod {pod} in StatefulSet {name} success");
                ("Normal", "SuccessfulCreate", message)
            }
            Some(why) => {
                let message = format!("Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {why}");
                ("Warning", "FailedCreate", message)
            }
        };
        self.recorder.event(reference(set), kind, reason, message);
    }
}
