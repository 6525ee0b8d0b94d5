//! Patches any object or subresource.

use super::{Failure, Run};
use crate::cluster::objects::ObjectError;
use crate::scenario::steps::patch::Patch;

impl Run<'_> {
    pub(super) async fn patch(&self, patch: &Patch) -> Result<(), Failure> {
        let taken = self.objects.patch_as(patch).await;
        let Some(refused) = &patch.fails else {
            self.api(&patch.to_string(), taken)?;
            self.applied_objects().patched(patch);
            return Ok(());
        };
        let expected = format!("the API server refuses as {refused}: {patch}");
        match taken {
            Ok(()) => Err(self.failure(expected, "it was taken")),
            Err(ObjectError::Status { code, reason, message }) => {
                let seen = || format!("{code} {reason}: {message}");
                if refused.is(code, &reason) { Ok(()) } else { Err(self.failure(expected, seen())) }
            }
            Err(error) => Err(self.failure(expected, error.to_string())),
        }
    }
}
