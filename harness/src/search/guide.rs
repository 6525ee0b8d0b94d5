//! Guided runs of an exploration. They start like an earlier run that covered something new, and continue differently.
//!
//! An exploration is divided into rounds. After a round, some of its runs become beginnings: those that covered a point
//! of the fault catalogue, a state transition or an error that no run with a lower number has covered. In the next
//! round every second run takes the steps and the seed of a beginning up to a random step, ends the failures that are
//! still active there, and continues with a planned change and a fault. Verdicts are taken in the order of their
//! numbers, so the runs depend only on the seed and the part of the search.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::Seed;
use substrate::seed::between;

use super::coverage::Coverage;
use super::document::Document;
use super::draw;

/// Number of runs in a round.
pub const ROUND: usize = 100;

/// A run that other runs start like.
#[derive(Clone, Debug, PartialEq)]
pub struct Beginning {
    /// Seed of its world.
    pub seed: u64,
    /// Its scenario.
    pub document: Document,
}

/// Coverage so far, and the beginnings.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    seed: u64,
    seen: Coverage,
    beginnings: Vec<Beginning>,
    /// Coverage of the runs of this round, by number.
    round: BTreeMap<u64, (Coverage, Beginning)>,
}

impl Guide {
    /// Starts without beginnings. `seed` is that of the exploration.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds the coverage of a run of the current round.
    pub fn learn(&mut self, number: u64, coverage: Coverage, run: Beginning) {
        self.round.insert(number, (coverage, run));
    }

    /// Ends the round.
    pub fn end_round(&mut self) {
        for (coverage, run) in std::mem::take(&mut self.round).into_values() {
            // A terminated instance does not come back.
            let goes_on = !run.document.text().contains("terminate");
            if self.seen.grows_by(&coverage) && goes_on {
                self.beginnings.push(run);
            }
            self.seen.add(coverage);
        }
    }

    /// Returns the number of beginnings.
    pub fn beginnings(&self) -> usize {
        self.beginnings.len()
    }

    /// Returns the guided run with this number, if there are beginnings.
    pub fn run(&self, number: u64) -> Option<Beginning> {
        let last = self.beginnings.len().checked_sub(1)?;
        let mut rng = Seed::root(self.seed).child("explore guided").child(&number.to_string()).rng();
        let at = between(&mut rng, 0, last as u64) as usize;
        let Beginning { seed, document } = &self.beginnings[at];
        let mut tree = cut(document.tree().clone(), &mut rng);
        tree["name"] = format!("explored-{number}").into();
        Some(Beginning { seed: *seed, document: draw::go_on(Document::of_tree(tree), rng) })
    }
}

/// Keeps the steps up to a random one, and ends the failures that are still active.
fn cut(mut tree: Value, rng: &mut ChaCha8Rng) -> Value {
    if let Some(steps) = tree["steps"].as_array_mut() {
        // The first third of the steps only creates claims and pods.
        let (from, to) = (steps.len() as u64 / 3, steps.len() as u64);
        steps.truncate(between(rng, from, to) as usize);
        let ends = ends(steps);
        steps.extend(ends);
    }
    tree
}

/// Returns the steps that end the failures of `steps`: crashed processes and machines, partitions, cordons, taints and
/// deleted Nodes.
fn ends(steps: &[Value]) -> Vec<Value> {
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for step in steps {
        let Some((word, value)) = step.as_object().and_then(|step| step.iter().next()) else { continue };
        match word.as_str() {
            "crash" => drop(open.insert(text(value), json!({ "restart": value }))),
            "restart" | "uncordon" => drop(open.remove(&text(value))),
            "cordon" => drop(open.insert(text(value), json!({ "uncordon": value }))),
            "partition" => drop(open.insert(text(&value["name"]), json!({ "heal": value["name"] }))),
            "heal" => drop(open.remove(&text(value))),
            "taint" => {
                let untaint = json!({ "untaint": { "node": value["node"], "key": value["key"] } });
                open.insert(format!("{} {}", text(&value["node"]), text(&value["key"])), untaint);
            }
            "untaint" => drop(open.remove(&format!("{} {}", text(&value["node"]), text(&value["key"])))),
            "delete" => {
                if let Some(node) = text(&value["object"]).strip_prefix("node/") {
                    let kubelet = format!("{node}/kubelet");
                    open.insert(kubelet.clone(), json!({ "restart": kubelet }));
                }
            }
            _ => {}
        }
    }
    // A machine comes before its kubelet, because the name of the machine is a prefix of the kubelet's.
    open.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(error: &str) -> Coverage {
        Coverage { errors: [error.to_owned()].into(), ..Coverage::default() }
    }

    fn drawn(number: u64) -> Beginning {
        Beginning { seed: number, document: draw::draw(1, number) }
    }

    fn guide(order: &[u64]) -> Guide {
        let mut guide = Guide::new(1);
        for number in order {
            // Every run reaches its own error, every second one only what another one has reached.
            guide.learn(*number, reached(&format!("error {}", number / 2)), drawn(*number));
        }
        guide.end_round();
        guide
    }

    #[test]
    fn a_run_that_reaches_something_new_is_a_beginning_in_whatever_order_runs_end() {
        let one = guide(&[1, 2, 3, 4, 5]);
        assert_eq!(one.beginnings(), 3, "of 2 and 3, and of 4 and 5, the lower");
        let other = guide(&[5, 3, 1, 4, 2]);
        for number in 101..=160 {
            assert!(one.run(number).is_some() && one.run(number) == other.run(number));
        }
        assert_eq!(Guide::new(1).run(102), None);
    }

    #[test]
    fn a_guided_run_is_a_scenario_that_begins_like_another_one() {
        let guide = guide(&(1..=60).collect::<Vec<_>>());
        let mut longer = 0;
        for number in 101..=200 {
            let Beginning { seed, document } = guide.run(number).expect("a guided run");
            if let Err(error) = document.scenario("guided.yaml") {
                panic!("run {number}: {}\n{}", error.render(false, 120), document.text());
            }
            let steps = |document: &Document| document.tree()["steps"].as_array().cloned().unwrap_or_default();
            let (of, guided) = (steps(&draw::draw(1, seed)), steps(&document));
            assert!(of[..of.len() / 3] == guided[..of.len() / 3], "run {number}");
            longer += usize::from(document.text().contains("during-"));
        }
        assert!(longer > 60, "{longer} of 100 continue with a change and a fault");
    }

    #[test]
    fn a_cut_ends_what_it_leaves_broken() {
        let step = |word: &str, value: Value| json!({ word: value });
        let partition = json!({ "name": "cut-1", "between": ["csi-attacher", "apiserver"] });
        let steps = [
            step("crash", "node-a".into()),
            step("crash", "csi-attacher".into()),
            step("restart", "csi-attacher".into()),
            step("partition", partition),
            step("cordon", "node-b".into()),
            step("taint", json!({ "node": "node-a", "key": "out", "effect": "NoExecute" })),
            step("delete", json!({ "object": "node/node-b" })),
        ];
        let words: Vec<String> = ends(&steps).iter().map(Value::to_string).collect();
        assert_eq!(
            words,
            [
                r#"{"heal":"cut-1"}"#,
                r#"{"restart":"node-a"}"#,
                r#"{"untaint":{"key":"out","node":"node-a"}}"#,
                r#"{"uncordon":"node-b"}"#,
                r#"{"restart":"node-b/kubelet"}"#,
            ]
        );
    }
}
