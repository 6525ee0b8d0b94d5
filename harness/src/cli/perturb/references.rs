//! Unbroken runs: the calls of the program, and the final state.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Trouble;
use super::args::Args;
use super::given::Given;
use crate::cluster::live::Site;
use crate::output::{Failure, Progress};
use crate::perturb::ends::Usual;
use crate::perturb::kind::Kind;
use crate::perturb::plan::{self, Calls, Trial, Unbroken};
use crate::perturb::recorded::Line;
use crate::perturb::runs::Runs;
use crate::perturb::trial::{self, Ended, Setting};
use crate::perturb::user_acts::{self, Changed};
use crate::perturb::verdict::Norm;
use crate::search::document::Document;
use crate::search::judge;

/// Number of unbroken runs that are compared.
const RUNS: usize = 3;
/// Default wall-clock limit of an unbroken run.
const FIRST: Duration = Duration::from_secs(120);
/// Minimum wall-clock limit of a workload.
const LEAST: Duration = Duration::from_secs(20);
/// Number of log lines that are shown if the workload does not finish with the program.
const LINES: usize = 20;

/// Key of a changed workload: perturbation, step and program.
type ActKey = (Kind, usize, String);

/// The results of the unbroken runs that trials need.
pub(super) struct References {
    /// Programs, limits and seed of all trials.
    pub setting: Setting,
    /// The calls.
    pub calls: Calls,
    /// The final state of the workload.
    pub usual: Usual,
    /// Call rates and exits of the programs.
    pub norm: Norm,
    /// The journal of the first run.
    pub journal: Vec<Line>,
    /// Changed workloads with their final states.
    acts: BTreeMap<ActKey, (Changed, Usual)>,
    /// Reasons why trials are impossible, one sentence each.
    pub notes: Vec<String>,
}

/// Runs the workload without a perturbation.
pub(super) fn carry_out(
    args: &Args,
    given: &Given,
    site: &Site,
    runs: &mut Runs,
    progress: &Progress,
) -> Result<References, Trouble> {
    let phase = progress.phase(format!("{RUNS} unbroken runs of {}", given.scenario.name));
    let limit = args.within.map_or(FIRST, |within| within.0);
    let mut setting = Setting {
        programs: given.programs.clone(),
        seed: args.seed,
        limit,
        settle: args.settle.0,
        start_up: Duration::ZERO,
        real_apiserver: None,
    };
    let mut ended = unbroken(args, &setting, given, site, runs)?;
    let slowest = ended.iter().map(|ended| ended.wall).max().unwrap_or_default();
    setting.limit = args.within.map_or((slowest * 4).max(LEAST), |within| within.0);
    setting.start_up = ended.iter().map(|ended| ended.recorded.start_up()).max().unwrap_or_default();
    let calls =
        |ended: &Ended| Unbroken { observed: ended.recorded.observed.clone(), steps: ended.recorded.steps.clone() };
    let calls = plan::learn(&ended.iter().map(calls).collect::<Vec<_>>());
    let usual = Usual::of(&ended.iter().map(|ended| ended.ends.clone()).collect::<Vec<_>>());
    let norm = ended.iter().map(Ended::norm).fold(Norm::default(), Norm::most);
    phase.done(&format!("{} calls", calls.all.len()));
    let journal = ended.swap_remove(0).recorded.journal;
    Ok(References { setting, calls, usual, norm, journal, acts: BTreeMap::new(), notes: Vec::new() })
}

/// Runs the workload with the same number of parallel runs as later trials, so that load and fixed ports already have
/// their effect.
fn unbroken(
    args: &Args,
    setting: &Setting,
    given: &Given,
    site: &Site,
    runs: &mut Runs,
) -> Result<Vec<Ended>, Trouble> {
    let mut ended: Vec<Ended> = Vec::new();
    let mut trouble = None;
    runs.all(
        usize::from(args.jobs),
        RUNS,
        |_, halt| trial::run(setting, &given.document, None, site, halt),
        |_, result| {
            match result {
                Ok(run) if [judge::Class::Survived, judge::Class::Declared].contains(&run.judged.class) => {
                    ended.push(run);
                }
                Ok(run) => trouble = Some(Trouble::Unbroken(failure(args, given, &run))),
                Err(trial::Trouble::Unable(why)) => trouble = Some(Trouble::Environment(why)),
                Err(trial::Trouble::Interrupted) => trouble = Some(Trouble::Interrupted),
            }
            trouble.is_none()
        },
    );
    match trouble {
        Some(trouble) => Err(trouble),
        None if ended.len() < RUNS => Err(Trouble::Interrupted),
        None => Ok(ended),
    }
}

