//! Repeats findings with a real API server.

use std::collections::BTreeMap;
use std::path::Path;

use super::Trouble;
use super::carry::{AGAIN, Work};
use crate::output::Phase;
use crate::perturb::campaign::Campaign;
use crate::perturb::ends::Usual;
use crate::perturb::real::Real;
use crate::perturb::runs::Runs;
use crate::perturb::trial::{self, Ended, Setting};
use crate::perturb::verdict::{self, Norm};
use crate::search::document::Document;
use crate::search::judge;

/// Unbroken runs of a scenario, which show what varies between runs.
const UNBROKEN: usize = 2;
/// Most runs of a finding's trial. They end when the finding comes.
const TRIALS: usize = 3;

/// The end of a scenario's unbroken runs, or the reason why it has none.
type Expected = Result<(Usual, Norm), String>;

/// Repeats each finding, and records the results. Returns a note about the server.
pub(super) fn repeat(
    work: &Work<'_>,
    binaries: &Path,
    campaign: &mut Campaign,
    runs: &mut Runs,
    phase: &Phase,
) -> Result<Vec<String>, Trouble> {
    let setting = Setting { real_apiserver: Some(binaries.to_owned()), ..work.references.setting.clone() };
    let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
    let (count, mut version) = (campaign.findings.len().min(AGAIN), None);
    for at in 0..count {
        let finding = &campaign.findings[at];
        let Some(trial) = finding.trials.first().and_then(|first| campaign.trials.get(*first)).cloned() else {
            continue;
        };
        let (signature, class) = (finding.signature.clone(), finding.class);
        let unbroken = work.references.unbroken(work.given, &trial);
        let key = unbroken.text();
        if !expected.contains_key(&key) {
            let ended = repeated(&setting, work, unbroken, None, UNBROKEN, runs, |_| false)?;
            version = version.or_else(|| ended.first().and_then(|ended| ended.real_version.clone()));
            expected.insert(key.clone(), learn(&ended));
        }
        campaign.findings[at].real = match expected.get(&key) {
            Some(Ok((usual, norm))) => {
                let judged = |ended: &Ended| verdict::of(&trial, &ended.facts(), norm);
                let document = work.document(&trial);
                let comes = |ended: &Ended| Real::of(&signature, class, &[judged(ended)]) == Real::Same;
                let ended = repeated(&setting, work, &document, Some(usual), TRIALS, runs, comes)?;
                let verdicts: Vec<_> = ended.iter().map(judged).collect();
                (!verdicts.is_empty()).then(|| Real::of(&signature, class, &verdicts))
            }
            Some(Err(message)) => Some(Real::Unbroken { message: message.clone() }),
            None => None,
        };
        phase.update(&format!("{} of {count}", at + 1));
        if runs.is_halted() {
            break;
        }
    }
    Ok(version.map(|version| format!("the real API server is {version}")).into_iter().collect())
}

/// Runs `document` at most `most` times, one after another, until `ends`.
fn repeated(
    setting: &Setting,
    work: &Work<'_>,
    document: &Document,
    usual: Option<&Usual>,
    most: usize,
    runs: &mut Runs,
    ends: impl Fn(&Ended) -> bool,
) -> Result<Vec<Ended>, Trouble> {
    let (mut all, mut unable) = (Vec::new(), None);
    runs.all(
        1,
        most,
        |_, halt| trial::run(setting, document, usual, work.site, halt),
        |_, result| match result {
            Ok(ended) => {
                let goes_on = !ends(&ended);
                all.push(ended);
                goes_on
            }
            Err(trial::Trouble::Unable(why)) => {
                unable = Some(why);
                false
            }
            Err(trial::Trouble::Interrupted) => false,
        },
    );
    unable.map_or(Ok(all), |why| Err(Trouble::Environment(why)))
}

/// Returns the end of unbroken runs.
fn learn(ended: &[Ended]) -> Expected {
    let passed = [judge::Class::Survived, judge::Class::Declared];
    if let Some(failed) = ended.iter().find(|ended| !passed.contains(&ended.judged.class)) {
        return Err(format!("{}: {}", failed.judged.class.word(), failed.judged.message));
    }
    let norm = ended.iter().map(Ended::norm).fold(Norm::default(), Norm::most);
    Ok((Usual::of(&ended.iter().map(|ended| ended.ends.clone()).collect::<Vec<_>>()), norm))
}
