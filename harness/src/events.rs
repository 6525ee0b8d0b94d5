//! Events of the harness itself, and the list of all kinds of events of the program.

use substrate::EventKind;
use substrate::json::Text;

substrate::events! {
    /// A node of the cluster, and the instance that it runs on.
    pub struct ClusterNode = "cluster.node" {
        /// The node.
        pub node: Text,
        /// Its instance.
        pub instance: Text,
        /// Its zone.
        pub zone: Text,
    }

    /// A step of a scenario begins.
    pub struct ScenarioStep = "scenario.step" {
        /// Its position in the file, from 0.
        pub step: usize,
        /// Its action in words.
        pub does: String,
    }

    /// The cluster was at rest after the steps, and each control loop was started once more.
    pub struct ClusterRested = "cluster.rested" {
        /// Length of the rest in milliseconds.
        pub for_ms: u64,
    }

    /// A step removed a volume's `vol_data.json`, kubelet's record of it, from the disk of a node.
    pub struct VolumeRecordRemoved = "node.volume_record_removed" {
        /// The node.
        pub node: Text,
        /// The volume's handle.
        pub volume: Text,
    }

    /// A program of the user's runs.
    pub struct ProgramStarted = "program.started" {
        /// Its process.
        pub pid: u32,
        /// Number of starts so far.
        pub starts: u32,
    }

    /// A program of the user's ended.
    pub struct ProgramEnded = "program.ended" {
        /// Number of times that it has ended by itself or on request.
        pub ends: u32,
        /// Exit code or signal in words, and the processes that it left behind.
        pub how: String,
    }

    /// A program of the user's cannot be started.
    pub struct ProgramNotStarted = "program.not_started" {
        /// The system's reason.
        pub error: String,
    }
}

/// Every kind of event that a component can record.
pub fn all() -> Vec<EventKind> {
    let lists = [
        substrate::events::EVENTS,
        mock_ec2::events::EVENTS,
        fake_apiserver::events::EVENTS,
        csi_mock::events::EVENTS,
        csi_disk::events::EVENTS,
        controllers::events::EVENTS,
        controllers::node_agent::events::EVENTS,
        controllers::machine::events::EVENTS,
        EVENTS,
    ];
    lists.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_is_defined_once() {
        let all = super::all();
        let kinds: BTreeSet<&str> = all.iter().map(|kind| kind.kind).collect();
        assert_eq!(kinds.len(), all.len());
    }
}
