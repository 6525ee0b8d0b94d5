//! Checks expectations.

use std::time::Duration;

use super::{Failure, Run, within};
use crate::runner::waiter::Trigger;
use crate::scenario::{Attached, BytesIntact, Elapsed, Expectation, Fired, Writes};
use crate::spec::object::Kind;
use crate::writes::compare;

/// Interval of the checks whether a fault has fired.
const FIRED: Duration = Duration::from_millis(5);
/// Time limit for a workload to read the records that it finds.
const READING: Duration = Duration::from_secs(30);

impl Run<'_> {
    pub(super) async fn expect(&mut self, expectation: &Expectation) -> Result<(), Failure> {
        match expectation {
            Expectation::Event(event) => self.expect_event(event).await,
            Expectation::BytesIntact(bytes) => self.expect_bytes(bytes).await,
            Expectation::Attached(attached) => self.expect_attached(attached).await,
            Expectation::Elapsed(elapsed) => self.expect_elapsed(elapsed),
            Expectation::Holds(holds) => self.wait_for(holds).await,
            Expectation::Calls(calls) => self.expect_calls(calls).await,
            Expectation::Metric(metric) => self.expect_metric(metric).await,
            Expectation::Cloud(cloud) => self.expect_cloud(cloud).await,
            Expectation::Fired(fired) => self.expect_fired(fired).await,
            Expectation::Writes(writes) => self.expect_writes(writes),
            // Expectations on the whole run are checked at its end.
            Expectation::Checked(counts) => {
                self.demanded.push((self.now, counts.clone()));
                Ok(())
            }
            Expectation::Violation(_) => Ok(()),
        }
    }

    /// Waits, because a container is reported as running before its workload has read the records.
    async fn expect_bytes(&self, wanted: &BytesIntact) -> Result<(), Failure> {
        let expected = format!("{} finds at least {} intact records when it starts", wanted.pod, wanted.records);
        self.until(READING, Trigger::Records(wanted.pod.key()), async || {
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

    async fn expect_attached(&self, wanted: &Attached) -> Result<(), Failure> {
        let (claim, node) = (&wanted.claim, &wanted.node);
        let expected = format!("the volume of {claim} is attached to {node} and nowhere else{}", within(wanted.within));
        self.until(wanted.within, Trigger::Any(Kind::volume_attachment(), None), async || {
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

    /// Checks often, because the next step belongs to the moment at which the fault holds an operation.
    async fn expect_fired(&self, wanted: &Fired) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + self.cluster.limit(wanted.within);
        let expected = format!("the fault {} has fired{}", wanted.fault, within(wanted.within));
        loop {
            let seen = match self.cluster.fault_report(&wanted.fault) {
                Some(report) if report.hits > 0 => return Ok(()),
                Some(report) if report.near.is_empty() => "it has not".to_owned(),
                Some(report) => format!("it has not; near misses: {}", report.near.join("; ")),
                None => "it is not in force any more".to_owned(),
            };
            let failure = self.failure(expected.clone(), seen);
            if tokio::time::Instant::now() >= deadline {
                return Err(failure);
            }
            self.saw(Some(failure.into()));
            tokio::time::sleep(FIRED).await;
        }
    }

    fn expect_writes(&self, wanted: &Writes) -> Result<(), Failure> {
        let expected = format!("the writes to the API server since step {} are as the file says", wanted.since + 1);
        let since = self.written[wanted.since];
        let Some(written) = self.cluster.writes_since(since, &wanted.elsewhere) else {
            return Err(self.failure(expected, "this cluster does not record writes: run the file in simulation"));
        };
        compare(&wanted.lines, &written).map_or(Ok(()), |differences| Err(self.failure(expected, differences)))
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
