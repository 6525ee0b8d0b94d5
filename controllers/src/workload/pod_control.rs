//! Creation and deletion of a controller's pods, with their Events (`RealPodControl`), and batches of writes.

use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;

use super::consistency::Consistency;
use crate::kube::{ApiError, Client, DeleteParams, EventRecorder, Kind, reference};

/// Writer of pods on behalf of their controllers.
#[derive(Clone)]
pub(crate) struct PodControl {
    client: Client,
    recorder: EventRecorder,
    written: Arc<Consistency>,
}

impl PodControl {
    /// Creates a writer with the Events of `recorder`, which notes its writes in `written`.
    pub(crate) fn new(client: &Client, recorder: &EventRecorder, written: &Arc<Consistency>) -> Self {
        Self { client: client.clone(), recorder: recorder.clone(), written: written.clone() }
    }

    /// Creates a pod (`CreatePods`).
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(crate) async fn create<O: Kind>(&self, owner: &O, pod: &Pod) -> Result<Arc<Pod>, ApiError> {
        match self.client.namespaced::<Pod>(owner.namespace()).create(pod).await {
            Ok(created) => {
                self.written.wrote(owner, &*created);
                let message = format!("Created pod: {}", created.name());
                self.recorder.event(reference(owner), "Normal", "SuccessfulCreate", message);
                Ok(created)
            }
            Err(error) => {
                // Every creation in a terminating namespace fails; an Event would fail too.
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating: {error}");
                    self.recorder.event(reference(owner), "Warning", "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// Deletes a pod (`DeletePod`).
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(crate) async fn delete<O: Kind>(&self, owner: &O, name: &str) -> Result<(), ApiError> {
        let answer = self.client.namespaced::<Pod>(owner.namespace()).delete(name, &DeleteParams::default()).await;
        match &answer {
            Ok(()) => {
                self.recorder.event(reference(owner), "Normal", "SuccessfulDelete", format!("Deleted pod: {name}"));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                self.recorder.event(reference(owner), "Warning", "FailedDelete", format!("Error deleting: {error}"));
            }
        }
        answer
    }
}

/// Result of a batch of writes.
#[derive(Debug)]
pub(crate) struct Batch<E> {
    /// Number of writes that succeeded.
    pub(crate) successes: usize,
    /// Errors of the first batch that had any.
    pub(crate) errors: Vec<E>,
}

/// Makes `count` writes in batches that begin with `initial` and double (`slowStartBatch`), so that writes that must
/// fail do not overload the API server. Stops after the first batch with an error.
pub(crate) async fn slow_start_batch<F, E>(
    count: usize,
    initial: usize,
    largest: usize,
    write: impl Fn(usize) -> F,
) -> Batch<E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut batch = Batch { successes: 0, errors: Vec::new() };
    let (mut start, mut size) = (0, count.min(initial));
    while size > 0 {
        for answer in join_all((start..start + size).map(&write)).await {
            match answer {
                Ok(()) => batch.successes += 1,
                Err(error) => batch.errors.push(error),
            }
        }
        if !batch.errors.is_empty() {
            break;
        }
        start += size;
        size = (2 * size).min(count - start).min(largest);
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn batches_double_until_a_write_fails() {
        let tried = RefCell::new(Vec::new());
        let write = |i: usize| {
            tried.borrow_mut().push(i);
            async move { if i == 4 { Err("no") } else { Ok(()) } }
        };
        let batch = slow_start_batch(20, 1, usize::MAX, write).now_or_never().unwrap();
        assert_eq!((batch.successes, batch.errors), (6, vec!["no"]));
        assert_eq!(tried.into_inner(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
