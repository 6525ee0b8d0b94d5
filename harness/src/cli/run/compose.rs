//! Runs a scenario against a compose project that runs already. It starts no containers, and deletes only the objects
//! of the scenario.

use std::time::Duration;

use substrate::World;
use substrate::host::Stop;

use super::args::Args;
use super::play::{Trouble, close_trace, open_trace, options};
use crate::cluster::compose::project::Project;
use crate::cluster::{Cluster, ClusterSpec, live};
use crate::output::{Format, Progress};
use crate::runner::{self, Outcome, PauseHook};
use crate::scenario::model::{LatencyProfile, Scenario};
use crate::spec::Id;

/// Time allowed for the steps to report that they exceeded their time.
const GRACE: Duration = Duration::from_secs(2);

/// Runs `scenario` and leaves the project as it was.
pub(super) fn run(args: &Args, scenario: &Scenario, seed: u64, format: Format) -> Result<Outcome, Trouble> {
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let project = Project::find(args.project.as_deref()).map_err(Trouble::Environment)?;
    progress.note(&format!("containers of the compose project {}", project.name()));
    if scenario.latency != LatencyProfile::Instant {
        let wanted = scenario.latency.as_str();
        progress.note(&format!(
            "the cloud keeps the latency that it was started with; the scenario is for MOORING_LATENCY={wanted}"
        ));
    }
    progress.note("I7 and I13 are not checked: the content of requests and watches is not in the containers' traces");
    let runtime = live::runtime().map_err(|e| Trouble::Environment(format!("cannot start the runtime: {e}")))?;
    let trace = args.trace.as_deref();
    let result = crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::install()
                .map_err(|e| Trouble::Environment(format!("cannot install the signal handlers: {e}")))?;
            let world = World::live(options(args, scenario, seed));
            args.observe(&world);
            open_trace(trace, &world)?;
            let cluster = Cluster::compose(&world, ClusterSpec::of_scenario(scenario), project).await;
            let cluster = cluster.map_err(|e| Trouble::Environment(e.to_string()))?;
            let limit = args.live_limit(scenario);
            let no_pauses = PauseHook::none().with_timeout(limit);
            let note = |step: &crate::scenario::model::Step| progress.note(&format!("  {step}"));
            let begin = tokio::time::Instant::now();
            let outcome = tokio::select! { biased;
                outcome = runner::run_with_pauses(scenario, &cluster, note, &no_pauses) => Ok(outcome),
                _ = stop.wait() => Err(Trouble::Interrupted),
                // The steps themselves end at the limit.
                () = no_pauses.outlast(begin, limit.saturating_add(GRACE)) => Err(Trouble::Timeout(limit)),
            };
            cluster.release().await;
            close_trace(trace, &world)?;
            outcome
        }),
    );
    runtime.shutdown_timeout(Duration::from_millis(500));
    result.map(|mut outcome| {
        // The traces of containers omit the events on their watches and the content of objects: there would be one line
        // for each.
        outcome.checked.cannot(Id::I7);
        outcome.checked.cannot(Id::I13);
        outcome
    })
}
