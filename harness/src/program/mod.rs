//! Programs of the user's beside a live cluster: a CSI sidecar, a driver, a controller, started and watched as a kubelet
//! would a container.
//!
//! | File | Holds |
//! |---|---|
//! | `spec` | the program as a scenario or a command line names it |
//! | `given` | the variables that it is started with |
//! | `backoff` | upstream's CrashLoopBackOff |
//! | `lines`, `log` | its output: cut into lines, without secrets, bounded |
//! | `guard`, `descend` | the process between the runner and the program, which ends all that the program has started |
//! | `endpoints` | its own way to the API server, the cloud and the driver, where faults know it by its name |
//! | `life`, `report` | its life in a world, and what is told of it |

mod backoff;
mod descend;
mod endpoints;
mod given;
pub(crate) mod guard;
mod life;
mod lines;
mod log;
mod report;
mod spec;

pub(crate) use endpoints::Endpoint;
pub(crate) use given::{Given, Surroundings};
pub(crate) use life::{Program, Setup, Sink};
pub(crate) use lines::MASK;
pub(crate) use log::BoundedFile;
pub use report::ProgramReport;
pub use spec::ProgramSpec;
