//! The statuses of the ephemeral containers of a pod. They are never ready, and their end is for good.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, EphemeralContainer, Pod};

use super::container_status::status;
use crate::node_agent::progress::{Phase, PodFacts};
use crate::node_agent::rules::ephemeral::{as_container, has_started};

/// Returns the statuses of all ephemeral containers of a pod. `before` are the last ones.
pub(super) fn ephemeral(
    pod: &Pod,
    phase: &Phase,
    facts: &PodFacts,
    before: &[ContainerStatus],
) -> Vec<ContainerStatus> {
    let all = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let one = |container: &EphemeralContainer| {
        let has_record = facts.containers.iter().any(|one| one.name == container.name);
        let known = before.iter().find(|status| status.name == container.name);
        let is_over = |status: &&ContainerStatus| status.state.as_ref().is_some_and(|state| state.terminated.is_some());
        // The machine may have forgotten it, or is about to run the others again.
        if let Some(ended) = known.filter(is_over).filter(|_| !has_record || *phase == Phase::Waiting) {
            return ended.clone();
        }
        let never_began = !has_record && !known.is_some_and(has_started);
        let shown = if never_began { &Phase::Waiting } else { phase };
        let mut status = status(pod, &as_container(container), shown, facts, before);
        (status.ready, status.started) = (false, None);
        let last = status.last_state.as_ref().and_then(|last| last.terminated.clone());
        if let Some(lost) = last.filter(|_| !has_record) {
            // It went with its machine, and does not start again.
            status.container_id.clone_from(&lost.container_id);
            status.state = Some(ContainerState { terminated: Some(lost), ..ContainerState::default() });
            status.last_state = Some(ContainerState::default());
        }
        status
    };
    all.map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use substrate::Now;
    use substrate::json::{from_value, json, to_value};

    use super::*;
    use crate::machine::api::{ContainerRecord, ContainerState as State, Exit};

    #[test]
    fn a_status_follows_the_container_and_its_end_stays() {
        let pod: Pod = from_value(json!({
            "metadata": { "name": "p", "uid": "u" },
            "spec": { "containers": [{ "name": "app" }], "ephemeralContainers": [{ "name": "debug", "image": "busybox" }] },
        }))
        .unwrap();
        let at = |second: u64| Now::at(Duration::from_secs(second)).wall;
        let running = Phase::Running(at(1));
        let facts = |state: State| {
            let one = ContainerRecord::new("debug", "", 0, state);
            PodFacts { containers: vec![one], ..PodFacts::default() }
        };
        let without = PodFacts::default();
        let waits = ephemeral(&pod, &running, &without, &[]);
        assert_eq!(to_value(&waits[0].state).unwrap(), json!({ "waiting": { "reason": "ContainerCreating" } }));
        assert!(ephemeral(&pod, &Phase::Stopped(None, at(9)), &without, &waits)[0].state == waits[0].state);
        let runs = ephemeral(&pod, &running, &facts(State::Running { since: at(2) }), &waits);
        let status = to_value(&runs[0]).unwrap();
        assert!(status["state"]["running"].is_object(), "{status}");
        assert_eq!((&status["ready"], &status["started"]), (&json!(false), &json!(null)));
        let exit = Exit { since: at(2), at: at(3), code: 7 };
        let ended = ephemeral(&pod, &running, &facts(State::Exited(exit)), &runs);
        assert_eq!(ended[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 7);
        assert_eq!(ephemeral(&pod, &Phase::Waiting, &facts(State::Exited(exit)), &ended), ended);
        assert_eq!(ephemeral(&pod, &running, &without, &ended), ended);
        let lost = ephemeral(&pod, &running, &without, &runs);
        let terminated = lost[0].state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((terminated.exit_code, &terminated.container_id), (255, &runs[0].container_id));
        assert_eq!(ephemeral(&pod, &running, &without, &lost), lost);
    }
}
