//! A program of this workspace as an OS process: its flags, runtime, live world, trace, signals and exit codes.
//!
//! `args` has the shared flags, `exit` the exit codes, `run` the life of a server, `stop` the signals that end it,
//! `orders` the fault orders of its starter, `ports` unused ports for other programs.

mod args;
mod crash;
pub mod exit;
mod orders;
mod ports;
mod run;
mod sink;
mod stop;

pub use args::{HostOptions, address, parse, time_scale, token};
pub use crash::end_on_crash_fault;
pub use exit::Failure;
pub use orders::Order;
pub use ports::unused_port;
pub use run::{Host, run};
pub use sink::sink;
pub use stop::{Signals, Stop};

/// If this variable is set, the process ends as soon as its standard input does. The starter holds the other end of the
/// pipe, so no component outlives its starter, not even after `kill -9`.
///
/// Before that, each line of standard input is an [`Order`] about faults, as JSON.
pub const PARENT_PIPE: &str = "MOORING_PARENT_PIPE";
/// Name of the component's process in the trace and for faults, as its starter chose it.
pub const PROCESS_NAME: &str = "MOORING_PROCESS";
/// If this variable is set, the trace has every message of every link; with the value 0 it has none. Without the
/// variable, it has them if there is no starter.
pub const EVERY_MESSAGE: &str = "MOORING_EVERY_MESSAGE";
