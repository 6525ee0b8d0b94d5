//! Runs a scenario against a cluster, in either world.

pub(crate) mod awaited;
pub(crate) mod call_recorder;
mod describe;
pub(crate) mod ec2;
mod forbidden;
mod listed;
mod metrics;
mod mirror;
mod pause_hook;
mod programs;
mod steps;
mod waiter;
pub(crate) mod why;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use substrate::Event;
use substrate::fault::{Report, Span};

use crate::cluster::{Cluster, names, settle, teardown};
use crate::events::ScenarioStep;
use crate::invariants::{Checked, Invariants, Leftovers, Violation, declared};
use crate::program::ProgramReport;
use crate::scenario::model::{Scenario, Step};
use call_recorder::CallRecorder;
use waiter::Waiter;

pub use pause_hook::{PauseHook, Show};

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Failed step or check, if any.
    pub failure: Option<Failure>,
    /// Volume of the failed step.
    pub waits_for: Option<String>,
    /// Violations in order; those that the scenario expects are marked.
    pub violations: Vec<Violation>,
    /// Number of checks of each invariant.
    pub checked: Checked,
    /// Resources left behind after the teardown.
    pub leftovers: Leftovers,
    /// Faults that were declared but never fired.
    pub silent_faults: Vec<SilentFault>,
    /// Complete trace.
    pub events: Vec<Arc<Event>>,
    /// Time that passed in the world.
    pub elapsed: Duration,
    /// End of the steps, since the start of the world. Convergence and teardown follow.
    pub steps_over: Duration,
    /// Backend of the disks: `memory`, `directory` or `loop`.
    pub backend: String,
    /// Wall-clock limit at which the run was abandoned, if it was.
    pub given_up: Option<Duration>,
    /// Programs of the user at the end of the steps.
    pub programs: Vec<ProgramReport>,
}

impl Outcome {
    /// Returns true if everything went as the scenario says.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.violations.iter().all(|v| v.declared.is_some()) && self.silent_faults.is_empty()
    }
}

impl Outcome {
    /// Creates the outcome of a run that was abandoned from outside after `limit` of wall-clock time, from the events
    /// so far.
    pub fn given_up(events: Vec<Arc<Event>>, limit: Duration) -> Self {
        let step = events.iter().rev().find_map(|event| event.get::<ScenarioStep>().map(|reported| reported.step));
        let elapsed = Duration::from_millis(events.last().map_or(0, |event| event.ms));
        let at = if step.is_some() { "it was at work" } else { "no step had begun" };
        Self {
            failure: Some(Failure {
                step,
                expected: format!("the run ends within --timeout {} of wall time", Span(limit)),
                seen: format!("{at} {}.{:03}s into its own time", elapsed.as_secs(), elapsed.subsec_millis()),
            }),
            waits_for: None,
            violations: Vec::new(),
            checked: Checked::default(),
            leftovers: Leftovers::default(),
            silent_faults: Vec::new(),
            events,
            elapsed,
            steps_over: elapsed,
            backend: "memory".to_owned(),
            given_up: Some(limit),
            programs: Vec::new(),
        }
    }
}

/// A fault that was declared but never fired. Without it a passed run proves nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SilentFault {
    /// Name of the fault.
    pub name: String,
    /// Number of near misses.
    pub near_misses: u64,
    /// Latest distinct near misses, one sentence each.
    pub near: Vec<String>,
}

impl SilentFault {
    fn of(report: Report) -> Self {
        Self { name: report.fault.name, near_misses: report.near_misses, near: report.near }
    }
}

/// A failed step or check.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Index of the step.
    pub step: Option<usize>,
    /// Expected state.
    pub expected: String,
    /// State that was seen instead.
    pub seen: String,
}

/// Runs all steps of `scenario` on `cluster`, then tears down everything that they created.
///
/// `progress` is called before each step.
pub async fn run(scenario: &Scenario, cluster: &Cluster, progress: impl Fn(&Step)) -> Outcome {
    run_with_pauses(scenario, cluster, progress, &PauseHook::none()).await
}

/// Runs a scenario with a hook: steps that pause show it the cluster.
pub async fn run_with_pauses(
    scenario: &Scenario,
    cluster: &Cluster,
    progress: impl Fn(&Step),
    pause_hook: &PauseHook,
) -> Outcome {
    run_watched(scenario, cluster, progress, pause_hook, async || {}).await
}

