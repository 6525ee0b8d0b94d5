//! Runs one process: its loops at once, or once it leads.

use std::collections::BTreeSet;
use std::future::pending;

use futures_util::future::BoxFuture;
use substrate::body::HttpService;
use substrate::events::ProcessFailed;
use substrate::process::Ctx;

use crate::election::{Candidate, Election, Post, sanitized};
use crate::kube::Client;
use crate::metrics::Metrics;
use crate::processes::{Agent, Loop, SNAPSHOTTER, Start, agent, loops_of};
use crate::scheduler;
use crate::timers::Timers;

/// Settings of the processes.
#[derive(Clone, Debug, Default)]
pub struct LoopsConfig {
    /// Loops (names of [`LOOPS`](crate::LOOPS)) that other programs run; other names are ignored.
    pub without: BTreeSet<String>,
    /// Durations.
    pub timers: Timers,
    /// Election settings if the process is one replica of several: its loops run while it leads. None: no Lease is
    /// written.
    pub election: Option<Election>,
}

/// Runs the loops of `process` (one of [`PROCESSES`](crate::PROCESSES)).
///
/// `apiserver` is the API server, `csi` the driver's controller socket, which only the sidecars need. Each loop has its
/// original's user agent; kube-controller-manager's loops share their informers.
///
/// Returns when a leader has lost its lease (event `leader.lost`). The process must then end with everything that it
/// started, as upstream exits. Also returns, after `process.failed`, if it cannot run. Otherwise never returns.
///
/// The future is boxed here so that the loops are compiled once, with this crate's optimisation, not in each caller.
pub fn run(
    ctx: Ctx,
    process: &str,
    apiserver: HttpService,
    csi: Option<HttpService>,
    config: LoopsConfig,
) -> BoxFuture<'static, ()> {
    let process = process.to_owned();
    Box::pin(async move {
        if let Err(error) = serve(&ctx, &process, apiserver, csi, config).await {
            ctx.emit(ProcessFailed { error });
        }
    })
}

async fn serve(
    ctx: &Ctx,
    process: &str,
    apiserver: HttpService,
    csi: Option<HttpService>,
    config: LoopsConfig,
) -> Result<(), String> {
    let loops: Vec<&Loop> = loops_of(process, &config.without).collect();
    let first = loops.first().ok_or_else(|| format!("there is nothing to run in `{process}`"))?;
    let own = match first.agent {
        Agent::Of(_) => agent(process, "shared-informers"),
        Agent::Only(component) => agent(process, component),
        Agent::Named => process.to_owned(),
    };
    let client = Client::new(ctx, apiserver, &own);
    if let Start::Sidecar(connect) = first.start {
        let csi = csi.ok_or_else(|| format!("{process} needs the driver's controller socket"))?;
        let reached = connect(ctx.clone(), csi, config.timers.clone()).await;
        let post = config.election.as_ref().map(|election| sidecar_post(process, &reached.driver, election, &config));
        // A separate client, so that a busy one does not delay the election.
        let voter = client.beside(&own);
        let candidate = post.map(|post| Candidate::new(ctx, &voter, &voter, &post, &config.timers));
        return lead(candidate, || ctx.spawn((reached.run)(ctx.clone(), client))).await;
    }
    if matches!(first.agent, Agent::Named) {
        let post = config.election.as_ref().map(|election| named_post(format!("{process}-leader"), election, &config));
        let voter = client.beside(&own);
        let candidate = post.map(|post| Candidate::new(ctx, &voter, &voter, &post, &config.timers));
        return lead(candidate, || start_all(ctx, process, &loops, &client, &config)).await;
    }
    let is_alone = matches!(first.agent, Agent::Only(_));
    let candidate = config.election.as_ref().map(|election| {
        let post = component_post(ctx, process, election, &config);
        let events = client.beside(&agent(process, if is_alone { "" } else { process }));
        Candidate::new(ctx, &client.beside(&agent(process, "leader-election")), &events, &post, &config.timers)
    });
    if candidate.is_some() && is_alone {
        scheduler::warm(ctx, &client);
    }
    lead(candidate, || start_all(ctx, process, &loops, &client, &config)).await
}

/// Starts the loops of a process that is not a sidecar.
fn start_all(ctx: &Ctx, process: &str, loops: &[&Loop], client: &Client, config: &LoopsConfig) {
    for one in loops {
        let client = match one.agent {
            Agent::Of(component) => client.named(&agent(process, component)),
            Agent::Only(_) | Agent::Named => client.clone(),
        };
        if let Start::Loop(run) = one.start {
            ctx.spawn(run(ctx.clone(), client, config.timers.clone(), Metrics::of(ctx)));
        }
    }
}

/// Starts the loops, at once or once the candidate leads; returns when it no longer leads.
async fn lead(candidate: Option<Candidate>, start: impl FnOnce()) -> Result<(), String> {
    let Some(mut candidate) = candidate else {
        start();
        return pending().await;
    };
    candidate.acquire().await;
    start();
    candidate.hold().await;
    Ok(())
}

/// Settings of kube-controller-manager and kube-scheduler: a new identity at each start, and requests that take at most
/// half of the renew deadline.
fn component_post(ctx: &Ctx, process: &str, election: &Election, config: &LoopsConfig) -> Post {
    let is_scheduler = process == "kube-scheduler";
    let uuid = substrate::ids::uuid(&mut ctx.rng("leader election identity"));
    Post {
        lease: process.to_owned(),
        namespace: election.namespace.clone(),
        identity: format!("{}_{uuid}", election.identity),
        source: if is_scheduler { scheduler::NAME } else { process }.to_owned(),
        retry: config.timers.election_retry,
        timeout: Some(config.timers.election_renew_deadline / 2),
        releases: is_scheduler,
    }
}

/// Settings of a sidecar.
fn sidecar_post(process: &str, driver: &str, election: &Election, config: &LoopsConfig) -> Post {
    let lock = match process {
        "csi-attacher" => format!("external-attacher-leader-{driver}"),
        "csi-resizer" => format!("external-resizer-{}", sanitized(driver)),
        SNAPSHOTTER => format!("external-snapshotter-leader-{}", driver.replace('/', "-")),
        _ => driver.replace('/', "-"),
    };
    named_post(lock, election, config)
}

/// Settings of csi-lib-utils, with the name of the lock: a restarted replica keeps its identity.
fn named_post(lock: String, election: &Election, config: &LoopsConfig) -> Post {
    Post {
        lease: sanitized(&lock),
        namespace: election.namespace.clone(),
        identity: sanitized(&election.identity),
        source: format!("{lock}/{}", election.identity),
        retry: config.timers.sidecar_election_retry,
        timeout: None,
        releases: false,
    }
}
