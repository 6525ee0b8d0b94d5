//! One run in its own live world.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use substrate::clock::TimeScale;
use substrate::latest;
use substrate::world::Options;
use substrate::{Process, World};

use super::campaign::Evidence;
use super::difference;
use super::ends::Usual;
use super::faults::FAULT;
use super::recorded::{Line, Recorded, Recorder};
use super::verdict::{Facts, NEVER_FIRED, Norm};
use crate::cluster::live::{Addresses, Site};
use crate::cluster::real::RealServer;
use crate::cluster::settle::PAUSE;
use crate::cluster::{Cluster, ClusterSpec, live};
use crate::program::{Program, ProgramReport, ProgramSpec};
use crate::runner::{self, PauseHook};
use crate::search::document::Document;
use crate::search::end_state::EndState;
use crate::search::judge;

/// Time that a run may take in addition to its workload: nodes start within a minute, and the cluster comes to rest at
/// the end.
const GRACE: Duration = Duration::from_secs(90);
/// Share of the limit of a run within which a call comes that the workload waits for. An unbroken run takes at most a
/// quarter of the limit as a whole.
const CALL: f64 = 0.4;
/// Time limit for the shutdown of a run.
const END: Duration = Duration::from_millis(500);
/// Time without a change at the end of an unbroken run.
const QUIET: Duration = Duration::from_millis(700);
/// Time without a write of any program at the end of a trial.
const PAUSES: Duration = Duration::from_millis(150);
/// Pause between two checks of the final state.
const LOOK: Duration = Duration::from_millis(50);
/// Number of log lines before the perturbation that are shown.
const BEFORE: u64 = 5;
/// Number of log lines after it.
const AFTER: u64 = 20;

/// Programs, limits and seed of all runs of a command.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The programs, with the directories in which they start.
    pub programs: Vec<ProgramSpec>,
    /// The seed.
    pub seed: u64,
    /// Wall-clock limit of a workload.
    pub limit: Duration,
    /// Wall-clock time that a program has to reach the final state of an unbroken run after the rest of the cluster is
    /// at rest.
    pub settle: Duration,
    /// Time from the start of a program to its first call, if known.
    pub start_up: Duration,
    /// Directory of a real `etcd` and `kube-apiserver`, which answer instead of Mooring's API server.
    pub real_apiserver: Option<PathBuf>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The verdict of the search.
    pub judged: judge::Verdict,
    /// Its final states, after the workload and after the teardown.
    pub ends: Vec<EndState>,
    /// Its record.
    pub recorded: Recorded,
    /// The programs at the end of the workload.
    pub programs: Vec<ProgramReport>,
    /// Number of calls of each program while the cluster is at rest.
    pub idle: BTreeMap<String, u64>,
    /// Length of that time window.
    pub window: Duration,
    /// Wall-clock time of the run.
    pub wall: Duration,
    /// Version of the real API server, if one answered.
    pub real_version: Option<String>,
}

impl Ended {
    /// Returns the facts for a verdict.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            judged: &self.judged,
            recorded: &self.recorded,
            programs: &self.programs,
            idle: &self.idle,
            window: self.window,
        }
    }

    /// Returns the norm that an unbroken run sets for others.
    pub fn norm(&self) -> Norm {
        let ends = self.programs.iter().map(|program| (program.name.clone(), program.ends)).collect();
        Norm { idle: self.idle.clone(), ends }
    }

    /// Returns the evidence for people. `unbroken` is the journal of the unbroken run, which made the same call at
    /// `since`.
    pub fn evidence(&self, unbroken: &[Line], since: u64) -> Evidence {
        let from = self.recorded.fired.unwrap_or(0);
        let log = |program: &ProgramReport| {
            let at = self.recorded.printed.get(&program.name).copied().unwrap_or(0);
            let first = at.saturating_sub(BEFORE).saturating_sub(program.log_before) as usize;
            let last = (at + AFTER).saturating_sub(program.log_before) as usize;
            let lines = program.log.iter().take(last).skip(first).cloned().collect();
            (program.name.clone(), lines)
        };
        Evidence {
            difference: difference::of(&self.recorded.journal, from, unbroken, since),
            logs: self.programs.iter().map(log).collect(),
        }
    }
}

