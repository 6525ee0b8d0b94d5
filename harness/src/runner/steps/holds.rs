//! Checks conditions on objects, lists, the cloud and metrics.

use super::{Failure, Run};
use crate::runner::condition::{self, Look};
use crate::runner::watchman::Sign;
use crate::scenario::model::Wait;
use crate::scenario::predicate::{Cloud, Holds, Metric, Subject, That};
use substrate::json::{Value, from_value};

/// Kinds of events that report a change in the cloud.
const CLOUD: &[&str] = &["ec2.volume", "ec2.attachment", "ec2.instance", "ec2.modification", "ec2.snapshot"];

impl Run<'_> {
    /// Waits until a condition holds.
    pub(super) async fn holds(&self, wanted: &Holds) -> Result<(), Failure> {
        let Holds { of, that, within } = wanted;
        let expected = format!("{of} satisfies `{that}` within {within:?}");
        let sign = match of {
            Subject::Object(object) => Sign::Object(object.clone(), object.key()),
            Subject::List(kind, _) => Sign::Any(*kind),
        };
        self.until(*within, sign, async || {
            let value = match of {
                Subject::Object(object) => self.api(&format!("get {object}"), self.objects.get(object).await)?,
                Subject::List(..) => {
                    let listed = self.objects.list_tree(&of.collection_path()).await;
                    let (items, _) = self.api(&format!("list for {of}"), listed)?;
                    Some(Value::Array(items))
                }
            };
            self.satisfied(&expected, that, value.as_ref())
        })
        .await
    }

    fn satisfied(&self, expected: &str, that: &That, value: Option<&Value>) -> Result<(), Failure> {
        let seen = match value {
            None => "it does not exist".to_owned(),
            Some(value) if that.holds(value) == Ok(true) => return Ok(()),
            Some(value) => that.seen(value),
        };
        Err(self.failure(expected, seen))
    }

    /// Waits until all conditions on an object hold at the same time.
    pub(super) async fn wait_that(&self, wait: &Wait, that: &That) -> Result<(), Failure> {
        let object = &wait.object;
        let expected = wait.to_string();
        self.until(wait.within, Sign::Object(object.clone(), object.key()), async || {
            let tree = self.api(&format!("get {object}"), self.objects.get(object).await)?;
            self.satisfied(&expected, that, tree.as_ref())?;
            let look: Look = tree.and_then(|tree| from_value(tree).ok()).unwrap_or_default();
            let is = wait.is.is_none_or(|state| condition::holds(object.kind, Some(&look), state));
            if !is || (wait.on.is_some() && wait.on.as_deref() != look.node()) {
                return Err(self.failure(expected.clone(), condition::describe(object.kind, Some(&look))));
            }
            let written = self.cluster.records_synced(&object.key());
            match wait.records {
                Some(records) if written < records => {
                    Err(self.failure(expected.clone(), format!("it has written {written} records")))
                }
                _ => Ok(()),
            }
        })
        .await
    }

    pub(super) async fn expect_cloud(&self, wanted: &Cloud) -> Result<(), Failure> {
        let expected = format!("{wanted}, within {:?}", wanted.within);
        self.until(wanted.within, Sign::Kinds(CLOUD), async || self.seen(&expected, self.teller.look(wanted).await))
            .await
    }

    pub(super) async fn expect_metric(&self, wanted: &Metric) -> Result<(), Failure> {
        let expected = format!("{wanted}, within {:?}", wanted.within);
        self.until(wanted.within, Sign::Kinds(CLOUD), async || self.seen(&expected, self.meter.look(wanted).await))
            .await
    }

    fn seen(&self, expected: &str, look: Result<(bool, String), String>) -> Result<(), Failure> {
        match look {
            Ok((true, _)) => Ok(()),
            Ok((false, seen)) | Err(seen) => Err(self.failure(expected, seen)),
        }
    }
}
