//! Signal that volumes or pods of the node have changed.

use substrate::latest;
use tokio::sync::Notify;

/// Signal of changes, to the reconciler and to all tasks that wait for volumes.
pub(crate) struct Changes {
    changes: latest::Sender<()>,
    reconcile_due: Notify,
}

impl Default for Changes {
    fn default() -> Self {
        Self { changes: latest::Sender::new(()), reconcile_due: Notify::new() }
    }
}

impl Changes {
    /// Signals a change.
    pub fn signal(&self) {
        self.changes.send_replace(());
        self.reconcile_due.notify_one();
    }

    /// Returns a receiver that gets every change from now on.
    pub fn subscribe(&self) -> latest::Receiver<()> {
        self.changes.subscribe()
    }

    /// Waits until the reconciler has a reason to run.
    pub async fn reconcile_due(&self) {
        self.reconcile_due.notified().await;
    }
}