fn failure(args: &Args, given: &Given, ended: &Ended) -> Failure {
    let mut message = format!(
        "{} does not come to its end although it was not broken: {}\n{}",
        given.source,
        ended.judged.class.word(),
        ended.judged.message
    );
    for program in &ended.programs {
        message += &format!("\n{}", program.paragraph(LINES));
    }
    if args.jobs > 1 {
        message += &format!(
            "\n{} copies of the program run at the same time. If it uses a fixed port or file, try --jobs 1",
            args.jobs
        );
    }
    let failure = Failure::new("unbroken", message);
    failure.action("`mooring run --live --allow-exec` the file with the program in its `run:` shows it alone")
}

impl References {
    /// Runs each changed workload once without the crash. Returns the trials whose workload is possible.
    pub(super) fn with_changed_workloads(
        &mut self,
        args: &Args,
        given: &Given,
        trials: Vec<Trial>,
        site: &Site,
        runs: &mut Runs,
        progress: &Progress,
    ) -> Result<Vec<Trial>, Trouble> {
        let key = |trial: &Trial| Some((trial.kind, trial.call.step?, trial.call.key.program.clone()));
        let mut wanted: BTreeMap<ActKey, Option<Changed>> = BTreeMap::new();
        for act in trials.iter().filter(|trial| trial.kind.changes_workload()).filter_map(key) {
            let (kind, step, program) = &act;
            let changed = user_acts::changed(&given.document, &given.scenario, *kind, *step, program);
            wanted.insert(act, changed);
        }
        let acts: Vec<(ActKey, Changed)> =
            wanted.into_iter().filter_map(|(act, changed)| Some((act, changed?))).collect();
        if !args.list && !acts.is_empty() {
            let phase = progress.phase(format!("{} workloads in which the user goes on", acts.len()));
            let mut left_out = 0;
            let setting = self.setting.clone();
            let mut ended = BTreeMap::new();
            runs.all(
                usize::from(args.jobs),
                acts.len(),
                |at, halt| trial::run(&setting, &acts[at].1.unbroken, None, site, halt),
                |at, result| ended.insert(at, result).is_none(),
            );
            if runs.is_halted() {
                return Err(Trouble::Interrupted);
            }
            for (at, (act, changed)) in acts.into_iter().enumerate() {
                let well = [judge::Class::Survived, judge::Class::Declared];
                match ended.remove(&at) {
                    Some(Ok(ended)) if well.contains(&ended.judged.class) => {
                        let usual = Usual::of_one(&ended.ends, &self.usual);
                        self.acts.insert(act, (changed, usual));
                    }
                    _ => left_out += 1,
                }
            }
            if left_out > 0 {
                self.notes.push(format!(
                    "{left_out} workloads in which the user goes on without waiting do not end by themselves: \
                     they are not tried"
                ));
            }
            phase.done("");
        } else {
            let planned = acts.into_iter().map(|(act, changed)| (act, (changed, Usual::default())));
            self.acts.extend(planned);
        }
        let can = |trial: &Trial| {
            !trial.kind.changes_workload() || key(trial).is_some_and(|act| self.acts.contains_key(&act))
        };
        Ok(trials.into_iter().filter(can).collect())
    }

    /// Returns the workload of a trial and its expected final state.
    pub(super) fn workload<'a>(&'a self, given: &'a Given, trial: &Trial) -> (&'a Document, &'a Usual) {
        match self.act(trial) {
            Some((changed, usual)) => (&changed.broken, usual),
            None => (&given.document, &self.usual),
        }
    }

    /// Returns the scenario of a trial without its perturbation.
    pub(super) fn unbroken<'a>(&'a self, given: &'a Given, trial: &Trial) -> &'a Document {
        self.act(trial).map_or(&given.document, |(changed, _)| &changed.unbroken)
    }

    fn act(&self, trial: &Trial) -> Option<&(Changed, Usual)> {
        let step = trial.call.step.unwrap_or_default();
        let key = (trial.kind, step, trial.call.key.program.clone());
        self.acts.get(&key).filter(|_| trial.kind.changes_workload())
    }
}
