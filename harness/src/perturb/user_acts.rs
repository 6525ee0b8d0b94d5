//! The steps of a trial in which the user acts at the wrong moment. There are three cases. While the program is down:
//! the call is held after its effect, the program is killed, the user acts, and the program restarts. Before the call
//! arrives: the call is held before its effect until the user has acted. After a volume has vanished: the user deletes
//! everything.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::faults::FAULT;
use super::kind::Kind;
use crate::scenario::model::{Action, Scenario};
use crate::search::document::Document;

/// Time limit for the call, in the scenario's own time.
const TIMEOUT: &str = "60m";
/// Keys of steps that only read or wait.
const LOOKS: [&str; 4] = ["wait", "expect", "never", "sleep"];

/// A workload in which the user continues while the program is down.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The workload without the held call; its final state is the expected one.
    pub unbroken: Document,
    /// The workload in which `program` is killed.
    pub broken: Document,
}

/// Changes the workload of `document`, which was parsed as `scenario`, for a call of `program` during step `step`.
/// Returns `None` if the user has nothing left to do there.
pub fn changed(document: &Document, scenario: &Scenario, kind: Kind, step: usize, program: &str) -> Option<Changed> {
    let steps = document.tree().get("steps")?.as_array()?.clone();
    // A step that expands to several steps cannot be cut.
    if steps.len() != scenario.steps.len() || step >= steps.len() {
        return None;
    }
    let (mut before, acts, rest) = match kind {
        Kind::NextStep | Kind::Slow => next(&steps, step)?,
        Kind::Delete | Kind::Vanish => (done(&steps, step), deletes(scenario, step)?, Vec::new()),
        _ => return None,
    };
    let with = |steps: Vec<Value>| {
        let mut document = document.clone();
        document.tree_mut()["steps"] = Value::Array(steps);
        document
    };
    let unbroken = with([before.clone(), acts.clone(), rest.clone()].concat());
    before.push(json!({ "expect": { "fired": FAULT, "within": TIMEOUT } }));
    let let_go = json!({ "clear-fault": FAULT });
    let again = match kind {
        Kind::Vanish => Vec::new(),
        Kind::Slow => vec![let_go],
        _ => {
            before.push(json!({ "crash": program }));
            before.push(let_go);
            vec![json!({ "restart": program })]
        }
    };
    Some(Changed { unbroken, broken: with([before, acts, again, rest].concat()) })
}

/// Returns the steps up to `step`. Omits `step` if it only waits for the result of the call.
fn done(steps: &[Value], step: usize) -> Vec<Value> {
    let end = if looks(&steps[step]) { step } else { step + 1 };
    steps[..end].to_vec()
}

/// Returns the previous steps, the user's next actions, and the rest of the workload.
fn next(steps: &[Value], step: usize) -> Option<(Vec<Value>, Vec<Value>, Vec<Value>)> {
    let first = (step + 1..steps.len()).find(|at| !looks(&steps[*at]))?;
    let end = (first..steps.len()).find(|at| looks(&steps[*at])).unwrap_or(steps.len());
    Some((done(steps, step), steps[first..end].to_vec(), steps[end..].to_vec()))
}

fn looks(step: &Value) -> bool {
    LOOKS.iter().any(|key| step.get(key).is_some())
}