/// Reason why a run did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The machine lacks something, or the file is wrong.
    Unable(String),
    /// The user ended it.
    Interrupted,
}

/// Runs `document` in its own world until `halt` turns true. `usual` is the expected final state.
pub(crate) fn run(
    setting: &Setting,
    document: &Document,
    usual: Option<&Usual>,
    site: &Site,
    halt: latest::Receiver<bool>,
) -> Result<Ended, Trouble> {
    let unable = |why: String| Trouble::Unable(why);
    let site = site.within().map_err(|e| unable(e.to_string()))?;
    // Everything that a run has started ends with its runtime.
    let runtime = live::runtime().map_err(|e| unable(format!("the runtime does not start: {e}")))?;
    let ended = crate::block_on(&runtime, Box::pin(run_in_world(setting, document, usual, &site, halt)));
    runtime.shutdown_timeout(END);
    ended
}

async fn run_in_world(
    setting: &Setting,
    document: &Document,
    usual: Option<&Usual>,
    site: &Site,
    mut halt: latest::Receiver<bool>,
) -> Result<Ended, Trouble> {
    let mut scenario = document.scenario("perturb.yaml").map_err(|e| Trouble::Unable(e.to_string()))?;
    scenario.programs.clone_from(&setting.programs);
    let scale = TimeScale::new(scenario.time_scale.live);
    let world = World::live(Options { seed: setting.seed, scale, ..Options::default() });
    let mut spec = ClusterSpec::of_scenario(&scenario);
    let real = real_server(setting, &world, site, halt.clone()).await?;
    spec.origin = real.as_ref().map(|real| real.origin().clone());
    let begin = tokio::time::Instant::now();
    let cluster = Cluster::live(&world, spec, site, &Addresses::default());
    let cluster = cluster.map_err(|e| Trouble::Unable(e.to_string()))?;
    if real.is_some() {
        cluster.create_at_origin().await.map_err(Trouble::Unable)?;
    }
    let programs: Vec<Arc<Program>> = cluster.programs().cloned().collect();
    let printed = programs.clone();
    let printed = move || printed.iter().map(|program| (program.name().to_owned(), program.printed())).collect();
    let recorder = Recorder::begin(&world, &setting.programs, Arc::new(printed)).map_err(Trouble::Unable)?;
    let window = cluster.scaled(PAUSE);
    let (ends, idle) = (RefCell::new(Vec::new()), RefCell::new(BTreeMap::new()));
    let rests = async || {
        if ends.borrow().is_empty() {
            let since = world.clock().mono().saturating_sub(window).as_millis() as u64;
            let calls = |spec: &ProgramSpec| (spec.name.clone(), recorder.calls_since(&spec.name, since));
            *idle.borrow_mut() = setting.programs.iter().map(calls).collect();
        }
        let former: Option<EndState> = ends.borrow().last().cloned();
        let end = settled(setting, usual, former.as_ref(), &cluster, &recorder).await;
        ends.borrow_mut().push(end);
    };
    let pause_hook = PauseHook::none().patient_from_first_step(setting.limit);
    let run = runner::run_watched(&scenario, &cluster, |_| {}, &pause_hook, rests);
    let outcome = tokio::select! { biased;
        outcome = run => Ok(outcome),
        _ = halt.wait_for(|halt| *halt) => Err(Trouble::Interrupted),
        () = pause_hook.outlast(begin, setting.limit + setting.settle * 2 + GRACE) => {
            Ok(ended_without("the cluster comes to rest", &world, setting.limit + setting.settle * 2 + GRACE))
        }
        () = missed(&pause_hook, begin, setting.limit.mul_f64(CALL), &recorder), if waits_for_call(document) => {
            Ok(ended_without(NEVER_FIRED, &world, setting.limit.mul_f64(CALL)))
        }
    };
    let recorded = recorder.recorded();
    let reports = programs.iter().map(|program| program.report()).collect();
    // The end of a program is not part of the workload.
    for program in &programs {
        program.crash_now();
        program.is_buried().await;
    }
    cluster.stop().await;
    let real_version = real.as_ref().map(|real| real.version().to_owned());
    if let Some(real) = real {
        real.stop().await;
    }
    let mut outcome = outcome?;
    // The digest of a live run is not reproducible.
    outcome.events.clear();
    let ends = ends.into_inner();
    let (there, here) = usual.map(|usual| usual.compared(&ends)).unzip();
    let task = judge::Task { ends: there, ..judge::Task::default() };
    let judged = judge::verdict(&task, &outcome, here.unwrap_or_else(|| ends.clone()), judge::Digest::default());
    let programs = if outcome.programs.is_empty() { reports } else { outcome.programs };
    let idle = idle.into_inner();
    Ok(Ended { judged, ends, recorded, programs, idle, window, wall: begin.elapsed(), real_version })
}

