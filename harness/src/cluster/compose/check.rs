//! Checks that a scenario can run in a cluster of containers, which were started beforehand.

use substrate::fault::Names;

use super::cluster::place;
use crate::cluster::{ClusterSpec, names, unable};
use crate::scenario::{Action, Scenario};
use crate::spec::DriverSettings;

/// Checks that a scenario can run against containers.
///
/// # Errors
/// Names the first key, fault or step that cannot run, with its position.
pub fn check(scenario: &Scenario) -> Result<(), String> {
    let set = [
        ("replicas", !scenario.replicas.is_empty()),
        ("leader-elect", scenario.leader_elect),
        ("flags", !scenario.flags.is_empty()),
        ("driver", scenario.driver != DriverSettings::default()),
        ("efs", scenario.efs.is_some()),
        ("without", !scenario.without.is_empty()),
        ("zones", !scenario.zones.is_empty()),
    ];
    if let Some((key, _)) = set.iter().find(|(_, is_set)| *is_set) {
        return Err(format!("{key}: the compose file says how its containers are started; run this without --target"));
    }
    let names = names::of(&ClusterSpec::of_scenario(scenario));
    let step = |action: &Action| match action {
        Action::Crash(who) => no_container(&names, who).map(|why| format!("crash: {why}")),
        Action::Restart(who) => no_container(&names, who).map(|why| format!("restart: {why}")),
        Action::NodeFile(_) => Some("the disk of a container is not changed from outside".to_owned()),
        _ => None,
    };
    unable::first(scenario, |fault| place(&names, fault).map(drop), step, "run this without --target")
}

/// Returns the reason if the process `who` must not be ended.
fn no_container(names: &Names, who: &str) -> Option<String> {
    let loses = names.resolve(who).into_iter().any(|process| process == "fake-apiserver");
    loses.then(|| "`fake-apiserver` keeps its objects in memory and would lose them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn checked(top: &str, steps: &str) -> Result<(), String> {
        let text = format!("name: t\nnodes: {{count: 2}}\n{top}steps:\n{steps}  - sleep: 1s\n");
        check(&parse("t.yaml", &text).unwrap_or_else(|e| panic!("{}", e.render(false, 100))))
    }

    #[test]
    fn containers_and_processes_of_machines_can_be_crashed_and_nothing_that_would_lose_its_state() {
        let parts = ["node-a/kubelet", "node-b/csi-node"];
        for who in ["node-a", "csi-attacher", "csi-controller", "controllers", "mock-ec2"].into_iter().chain(parts) {
            assert_eq!(checked("", &format!("  - crash: {who}\n  - restart: {who}\n")), Ok(()), "{who}");
        }
        let error = checked("", "  - crash: fake-apiserver\n").unwrap_err();
        assert!(error.contains("would lose") && error.starts_with("line 4, column "), "{error}");
    }

    #[test]
    fn settings_of_processes_and_faults_out_of_reach_are_refused() {
        let error = checked("leader-elect: true\n", "").unwrap_err();
        assert!(error.contains("leader-elect") && error.contains("without --target"), "{error}");
        assert_eq!(checked("", "  - partition: {between: [node-a, apiserver]}\n  - heal:\n"), Ok(()));
        let error = checked("", "  - partition: {between: [csi-attacher, csi-controller]}\n").unwrap_err();
        assert!(error.contains("docker cannot cut csi-attacher off csi-controller"), "{error}");
    }
}
