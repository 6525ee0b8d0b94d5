//! Whole simulated clusters, in this process, and the `mooring` command as a process. One binary, which links once, and
//! whose tests share the processors while others wait.

mod batch;
mod catalogue;
mod day;
mod failures;
mod false_answers;
mod golden;
mod incidents;
mod memory;
mod mistakes;
#[cfg(any(debug_assertions, feature = "mutants"))]
mod mutants;
mod needed;
mod perturb;
mod predicates;
mod programs;
mod runs;
mod schema;
mod search;
mod short_forms;
mod steps;
mod truth;
