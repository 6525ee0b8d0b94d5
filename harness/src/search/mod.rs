//! Searches for bugs: many runs, each of them a scenario as data.
//!
//! | | |
//! |---|---|
//! | `document` | a scenario as data, which is read, changed and written (`yaml`) |
//! | `tolerance` | a scenario with longer time limits, for runs with faults |
//! | `judge` | runs a scenario and judges the result; `signature` maps equal bugs to the same line |
//! | `end_state` | the end state of a run, and its differences from another (`differences.yaml`) |
//! | `points` | every point of a run at which a fault can fire |
//! | `sweep` | one run for each point, and the table of results |
//! | `draw` | a cluster, a workload and faults, drawn from a seed |
//! | `explore` | one run for each of many draws, findings grouped by signature |
//! | `replay` | repeats a run, to its end or to a moment |
//! | `coverage` | points, transitions and errors that runs have reached |
//! | `knowledge` | state that each process has received, and desired and actual state of control loops |
//! | `step` | a debugger: forward and back through a run |
//! | `shrink` | reduces a finding to the parts that it needs |
//! | `bundle` | a finding as a file on which `mooring run` fails |
//! | `branch` | runs of many points with a common past; `fork` copies a process, `forks` does it in several |
//! | `shard` | a part of a search |
//! | `workers` | runs in child processes; `worker` is the program of such a child |

pub mod branch;
pub mod bundle;
pub mod coverage;
pub mod document;
pub mod draw;
pub mod end_state;
pub mod explore;
pub mod fork;
pub mod forks;
pub mod guide;
pub mod judge;
pub mod knowledge;
pub mod points;
pub mod replay;
pub mod shard;
pub mod shrink;
mod signature;
pub mod step;
pub mod sweep;
pub mod tolerance;
pub mod worker;
pub mod workers;
pub(crate) mod yaml;

/// Returns the signature of a bug: `message` without the parts that differ from run to run.
pub(crate) fn signature(message: &str) -> String {
    signature::of(message)
}
