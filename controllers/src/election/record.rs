//! What a Lease says of who leads (`LeaderElectionRecord`).

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Who leads, since when, and how long that is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The leader; empty when it gave the lease up.
    pub holder: String,
    /// How long the record is believed without a change.
    pub seconds: i32,
    /// When the leader became one, by its own clock.
    pub acquired: Timestamp,
    /// When the leader last said that it is one, by its own clock.
    pub renewed: Timestamp,
    /// How often the lease changed hands.
    pub transitions: i32,
}

impl Record {
    /// What a Lease says; fields that it leaves out are empty.
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

    /// The Lease's spec that says it.
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
