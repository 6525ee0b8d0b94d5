//! All trials of a command, their results, and the findings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use super::baseline::Baseline;
use super::kind::Kind;
use super::plan::{Calls, Trial};
use super::real::Real;
use super::verdict::{Class, Verdict};

/// The evidence of a trial, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Difference between its journal and that of the unbroken run, from the perturbation on.
    pub difference: Vec<String>,
    /// Lines of each program around the perturbation.
    pub logs: BTreeMap<String, Vec<String>>,
}

/// Result of repeating a finding without other trials in parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Again {
    /// Runs.
    pub runs: usize,
    /// Runs with the same finding.
    pub came: usize,
}

/// A bug, with the trials that show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Signature: equal for findings of the same bug.
    pub signature: String,
    /// Its class.
    pub class: Class,
    /// The message of the first trial.
    pub message: String,
    /// Numbers of the trials that show it.
    #[serde(skip)]
    pub trials: Vec<usize>,
    /// Result of its repetitions.
    pub again: Again,
    /// Result of its trial with a real API server, if that was requested.
    pub real: Option<Real>,
    /// True if the baseline contains it.
    pub known: bool,
    /// The file that repeats it.
    pub file: Option<PathBuf>,
    /// The evidence of its first trial.
    pub evidence: Evidence,
}

impl Finding {
    /// Returns true if a repetition showed it again, or if it was not repeated.
    pub fn is_steady(&self) -> bool {
        self.again.runs == 0 || self.again.came > 0
    }

    /// Returns true if it fails the command.
    pub fn fails(&self) -> bool {
        self.is_steady() && !self.known
    }
}

/// The trials of a command with their results.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// The calls.
    pub calls: Calls,
    /// The trials.
    pub trials: Vec<Trial>,
    /// The results, by the number of the trial.
    pub verdicts: BTreeMap<usize, Verdict>,
    /// Wall time of each trial, in milliseconds.
    pub walls: BTreeMap<usize, u64>,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Campaign {
    /// Collects the findings of all verdicts, the worst and most frequent first. `evidence` has the first trial of
    /// each.
    pub fn gather(&mut self, evidence: &BTreeMap<usize, Evidence>, baseline: &Baseline) {
        let mut by: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, verdict) in self.verdicts.iter().filter(|(_, verdict)| verdict.class.is_finding()) {
            by.entry(&verdict.signature).or_default().push(*number);
        }
        let finding = |(signature, trials): (&str, Vec<usize>)| {
            let first = trials.first()?;
            let verdict = self.verdicts.get(first)?;
            Some(Finding {
                signature: signature.to_owned(),
                class: verdict.class,
                message: verdict.message.clone(),
                again: Again::default(),
                real: None,
                known: baseline.has(signature),
                file: None,
                evidence: evidence.get(first).cloned().unwrap_or_default(),
                trials,
            })
        };
        let mut findings: Vec<Finding> = by.into_iter().filter_map(finding).collect();
        findings.sort_by_key(|finding| (finding.class, std::cmp::Reverse(finding.trials.len())));
        self.findings = findings;
    }

    /// Returns the number of the finding of a trial, from 1.
    pub fn finding_of(&self, trial: usize) -> Option<usize> {
        self.findings.iter().position(|finding| finding.trials.contains(&trial)).map(|at| at + 1)
    }

    /// Returns the number of trials with this class.
    pub fn count(&self, class: Class) -> usize {
        self.verdicts.values().filter(|verdict| verdict.class == class).count()
    }

    /// Returns the number of trials of each kind.
    pub fn kinds(&self) -> BTreeMap<Kind, usize> {
        let mut kinds = BTreeMap::new();
        for trial in &self.trials {
            *kinds.entry(trial.kind).or_default() += 1;
        }
        kinds
    }

    /// Returns for each declared deviation of upstream the number of trials in which it occurred.
    pub fn declared(&self) -> BTreeMap<String, usize> {
        let mut declared: BTreeMap<String, usize> = BTreeMap::new();
        for id in self.verdicts.values().flat_map(|verdict| &verdict.declared) {
            *declared.entry(id.clone()).or_default() += 1;
        }
        declared
    }

    /// Returns the signatures of the steady findings.
    pub fn signatures(&self) -> BTreeSet<String> {
        self.findings.iter().filter(|finding| finding.is_steady()).map(|finding| finding.signature.clone()).collect()
    }

    /// Returns the number of findings that fail the command.
    pub fn failing(&self) -> usize {
        self.findings.iter().filter(|finding| finding.fails()).count()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::perturb::call::{Call, Key, What};

    pub(in crate::perturb) fn campaign() -> Campaign {
        let call = |object: &str, nth| {
            let attributes = [("resource", "pvs"), ("object", object), ("subresource", "")];
            let attributes = attributes.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let key = Key { what: What::Write, program: "mine".to_owned(), op: "patch".to_owned(), attributes };
            Call { key, nth, ms: 0, step: Some(0) }
        };
        let all = vec![call("a", 1), call("b-*", 1), call("b-*", 2)];
        let kinds = [Kind::CrashAfter, Kind::LostReply];
        let trials: Vec<Trial> =
            all.iter().flat_map(|call| kinds.map(|kind| Trial { kind, call: call.clone() })).collect();
        let verdict = |class: Class, signature: &str| Verdict {
            class,
            signature: signature.to_owned(),
            message: format!("{signature}, as was seen"),
            declared: if class == Class::Declared { vec!["known-of-upstream".to_owned()] } else { Vec::new() },
        };
        let verdicts = [
            verdict(Class::Survived, ""),
            verdict(Class::Leaked, "I5: a volume"),
            verdict(Class::Declared, ""),
            verdict(Class::Leaked, "I5: a volume"),
            verdict(Class::Violated, "I2: a <mount>"),
            verdict(Class::NotReached, ""),
        ];
        let verdicts = verdicts.into_iter().enumerate().collect();
        let mut campaign =
            Campaign { calls: Calls { all, ..Calls::default() }, trials, verdicts, ..Campaign::default() };
        let evidence = Evidence {
            difference: vec!["+ mine: create".to_owned()],
            logs: BTreeMap::from([("mine".to_owned(), vec!["it said".to_owned()])]),
        };
        campaign.gather(&BTreeMap::from([(1, evidence)]), &Baseline::default());
        campaign
    }

    #[test]
    fn trials_with_one_signature_are_one_finding_and_the_worst_comes_first() {
        let mut campaign = campaign();
        let reported: Vec<(&str, &[usize])> =
            campaign.findings.iter().map(|f| (f.signature.as_str(), f.trials.as_slice())).collect();
        assert_eq!(reported, [("I2: a <mount>", &[4][..]), ("I5: a volume", &[1, 3][..])]);
        assert_eq!((campaign.finding_of(3), campaign.finding_of(4), campaign.finding_of(0)), (Some(2), Some(1), None));
        assert_eq!((campaign.count(Class::Leaked), campaign.failing()), (2, 2));
        assert_eq!(campaign.declared(), BTreeMap::from([("known-of-upstream".to_owned(), 1)]));
        campaign.findings[0].again = Again { runs: 5, came: 0 };
        campaign.findings[1].known = true;
        assert_eq!((campaign.failing(), campaign.signatures().len()), (0, 1));
    }
}
