//! Rejects crashes that a cluster of OS processes cannot survive. In one OS process, the world keeps the state of the
//! cloud and the API server across their crashes, as EC2 and etcd would. A server that is an OS process of its own
//! loses it.

use substrate::fault::{Effect, Fault, Mistake, Names, Plane};

use super::processes::FORGETFUL;
use super::{ClusterSpec, names, unable};
use crate::scenario::{Action, Scenario};

/// Error for ending `process` if it is an OS process.
fn refusal(process: &str) -> String {
    format!(
        "`{process}` as an OS process keeps its state in memory alone and would lose it; run this without --processes"
    )
}

/// Returns the first process meant by `who` that would lose its state.
fn loses(names: &Names, who: &str) -> Option<&'static str> {
    let meant = names.resolve(who);
    FORGETFUL.into_iter().find(|process| meant.iter().any(|m| m == process))
}

/// Rejects a fault that ends a process which would lose its state.
///
/// # Errors
/// Names `effect.crash` and the alternative.
pub(super) fn check_fault(names: &Names, fault: &Fault) -> Result<(), Mistake> {
    let Effect::Crash(who) = &fault.effect else { return Ok(()) };
    let found = match (who.as_str(), fault.matches.plane) {
        ("self", Plane::Ec2) => Some("mock-ec2"),
        ("self", Plane::K8s) => Some("fake-apiserver"),
        ("self", _) => fault.matches.attributes.get("process").and_then(|who| loses(names, who)),
        (who, _) => loses(names, who),
    };
    match found {
        Some(process) => Err(Mistake { word: Some(who.clone()), ..Mistake::new("effect.crash", refusal(process)) }),
        None => Ok(()),
    }
}

/// Checks that a scenario can run with its components as OS processes.
///
/// # Errors
/// Names the first step or fault that cannot run, with its position.
pub fn check_processes(scenario: &Scenario) -> Result<(), String> {
    let names = names::of(&ClusterSpec::of_scenario(scenario));
    let step = |action: &Action| match action {
        Action::Crash(who) => loses(&names, who).map(|process| format!("crash: {}", refusal(process))),
        _ => None,
    };
    unable::first(scenario, |fault| check_fault(&names, fault), step, "run this without --processes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn checked(faults: &str, steps: &str) -> Result<(), String> {
        let text = format!("name: t\nnodes: {{count: 1}}\nfaults: [{faults}]\nsteps:\n{steps}  - sleep: 1s\n");
        check_processes(&parse("t.yaml", &text).unwrap_or_else(|e| panic!("{}", e.render(false, 100))))
    }

    #[test]
    fn a_server_that_would_lose_its_state_is_not_ended() {
        for (faults, steps, said) in [
            ("", "  - crash: mock-ec2\n", "line 5, column 5: crash: `mock-ec2` as an OS process"),
            ("", "  - crash: fake-apiserver\n", "line 5, column 5: crash: `fake-apiserver` as an OS process"),
            (
                "{name: f, match: {plane: ec2, op: AttachVolume}, effect: {crash: self}}",
                "",
                "fault `f`: effect.crash: `mock-ec2` as an OS process",
            ),
            ("{name: f, match: {plane: csi}, effect: {crash: fake-apiserver}}", "", "fault `f`: effect.crash: `fake-a"),
            (
                "",
                "  - fault: {name: f, match: {plane: k8s, op: patch}, effect: {crash: self}}\n",
                "line 5, column 5: fault `f`: effect.crash: `fake-apiserver` as an OS process",
            ),
            (
                "",
                "  - expect: {metric: {of: kube-controller-manager, name: x, value: 1}}\n",
                "line 5, column 5: metric: `kube-controller-manager` as an OS process",
            ),
            (
                "",
                "  - never: {metric: {of: kube-controller-manager, name: x, value: 1}}\n",
                "line 5, column 5: metric: `kube-controller-manager` as an OS process",
            ),
        ] {
            let error = checked(faults, steps).unwrap_err();
            assert!(error.starts_with(said) && error.ends_with("run this without --processes"), "{error}");
        }
    }

    #[test]
    fn whoever_keeps_no_state_may_end() {
        let faults = "{name: f, match: {plane: csi}, effect: {crash: self}}, {name: g, match: {plane: ec2}, effect: {crash: node-a}}";
        checked(faults, "  - crash: csi-controller\n  - restart: csi-controller\n").unwrap();
    }
}
