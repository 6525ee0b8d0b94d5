//! Runs many draws and groups the findings by signature.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::coverage::Coverage;
use super::document::Document;
use super::draw::{draw, drawn, kinds};
use super::guide::Beginning;
use super::judge::{Class, Task, Verdict};
use super::shard::Shard;

/// Parameters of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Seed of all draws.
    pub seed: u64,
    /// Seeded bugs that are enabled.
    pub mutants: Vec<String>,
    /// Part of the runs that this process does.
    pub shard: Shard,
    /// Runs that are not drawn from their number, by their position in this part.
    pub guided: BTreeMap<usize, Arc<Beginning>>,
}

impl Plan {
    /// Number of the draw, from 1, for the run `at` of this part.
    pub fn number(&self, at: usize) -> u64 {
        self.shard.whole(at) as u64 + 1
    }

    /// Seed of the run's world: its number, or that of the run that it begins like.
    pub fn world_seed(&self, at: usize) -> u64 {
        self.guided.get(&at).map_or_else(|| self.number(at), |run| run.seed)
    }

    /// Scenario of the run.
    pub fn document(&self, at: usize) -> Document {
        match self.guided.get(&at) {
            Some(run) => run.document.clone(),
            None => draw(self.seed, self.number(at)),
        }
    }

    /// Returns the run as one to begin like.
    pub fn beginning(&self, at: usize) -> Beginning {
        Beginning { seed: self.world_seed(at), document: self.document(at) }
    }

    /// Returns the kinds of additions in the run; none for a run that is not drawn from its number.
    pub fn kinds(&self, at: usize) -> Vec<&'static str> {
        if self.guided.contains_key(&at) { Vec::new() } else { drawn(self.seed, self.number(at)).kinds }
    }

    /// Task of the run.
    pub fn task(&self, at: usize) -> Task {
        let (text, seed) = (self.document(at).text(), self.world_seed(at));
        Task { text, seed, mutants: self.mutants.clone(), report_coverage: true, ..Task::default() }
    }
}

/// A finding, which all runs with one signature share.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Index of the first run of this part that shows it.
    pub at: usize,
    /// Verdict of that run.
    pub verdict: Verdict,
    /// A finding: all runs with the same signature.
    pub runs: usize,
}

/// Results of the runs. They do not depend on the order in which the runs end.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Number of runs that have ended.
    pub runs: usize,
    /// Virtual time of all worlds together, in milliseconds.
    pub world_ms: u64,
    /// Number of events of all traces.
    pub events: u64,
    /// Number of runs of each class.
    pub classes: BTreeMap<Class, usize>,
    /// Number of runs in which each declared deviation of upstream occurred.
    pub declared: BTreeMap<String, usize>,
    /// Findings by signature.
    pub findings: BTreeMap<String, Finding>,
    /// Coverage of all runs.
    pub coverage: Coverage,
    /// Number of runs with each kind of addition.
    pub drawn: BTreeMap<&'static str, usize>,
}

impl Found {
    /// Adds the verdict of the run `at`.
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

    /// Counts the kinds of additions in a run.
    pub fn drew(&mut self, kinds: Vec<&'static str>) {
        for kind in kinds {
            *self.drawn.entry(kind).or_default() += 1;
        }
    }

    /// Returns the number of runs with each kind of addition as texts, in the order in which the kinds are drawn. Kinds
    /// that did not occur have 0.
    pub fn kinds(&self) -> Vec<String> {
        let count = |kind: &'static str| format!("{kind} {}", self.drawn.get(kind).copied().unwrap_or_default());
        kinds().map(count).collect()
    }

    /// Records that a repetition of the run `at` diverged.
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

    /// Findings in the order of severity, then of frequency.
    pub fn ordered(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.findings.values().collect();
        all.sort_by_key(|finding| (finding.verdict.class, std::cmp::Reverse(finding.runs)));
        all
    }

    /// Returns a number of runs as text, with its share if that is more than one percent. So large a share can hide a
    /// bug.
    pub fn frequency(&self, runs: usize) -> String {
        let share = runs as f64 * 100.0 / self.runs.max(1) as f64;
        let what = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        if share > 1.0 { format!("{what}, {share:.1} % of {}", self.runs) } else { what }
    }

    /// Results as JSON. Those of several parts can be added up.
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
            "drawn": kinds().map(|kind| (kind, self.drawn.get(kind).copied().unwrap_or_default())).collect::<BTreeMap<_, _>>(),
            "findings": self.ordered().iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_declaration_is_shown_with_its_share() {
        let found = Found { runs: 300, ..Found::default() };
        assert_eq!([1, 3, 4].map(|runs| found.frequency(runs)), ["1 run", "3 runs", "4 runs, 1.3 % of 300"]);
    }

    #[test]
    fn findings_do_not_depend_on_the_order_of_runs() {
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