/// Starts the real API server that `setting` asks for.
async fn real_server(
    setting: &Setting,
    world: &World,
    site: &Site,
    mut halt: latest::Receiver<bool>,
) -> Result<Option<RealServer>, Trouble> {
    let Some(binaries) = &setting.real_apiserver else { return Ok(None) };
    let process = Process::start(world, "real-apiserver", |_| std::future::pending());
    let ctx = process.ctx().ok_or_else(|| Trouble::Unable("the real API server has no process".to_owned()))?;
    let directory = site.path().join("real-apiserver");
    tokio::select! { biased;
        server = RealServer::start(&ctx, binaries, &directory) => server.map(Some).map_err(Trouble::Unable),
        _ = halt.wait_for(|halt| *halt) => Err(Trouble::Interrupted),
    }
}

/// Waits until a run reaches the final state of the unbroken run, at most for the settle time, and returns its final
/// state. An unbroken run reaches it when nothing changes any more. `former` is the state before the teardown: waiting
/// does not remove its differences, and a teardown that changed nothing needs no wait.
async fn settled(
    setting: &Setting,
    usual: Option<&Usual>,
    former: Option<&EndState>,
    cluster: &Cluster,
    recorder: &Recorder,
) -> EndState {
    let at = usize::from(former.is_some());
    let deadline = tokio::time::Instant::now() + setting.settle;
    let known = usual.zip(former).map(|(usual, former)| usual.differences(0, former)).unwrap_or_default();
    let mut last: Option<(EndState, tokio::time::Instant)> = None;
    loop {
        let end = EndState::of(cluster).await;
        let rests = match &last {
            _ if former.is_some_and(|former| end.varies(former).is_empty()) => true,
            Some((before, since)) if end.varies(before).is_empty() => since.elapsed() > QUIET,
            _ => {
                last = Some((end.clone(), tokio::time::Instant::now()));
                false
            }
        };
        let now = cluster.world().clock().mono().as_millis() as u64;
        let past = |ms: u64| Duration::from_millis(now.saturating_sub(ms));
        // A program that has just started may still have work to do.
        let works = cluster.programs().all(|program| program.is_up())
            && past(recorder.last_start()) > setting.start_up * 2 + PAUSES;
        let is_there = match usual {
            Some(usual) => {
                works && past(recorder.last_write()) > PAUSES && usual.differences(at, &end).is_subset(&known)
            }
            None => rests && past(recorder.last_write()) > PAUSES,
        };
        if is_there || tokio::time::Instant::now() >= deadline {
            return end;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns true if a step of the workload waits until the fault of the trial has fired.
fn waits_for_call(document: &Document) -> bool {
    let steps = document.tree().get("steps").and_then(|steps| steps.as_array());
    steps.is_some_and(|steps| steps.iter().any(|step| step.pointer("/expect/fired").is_some_and(|of| of == FAULT)))
}

/// Completes when a run has worked for `limit` and the call to perturb has not come.
async fn missed(pause_hook: &PauseHook, begin: tokio::time::Instant, limit: Duration, recorder: &Recorder) {
    pause_hook.outlast(begin, limit).await;
    if recorder.has_fired() {
        std::future::pending().await
    }
}

/// Returns the outcome of a run that was ended after `limit` because something `expected` did not happen.
fn ended_without(expected: &str, world: &World, limit: Duration) -> runner::Outcome {
    let mut outcome = runner::Outcome::given_up(world.trace().take_events(), limit);
    if let Some(failure) = &mut outcome.failure {
        failure.expected = expected.to_owned();
        failure.seen = format!("it did not within {}s", limit.as_secs());
    }
    outcome
}
