//! Runs a scenario against a cluster, in either world.

pub mod condition;
pub mod defaults;
pub mod objects;
mod steps;
mod teardown;
mod watchman;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use substrate::Event;

use crate::cluster::Cluster;
use crate::invariants::{Invariants, Leftovers, Violation};
use crate::scenario::model::{Scenario, Step};
use watchman::Watchman;

pub use objects::{ObjectError, Objects};

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The step or check that failed, if one did.
    pub failure: Option<Failure>,
    /// Invariants that were broken, in order.
    pub violations: Vec<Violation>,
    /// What was left behind after the teardown.
    pub leftovers: Leftovers,
    /// Faults that were declared and never fired.
    pub silent_faults: Vec<String>,
    /// The whole trace.
    pub events: Vec<Event>,
    /// Time that passed in the world.
    pub elapsed: Duration,
    /// What carried the bytes: `memory`, `directory` or `loop`.
    pub backend: String,
}

impl Outcome {
    /// Whether everything went as the scenario says.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.violations.is_empty() && self.silent_faults.is_empty()
    }
}

/// A step that did not do what it says.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Where the step stands in the file: line and column.
    pub position: Option<(u64, u64)>,
    /// What was expected.
    pub expected: String,
    /// What was seen instead.
    pub seen: String,
}

/// Runs all steps of `scenario` on `cluster`, then tears down what they made.
///
/// `progress` is called before each step.
pub async fn run(scenario: &Scenario, cluster: &Cluster, progress: impl Fn(&Step)) -> Outcome {
    let invariants = Arc::new(Mutex::new(Invariants::new()));
    let watchman = Arc::new(Watchman::default());
    let world = cluster.world().clone();
    {
        let (invariants, watchman) = (invariants.clone(), watchman.clone());
        world.trace().observe(move |event| {
            invariants.lock().unwrap_or_else(PoisonError::into_inner).observe(event);
            watchman.observe(event);
        });
    }
    let started = world.clock().mono();
    let mut run = steps::Run::new(scenario, cluster, watchman, started);
    let deadline = cluster.scaled(scenario.deadline);
    let story = async {
        run.prepare().await?;
        for step in &scenario.steps {
            progress(step);
            world.trace().info(
                &Arc::from("scenario"),
                "scenario.step",
                json!({ "step": step.index, "does": step.to_string() }),
            );
            run.step(step).await?;
        }
        Ok(())
    };
    let result: Result<(), Failure> = match tokio::time::timeout(deadline, story).await {
        Ok(result) => result,
        Err(_) => Err(Failure {
            position: None,
            expected: format!("the scenario ends within its deadline of {:?}", scenario.deadline),
            seen: "it was still at work".to_owned(),
        }),
    };
    let elapsed = world.clock().mono() - started;
    let silent_faults = run.silent_faults(result.is_ok()).await;
    let mut leftovers = Leftovers::default();
    if scenario.teardown && result.is_ok() {
        leftovers = teardown::tear_down(cluster).await;
        invariants.lock().unwrap_or_else(PoisonError::into_inner).at_quiescence(&leftovers);
    }
    let violations = invariants.lock().unwrap_or_else(PoisonError::into_inner).violations().to_vec();
    Outcome {
        failure: result.err(),
        violations,
        leftovers,
        silent_faults,
        // The run is over: nobody looks at the trace itself any more.
        events: world.trace().take_events(),
        elapsed,
        backend: cluster.backend(),
    }
}
