//! The phase of a pod from the statuses of its containers (upstream `kubelet_pods.go` `getPhase`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};

use crate::node_agent::rules::restarts::{is_sidecar, restarts_after};

/// Number of containers in each state.
#[derive(Default)]
struct Counts {
    running: usize,
    waiting: usize,
    stopped: usize,
    /// Those of `stopped` that do not start again.
    over: usize,
    /// Those of `over` that failed.
    failed: usize,
    /// Those of `stopped` that ended with code 0.
    succeeded: usize,
}

impl Counts {
    fn of(spec: &PodSpec, containers: &[Container], statuses: &[ContainerStatus]) -> Self {
        let mut counts = Self::default();
        for container in containers {
            let Some(status) = statuses.iter().find(|status| status.name == container.name) else { continue };
            let state = status.state.as_ref();
            let terminated = state.and_then(|state| state.terminated.as_ref());
            let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
            if state.is_some_and(|state| state.running.is_some()) {
                counts.running += 1;
            } else if let Some(exit) = terminated.or(last) {
                counts.stopped += 1;
                let is_over = !restarts_after(container, spec, exit.exit_code);
                counts.over += usize::from(is_over);
                counts.failed += usize::from(is_over && exit.exit_code != 0);
                counts.succeeded += usize::from(terminated.is_some_and(|exit| exit.exit_code == 0));
            } else {
                counts.waiting += 1;
            }
        }
        counts
    }
}

/// Returns the phase of a pod. `is_terminal`: its containers do not start again, whatever its policy. `one_suffices`: a
/// seeded bug.
pub(super) fn phase(
    pod: &Pod,
    init: &[ContainerStatus],
    statuses: &[ContainerStatus],
    is_terminal: bool,
    one_suffices: bool,
) -> &'static str {
    let Some(spec) = &pod.spec else { return "Pending" };
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let regular: Vec<Container> = inits.iter().filter(|init| !is_sidecar(init)).cloned().collect();
    let (before, counts) = (Counts::of(spec, &regular, init), Counts::of(spec, &spec.containers, statuses));
    let initializes = before.running + before.waiting > 0;
    match counts {
        _ if before.failed > 0 => "Failed",
        _ if initializes && !is_terminal => "Pending",
        Counts { waiting: 1.., .. } => "Pending",
        Counts { running: 1.., .. } => "Running",
        Counts { stopped: 0, .. } => "Pending",
        Counts { stopped, over, .. } if !is_terminal && stopped != over => "Running",
        Counts { stopped, succeeded, .. } if stopped == succeeded || one_suffices && succeeded > 0 => "Succeeded",
        Counts { .. } => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    const RUNS: &str = "running";
    const WAITS: &str = "waiting";
    const LOOPS: &str = "loops";
    const DONE: &str = "done";
    const FAILED: &str = "failed";

    fn status(name: &str, state: &str) -> Value {
        let exit = |code: i32| json!({ "terminated": { "exitCode": code } });
        let (now, last) = match state {
            RUNS => (json!({ "running": {} }), json!({})),
            LOOPS => (json!({ "waiting": { "reason": "CrashLoopBackOff" } }), exit(1)),
            DONE => (exit(0), json!({})),
            FAILED => (exit(1), json!({})),
            _ => (json!({ "waiting": {} }), json!({})),
        };
        json!({ "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": now,
            "lastState": last })
    }

    fn of(policy: &str, init: &[&str], states: &[&str], is_terminal: bool) -> &'static str {
        let names = |kind: &str, states: &[&str]| -> Vec<Value> {
            (0..states.len()).map(|n| json!({ "name": format!("{kind}{n}") })).collect()
        };
        let spec =
            json!({ "restartPolicy": policy, "initContainers": names("i", init), "containers": names("c", states) });
        let pod: Pod = from_value(json!({ "spec": spec })).unwrap();
        let all = |kind: &str, states: &[&str]| -> Vec<ContainerStatus> {
            let statuses = states.iter().enumerate().map(|(n, state)| status(&format!("{kind}{n}"), state));
            statuses.map(|status| from_value(status).unwrap()).collect()
        };
        phase(&pod, &all("i", init), &all("c", states), is_terminal, false)
    }

    #[rstest]
    #[case("Always", &[RUNS, RUNS], "Running")]
    #[case("Always", &[RUNS, WAITS], "Pending")]
    #[case("Always", &[RUNS, LOOPS], "Running")]
    #[case("Always", &[LOOPS], "Running")]
    #[case("Always", &[DONE], "Running")]
    #[case("OnFailure", &[DONE, FAILED], "Running")]
    #[case("OnFailure", &[DONE, DONE], "Succeeded")]
    #[case("Never", &[DONE, FAILED], "Failed")]
    #[case("Never", &[DONE, RUNS], "Running")]
    #[case("Never", &[DONE], "Succeeded")]
    fn a_pod_is_over_when_no_container_starts_again(
        #[case] policy: &str,
        #[case] states: &[&str],
        #[case] phase: &str,
    ) {
        assert_eq!(of(policy, &[], states, false), phase);
    }

    #[test]
    fn a_terminal_pod_is_judged_by_its_exits() {
        assert_eq!(of("Always", &[], &[DONE], true), "Succeeded");
        assert_eq!(of("Always", &[], &[DONE, FAILED], true), "Failed");
    }

    #[test]
    fn init_containers_come_first() {
        assert_eq!(of("Always", &[WAITS], &[WAITS], false), "Pending");
        assert_eq!(of("Always", &[DONE], &[RUNS], false), "Running");
        assert_eq!(of("Always", &[FAILED], &[WAITS], false), "Pending");
        assert_eq!(of("Never", &[FAILED], &[WAITS], false), "Failed");
    }
}
