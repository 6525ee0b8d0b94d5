//! Waits for conditions on lists. A wait lists the objects once and follows them by a watch, so that a check costs what has
//! changed.

use std::time::Duration;

use fake_apiserver::cel::over::Over;
use futures_util::FutureExt;
use substrate::json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Failure, Run, Unmet};
use crate::cluster::ObjectError;
use crate::runner::follow::{Follower, Items};
use crate::runner::waiter::Trigger;
use crate::scenario::predicate::Holds;
use crate::spec::object::Kind;

/// Time for a commit to arrive by the watch; after it the objects are listed again, as a fault can hold a watch back.
const LATE: Duration = Duration::from_secs(2);
/// Interval at which the objects are listed in any case, as a fault can take an event out of a watch.
const RELIST: Duration = Duration::from_secs(30);

impl Run<'_> {
    /// Waits until a condition on a list holds.
    pub(super) async fn wait_for_list(
        &self,
        wanted: &Holds,
        (kind, namespace): (Kind, Option<&str>),
        expected: &str,
    ) -> Result<(), Failure> {
        let Holds { of, that, within } = wanted;
        let (path, mut over) = (of.collection_path(), that.over());
        let deadline = Instant::now() + self.cluster.limit(*within);
        self.waiter.wait_for(Trigger::Any(kind, namespace.map(str::to_owned)));
        loop {
            let (items, revision) = self.api(&format!("list for {of}"), self.list(&path).await)?;
            let Some(unmet) = self.unmet_by(&items, wanted, &mut over, expected) else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(unmet.0());
            }
            self.saw(Some(unmet));
            let clock = self.cluster.world().clock();
            let mut follower = Follower::after(&self.objects, clock, path.clone(), items, revision);
            let relist = deadline.min(Instant::now() + RELIST);
            while self.follow(&mut follower, relist).await {
                let Some(unmet) = self.unmet_by(follower.objects(), wanted, &mut over, expected) else { return Ok(()) };
                self.saw(Some(unmet));
            }
        }
    }

    /// Waits for changes, and applies them. Returns false if the objects must be listed again: the watch has lost
    /// revisions or is late, or it is time.
    async fn follow(&self, follower: &mut Follower, relist: Instant) -> bool {
        let revision = follower.revision();
        let went_on = tokio::select! { biased;
            next = follower.next() => next.is_some(),
            () = self.is_late(revision) => false,
            () = sleep_until(relist) => false,
        };
        // One check covers a burst of changes.
        sleep(self.cluster.settle()).await;
        let mut more = || follower.next().now_or_never();
        while went_on && let Some(next) = more() {
            if next.is_none() {
                return false;
            }
        }
        went_on
    }

    /// Returns when the trace has shown a newer revision than this one for [`LATE`].
    async fn is_late(&self, revision: u64) {
        loop {
            let changed = self.waiter.seen();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.waiter.newest() > revision {
                return sleep(LATE).await;
            }
            changed.await;
        }
    }

    /// Lists the objects at a URL path, with the revision of the list.
    async fn list(&self, path: &str) -> Result<(Items, u64), ObjectError> {
        let text = self.objects.list_text(path).await?;
        let mut lists = self.lists.lock();
        let list = lists.entry(path.to_owned()).or_default();
        list.take(&text).map_err(|e| ObjectError::Transport(e.into()))?;
        Ok((list.items(), list.revision()))
    }

    /// Returns the failed check; none if the condition holds.
    fn unmet_by(&self, items: &Items, wanted: &Holds, over: &mut Over, expected: &str) -> Option<Unmet> {
        if over.holds(items.values()) == Some(true) {
            self.saw(None);
            return None;
        }
        let items: Vec<_> = items.values().cloned().collect();
        let value = move || Value::Array(items.iter().map(|item| item.value().clone()).collect());
        Some(self.unmet(expected, &wanted.that, value))
    }
}
