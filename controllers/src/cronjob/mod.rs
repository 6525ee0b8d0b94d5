//! The CronJob controller (`cronjob-controller`, `pkg/controller/cronjob`): creates Jobs at the times of a schedule, in
//! UTC.

mod async_loop;
mod due;
mod schedule;

pub(crate) use async_loop::run;
