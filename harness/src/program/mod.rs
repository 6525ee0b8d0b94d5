//! Users' programs beside a live cluster: a CSI sidecar, a driver or a controller, started and watched like a container
//! by a kubelet.
//!
//! | File | Contents |
//! |---|---|
//! | `given` | its environment variables |
//! | `backoff` | upstream's CrashLoopBackOff |
//! | `lines`, `log` | its output: split into lines, without secrets, bounded |
//! | `guard`, `descend` | the process between the runner and the program, which ends all processes of the program |
//! | `endpoints` | its own endpoints of the API server, the cloud and the driver, where faults know it by name |
//! | `life`, `report` | its life in a world, and the reports about it |

mod backoff;
mod descend;
mod endpoints;
mod given;
pub(crate) mod guard;
mod life;
pub(crate) mod lines;
mod log;
mod report;

pub use crate::spec::ProgramSpec;
pub(crate) use endpoints::Endpoint;
pub(crate) use given::{Given, Surroundings};
pub(crate) use life::{Program, Setup, Sink};
pub(crate) use lines::MASK;
pub(crate) use log::BoundedFile;
pub use report::ProgramReport;
