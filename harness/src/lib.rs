//! Puts a cloud and a cluster together in either world; scenarios, invariants, timeline, the `mooring` command.

pub mod allocator;
mod block_on;
pub mod cli;
pub mod cluster;
pub mod events;
pub mod invariants;
pub mod mutants;
pub mod output;
mod program;
pub mod report;
pub mod report_html;
pub mod runner;
pub mod scenario;
pub mod schema;
pub mod search;
mod secrets;
pub mod seeds;
pub mod timeline;

pub(crate) use block_on::block_on;
pub use program::{ProgramReport, ProgramSpec};
