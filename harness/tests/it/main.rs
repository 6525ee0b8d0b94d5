//! Scenarios of a few lines in whole simulated clusters. One binary, which links once.

mod failures;
mod false_answers;
mod memory;
mod predicates;
mod runs;
mod short_forms;
mod steps;
