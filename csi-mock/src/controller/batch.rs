//! Many looks at single volumes become one call, as with the EBS driver's `--batching` (upstream `pkg/batcher`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::ec2::{Client, Ec2Error, no_such_volume};
use super::xml::Volume;

/// How long the first look of a batch waits for others (upstream `batchMaxDelay`).
const DELAY: Duration = Duration::from_millis(500);
/// How many volumes one call asks for at most (upstream `volumeIDBatcher`).
const LARGEST: usize = 500;

type Answer = Result<Volume, Ec2Error>;
type Waiting = BTreeMap<String, Vec<oneshot::Sender<Answer>>>;

/// The looks that wait for company.
#[derive(Debug, Default)]
pub(super) struct Batch(Mutex<Waiting>);

impl Batch {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting())
    }

    /// Looks at `volume` together with whoever looks at one within [`DELAY`].
    pub async fn look(&self, client: &Client, volume: &str) -> Answer {
        let (answer, answered) = oneshot::channel();
        let (first, full) = {
            let mut waiting = self.waiting();
            let first = waiting.is_empty();
            waiting.entry(volume.to_owned()).or_default().push(answer);
            (first, waiting.len() >= LARGEST)
        };
        let own = client.clone();
        if full {
            let batch = self.take();
            client.ctx().spawn(async move { own.look_at_all(batch).await });
        } else if first {
            // A batch that was full before leaves the timer to the next one, which then goes a little early.
            client.ctx().spawn(async move {
                own.ctx().sleep(DELAY).await;
                let batch = own.batch().map(Batch::take).unwrap_or_default();
                own.look_at_all(batch).await;
            });
        }
        let ended = || Ec2Error::Unreachable { action: "DescribeVolumes", reason: "the driver ends".to_owned() };
        answered.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Client {
    async fn look_at_all(&self, batch: Waiting) {
        if batch.is_empty() {
            return;
        }
        let found = self.volumes_by_id(&batch.keys().map(String::as_str).collect::<Vec<_>>()).await;
        // One volume that is not there fails the call for all of them. Upstream hands that error to everybody and
        // remembers who was missing; here whoever is there gets its volume.
        let apart = batch.len() > 1 && found.as_ref().is_err_and(|e| e.code().starts_with("InvalidVolume"));
        for (id, waiting) in batch {
            let own;
            let found = if apart {
                own = self.volumes_by_id(&[&id]).await;
                &own
            } else {
                &found
            };
            let answer = found.as_ref().map_err(Clone::clone).and_then(|volumes| {
                volumes.iter().find(|v| v.volume_id == id).cloned().ok_or_else(|| no_such_volume(&id))
            });
            for one in waiting {
                // A caller that went away waits no more.
                let _ = one.send(answer.clone());
            }
        }
    }
}
