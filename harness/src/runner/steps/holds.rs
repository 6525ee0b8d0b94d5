//! Checks conditions on objects, lists, the cloud and metrics.

use super::{Failure, Run, Unmet, within};
use crate::cluster::condition::{self, Look};
use crate::runner::waiter::Trigger;
use crate::scenario::Wait;
use crate::scenario::predicate::{Cloud, Holds, Metric, Subject, That};
use substrate::json::{Value, from_value};

/// Kinds of events that report a change in the cloud.
const CLOUD: &[&str] = &["ec2.volume", "ec2.attachment", "ec2.instance", "ec2.modification", "ec2.snapshot"];

impl Run<'_> {
    /// Waits until a condition holds.
    pub(super) async fn wait_for(&self, wanted: &Holds) -> Result<(), Failure> {
        let Holds { of, that, within } = wanted;
        let expected = format!("{of} satisfies `{that}` within {within:?}");
        match of {
            Subject::Object(object) => {
                self.until(*within, Trigger::Object(object.clone(), object.key()), async || -> Result<(), Unmet> {
                    let value = self.api(&format!("get {object}"), self.objects.get(object).await)?;
                    self.satisfied(&expected, that, value).map(drop)
                })
                .await
            }
            Subject::List(kind, namespace) => {
                self.wait_for_list(wanted, (*kind, namespace.as_deref()), &expected).await
            }
        }
    }

    /// Returns the value if it satisfies a condition.
    fn satisfied(&self, expected: &str, that: &That, value: Option<Value>) -> Result<Value, Unmet> {
        match value {
            None => Err(self.failure(expected, "it does not exist").into()),
            Some(value) if that.holds(&value) == Ok(true) => Ok(value),
            Some(value) => Err(self.unmet(expected, that, move || value)),
        }
    }

    pub(super) fn unmet(&self, expected: &str, that: &That, value: impl FnOnce() -> Value + Send + 'static) -> Unmet {
        let (step, expected, that) = (self.now, expected.to_owned(), that.clone());
        Unmet(Box::new(move || Failure { step, expected, seen: that.seen(&value()) }))
    }

    /// Waits until all conditions on an object hold at the same time.
    pub(super) async fn wait_that(&self, wait: &Wait, that: &That) -> Result<(), Failure> {
        let object = &wait.object;
        let expected = wait.to_string();
        self.until(wait.within, Trigger::Object(object.clone(), object.key()), async || -> Result<(), Unmet> {
            let tree = self.api(&format!("get {object}"), self.objects.get(object).await)?;
            let look: Look = from_value(self.satisfied(&expected, that, tree)?).unwrap_or_default();
            let is = wait.is.is_none_or(|state| condition::holds(object.kind, Some(&look), state));
            if !is || (wait.on.is_some() && wait.on.as_deref() != look.node()) {
                return Err(self.failure(expected.clone(), condition::describe(object.kind, Some(&look))).into());
            }
            let written = self.cluster.records_synced(&object.key());
            match wait.records {
                Some(records) if written < records => {
                    Err(self.failure(expected.clone(), format!("it has written {written} records")).into())
                }
                _ => Ok(()),
            }
        })
        .await
    }

    pub(super) async fn expect_cloud(&self, wanted: &Cloud) -> Result<(), Failure> {
        let expected = format!("{wanted}{}", within(wanted.within));
        self.until(wanted.within, Trigger::Kinds(CLOUD), async || {
            self.seen(&expected, self.cloud_reader.look(wanted).await)
        })
        .await
    }

    pub(super) async fn expect_metric(&self, wanted: &Metric) -> Result<(), Failure> {
        let expected = format!("{wanted}{}", within(wanted.within));
        self.until(wanted.within, Trigger::Kinds(CLOUD), async || self.seen(&expected, self.meter.look(wanted).await))
            .await
    }

    fn seen(&self, expected: &str, look: Result<(bool, String), String>) -> Result<(), Failure> {
        match look {
            Ok((true, _)) => Ok(()),
            Ok((false, seen)) | Err(seen) => Err(self.failure(expected, seen)),
        }
    }
}
