//! Carries out trials, repeats findings, and writes the files that repeat them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Trouble;
use super::args::Args;
use super::given::Given;
use super::references::References;
use crate::cli::search::file_name;
use crate::cluster::live::Site;
use crate::output::Phase;
use crate::perturb::campaign::{Again, Campaign, Evidence};
use crate::perturb::plan::Trial;
use crate::perturb::repeat;
use crate::perturb::report::About;
use crate::perturb::runs::Runs;
use crate::perturb::trial::{self, Ended};
use crate::perturb::verdict::{self, Verdict};
use crate::search::document::Document;
use substrate::latest;

/// Maximum number of findings that are repeated: for a program that fails everywhere, more repetitions give no new
/// information.
pub(super) const AGAIN: usize = 20;

/// The workload, the place and the unbroken runs for the trials.
pub(super) struct Work<'a> {
    pub args: &'a Args,
    pub given: &'a Given,
    pub site: &'a Site,
    pub references: &'a References,
}

impl Work<'_> {
    pub(super) fn document(&self, trial: &Trial) -> Document {
        let (workload, _) = self.references.workload(self.given, trial);
        repeat::broken(workload, trial, self.given.scenario.time_scale.live)
    }

    fn run(&self, trial: &Trial, halt: latest::Receiver<bool>) -> Result<(Verdict, Ended), trial::Trouble> {
        let (_, usual) = self.references.workload(self.given, trial);
        let ended = trial::run(&self.references.setting, &self.document(trial), Some(usual), self.site, halt)?;
        let verdict = verdict::of(trial, &ended.facts(), &self.references.norm);
        Ok((verdict, ended))
    }

    /// Carries out all trials. Returns the evidence of trials with a finding.
    pub(super) fn trials(
        &self,
        campaign: &mut Campaign,
        runs: &mut Runs,
        phase: &Phase,
    ) -> Result<BTreeMap<usize, Evidence>, Trouble> {
        let trials = campaign.trials.clone();
        let (mut evidence, mut unable, mut found) = (BTreeMap::new(), None, 0);
        runs.all(
            usize::from(self.args.jobs),
            trials.len(),
            |at, halt| self.run(&trials[at], halt),
            |at, result| match result {
                Ok((verdict, ended)) => {
                    campaign.walls.insert(at, u64::try_from(ended.wall.as_millis()).unwrap_or(u64::MAX));
                    if verdict.class.is_finding() {
                        found += 1;
                        evidence.insert(at, ended.evidence(&self.references.journal, trials[at].call.ms));
                    }
                    campaign.verdicts.insert(at, verdict);
                    phase.update(&format!("{} of {} trials, {found} found", campaign.verdicts.len(), trials.len()));
                    true
                }
                Err(trial::Trouble::Unable(why)) => {
                    unable = Some(format!("{}: {why}", trials[at]));
                    false
                }
                Err(trial::Trouble::Interrupted) => false,
            },
        );
        unable.map_or(Ok(evidence), |why| Err(Trouble::Environment(why)))
    }

    /// Repeats each finding without other trials in parallel.
    pub(super) fn again(&self, campaign: &mut Campaign, runs: &mut Runs, phase: &Phase) -> Result<(), Trouble> {
        let wanted = usize::from(self.args.again);
        for at in 0..campaign.findings.len().min(AGAIN) {
            let finding = &campaign.findings[at];
            let Some(trial) = finding.trials.first().and_then(|first| campaign.trials.get(*first)).cloned() else {
                continue;
            };
            let (signature, class) = (finding.signature.clone(), finding.class);
            let (mut again, mut unable) = (Again::default(), None);
            runs.all(
                1,
                wanted,
                |_, halt| self.run(&trial, halt),
                |_, result| match result {
                    Ok((verdict, _)) => {
                        again.runs += 1;
                        // A step that times out may have a different message.
                        again.came += usize::from(verdict.signature == signature || verdict.class == class);
                        true
                    }
                    Err(trial::Trouble::Unable(why)) => {
                        unable = Some(why);
                        false
                    }
                    Err(trial::Trouble::Interrupted) => false,
                },
            );
            if let Some(why) = unable {
                return Err(Trouble::Environment(why));
            }
            campaign.findings[at].again = again;
            phase.update(&format!("{} of {}", at + 1, campaign.findings.len()));
            if runs.is_halted() {
                break;
            }
        }
        Ok(())
    }

    /// Writes the file that repeats each finding into `folder`.
    pub(super) fn write(&self, campaign: &mut Campaign, folder: &Path, about: &About) -> Result<(), String> {
        let failed = |path: &Path, e: std::io::Error| format!("--out {}: {e}", path.display());
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
        for at in 0..campaign.findings.len() {
            let finding = &campaign.findings[at];
            let Some(first) = finding.trials.first().copied() else { continue };
            let Some(trial) = campaign.trials.get(first) else { continue };
            let name = file_name(&finding.signature, first as u64 + 1);
            let path: PathBuf = folder.join(format!("{name}.yaml"));
            let limit = substrate::fault::Span(self.references.setting.limit);
            let notes = [
                format!("Found by `{}`.", about.command),
                format!("What goes wrong: {trial}: {}.", trial.kind.about()),
                format!("{}: {}", finding.class.word(), finding.message),
                format!("Alone it came {} of {} times.", finding.again.came, finding.again.runs),
                format!("`mooring run --live --allow-exec --backend directory --timeout {limit} FILE` repeats it."),
                match finding.class {
                    verdict::Class::Violated | verdict::Class::Leaked | verdict::Class::Stuck => {
                        "It fails with it.".to_owned()
                    }
                    _ => "It passes there: `mooring perturb` compares it with unbroken runs.".to_owned(),
                },
            ];
            let text = repeat::text(&self.document(trial), &notes);
            std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
            campaign.findings[at].file = Some(path);
        }
        Ok(())
    }
}
