//! Checks expectations.

use std::time::Duration;

use super::{Failure, Run};
use crate::runner::watchman::Sign;
use crate::scenario::model::{Attached, BytesIntact, Elapsed, Expectation};
use crate::scenario::object::Kind;

/// Time limit for a workload to read the records that it finds.
const READING: Duration = Duration::from_secs(30);

impl Run<'_> {
    pub(super) async fn expect(&self, expectation: &Expectation) -> Result<(), Failure> {
        match expectation {
            Expectation::Event(event) => self.expect_event(event).await,
            Expectation::BytesIntact(bytes) => self.expect_bytes(bytes).await,
            Expectation::Attached(attached) => self.expect_attached(attached).await,
            Expectation::Elapsed(elapsed) => self.expect_elapsed(elapsed),
            Expectation::Holds(holds) => self.holds(holds).await,
            Expectation::Calls(calls) => self.expect_calls(calls).await,
            Expectation::Metric(metric) => self.expect_metric(metric).await,
            Expectation::Cloud(cloud) => self.expect_cloud(cloud).await,
            // Expectations on the whole run are checked at its end.
            Expectation::Checked(_) | Expectation::Violation(_) => Ok(()),
        }
    }

    /// Waits, because a container is reported as running before its workload has read the records.
    pub(super) async fn expect_bytes(&self, wanted: &BytesIntact) -> Result<(), Failure> {
        let expected = format!("{} finds at least {} intact records when it starts", wanted.pod, wanted.records);
        self.until(READING, Sign::Records(wanted.pod.key()), async || {
            let seen = match self.cluster.records_found(&wanted.pod.key()) {
                Some((found, true)) if found >= wanted.records => return Ok(()),
                Some((found, true)) => format!("it found {found}"),
                Some((_, false)) => "the records that it found are damaged".to_owned(),
                None => "it has not started".to_owned(),
            };
            Err(self.failure(expected.clone(), seen))
        })
        .await
    }

    pub(super) async fn expect_attached(&self, wanted: &Attached) -> Result<(), Failure> {
        let expected = format!(
            "the volume of {} is attached to {} and nowhere else, within {:?}",
            wanted.claim, wanted.node, wanted.within
        );
        self.until(wanted.within, Sign::Any(Kind::volume_attachment()), async || {
            let claim = self.api("get the claim", self.objects.get(&wanted.claim).await)?;
            let pv = claim.as_ref().and_then(|c| c["spec"]["volumeName"].as_str());
            let Some(pv) = pv else {
                return Err(self.failure(expected.clone(), "the claim has no volume"));
            };
            let attachments = self.api("list attachments", self.objects.list(Kind::volume_attachment()).await)?;
            let nodes: Vec<&str> = attachments
                .iter()
                .filter(|va| va["spec"]["source"]["persistentVolumeName"] == pv && va["status"]["attached"] == true)
                .filter_map(|va| va["spec"]["nodeName"].as_str())
                .collect();
            if nodes == [wanted.node.as_str()] {
                Ok(())
            } else {
                Err(self.failure(expected.clone(), format!("{pv} is attached to {nodes:?}")))
            }
        })
        .await
    }

    /// Durations of a scenario are in its own time, so the elapsed time of the world is multiplied by the scale.
    fn expect_elapsed(&self, wanted: &Elapsed) -> Result<(), Failure> {
        let since = wanted.since.and_then(|step| self.began.get(step).copied()).unwrap_or(self.started);
        let passed = self.cluster.unscaled(self.time().saturating_sub(since));
        let early = wanted.at_least.is_some_and(|least| passed < least);
        // Real work takes real time, which no scale shortens, so an upper bound applies only to virtual time.
        let late = self.cluster.is_simulated() && wanted.at_most.is_some_and(|most| passed > most);
        if early || late {
            let bounds = format!(
                "from {:?} to {:?}",
                wanted.at_least.unwrap_or_default(),
                wanted.at_most.unwrap_or(Duration::MAX)
            );
            return Err(self.failure(format!("elapsed time {bounds}"), format!("{passed:?} have passed")));
        }
        Ok(())
    }
}
