//! A program of this workspace as an OS process: its flags, runtime, live world, trace, signals and exit codes.
//!
//! `args` is what every command line has in common, `exit` how a process ends, `run` the life of a server, `stop` how it
//! is asked to end, `orders` what its starter says of faults.

mod args;
mod crash;
pub mod exit;
mod orders;
mod run;
mod sink;
mod stop;

pub use args::{HostOptions, address, parse, time_scale, token};
pub use crash::end_on_crash_fault;
pub use exit::Failure;
pub use orders::Order;
pub use run::{Host, run};
pub use sink::sink;
pub use stop::Stop;

/// When this variable is set, the process ends as soon as its standard input does: whoever started it holds the
/// other end, so no component outlives its starter, not even after `kill -9`.
///
/// Before that, each line of it is an [`Order`] about faults, as JSON. With the value [`BRIEFS_FIRST`] the component
/// starts after the first [`Order::Begin`].
pub const PARENT_PIPE: &str = "MOORING_PARENT_PIPE";
/// The value of [`PARENT_PIPE`] that promises orders before the component starts.
pub const BRIEFS_FIRST: &str = "orders";
/// What the component is called by whoever started it: the name of its process in the trace, and for faults.
pub const PROCESS_NAME: &str = "MOORING_PROCESS";
/// When this variable is set, the trace has every message of every link; with the value 0 it has none. Without a starter
/// and without the variable a trace has them.
pub const EVERY_MESSAGE: &str = "MOORING_EVERY_MESSAGE";
/// Kinds of events, separated by commas, that are written to a trace on standard output though the process only
/// whispers them: what its starter's checkers look at. See [`Trace::whisper`](crate::Trace::whisper).
pub const WHISPERS: &str = "MOORING_WHISPERS";
