//! Snapshots in a scenario. A simulation without them needs neither their kinds nor their loops.

use controllers::snapshot::GROUP;
use controllers::snapshot::group::GROUP as GROUP_OF_GROUPS;
use controllers::{SNAPSHOT_CONTROLLER, SNAPSHOTTER};
use serde_json::Value;

use super::model::{Action, Expectation, Scenario};

impl Scenario {
    /// True if a manifest is of a kind of snapshots or refers to one, or a step, a fault or the header names such an
    /// object or one of the loops.
    pub fn has_snapshots(&self) -> bool {
        self.objects.iter().chain(&self.begin.objects).any(|manifest| names(&manifest.value))
            || self.steps.iter().any(|step| in_step(&step.action))
            || self.faults.iter().any(in_fault)
            || self.flags.iter().any(|(process, ..)| is_loop(process))
    }
}

fn is_loop(name: &str) -> bool {
    [SNAPSHOT_CONTROLLER, SNAPSHOTTER].iter().any(|own| name.starts_with(own))
}

fn in_fault(fault: &substrate::fault::Fault) -> bool {
    serde_json::to_value(fault).is_ok_and(|value| names(&value))
}

fn in_step(action: &Action) -> bool {
    let named = match action {
        Action::Apply(manifests) => manifests.iter().any(|manifest| names(&manifest.value)),
        Action::Patch(patch) => names(&patch.with),
        Action::Fault(fault) => in_fault(fault),
        Action::Crash(name) | Action::Restart(name) => is_loop(name),
        Action::WaitFor(holds) | Action::Expect(Expectation::Holds(holds)) => is_group(holds.of.kind().table().group),
        _ => false,
    };
    named || action.object().is_some_and(|object| is_group(object.kind.table().group))
}

/// Returns true for the API group of snapshots, and for that of groups of snapshots.
fn is_group(group: &str) -> bool {
    [GROUP, GROUP_OF_GROUPS].contains(&group)
}

fn names(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(names),
        Value::Array(list) => list.iter().any(names),
        Value::String(text) => text.contains(GROUP) || is_loop(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::{Scenario, parse};
    use super::*;

    fn with_steps(steps: &str) -> Scenario {
        parse("t.yaml", &format!("name: t\nnodes: {{count: 1}}\nsteps:\n{steps}\n")).unwrap()
    }

    #[rstest]
    #[case("  - claim: {name: data}", false)]
    #[case("  - crash: csi-attacher", false)]
    #[case("  - snapshot: {name: s, claim: data}", true)]
    #[case("  - crash: csi-snapshotter", true)]
    #[case("  - expect: {list: vsc, that: 'self.size() == 0'}", true)]
    #[case("  - wait: {object: vs/s, is: gone}", true)]
    #[case("  - wait: {object: vgs/g, is: gone}", true)]
    #[case("  - fault: {name: f, match: {plane: csi, op: CreateVolume}, effect: {crash: csi-snapshotter}}", true)]
    #[case("  - fault: {name: f, match: {plane: csi, op: CreateSnapshot}, effect: {delay: 1s}}", false)]
    fn a_scenario_has_snapshots_if_it_names_one(#[case] steps: &str, #[case] expected: bool) {
        assert_eq!(with_steps(steps).has_snapshots(), expected);
    }

    #[test]
    fn the_short_form_is_a_manifest_and_the_default_class_comes_with_it() {
        let scenario = with_steps("  - claim: {name: data, class: own}\n  - snapshot: {name: s, claim: data}");
        let class: Vec<String> = scenario.objects.iter().map(|one| one.object.to_string()).collect();
        assert_eq!(class, ["vsclass/csi-aws-vsc"]);
        let Action::Apply(made) = &scenario.steps[1].action else { panic!("{:?}", scenario.steps[1]) };
        let spec = serde_json::json!({
            "source": { "persistentVolumeClaimName": "data" }, "volumeSnapshotClassName": "csi-aws-vsc",
        });
        assert_eq!((made[0].object.to_string().as_str(), &made[0].value["spec"]), ("volumesnapshot/s", &spec));
        let named = with_steps("  - snapshot: {name: s, claim: data, class: gold}");
        assert!(named.objects.is_empty());
        let refused = parse("t.yaml", "name: t\nnodes: {count: 1}\nsteps:\n  - snapshot: {name: s}\n").unwrap_err();
        assert!(refused.to_string().contains("claim"), "{refused}");
    }
}