/// Runs a scenario with a pause hook. `rests` is called when the faults have ended and the cluster has converged, and
/// again after the teardown.
pub async fn run_watched(
    scenario: &Scenario,
    cluster: &Cluster,
    progress: impl Fn(&Step),
    pause_hook: &PauseHook,
    rests: impl AsyncFn(),
) -> Outcome {
    let world = cluster.world().clone();
    let invariants = Arc::new(Invariants::new(world.scale()));
    if let Ok(timers) = cluster.spec().timers("kube-controller-manager") {
        invariants.set_monitor_grace(timers.node_monitor_grace);
    }
    if !cluster.is_one_process() {
        invariants.are_mixed();
    }
    let waiter = Arc::new(Waiter::default());
    {
        let (invariants, waiter) = (invariants.clone(), waiter.clone());
        world.trace().observe(move |event| {
            invariants.observe(event);
            waiter.observe(event);
        });
    }
    let started = world.clock().mono();
    let call_recorder = CallRecorder::listen(scenario, names::of(cluster.spec()), world.trace());
    let (mut run, forbidden, jobs) = steps::Run::new(scenario, cluster, waiter, call_recorder, started, pause_hook);
    let deadline = cluster.scaled(scenario.deadline);
    let steps_run = async {
        run.prepare().await?;
        pause_hook.first_step_begins();
        for step in &scenario.steps {
            progress(step);
            let reported = ScenarioStep { step: step.index, does: step.to_string() };
            world.trace().info(&Arc::from("scenario"), reported);
            run.step(step).await?;
        }
        run.end_steps().await?;
        programs::are_there(cluster)
    };
    let steps_run = async {
        tokio::select! { biased;
            failure = forbidden.watch(jobs) => Err(failure),
            failure = programs::cannot_start(cluster) => Err(failure),
            result = steps_run => result,
        }
    };
    let begin = tokio::time::Instant::now();
    let end = tokio::select! { biased;
        result = steps_run => End::Steps(result),
        () = pause_hook.outlast(begin, deadline) => End::Deadline,
        limit = pause_hook.exceeds_timeout(begin) => End::GivenUp(limit),
    };
    let given_up = if let End::GivenUp(limit) = end { Some(limit) } else { None };
    let mut result: Result<(), Failure> = match end {
        End::Steps(result) => result,
        End::Deadline => {
            Err(run.cut_off(&format!("the scenario ends within its deadline of {}", Span(scenario.deadline))))
        }
        End::GivenUp(limit) => Err(run.cut_off(&format!("the run ends within --timeout {} of wall time", Span(limit)))),
    };
    let steps_over = world.clock().mono();
    let programs = programs::reports(cluster);
    let elapsed = steps_over - started;
    let silent_faults = run.silent_faults(result.is_ok());
    let mut leftovers = Leftovers::default();
    if result.is_ok() {
        settle::heal(cluster).await;
        let applied_objects = run.applied_objects().clone();
        settle::converge(cluster, &invariants, &applied_objects).await;
        rests().await;
        if scenario.teardown {
            settle::start_fresh_loops(cluster, &invariants).await;
            leftovers = teardown::tear_down(cluster, &invariants).await;
            invariants.at_end(&leftovers);
        }
        settle::rest(cluster, &invariants).await;
        rests().await;
    }
    if let Err(failure) = &result {
        invariants.waited(&failure.expected, &failure.seen);
    }
    let (mut violations, checked) = (invariants.violations(), invariants.checked());
    match declared::mark(&mut violations, &scenario.violations, &scenario.possible_violations) {
        Ok(missing) if result.is_ok() => result = run.demands(&checked, &missing),
        Ok(_) => {}
        Err(seen) => {
            let expected = "the declared deviations can be read".to_owned();
            result = Err(Failure { step: None, expected, seen });
        }
    }
    let failure = result.err();
    // A step that waits for a list names the volume in what it saw.
    let named = |failure: &Failure| {
        invariants.volume_of(&failure.expected).or_else(|| invariants.volume_of(failure.seen.lines().next()?))
    };
    let waits_for = failure.as_ref().and_then(named);
    Outcome {
        failure,
        waits_for,
        violations,
        checked,
        leftovers,
        silent_faults,
        // The run is over; the trace itself is not read any more.
        events: world.trace().take_events(),
        elapsed,
        steps_over,
        backend: cluster.backend(),
        given_up,
        programs,
    }
}

/// End of the steps.
enum End {
    /// All steps ended, or one failed.
    Steps(Result<(), Failure>),
    /// The deadline of the file was exceeded.
    Deadline,
    /// The wall time limit was exceeded.
    GivenUp(Duration),
}
