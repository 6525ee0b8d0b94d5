//! Batches of reads of single volumes or instances, like the EBS driver's `--batching` (upstream `pkg/batcher`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use tokio::sync::oneshot;

use super::ec2::{Client, Ec2Error};

/// Time that the first read of a batch waits for others (upstream `batchMaxDelay`).
const DELAY: Duration = Duration::from_millis(500);

type Answer<T> = Result<T, Ec2Error>;
type Waiting<T> = BTreeMap<String, Vec<oneshot::Sender<Answer<T>>>>;

/// Object whose reads can be batched.
pub(super) trait Batched: Clone + Send + 'static {
    /// Largest number in one call.
    const LARGEST: usize;
    /// Action of the call.
    const ACTION: &'static str;
    /// Prefix of the error codes for a missing object.
    const MISSING: &'static str;

    /// Returns its id.
    fn id(&self) -> &str;

    /// Returns the batch of its kind.
    fn batch(client: &Client) -> Option<&Batch<Self>>;

    /// Reads the objects with these ids; fails if one does not exist.
    fn ask(client: &Client, ids: &[&str]) -> impl Future<Output = Result<Vec<Self>, Ec2Error>> + Send;

    /// Returns the error for a missing object.
    fn none(id: &str) -> Ec2Error;
}

/// Reads that wait for their batch.
#[derive(Debug)]
pub(super) struct Batch<T>(Mutex<Waiting<T>>);

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Batched> Batch<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.0.lock()
    }

    fn take(&self) -> Waiting<T> {
        std::mem::take(&mut *self.waiting())
    }

    /// Reads `id` together with other reads of its kind within [`DELAY`].
    async fn look(&self, client: &Client, id: &str) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        let (first, full) = {
            let mut waiting = self.waiting();
            let first = waiting.is_empty();
            waiting.entry(id.to_owned()).or_default().push(answer);
            (first, waiting.len() >= T::LARGEST)
        };
        let own = client.clone();
        if full {
            let batch = self.take();
            client.ctx().spawn(async move { own.look_at_all(batch).await });
        } else if first {
            // A batch that filled up earlier leaves the timer to the next one, which then runs a little early.
            client.ctx().spawn(async move {
                own.ctx().sleep(DELAY).await;
                let batch = T::batch(&own).map(Batch::take).unwrap_or_default();
                own.look_at_all(batch).await;
            });
        }
        let ended = || Ec2Error::Unreachable { action: T::ACTION, reason: "the driver ends".to_owned() };
        answered.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Client {
    /// Reads one volume or instance, in a batch if enabled.
    pub(super) async fn look<T: Batched>(&self, id: &str) -> Answer<T> {
        if let Some(batch) = T::batch(self) {
            return batch.look(self, id).await;
        }
        let found = T::ask(self, &[id]).await?;
        found.into_iter().find(|one| one.id() == id).ok_or_else(|| T::none(id))
    }

    async fn look_at_all<T: Batched>(&self, batch: Waiting<T>) {
        if batch.is_empty() {
            return;
        }
        let found = T::ask(self, &batch.keys().map(String::as_str).collect::<Vec<_>>()).await;
        // A missing object fails the call for all. Upstream returns that error to all callers and remembers the missing
        // id; here the existing ones are read again.
        let apart = batch.len() > 1 && found.as_ref().is_err_and(|e| e.code().starts_with(T::MISSING));
        for (id, waiting) in batch {
            let own;
            let found = if apart {
                own = T::ask(self, &[&id]).await;
                &own
            } else {
                &found
            };
            let answer = found
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|all| all.iter().find(|one| one.id() == id).cloned().ok_or_else(|| T::none(&id)));
            for one in waiting {
                // The caller may be gone.
                let _ = one.send(answer.clone());
            }
        }
    }
}
