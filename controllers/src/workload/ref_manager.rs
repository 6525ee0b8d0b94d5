//! Adoption and release of a controller's objects (`controller_ref_manager.go`).

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use substrate::mutant;

use super::controller_ref::{Claim, claim, controller_ref};
use crate::kube::{ApiError, Client, Kind, Patch};

/// Manager of the references to one controller.
pub(crate) struct RefManager<'a, O> {
    client: &'a Client,
    owner: &'a O,
    /// Finalizers that adopted objects get and released objects lose.
    finalizers: &'a [&'a str],
}

impl<'a, O: Kind> RefManager<'a, O> {
    /// Creates the manager of `owner`, as cached.
    pub(crate) fn new(client: &'a Client, owner: &'a O) -> Self {
        Self { client, owner, finalizers: &[] }
    }

    /// Adds finalizers to adopted objects.
    pub(crate) fn with_finalizers(self, finalizers: &'a [&'a str]) -> Self {
        Self { finalizers, ..self }
    }

    /// Returns the controller's objects among `objects`: adopts matching orphans and releases objects that no longer
    /// match.
    ///
    /// # Errors
    /// The first failed write, after all objects were tried.
    pub(crate) async fn claim<K: Kind>(
        &self,
        objects: Vec<Arc<K>>,
        matches: impl Fn(&K) -> bool,
    ) -> Result<Vec<Arc<K>>> {
        let mut claimed = Vec::new();
        let mut failure = None;
        // The recheck is made once, before the first adoption (`RecheckDeletionTimestamp`).
        let mut may_adopt: Option<Result<(), String>> = None;
        for object in objects {
            match claim(self.owner, &*object, matches(&object)) {
                Claim::Keep => claimed.push(object),
                Claim::Skip => {}
                Claim::Release if mutant!(self.client.ctx(), "relabelled-pod-kept") => claimed.push(object),
                Claim::Release => {
                    if let Err(error) = self.release(&*object).await {
                        failure.get_or_insert(error.into());
                    }
                }
                Claim::Adopt => {
                    if may_adopt.is_none() {
                        may_adopt = Some(self.recheck().await.map_err(|e| e.to_string()));
                    }
                    if let Some(Err(why)) = &may_adopt {
                        let (kind, name) = (K::KIND, object.name());
                        failure.get_or_insert(anyhow::anyhow!("can't adopt {kind} {name}: {why}"));
                        continue;
                    }
                    match self.adopt(&*object).await {
                        Ok(()) => claimed.push(object),
                        Err(error) if error.is_not_found() => {}
                        Err(error) => {
                            failure.get_or_insert(error.into());
                        }
                    }
                }
            }
        }
        match failure {
            None => Ok(claimed),
            Some(error) => Err(error),
        }
    }

    /// Reads the controller without a cache: one that is gone, or being deleted, must not adopt.
    async fn recheck(&self) -> Result<()> {
        if mutant!(self.client.ctx(), "adopts-without-uid-check") {
            return Ok(());
        }
        recheck_deletion(self.client, self.owner).await.context("can't recheck DeletionTimestamp")
    }

    async fn adopt<K: Kind>(&self, object: &K) -> Result<(), ApiError> {
        let uid = (!mutant!(self.client.ctx(), "adopts-without-uid-check")).then(|| object.uid());
        let patch = Patch::adopt(uid, &controller_ref(self.owner), self.finalizers)?;
        self.client.namespaced::<K>(object.namespace()).patch_unread(object.name(), &patch).await
    }

    async fn release<K: Kind>(&self, object: &K) -> Result<(), ApiError> {
        let patch = Patch::release(object.uid(), self.owner.uid(), self.finalizers);
        match self.client.namespaced::<K>(object.namespace()).patch_unread(object.name(), &patch).await {
            // It is gone, or has no reference any more.
            Err(error) if error.is_not_found() || error.is_invalid() => Ok(()),
            answer => answer,
        }
    }
}

/// Checks with an uncached read that `owner` still exists and is not being deleted.
///
/// # Errors
/// If it is gone or being deleted, or the read fails.
pub(crate) async fn recheck_deletion<O: Kind>(client: &Client, owner: &O) -> Result<()> {
    let fresh = client.namespaced::<O>(owner.namespace()).get(owner.name()).await?;
    let (kind, namespace, name) = (O::KIND, owner.namespace(), owner.name());
    if fresh.uid() != owner.uid() {
        let (got, wanted) = (fresh.uid(), owner.uid());
        bail!("original {kind} {namespace}/{name} is gone: got uid {got}, wanted {wanted}");
    }
    if let Some(at) = &fresh.metadata().deletion_timestamp {
        bail!("{namespace}/{name} has just been deleted at {}", at.0);
    }
    Ok(())
}
