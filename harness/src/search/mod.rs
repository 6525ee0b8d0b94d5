//! Finds bugs before production does: many runs, each a scenario as data.
//!
//! | | |
//! |---|---|
//! | `document` | a scenario as data: read, changed, written (`yaml`) |
//! | `patience` | the same story for a run in which anything may take longer |
//! | `judge` | one run and what it comes to; `signature` makes one line of one bug |
//! | `end_state` | where a run ended, and how that differs from another one (`differences.yaml`) |
//! | `points` | every place of a run at which something can break |
//! | `sweep` | one run for each of these, and the table |
//! | `draw` | a cluster, a workload and faults, drawn from a seed |
//! | `explore` | one run for each of many draws, and one line for each bug |
//! | `replay` | a run again, to its end or to a moment |
//! | `coverage` | what runs have come by |
//! | `knowledge` | what each process was told beside what is stored, and what loops want and take for true |
//! | `step` | a debugger: forward and back through a run |
//! | `shrink` | a finding without what it does not need |
//! | `bundle` | a finding as a file that `mooring run` fails with |
//! | `branch` | the runs of many points with one past; `fork` copies a process, `forks` does it in several |
//! | `shard` | a part of a search |
//! | `workers` | runs in child processes; `worker` is what such a child does |

pub mod branch;
pub mod bundle;
pub mod coverage;
pub mod document;
pub mod draw;
pub mod end_state;
pub mod explore;
pub mod fork;
pub mod forks;
pub mod judge;
pub mod knowledge;
pub mod patience;
pub mod points;
pub mod replay;
pub mod shard;
pub mod shrink;
mod signature;
pub mod step;
pub mod sweep;
pub mod worker;
pub mod workers;
pub(crate) mod yaml;

/// One line for one bug: `message` without what differs from run to run.
pub(crate) fn signature(message: &str) -> String {
    signature::of(message)
}
