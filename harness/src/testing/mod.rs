//! The test library: clusters that tests start, break and look at. The front page of the crate shows how.

mod builder;
mod cluster;
mod ctx;
mod ec2;
mod failure;
pub mod fault;
mod injected;
mod kubernetes;
mod plan;
mod played;
mod scene;
mod seeds;
mod stage;
mod wait;

pub use builder::Builder;
pub use cluster::Cluster;
pub use ctx::{Ctx, Ending};
pub use ec2::Ec2;
pub use failure::{Error, ErrorKind, Result};
pub use injected::Injected;
pub use kubernetes::{Answer, Body, Change, Kubernetes, Watch};
pub use played::{Played, play, play_text};
pub use seeds::seeds;

/// An invariant that did not hold.
#[doc(inline)]
pub use crate::invariants::Violation;
/// An event as text shows it: time, process, kind and fields.
#[doc(inline)]
pub use substrate::Line as Event;
