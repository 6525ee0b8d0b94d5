//! EC2 and EBS as their clients know them: the Query API over a pure state machine.
//!
//! - [`state`] is the cloud as a pure machine; it knows neither sockets nor XML.
//! - [`wire`] turns forms into commands and replies into XML; it knows no state.
//! - [`events`] is what stands in the trace, [`faults`] what can be broken.
//! - `cloud` is the machine behind its lock, with one task that sleeps until the next deadline, and a list of those who
//!   hear what happens; it knows nobody above it.
//! - `journal` is the state file.
//! - [`service`] joins wire and cloud.
//! - [`regions`] are several clouds behind one address.
//! - [`admin`] is everything that a user may do to the cloud and a cloud customer may not.
//! - [`imds`] is the metadata service of each instance.
//! - [`serve`] is the only place that names sockets; [`cli`] is the `mock-ec2` program.

pub mod admin;
pub mod cli;
pub mod config;
pub mod events;
pub mod faults;
pub mod fuzz;
pub mod imds;
pub mod mutants;
pub mod regions;
pub mod serve;
pub mod service;
pub mod state;
pub mod wire;

mod blocks;
mod cloud;
mod copy;
mod counts;
mod ebs;
mod files;
mod history;
mod journal;
mod mounts;
mod rbin;
mod storage;

pub use cli::main_with;
pub use cloud::Ec2;
pub use config::{
    AttachmentSpec, Config, Error, InstanceInfo, InstanceSpec, LatencyProfile, LatencyRule, StateFile, StateSync,
    VolumeBytes, VolumeSpec,
};
pub use regions::Regions;

/// True if `text` can be the id of an instance: `i-` and 8 to 17 lower-case hex digits.
pub fn is_instance_id(text: &str) -> bool {
    text.parse::<state::ids::InstanceId>().is_ok()
}

/// True if `text` can be the id of a volume: `vol-` and 8 to 17 lower-case hex digits.
pub fn is_volume_id(text: &str) -> bool {
    text.parse::<state::ids::VolumeId>().is_ok()
}

/// True if the cloud has the instance type.
pub fn is_instance_type(name: &str) -> bool {
    state::instance_types::find(name).is_some()
}
