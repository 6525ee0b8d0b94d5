//! What must be true.

use std::time::Duration;

use serde_json::Value;

use super::{Failure, Run};
use crate::runner::watchman::Sign;
use crate::scenario::model::{Attached, BytesIntact, Elapsed, EventSeen, Expectation};
use crate::scenario::object::{Kind, ObjectRef};

/// How long a workload may take to read what it finds.
const READING: Duration = Duration::from_secs(30);

impl Run<'_> {
    pub(super) async fn expect(&self, expectation: &Expectation) -> Result<(), Failure> {
        match expectation {
            Expectation::Event(event) => self.expect_event(event).await,
            Expectation::BytesIntact(bytes) => self.expect_bytes(bytes).await,
            Expectation::Attached(attached) => self.expect_attached(attached).await,
            Expectation::Elapsed(elapsed) => self.expect_elapsed(elapsed),
            Expectation::Checked(_) => Ok(()),
        }
    }

    pub(super) async fn expect_event(&self, wanted: &EventSeen) -> Result<(), Failure> {
        let namespace = wanted.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let contains = wanted.contains.as_deref().unwrap_or_default();
        let expected = format!(
            "an event {} of {} that says {contains:?}, within {:?}",
            wanted.reason, wanted.object, wanted.within
        );
        self.until(wanted.within, Sign::Event(wanted.reason.clone()), async || {
            let events = self.api("list events", self.objects.events(&namespace).await)?;
            let of_object: Vec<&Value> = events.iter().filter(|e| is_about(e, &wanted.object)).collect();
            let found = of_object
                .iter()
                .any(|e| e["reason"] == *wanted.reason && e["message"].as_str().is_some_and(|m| m.contains(contains)));
            if found {
                return Ok(());
            }
            let seen: Vec<String> = of_object
                .iter()
                .map(|e| {
                    format!(
                        "{} {:?}",
                        e["reason"].as_str().unwrap_or_default(),
                        e["message"].as_str().unwrap_or_default()
                    )
                })
                .collect();
            let seen = if seen.is_empty() { "no event of it".to_owned() } else { seen.join("; ") };
            Err(self.failure(expected.clone(), seen))
        })
        .await
    }

    /// A container is running, and told so, before its workload has read what it finds.
    pub(super) async fn expect_bytes(&self, wanted: &BytesIntact) -> Result<(), Failure> {
        let expected = format!("{} finds at least {} intact records when it starts", wanted.pod, wanted.records);
        self.until(READING, Sign::Records(wanted.pod.key()), async || {
            let seen = match self.cluster.records_found(&wanted.pod.key()) {
                Some((found, true)) if found >= wanted.records => return Ok(()),
                Some((found, true)) => format!("it found {found}"),
                Some((_, false)) => "what it found is damaged".to_owned(),
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

    /// Durations of a scenario are in its own time, so what passed in the world is multiplied by the scale.
    fn expect_elapsed(&self, wanted: &Elapsed) -> Result<(), Failure> {
        let since = wanted.since.and_then(|step| self.began.get(step).copied()).unwrap_or(self.started);
        let passed = self.cluster.unscaled(self.time().saturating_sub(since));
        let early = wanted.at_least.is_some_and(|least| passed < least);
        // Real work takes real time, which no scale shortens: an upper bound is meant for virtual time.
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

fn is_about(event: &Value, object: &ObjectRef) -> bool {
    let about = &event["involvedObject"];
    about["kind"] == object.kind.kind() && about["name"] == *object.name
}
