//! The Job controller (`job-controller`, `pkg/controller/job`): runs pods until enough have succeeded. Each pod has a
//! finalizer until the status has counted it.

mod async_loop;
mod backoff;
mod conditions;
mod failure_policy;
mod index_failures;
mod indexes;
mod manage;
mod pods;
mod round;
mod success_policy;
#[cfg(test)]
mod tests;
mod track;
mod ttl;

pub(crate) use async_loop::run;
pub(crate) use ttl::run as run_ttl;
