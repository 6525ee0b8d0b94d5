//! Requirements on the programs of the user: they can be started, and they run at the end of the steps.

use futures_util::future::{FutureExt, select_all};

use super::Failure;
use crate::cluster::Cluster;
use crate::program::ProgramReport;

/// Completes when a program cannot be started. So no step waits for it until its time limit.
pub(super) async fn cannot_start(cluster: &Cluster) -> Failure {
    let failed = cluster.programs().map(|program| {
        async move {
            match program.first_start().await {
                Ok(()) => std::future::pending().await,
                Err(seen) => Failure { step: None, expected: format!("the program {} starts", program.name()), seen },
            }
        }
        .boxed()
    });
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() {
        return std::future::pending().await;
    }
    select_all(failed).await.0
}

/// Requires that each program runs, unless a step or a fault has ended it, or it ended with exit code 0.
pub(super) fn are_there(cluster: &Cluster) -> Result<(), Failure> {
    let missing = cluster.programs().map(|program| program.report()).find(|report| report.is_missing);
    missing.map_or(Ok(()), |report| {
        let expected = format!("the program {} runs at the end of the scenario", report.name);
        Err(Failure { step: None, expected, seen: report.line() })
    })
}

/// State of the programs.
pub(super) fn reports(cluster: &Cluster) -> Vec<ProgramReport> {
    cluster.programs().map(|program| program.report()).collect()
}