/// Returns steps that delete everything that the user has created by the end of `step`, the newest object first.
fn deletes(scenario: &Scenario, step: usize) -> Option<Vec<Value>> {
    let mut made: Vec<String> = Vec::new();
    for step in scenario.steps.iter().take(step + 1) {
        match &step.action {
            Action::Apply(manifests) => {
                for name in manifests.iter().map(|manifest| manifest.object.to_string()) {
                    if !made.contains(&name) {
                        made.push(name);
                    }
                }
            }
            Action::Delete(delete) => made.retain(|name| *name != delete.object.to_string()),
            Action::Evict(evict) => made.retain(|name| *name != evict.pod.to_string()),
            _ => {}
        }
    }
    let all: BTreeSet<&String> = made.iter().collect();
    let delete = |name: &String| json!({ "delete": { "object": name } });
    (!all.is_empty()).then(|| made.iter().rev().map(delete).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::perturb::call::{Call, Key, What};
    use crate::perturb::faults;

    const SCENARIO: &str = "
name: t
nodes: {count: 2}
steps:
  - claim: {name: data}
  - pod: {name: web, claim: data}
  - wait: {object: pod/web, is: Running}
  - expect: {object: pod/web, that: self.metadata.name == 'web'}
  - delete: {object: pod/web}
  - pod: {name: next, claim: data}
  - wait: {object: pod/next, is: Running}
";

    fn steps(document: &Document) -> Vec<String> {
        document.tree()["steps"].as_array().unwrap().iter().map(Value::to_string).collect()
    }

    fn change_at(kind: Kind, step: usize) -> Option<Changed> {
        let document = Document::of_text("t", SCENARIO).unwrap();
        let scenario = document.scenario("t").unwrap();
        changed(&document, &scenario, kind, step, "csi-attacher")
    }

    /// Checks that both workloads are valid scenarios, the broken one with its fault.
    fn reads(changed: &Changed) {
        let attributes = BTreeMap::from([("resource".to_owned(), "pods".to_owned())]);
        let key = Key { what: What::Write, program: "csi-attacher".to_owned(), op: "patch".to_owned(), attributes };
        let call = Call { key, nth: 1, ms: 0, step: Some(2) };
        let broken = changed.broken.clone().with_faults(faults::of(Kind::Delete, &call, 1.0));
        for document in [&changed.unbroken, &broken] {
            document.scenario("t").unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn the_next_acts_happen_while_the_program_is_down_and_the_wait_for_the_call_is_left_out() {
        let changed = change_at(Kind::NextStep, 2).unwrap();
        let broken = steps(&changed.broken);
        assert_eq!(
            broken[2..],
            [
                r#"{"expect":{"fired":"perturb","within":"60m"}}"#,
                r#"{"crash":"csi-attacher"}"#,
                r#"{"clear-fault":"perturb"}"#,
                r#"{"delete":{"object":"pod/web"}}"#,
                r#"{"pod":{"claim":"data","name":"next"}}"#,
                r#"{"restart":"csi-attacher"}"#,
                r#"{"wait":{"is":"Running","object":"pod/next"}}"#,
            ]
        );
        assert_eq!(steps(&changed.unbroken).len(), broken.len() - 4);
        reads(&changed);
        let slow = steps(&change_at(Kind::Slow, 2).unwrap().broken);
        assert!(slow[3].contains("delete") && slow[5] == r#"{"clear-fault":"perturb"}"# && slow[6].contains("wait"));
        assert_eq!(change_at(Kind::NextStep, 6), None, "the user has nothing left to do");
    }

    #[test]
    fn created_objects_are_deleted_newest_first() {
        let changed = change_at(Kind::Delete, 5).unwrap();
        let tail = |document: &Document, from: usize| steps(document)[from..].join(" ");
        assert_eq!(tail(&changed.unbroken, 6), r#"{"delete":{"object":"pod/next"}} {"delete":{"object":"pvc/data"}}"#);
        assert!(tail(&changed.broken, 6).ends_with(r#"{"restart":"csi-attacher"}"#));
        reads(&changed);
        let vanished = steps(&change_at(Kind::Vanish, 5).unwrap().broken);
        assert!(
            vanished[6].contains("fired") && vanished[7..].iter().all(|step| step.contains("delete")),
            "{vanished:?}"
        );
        assert_eq!(change_at(Kind::CrashAfter, 2), None);
    }

    #[test]
    fn steps_that_stand_for_several_are_not_cut() {
        let text =
            "name: t\nnodes: {count: 1}\nsteps:\n  - repeat: {count: 2, as: i, do: [{claim: {name: 'd-${i}'}}]}\n";
        let document = Document::of_text("t", text).unwrap();
        let scenario = document.scenario("t").unwrap();
        assert_eq!(changed(&document, &scenario, Kind::Delete, 0, "csi-attacher"), None);
    }
}
