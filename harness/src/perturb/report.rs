//! The report of a campaign: for people, for programs, for CI systems.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::campaign::{Campaign, Finding};
use super::table;
use super::verdict::Class;
use crate::output::junit::{Case, Ended, Suite};

/// Maximum number of calls of a finding that are listed.
const NAMED: usize = 4;
/// Lines of a difference or a log that are printed.
const LINES: usize = 24;

/// The command, for its report.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The scenario's name.
    pub scenario: String,
    /// The file, or the name of the included workload.
    pub source: String,
    /// The command line.
    pub command: String,
    /// Wall time of all trials in milliseconds.
    pub wall_ms: u64,
    /// Number of values in the final state that vary between unbroken runs.
    pub varying_values: usize,
    /// Notes, one sentence each.
    pub notes: Vec<String>,
    /// Known findings that did not occur.
    pub missing: Vec<String>,
}

/// Returns the report for people.
pub fn text(campaign: &Campaign, about: &About) -> String {
    let mut out = String::new();
    if !campaign.trials.is_empty() {
        out += &table::text(campaign);
        out.push('\n');
    }
    for (at, finding) in campaign.findings.iter().enumerate() {
        out += &paragraph(campaign, at + 1, finding);
        out.push('\n');
    }
    let _ = writeln!(out, "{}", counts(campaign));
    for (id, count) in campaign.declared() {
        let _ = writeln!(out, "declared: {id} in {count}");
    }
    out += &varying(campaign);
    if about.varying_values > 0 {
        let _ = writeln!(out, "{} values where unbroken runs end vary, and are not compared", about.varying_values);
    }
    for note in &about.notes {
        let _ = writeln!(out, "note: {note}");
    }
    for signature in &about.missing {
        let _ = writeln!(out, "note: the baseline knows a finding that did not come: {signature}");
    }
    out
}

/// Formats the calls that vary between unbroken runs; empty if there are none.
pub fn varying(campaign: &Campaign) -> String {
    let mut out = String::new();
    if !campaign.calls.varying.is_empty() {
        out += "calls that vary between unbroken runs, perturbed as often as all have them:\n";
    }
    for (key, (least, most)) in &campaign.calls.varying {
        let _ = writeln!(out, "  {key}, {least} to {most} times");
    }
    out
}

/// Counts the trials by their results.
pub(super) fn counts(campaign: &Campaign) -> String {
    let counts: Vec<String> = [Class::Survived, Class::Declared, Class::NotReached]
        .into_iter()
        .map(|class| (class, campaign.count(class)))
        .filter(|(_, count)| *count > 0)
        .map(|(class, count)| format!("{count} {}", class.word()))
        .collect();
    let found = match campaign.verdicts.values().filter(|verdict| verdict.class.is_finding()).count() {
        0 => String::new(),
        found => format!("{found} came to a finding"),
    };
    let (ended, planned) = (campaign.verdicts.len(), campaign.trials.len());
    let results: Vec<String> = [counts.join(", "), found].into_iter().filter(|part| !part.is_empty()).collect();
    let colon = if results.is_empty() { "" } else { ": " };
    format!("{ended} of {planned} trials{colon}{}", results.join("; "))
}

fn paragraph(campaign: &Campaign, number: usize, finding: &Finding) -> String {
    let state = match (finding.known, finding.is_steady()) {
        (true, _) => ", known",
        (false, true) => "",
        (false, false) => ", seen once and not again",
    };
    let mut out = format!("finding {number}: {}{state}\n", finding.class.word());
    for line in finding.message.lines() {
        let _ = writeln!(out, "  {line}");
    }
    let trials: Vec<String> =
        finding.trials.iter().filter_map(|t| campaign.trials.get(*t)).map(ToString::to_string).collect();
    let rest = trials.len().saturating_sub(NAMED);
    for trial in trials.iter().take(NAMED) {
        let _ = writeln!(out, "  {trial}");
    }
    if rest > 0 {
        let _ = writeln!(out, "  and {rest} more");
    }
    if finding.again.runs > 0 {
        let _ = writeln!(out, "  alone it came {} of {} times", finding.again.came, finding.again.runs);
    }
    if let Some(real) = &finding.real {
        let _ = writeln!(out, "  {real}");
    }
    if let Some(file) = &finding.file {
        let _ = writeln!(out, "  repeated by {}", file.display());
    }
    let mut block = |name: &str, lines: &[String]| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(out, "  {name}");
        for line in lines.iter().take(LINES) {
            let _ = writeln!(out, "    {line}");
        }
        if lines.len() > LINES {
            let _ = writeln!(out, "    … {} lines more", lines.len() - LINES);
        }
    };
    block("calls from the perturbation on; + here, - in the unbroken run", &finding.evidence.difference);
    for (program, lines) in &finding.evidence.logs {
        block(&format!("log of {program} around it"), lines);
    }
    out
}

