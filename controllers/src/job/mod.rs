//! The Job controller (`job-controller`, `pkg/controller/job`): runs pods until enough have succeeded. Each pod has a
//! finalizer until the status has counted it.

mod async_loop;
mod backoff;
mod conditions;
mod indexes;
mod manage;
mod pods;
mod round;
#[cfg(test)]
mod tests;
mod track;
mod ttl;

pub(crate) use async_loop::run;
pub(crate) use ttl::run as run_ttl;
