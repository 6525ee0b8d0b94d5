//! Content of a Lease (`LeaderElectionRecord`).

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Leader of a lease, with its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The leader; empty after a release.
    pub holder: String,
    /// Lease duration: validity of the record without a change.
    pub seconds: i32,
    /// Time at which the leader acquired it, by the leader's clock.
    pub acquired: Timestamp,
    /// Time of the last renewal, by the leader's clock.
    pub renewed: Timestamp,
    /// Number of leader changes.
    pub transitions: i32,
}

impl Record {
    /// Reads a Lease; missing fields are empty.
    pub fn read(spec: &LeaseSpec) -> Self {
        let time = |time: &Option<MicroTime>| time.as_ref().map(|t| t.0).unwrap_or_default();
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Returns the Lease's spec.
    pub fn spec(&self) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(self.seconds),
            acquire_time: Some(MicroTime(self.acquired)),
            renew_time: Some(MicroTime(self.renewed)),
            lease_transitions: Some(self.transitions),
            ..LeaseSpec::default()
        }
    }
}
