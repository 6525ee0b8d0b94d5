//! Runs a scenario against a cluster, in either world.

pub(crate) mod awaited;
pub(crate) mod call_recorder;
mod describe;
pub(crate) mod ec2;
mod follow;
mod forbidden;
mod listed;
mod metrics;
mod mirror;
mod object_key;
mod outcome;
mod pause_hook;
mod programs;
mod steps;
mod waiter;
pub(crate) mod why;

use std::sync::Arc;
use std::time::Duration;

use substrate::fault::Span;
use substrate::world::WorldKind;

use crate::cluster::{Cluster, names, settle, teardown};
use crate::events::ScenarioStep;
use crate::invariants::{Invariants, Leftovers, declared};
use crate::scenario::model::{Scenario, Step};
use call_recorder::CallRecorder;
use waiter::Waiter;

pub use outcome::{Failure, Outcome, SilentFault};
pub use pause_hook::{PauseHook, Show};

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
    if world.kind() == WorldKind::Live {
        invariants.are_live();
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
    let deadline = cluster.deadline(scenario.deadline);
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
        () = invariants.spins() => End::Spins,
    };
    let given_up = if let End::GivenUp(limit) = end { Some(limit) } else { None };
    let mut result: Result<(), Failure> = match end {
        End::Steps(result) => result,
        End::Deadline => {
            Err(run.cut_off(&format!("the scenario ends within its deadline of {}", Span(scenario.deadline))))
        }
        End::GivenUp(limit) => Err(run.cut_off(&format!("the run ends within --timeout {} of wall time", Span(limit)))),
        End::Spins => Err(run.cut_off("components pause between their writes of an object")),
    };
    let steps_over = world.clock().mono();
    let programs = programs::reports(cluster);
    let elapsed = steps_over - started;
    let silent_faults = run.silent_faults(result.is_ok());
    let mut leftovers = Leftovers::default();
    if result.is_ok() {
        let applied_objects = run.applied_objects().clone();
        let settled = async {
            settle::heal(cluster).await;
            settle::converge(cluster, &invariants, &applied_objects).await;
            rests().await;
            if scenario.teardown {
                settle::start_fresh_loops(cluster, &invariants).await;
                leftovers = teardown::tear_down(cluster, &invariants).await;
                invariants.at_end(&leftovers);
            }
            settle::rest(cluster, &invariants).await;
            rests().await;
        };
        tokio::select! { biased;
            () = settled => {}
            () = invariants.spins() => {}
        }
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
    /// A component wrote without a pause.
    Spins,
}