/// The report for programs.
pub fn data(campaign: &Campaign, about: &About) -> Value {
    let call = |trial: usize| campaign.trials.get(trial).map(|trial| trial.call.to_string());
    let trial = |(number, trial): (usize, &super::plan::Trial)| {
        let verdict = campaign.verdicts.get(&number);
        json!({
            "kind": trial.kind.word(),
            "call": trial.call.to_string(),
            "class": verdict.map(|verdict| verdict.class.word()),
            "finding": campaign.finding_of(number),
            "wallMs": campaign.walls.get(&number),
        })
    };
    let finding = |finding: &Finding| {
        let mut value = substrate::encode::tree(finding);
        let trials = finding.trials.iter().filter_map(|number| campaign.trials.get(*number));
        let trials: Vec<Value> =
            trials.map(|trial| json!({ "kind": trial.kind.word(), "call": trial.call.to_string() })).collect();
        value["class"] = finding.class.word().into();
        value["trials"] = trials.into();
        value["steady"] = finding.is_steady().into();
        value
    };
    let varying: BTreeMap<String, [u64; 2]> =
        campaign.calls.varying.iter().map(|(key, (least, most))| (key.to_string(), [*least, *most])).collect();
    let planned: Vec<String> = campaign.calls.all.iter().map(ToString::to_string).collect();
    json!({
        "scenario": about.scenario,
        "calls": planned,
        "varyingCalls": varying,
        "trials": campaign.trials.iter().enumerate().map(trial).collect::<Vec<_>>(),
        "findings": campaign.findings.iter().map(finding).collect::<Vec<_>>(),
        "declared": campaign.declared(),
        "missing": about.missing,
        "notes": about.notes,
        "wallMs": about.wall_ms,
        "first": campaign.verdicts.keys().next().and_then(|number| call(*number)),
    })
}

/// The report for CI systems: a suite for each perturbation, a case for each call.
pub fn suites(campaign: &Campaign, about: &About) -> Vec<Suite> {
    let mut suites: BTreeMap<super::kind::Kind, Vec<Case>> = BTreeMap::new();
    for (number, trial) in campaign.trials.iter().enumerate() {
        let finding = campaign.finding_of(number).and_then(|at| campaign.findings.get(at - 1));
        let ended = match (campaign.verdicts.get(&number), finding) {
            (None, _) => Ended::Skipped("it did not run".to_owned()),
            (Some(verdict), Some(finding)) if finding.fails() => {
                Ended::Failed(verdict.class.word().to_owned(), verdict.message.clone())
            }
            (Some(_), Some(finding)) if finding.known => Ended::Skipped(format!("known: {}", finding.signature)),
            (Some(_), Some(finding)) => Ended::Skipped(format!("seen once and not again: {}", finding.message)),
            (Some(verdict), None) if verdict.class == Class::NotReached => {
                Ended::Skipped("the call did not come".to_owned())
            }
            (Some(_), None) => Ended::Passed,
        };
        let seconds = campaign.walls.get(&number).copied().unwrap_or(0) as f64 / 1_000.0;
        suites.entry(trial.kind).or_default().push(Case { name: trial.call.to_string(), at: None, seconds, ended });
    }
    let suite = |(kind, cases): (super::kind::Kind, Vec<Case>)| Suite {
        name: format!("{} {}", about.scenario, kind.word()),
        file: about.source.clone(),
        cases,
    };
    suites.into_iter().map(suite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::junit;
    use crate::perturb::campaign::{Again, tests::campaign};

    #[test]
    fn people_read_what_was_found_how_often_and_why() {
        let mut campaign = campaign();
        campaign.findings[1].again = Again { runs: 5, came: 4 };
        let about =
            About { notes: vec!["nothing of it".to_owned()], missing: vec!["x".to_owned()], ..About::default() };
        let text = text(&campaign, &about);
        for part in [
            "finding 1: violated\n  I2: a <mount>, as was seen\n  crash-after at mine patch pvs b-* #2\n",
            "finding 2: leaked\n",
            "  alone it came 4 of 5 times\n",
            "  calls from the perturbation on; + here, - in the unbroken run\n    + mine: create\n",
            "  log of mine around it\n    it said\n",
            "6 of 6 trials: 1 survived, 1 declared, 1 not reached; 3 came to a finding\n",
            "declared: known-of-upstream in 1\n",
            "note: nothing of it\n",
            "note: the baseline knows a finding that did not come: x\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        campaign.verdicts.clear();
        assert_eq!(counts(&campaign), "0 of 6 trials");
    }

    #[test]
    fn programs_and_ci_systems_read_the_same() {
        let mut campaign = campaign();
        let about = About { scenario: "s".to_owned(), ..About::default() };
        let data = data(&campaign, &about);
        assert_eq!(data["findings"][1]["trials"][1]["call"], "mine patch pvs b-* #1");
        assert_eq!(data["trials"][1]["finding"], 2);
        assert_eq!(data["trials"][5]["class"], "not reached");
        let xml = junit::render(&suites(&campaign, &about));
        assert!(xml.contains("<testsuite name=\"s crash-after\" file=\"\" tests=\"3\" failures=\"1\""), "{xml}");
        assert!(xml.contains("I2: a &lt;mount&gt;"), "{xml}");
        campaign.findings.iter_mut().for_each(|finding| finding.known = true);
        assert!(!junit::render(&suites(&campaign, &about)).contains("<failure"));
    }
}
