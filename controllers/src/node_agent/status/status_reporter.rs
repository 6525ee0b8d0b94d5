//! Reports of a pod's worker to the status manager of the pod ([`pod_report`](super::pod_report)). Writes nothing to the API
//! server but Events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::context::StatusContext;
use super::deadline_words;
use super::pod_report::Report;
use crate::kube::reference;
use crate::machine::api::PodRecord;
use crate::node_agent::progress::{Phase, PodFacts};
use crate::node_agent::refusal::Refusal;

/// Reporter of a pod's state for its worker.
pub(crate) struct StatusReporter {
    room: Arc<StatusContext>,
    pod: Arc<Pod>,
    pub(crate) facts: PodFacts,
    /// Last start of the pod's containers.
    pub(crate) since: Option<Timestamp>,
    pub(crate) reports: latest::Sender<Report>,
}

impl StatusReporter {
    pub(crate) fn new(room: &Arc<StatusContext>, pod: &Arc<Pod>, reports: latest::Sender<Report>) -> Self {
        let facts = PodFacts {
            start_time: room.ctx.now().wall,
            host_ip: crate::node_agent::node::node_object::internal_ip(&room.config),
            one_success_suffices: substrate::mutant!(room.ctx, "one-success-suffices"),
            ..PodFacts::default()
        };
        Self { room: room.clone(), pod: pod.clone(), facts, since: None, reports }
    }

    pub(crate) fn refused(&mut self, refusal: Refusal) {
        let object = Arc::new(reference::<Pod>(&self.pod));
        self.room.recorder.event(object, "Warning", &refusal.reason, refusal.message.clone());
        self.facts.refusal = Some(refusal);
        self.phase(Phase::Refused);
    }

    /// Reports a pod that was active for too long as Failed, before its containers stop.
    pub(crate) fn expired(&mut self) {
        let object = Arc::new(reference::<Pod>(&self.pod));
        self.room.recorder.event(object, "Normal", deadline_words::REASON, deadline_words::MESSAGE);
        self.facts.expired = true;
        self.phase(self.since.map_or(Phase::Waiting, Phase::Running));
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.room.config.logs.set_state(&self.pod, phase.clone(), &self.facts);
        self.reports.send_replace(Report::Phase(phase, self.facts.clone()));
    }

    /// Adopts the containers of `record` as the pod's.
    pub(crate) fn adopt(&mut self, record: &PodRecord) {
        let sandbox = if substrate::mutant!(self.room.ctx, "pod-address-shared") { 0 } else { record.sandbox };
        let ip = crate::node_agent::node::node_object::pod_ip(&self.room.config, sandbox);
        if substrate::mutant!(self.room.ctx, "host-address-of-the-pod") {
            self.facts.host_ip.clone_from(&ip);
        }
        self.facts.pod_ip = Some(ip);
        self.facts.containers.clone_from(&record.containers);
        self.since = record.since().or(self.since);
    }
}
