//! One run for each of many draws, and one line for each bug.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::coverage::Coverage;
use super::document::Document;
use super::draw::draw;
use super::judge::{Class, Task, Verdict};
use super::shard::Shard;

/// What is explored.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What all draws come from.
    pub seed: u64,
    /// Planted defects that are switched on.
    pub mutants: Vec<String>,
    /// The part of the runs that is done here.
    pub shard: Shard,
}

impl Plan {
    /// The number, from 1, of what is drawn for the run `at` of this part. It is the seed of its world, too.
    pub fn number(&self, at: usize) -> u64 {
        self.shard.whole(at) as u64 + 1
    }

    /// What is drawn for it.
    pub fn document(&self, at: usize) -> Document {
        draw(self.seed, self.number(at))
    }

    /// The run.
    pub fn task(&self, at: usize) -> Task {
        let (text, seed) = (self.document(at).text(), self.number(at));
        Task { text, seed, mutants: self.mutants.clone(), tell_coverage: true, ..Task::default() }
    }
}

/// What was found with one signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The first run of this part, by its place, that shows it.
    pub at: usize,
    /// What that came to.
    pub verdict: Verdict,
    /// In how many runs.
    pub runs: usize,
}

/// What the runs come to. Taken in any order, it is the same.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How many runs have ended.
    pub runs: usize,
    /// Time that passed in all worlds, in milliseconds.
    pub world_ms: u64,
    /// Events of all traces.
    pub events: u64,
    /// How many runs came to what.
    pub classes: BTreeMap<Class, usize>,
    /// In how many runs each declared deviation of upstream occurred.
    pub declared: BTreeMap<String, usize>,
    /// What was found, by signature.
    pub findings: BTreeMap<String, Finding>,
    /// What all runs have come by.
    pub coverage: Coverage,
}

impl Found {
    /// Takes in what the run `at` came to.
    pub fn take(&mut self, at: usize, mut verdict: Verdict) {
        self.coverage.add(std::mem::take(&mut verdict.coverage));
        self.runs += 1;
        self.world_ms += verdict.world_ms;
        self.events += verdict.events;
        *self.classes.entry(verdict.class).or_default() += 1;
        for id in &verdict.declared {
            *self.declared.entry(id.clone()).or_default() += 1;
        }
        self.find(at, verdict);
    }

    /// Takes in that the run `at` was another one when it was done again.
    pub fn differs(&mut self, at: usize, verdict: Verdict) {
        *self.classes.entry(verdict.class).or_default() += 1;
        self.find(at, verdict);
    }

    fn find(&mut self, at: usize, verdict: Verdict) {
        if verdict.class.is_finding() || verdict.class == Class::Unreadable {
            let signature = verdict.signature.clone();
            let finding =
                self.findings.entry(signature).or_insert_with(|| Finding { at, verdict: verdict.clone(), runs: 0 });
            finding.runs += 1;
            if at < finding.at {
                (finding.at, finding.verdict) = (at, verdict);
            }
        }
    }

    /// The findings, the worst and the most frequent first.
    pub fn ordered(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.findings.values().collect();
        all.sort_by_key(|finding| (finding.verdict.class, std::cmp::Reverse(finding.runs)));
        all
    }

    /// All of it for programs; what several parts say can be added up.
    pub fn data(&self, plan: &Plan) -> Value {
        let finding = |finding: &&Finding| {
            json!({
                "class": finding.verdict.class,
                "signature": finding.verdict.signature,
                "message": finding.verdict.message,
                "runs": finding.runs,
                "first": plan.number(finding.at),
                "scenario": plan.document(finding.at).tree(),
            })
        };
        let classes: BTreeMap<&str, usize> = self.classes.iter().map(|(class, n)| (class.word(), *n)).collect();
        json!({
            "seed": plan.seed,
            "shard": plan.shard,
            "mutants": plan.mutants,
            "runs": self.runs,
            "worldMs": self.world_ms,
            "events": self.events,
            "outcomes": classes,
            "declared": self.declared,
            "coverage": self.coverage.data(),
            "findings": self.ordered().iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_does_not_depend_on_the_order_of_the_runs() {
        let plan = Plan { seed: 1, ..Plan::default() };
        let verdict = |at: usize| match at % 3 {
            0 => Verdict::without_outcome(Class::Hung, "it hung"),
            1 => Verdict::without_outcome(Class::Broke, &format!("broke at {at}")),
            _ => Verdict { signature: String::new(), ..Verdict::without_outcome(Class::Survived, "") },
        };
        let taken = |order: &[usize]| {
            let mut found = Found::default();
            order.iter().for_each(|at| found.take(*at, verdict(*at)));
            found.data(&plan).to_string()
        };
        assert_eq!(taken(&[0, 1, 2, 3, 4, 5, 6]), taken(&[6, 4, 2, 0, 5, 3, 1]));
        assert!(taken(&[0, 3, 6]).contains("\"runs\":3,\"scenario\"") && taken(&[3, 0]).contains("\"first\":1,"));
    }
}
