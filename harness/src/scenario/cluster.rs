//! The cluster that a scenario describes.

use super::Scenario;
use crate::spec::{ClusterSpec, NodeSpec};

impl ClusterSpec {
    /// The cluster that `scenario` describes.
    pub fn of_scenario(scenario: &Scenario) -> Self {
        let mut spec = Self {
            latency: scenario.latency,
            replicas: scenario.replicas.clone(),
            leader_elect: scenario.leader_elect,
            flags: scenario.flags.clone(),
            driver: scenario.driver.clone(),
            efs: scenario.efs.clone(),
            without: scenario.without.clone(),
            begin: scenario.begin.clone(),
            has_owners: scenario.has_owners(),
            records_writes: scenario.compares_writes(),
            requests: scenario.requests(),
            has_snapshots: scenario.has_snapshots(),
            has_workloads: scenario.has_workloads(),
            rare_workloads: scenario.rare_workloads(),
            programs: scenario.programs.clone(),
            ..Self::default()
        };
        if !scenario.zones.is_empty() {
            spec.zones.clone_from(&scenario.zones);
        }
        spec.region = scenario.begin.region().unwrap_or(spec.region);
        for node in &scenario.nodes {
            let zone = node.zone.clone().unwrap_or_else(|| spec.first_zone());
            if !spec.zones.contains(&zone) {
                spec.zones.push(zone.clone());
            }
            spec.nodes.push(NodeSpec {
                name: node.name.clone(),
                zone,
                instance_type: node.instance_type.clone(),
                instance: node.instance.clone(),
            });
        }
        spec
    }
}
