//! Waits for time, objects and records; forbidden conditions.

use std::time::Duration;

use super::{Failure, Run};
use crate::cluster::condition::{self, Look};
use crate::runner::waiter::Trigger;
use crate::scenario::Wait;
use crate::scenario::predicate::Never;
use crate::spec::object::{ObjectRef, State};

impl Run<'_> {
    pub(super) async fn sleep(&self, duration: &Duration) -> Result<(), Failure> {
        tokio::time::sleep(self.cluster.scaled(*duration)).await;
        Ok(())
    }

    pub(super) async fn never(&self, never: &Never) -> Result<(), Failure> {
        self.forbidden.begin(self.now.unwrap_or_default(), never).await
    }

    pub(super) async fn wait(&self, wait: &Wait) -> Result<(), Failure> {
        if let Some(that) = &wait.that {
            return self.wait_that(wait, that).await;
        }
        // A pod on a node exists.
        let state = wait.is.or(wait.on.is_some().then_some(State::Exists));
        if let Some(state) = state {
            self.wait_state(&wait.object, state, wait.on.as_deref(), wait.within).await?;
        }
        match wait.records {
            Some(records) => self.wait_records(&wait.object, records, wait.within).await,
            None => Ok(()),
        }
    }

    pub(super) async fn wait_state(
        &self,
        object: &ObjectRef,
        state: State,
        on: Option<&str>,
        within: Duration,
    ) -> Result<(), Failure> {
        let on_text = on.map(|node| format!(" on {node}")).unwrap_or_default();
        let expected = format!("{object} is {state}{on_text} within {within:?}");
        self.until(within, Trigger::Object(object.clone(), object.key()), async || {
            let seen = self.api(&format!("get {object}"), self.objects.look(object).await)?;
            let node = seen.as_ref().and_then(Look::node);
            if condition::holds(object.kind, seen.as_ref(), state) && (on.is_none() || on == node) {
                Ok(())
            } else {
                Err(self.failure(expected.clone(), condition::describe(object.kind, seen.as_ref())))
            }
        })
        .await
    }

    async fn wait_records(&self, pod: &ObjectRef, records: u64, within: Duration) -> Result<(), Failure> {
        self.until(within, Trigger::Records(pod.key()), async || {
            let written = self.cluster.records_synced(&pod.key());
            let expected = format!("{pod} has written {records} records within {within:?}");
            if written >= records { Ok(()) } else { Err(self.failure(expected, format!("it has written {written}"))) }
        })
        .await
    }
}
